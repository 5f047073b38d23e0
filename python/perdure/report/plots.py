"""The figures of what ran: throughput, scaling, latency, bars, memory."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from perdure.report.figure import Drawing, Rows
from perdure.report.looks import COLOURS, INK, OUTLINES, SHADES, Look, Palette
from perdure.report.panels import (
    Lines,
    arranged,
    dots,
    lines_of,
    logarithmic,
    names_axis,
    number_axis,
    panel,
    room_of,
    sharing,
    values,
)
from perdure.report.pieces import LETTER, key

LEAST_PLOT = 165  # pixels across, of lines with their names
ROW = 17  # pixels of a bar with its distance to the next
WHERE = {"PM": COLOURS[0], "DRAM": COLOURS[5]}


def throughput(rows: Rows, workloads: list[str], names: list[str]) -> Drawing:
    """Dots with intervals on a log axis: a panel per workload, a row per index, medium and number
    of threads."""
    threads = sorted({row["threads"] for row in rows})
    looks = [Look(SHADES[_shade(i, len(threads))], OUTLINES[i % 10]) for i in range(len(threads))]
    scale, marks = logarithmic([row[end] for row in rows for end in ("low", "high")])
    colours = alt.Scale(domain=threads, range=[look.colour for look in looks])
    shapes = alt.Scale(domain=threads, range=[look.shape for look in looks])
    x = alt.X(
        "throughput:Q",
        title="operations per second",
        scale=scale,
        axis=number_axis(marks),
    )
    found = []
    for workload in workloads:
        here = [row for row in rows if row["workload"] == workload]
        there = [name for name in names if any(row["name"] == name for row in here)]
        base = alt.Chart(values(here)).encode(
            y=alt.Y("name:N", sort=there, title=None, axis=names_axis(there)),
            yOffset=alt.YOffset("threads:O", scale=alt.Scale(domain=threads)),
            color=alt.Color("threads:O", scale=colours, legend=None),
        )
        interval = base.mark_rule(strokeWidth=2.5, opacity=0.5).encode(
            x=alt.X("low:Q"), x2="high:Q"
        )
        points = base.mark_point(size=34, filled=True, opacity=1).encode(
            x=x, shape=alt.Shape("threads:O", scale=shapes, legend=None)
        )
        height = len(there) * (9 * len(threads) + 6)
        found.append(panel(interval + points, workload, height, left=room_of(there)))
    keys = [
        key(f"{count} thread{'' if count == 1 else 's'}", look, line=False)
        for count, look in zip(threads, looks, strict=True)
    ]
    return Drawing(found, keys)


def scaling(rows: Rows, colours: Palette, title: str = "operations per second") -> Drawing:
    """Throughput over threads with intervals: a panel per "panel", a line per index."""
    threads = sorted({row["threads"] for row in rows})
    chart = Lines(
        x=alt.X(
            "threads:Q",
            title="threads",
            axis=alt.Axis(values=threads, format="d", grid=False, labelOverlap="greedy",
                          labelSeparation=4),
            scale=alt.Scale(type="log", base=2, domain=[threads[0], threads[-1]], nice=False,
                            padding=10),
        ),
        columns=("threads", "throughput"),
        title=title,
        palette=colours,
        logarithmic=True,
        low_high=("low", "high"),
        ordered=threads,
    )  # fmt: skip
    return chart.drawing(rows)


def speedup(rows: Rows, workloads: list[str], colours: Palette) -> Drawing:
    """How many times the throughput grows from the fewest to the most threads: a dot for each
    index, a panel per workload, and a rule where it would grow with the threads."""
    numbers = [v for row in rows for v in (row["low"], row["high"], row["perfect"])]
    x = alt.X(
        "speedup:Q",
        title="speed-up",
        scale=alt.Scale(domain=[min(0.8, *numbers), max(numbers) * 1.05], zero=False, nice=False),
        axis=number_axis(),
    )
    found = []
    for workload in workloads:
        here = [row for row in rows if row["workload"] == workload]
        names = list(dict.fromkeys(str(row["name"]) for row in here))
        if not here:
            continue
        used = {row["index"] for row in here}
        base = alt.Chart(values(here)).encode(
            y=alt.Y("name:N", sort=names, title=None, axis=names_axis(names)),
            stroke=alt.Stroke("index:N", scale=colours.colours(used), legend=None),
        )
        perfect = alt.Chart(values(here[:1])).mark_rule(color=INK, strokeDash=[4, 3])
        spans = base.mark_rule(strokeWidth=2.5, opacity=0.5).encode(x=alt.X("low:Q"), x2="high:Q")
        layers = (perfect.encode(x="perfect:Q"), spans, dots(base, used, colours).encode(x=x))
        found.append(panel(alt.layer(*layers), workload, len(names) * ROW, left=room_of(names)))
    return Drawing(found)


def over_workloads(rows: Rows, colours: Palette, title: str) -> Drawing:
    """Numbers from 0 over the workloads, in their order: a line per index, a panel per "panel".

    Words that all workloads begin with stand once, below the axis.
    """
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    shared = _shared_words(workloads)
    rows = [{**row, "workload": row["workload"].removeprefix(shared)} for row in rows]
    workloads = [name.removeprefix(shared) for name in workloads]
    return Lines(
        x=alt.X(
            "workload:N",
            sort=workloads,
            title=shared.removesuffix(", ") or None,
            axis=_names_below(workloads),
        ),
        columns=("workload", "throughput"),
        title=title,
        palette=colours,
        ordered=workloads,
    ).drawing(rows)


def latency(rows: Rows, percentiles: list[str], colours: Palette) -> Drawing:
    """Latency over percentile, both growing: a panel per "panel", a line per index."""
    chart = Lines(
        x=alt.X("percentile:N", sort=percentiles, title=None, axis=_names_below(percentiles)),
        columns=("percentile", "latency_ns"),
        title="latency",
        palette=colours,
        logarithmic=True,
        times=True,
        ordered=percentiles,
    )
    return chart.drawing(rows)


def bars(rows: Rows, title: str, colours: Palette, *, times: bool = False) -> Drawing:
    """One number per index as bars from 0: a panel per "panel"; those of an "axis" share it.
    `times`: the numbers are ns."""
    groups, sizes = arranged(rows)
    lines = lines_of(one for panels in groups for one in panels)
    found = []
    for panels in groups:
        names = list(dict.fromkeys(row["index"] for own in panels.values() for row in own))
        like = sharing(panels, "throughput", logarithmic=False)
        for one, own in panels.items():
            most = max(row["throughput"] for row in like[one])
            chart = (
                alt.Chart(values(own))
                .mark_bar(height=11, cornerRadiusEnd=2)
                .encode(
                    x=alt.X(
                        "throughput:Q",
                        title=title,
                        scale=alt.Scale(domain=[0, most or 1.0]),
                        axis=number_axis(times=times),
                    ),
                    y=alt.Y("index:N", sort=names, title=None, axis=names_axis(names)),
                    color=alt.Color("index:N", scale=colours.colours(names), legend=None),
                )
            )
            left, height = room_of(names), len(names) * ROW
            found.append(panel(chart, one, height, left=left, title_lines=lines))
    return Drawing(found, groups=sizes)


def memory(rows: Rows, names: list[str]) -> Drawing:
    """Bytes per record as stacked bars: a panel per kind of key."""
    found = []
    for kind in dict.fromkeys(row["key_kind"] for row in rows):
        here = [row for row in rows if row["key_kind"] == kind]
        there = [name for name in names if any(row["name"] == name for row in here)]
        chart = (
            alt.Chart(values(here))
            .mark_bar(height=11, cornerRadiusEnd=2)
            .encode(
                x=alt.X("bytes:Q", title="bytes per record", axis=number_axis()),
                y=alt.Y("name:N", sort=there, title=None, axis=names_axis(there)),
                color=alt.Color(
                    "where:N",
                    scale=alt.Scale(domain=list(WHERE), range=list(WHERE.values())),
                    legend=None,
                ),
                order=alt.Order("where:N", sort="descending"),
            )
        )
        found.append(panel(chart, kind, len(there) * ROW, left=room_of(there)))
    keys = [key(name, Look(colour, OUTLINES[1]), line=False) for name, colour in WHERE.items()]
    return Drawing(found, keys)


def _shade(position: int, count: int) -> int:
    """Few numbers take shades that are far apart."""
    last = len(SHADES) - 1
    return position * last // max(1, count - 1) if count <= len(SHADES) else min(position, last)


def _names_below(names: Sequence[str]) -> alt.Axis:
    """Long names are slanted, so that they do not lie on each other."""
    slanted = LETTER * max(map(len, names), default=0) + 6 > LEAST_PLOT / len(names)
    return alt.Axis(
        labelAngle=-35 if slanted else 0,
        labelAlign="right" if slanted else "center",
        labelOverlap=False,
        titleOpacity=0.7,
    )


def _shared_words(names: list[str]) -> str:
    """`1024 keys, ` of `1024 keys, 5 %` and `1024 keys, 50 %`."""
    words = [name.split(", ") for name in names]
    count = 0
    while all(len(one) > count + 1 and one[count] == words[0][count] for one in words):
        count += 1
    return "".join(f"{word}, " for word in words[0][:count])
