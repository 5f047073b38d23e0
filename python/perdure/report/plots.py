"""The figures: Altair charts, drawn to SVG offline by vl-convert.

Text and rules are drawn in two marker colours that `svg` turns into `currentColor`, so that a
figure follows the light or dark page it stands in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import vl_convert

from perdure.report.figure import Rows

INK, FAINT = "#010203", "#040506"
# Strong hues for the indexes in a pool, quiet ones for what they are compared with.
PERSISTENT = ("#2f7de1", "#e8662d", "#12a150", "#c2339a", "#7d4fc9", "#b8860b")
REFERENCE = ("#7d8aa8", "#c29a4b", "#4fa3ab", "#a77bc4", "#8fa84e", "#c07474")


def _time_label() -> str:
    """For an axis of ns: the largest unit that fits."""
    expression = "datum.value + ' ns'"
    for unit, size in (("µs", "1e3"), ("ms", "1e6"), ("s", "1e9")):  # the last is asked first
        expression = f"datum.value >= {size} ? datum.value/{size} + ' {unit}' : {expression}"
    return expression


TIME_LABEL = _time_label()


@dataclass(frozen=True)
class Palette:
    """One colour per series, the same in every figure."""

    names: list[str]
    colours: list[str]

    def scale(self, used: set[str]) -> alt.Scale:
        pairs = [(n, c) for n, c in zip(self.names, self.colours, strict=True) if n in used]
        return alt.Scale(domain=[n for n, _ in pairs], range=[c for _, c in pairs])


def palette(indexes: Sequence[tuple[str, str]]) -> Palette:
    """`indexes`: (name, class), in order of appearance."""
    colours, counts = [], {"persistent": 0, "": 0}
    for _, index_class in indexes:
        kind = index_class if index_class == "persistent" else ""
        choice = PERSISTENT if kind else REFERENCE
        colours.append(choice[counts[kind] % len(choice)])
        counts[kind] += 1
    return Palette([name for name, _ in indexes], colours)


def throughput(rows: Rows, workloads: list[str], names: list[str]) -> str:
    """Dots with intervals on a log axis: a panel per workload, a line per index and medium."""
    threads = sorted({row["threads"] for row in rows})
    base = alt.Chart().encode(
        y=alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=160)),
        yOffset=alt.YOffset("threads:O"),
        color=alt.Color(
            "threads:O",
            title="threads",
            scale=alt.Scale(domain=threads, range=_shades(len(threads))),
            legend=alt.Legend(symbolOpacity=1, direction="horizontal", titleOrient="left"),
        ),
    )
    ticks = _ticks(rows, "low", "high")
    x = alt.X("throughput:Q", title="operations per second", scale=_log(ticks), axis=_rates(ticks))
    interval = base.mark_rule(strokeWidth=2.5, opacity=0.5).encode(x=alt.X("low:Q"), x2="high:Q")
    dots = base.mark_circle(size=46, opacity=1).encode(x=x)
    return svg(
        alt.layer(interval, dots, data=_values(rows))
        .properties(width=250, height=alt.Step(10))
        .facet(facet=alt.Facet("workload:N", sort=workloads, title=None), columns=3)
        .resolve_axis(x="independent")
    )


def scaling(
    rows: Rows, workloads: list[str], colours: Palette, title: str = "operations per second"
) -> str:
    """Throughput over threads with intervals: a panel per workload, a line per index."""
    threads = sorted({row["threads"] for row in rows})
    media = list(dict.fromkeys(row["medium"] for row in rows))
    ticks = _ticks(rows, "low", "high")
    base = alt.Chart().encode(
        x=alt.X(
            "threads:Q",
            title="threads",
            axis=alt.Axis(values=threads, format="d", grid=False),
            scale=alt.Scale(domain=[threads[0], threads[-1]], nice=False, padding=14),
        ),
        color=_index_colour(rows, colours),
        detail="name:N",
    )
    dash = alt.StrokeDash(
        "medium:N",
        title=None,
        scale=alt.Scale(domain=media, range=[[1, 0], [6, 3], [2, 2], [8, 2, 2, 2]][: len(media)]),
        legend=alt.Legend(orient="bottom", symbolType="stroke", symbolStrokeColor=INK, offset=14)
        if len(media) > 1
        else None,
    )
    y = alt.Y("throughput:Q", title=title, scale=_log(ticks), axis=_rates(ticks))
    intervals = base.mark_rule(strokeWidth=4, opacity=0.35).encode(y=alt.Y("low:Q"), y2="high:Q")
    lines = base.mark_line(strokeWidth=1.8).encode(y=y, strokeDash=dash)
    dots = base.mark_circle(size=34, opacity=1).encode(y=y)
    return svg(
        alt.layer(intervals, lines, dots, data=_values(rows))
        .properties(width=240, height=230)
        .facet(facet=alt.Facet("workload:N", sort=workloads, title=None), columns=3)
        .resolve_axis(x="independent", y="independent")
    )


def over_workloads(rows: Rows, colours: Palette, title: str) -> str:
    """Numbers from 0 over the workloads, in their order: a line per index, a panel per "panel".

    Words that all workloads begin with stand once, below the axis.
    """
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    shared = _shared_words(workloads)
    rows = [{**row, "workload": row["workload"].removeprefix(shared)} for row in rows]
    workloads = [name.removeprefix(shared) for name in workloads]
    axis = alt.Axis(labelAngle=0, titleOpacity=0.7)
    base = alt.Chart(_values(rows)).encode(
        x=alt.X("workload:N", sort=workloads, title=shared.removesuffix(", ") or None, axis=axis),
        y=alt.Y("throughput:Q", title=title, axis=alt.Axis(format="~s", tickCount=5)),
        color=_index_colour(rows, colours),
    )
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    return svg(
        (base.mark_line(strokeWidth=1.8) + base.mark_circle(size=34, opacity=1))
        .properties(width=300, height=230)
        .facet(facet=alt.Facet("panel:N", sort=panels, title=None), columns=2)
        .resolve_axis(x="independent", y="independent")
        .resolve_scale(y="independent")
    )


def latency(rows: Rows, percentiles: list[str], operations: list[str], colours: Palette) -> str:
    """Latency over percentile, both growing: a panel per operation, a line per index."""
    ticks = _ticks(rows, "latency_ns", "latency_ns")
    base = alt.Chart(_values(rows)).encode(
        x=alt.X("percentile:N", sort=percentiles, title=None, axis=alt.Axis(labelAngle=0)),
        y=alt.Y("latency_ns:Q", title="latency", scale=_log(ticks), axis=_times(ticks)),
        color=_index_colour(rows, colours),
    )
    return svg(
        (base.mark_line(strokeWidth=1.6) + base.mark_circle(size=26, opacity=1))
        .properties(width=240, height=220)
        .facet(facet=alt.Facet("operation:N", sort=operations, title=None), columns=3)
        .resolve_axis(x="independent", y="independent")
    )


def bars(rows: Rows, title: str, colours: Palette, *, times: bool = False) -> str:
    """One number per index as bars from 0: a panel per workload and number of threads. `times`: the
    numbers are ns."""
    for row in rows:
        plural = "" if row["threads"] == 1 else "s"
        row["panel"] = f"{row['workload']}, {row['threads']} thread{plural}"
    names = list(dict.fromkeys(row["index"] for row in rows))
    # A ratio of 0.5 is no 500m.
    numbers = "~s" if max(row["throughput"] for row in rows) >= 1 else "~g"
    axis = alt.Axis(
        format=alt.Undefined if times else numbers,
        labelExpr=TIME_LABEL if times else alt.Undefined,
        labelOverlap="greedy",
        labelSeparation=6,
        tickCount=5,
    )
    chart = (
        alt.Chart(_values(rows))
        .mark_bar(height=11, cornerRadiusEnd=2)
        .encode(
            x=alt.X("throughput:Q", title=title, axis=axis),
            y=alt.Y("index:N", sort=names, title=None, axis=alt.Axis(labelLimit=160)),
            color=alt.Color(
                "index:N", scale=colours.scale({row["index"] for row in rows}), legend=None
            ),
        )
        .properties(width=240, height=alt.Step(17))
        .facet(
            facet=alt.Facet(
                "panel:N", sort=list(dict.fromkeys(row["panel"] for row in rows)), title=None
            ),
            columns=3,
        )
        .resolve_scale(x="independent")
    )
    return svg(chart)


def memory(rows: Rows, names: list[str]) -> str:
    """Bytes per record as stacked bars: a panel per kind of key."""
    chart = (
        alt.Chart(_values(rows))
        .mark_bar(height=11, cornerRadiusEnd=2)
        .encode(
            x=alt.X("bytes:Q", title="bytes per record", axis=alt.Axis(grid=True, tickCount=6)),
            y=alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=160)),
            color=alt.Color(
                "where:N",
                title=None,
                scale=alt.Scale(domain=["PM", "DRAM"], range=[PERSISTENT[0], REFERENCE[1]]),
            ),
            order=alt.Order("where:N", sort="descending"),
        )
        .properties(width=370, height=alt.Step(19))
        .facet(facet=alt.Facet("key_kind:N", title=None), columns=2)
        .resolve_scale(x="independent")
    )
    return svg(chart)


def _shared_words(names: list[str]) -> str:
    """`1024 keys, ` of `1024 keys, 5 %` and `1024 keys, 50 %`."""
    words = [name.split(", ") for name in names]
    count = 0
    while all(len(one) > count + 1 and one[count] == words[0][count] for one in words):
        count += 1
    return "".join(f"{word}, " for word in words[0][:count])


def svg(chart: Any) -> str:
    """Draws a chart without any network, in colours that follow the page."""
    styled = chart.configure(
        background="transparent",
        padding={"left": 18, "right": 8, "top": 4, "bottom": 4},
        font="Inter, 'Segoe UI', system-ui, sans-serif",
        view=alt.ViewConfig(stroke=None),
        axis=alt.AxisConfig(
            labelColor=INK,
            titleColor=INK,
            gridColor=FAINT,
            domainColor=FAINT,
            tickColor=FAINT,
            labelFontSize=11,
            titleFontSize=11,
            titleFontWeight="normal",
            labelOpacity=0.85,
            titleOpacity=0.7,
        ),
        header=alt.HeaderConfig(
            labelColor=INK,
            labelFontSize=13,
            labelFontWeight="bold",
            labelAnchor="start",
            labelPadding=6,
        ),
        legend=alt.LegendConfig(
            labelColor=INK,
            titleColor=INK,
            orient="top",
            symbolSize=80,
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight="normal",
            titlePadding=10,
            offset=12,
            columns=8,
        ),
        facet=alt.CompositionConfig(spacing=26),
    )
    text = vl_convert.vegalite_to_svg(styled.to_dict())
    text = text.replace(f'stroke="{FAINT}"', 'stroke="currentColor" stroke-opacity="0.14"')
    text = text.replace(f'fill="{INK}"', 'fill="currentColor"')
    # As wide as the column, but never wider than drawn.
    return re.sub(r'<svg ([^>]*?)width="([\d.]+)" height="[\d.]+"', _fluid, text, count=1)


def _fluid(match: re.Match[str]) -> str:
    return f'<svg {match.group(1)}style="width:100%;max-width:{match.group(2)}px;height:auto"'


def _values(rows: Rows) -> alt.InlineData:
    return alt.InlineData(values=rows)


def _index_colour(rows: Rows, colours: Palette) -> alt.Color:
    return alt.Color(
        "index:N",
        scale=colours.scale({row["index"] for row in rows}),
        title=None,
        legend=alt.Legend(symbolOpacity=1, symbolType="circle", symbolStrokeWidth=0),
    )


def _ticks(rows: Rows, low: str, high: str) -> list[float]:
    """Round values from below the smallest to above the largest: decades, or 1-2-5 steps of few."""
    values = [v for row in rows for v in (row[low], row[high]) if v > 0] or [1.0, 10.0]
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    steps = (1, 2, 5) if last - first <= 2 else (1,)
    candidates = [step * 10.0**n for n in range(first, last + 1) for step in steps]
    start = max((c for c in candidates if c <= min(values)), default=candidates[0])
    end = min((c for c in candidates if c >= max(values)), default=candidates[-1])
    return [c for c in candidates if start <= c <= end]


def _log(ticks: list[float]) -> alt.Scale:
    return alt.Scale(type="log", nice=False, domain=[ticks[0], ticks[-1]], clamp=True)


def _rates(ticks: list[float]) -> alt.Axis:
    return alt.Axis(values=ticks, format="~s", labelOverlap=True, minExtent=34)


def _times(ticks: list[float]) -> alt.Axis:
    return alt.Axis(values=ticks, labelExpr=TIME_LABEL, labelOverlap=True)


def _shades(count: int) -> list[str]:
    """From pale to strong, so that more threads read as more."""
    steps = ["#9db8e8", "#2f7de1", "#1d56a8", "#12a150", "#e8662d", "#c2339a"]
    return steps[:count] if count <= len(steps) else [steps[i % len(steps)] for i in range(count)]
