"""Figures of probes: alone, as heat maps of two of them, and beside measurements.

Simulated and measured values never share a mark: measured ones are hollow dots, simulated ones are
lines, and the legend says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt

from perdure.report.figure import Drawing, Rows, standalone
from perdure.report.looks import COLOURS, FAINT, INK, OUTLINES, PARTS, Look, Palette, palette
from perdure.report.panels import (
    MARGIN,
    NUMBER,
    arranged,
    by,
    dots,
    lines_of,
    names,
    names_axis,
    number_axis,
    panel,
    right_of,
    room_of,
    sharing,
    values,
)
from perdure.report.pieces import Piece, heading, key
from perdure.types import Json

AXIS_TITLES = {
    "access_size": "bytes per access", "region": "bytes of the region",
    "threads": "threads", "hit_ratio": "LLC hit ratio", "stride": "stride in bytes",
    "mix_reads": "share of reads",
}  # fmt: skip
UNIT_TITLES = {
    "bandwidth": "GiB/s", "latency": "ns", "ewr": "EWR", "err": "ERR", "rwr": "RWR",
    "buffer_hit_ratio": "buffer hit ratio", "write_amplification": "write amplification",
}  # fmt: skip
SIMULATED, MEASURED = "simulated", "measured"
LINEAR = ("hit_ratio", "mix_reads")
LEAST_RATIO, LARGEST_RATIO = 0.1, 10.0  # of the axis of `errors`
COLD, HOT = "#4a8ae6", "#e2604c"  # of a heat map; numbers in black are read on both
ROLES = {
    "calibration": COLOURS[9],
    "selection": COLOURS[5],
    "prediction": COLOURS[0],
    "unexplained": COLOURS[1],
}
BYTES_LABEL = (
    "datum.value >= 1073741824 ? datum.value/1073741824 + 'G' : "
    "datum.value >= 1048576 ? datum.value/1048576 + 'M' : "
    "datum.value >= 1024 ? datum.value/1024 + 'K' : datum.value"
)
HEIGHT = 190


def experiment(document: Json) -> Iterable[tuple[str, Drawing]]:
    """(name, drawing) per metric of one experiment of `perdure fidelity`."""
    metrics = list(dict.fromkeys(v["metric"] for v in document["values"]))
    for metric in metrics:
        rows = _pair_rows([v for v in document["values"] if v["metric"] == metric])
        name = (
            document["name"]
            if metric in ("bandwidth", "latency")
            else (f"{document['name']}-{metric.replace('_', '-')}")
        )
        yield name, _curves(rows, metric, both=True)


def experiment_files(document: Json) -> Iterable[tuple[str, str]]:
    """(name, SVG) of each drawing, which says what was measured by whom and what is simulated."""
    for name, drawing in experiment(document):
        source = " ".join(filter(None, (document.get("paper", ""), document.get("figure", ""))))
        platform = str(document.get("platform", "")).rsplit("/", 1)[-1]
        lines = f"dots measured: {source or 'published'}; lines simulated: {platform}"
        yield name, standalone(drawing, f"{name}: {document.get('title', '')}", lines)


def probe_file(document: Json) -> str:
    """An SVG of a probe's own answer, which says its target and whether it was simulated."""
    target = str(document.get("target", "native"))
    origin = f"{_origin(document)}, {target}" + (", a quick run" if document.get("quick") else "")
    return standalone(probe(document), f"probe {document.get('probe', '')}".strip(), origin)


def probe(document: Json) -> Drawing:
    """One figure of a probe's own answer: a panel per operation and pattern, a line per threads."""
    metric = "bandwidth"
    points = [p for p in document["points"] if not p.get("skipped")]
    if points and all(p.get("bandwidth_gib_s") is None for p in points):
        metric = "latency"
    rows = []
    for point in points:
        latency = (point.get("latency_ns") or {}).get("mean")
        value = point.get("bandwidth_gib_s") if metric == "bandwidth" else latency
        if value is None:
            continue
        inputs = {k: v for k, v in point["inputs"].items() if v not in (None, "", 0)}
        if "region_bytes" in inputs:
            inputs.setdefault("region", inputs["region_bytes"])
        rows.append({**inputs, "value": value, "from": _origin(document)})
    if not rows:
        raise ValueError("the probe answered nothing that can be drawn")
    _label(rows)
    return _curves(rows, metric, both=False)


def heat_map(upper: Json, lower: Json, *, negative: str, positive: str) -> Drawing:
    """Threads by access size: percent by which `lower` is below `upper`, in two columns.

    `upper` and `lower` are experiments of `perdure fidelity`, such as i4-local and i4-remote. As in
    the study, a positive number says that the second one is worse.
    """
    rows: Rows = []
    below = {_cell(v): v for v in lower["values"]}
    for value in upper["values"]:
        other = below.get(_cell(value))
        if other is None or value["metric"] != "bandwidth":
            continue
        for source in (MEASURED, SIMULATED):
            rows.append(
                {
                    "access_size": value["inputs"]["access_size"],
                    "threads": value["inputs"]["threads"],
                    "pattern": {"seq": "sequential", "rand": "random"}.get(
                        value["inputs"]["pattern"], value["inputs"]["pattern"]
                    ),
                    "from": source,
                    "percent": round((1 - other[source] / value[source]) * 100, 1),
                }
            )
    found = [
        _heat_panel([row for row in rows if (row["pattern"], row["from"]) == one], ", ".join(one))
        for one in dict.fromkeys((row["pattern"], row["from"]) for row in rows)
    ]
    keys = [
        key(words, Look(colour, OUTLINES[1]), line=False)
        for words, colour in ((negative, COLD), (positive, HOT))
    ]
    return Drawing(found, keys)


def _heat_panel(rows: Rows, title: str) -> Piece:
    angle = -35 if len({row["access_size"] for row in rows}) > 5 else 0
    base = alt.Chart(values(rows)).encode(
        x=alt.X("access_size:O", title="bytes per access", axis=alt.Axis(labelAngle=angle)),
        y=alt.Y("threads:O", title="threads", sort="descending"),
    )
    scale = alt.Scale(
        domain=[-100, 0, 100], range=[COLD, "#f4f1ea", HOT], interpolate="rgb", clamp=True
    )
    cells = base.mark_rect(stroke=FAINT).encode(
        color=alt.Color("percent:Q", scale=scale, legend=None)
    )
    numbers = base.mark_text(fontSize=9, color="#14181d").encode(
        text=alt.Text("percent:Q", format=".0f")
    )
    return panel(cells + numbers, title, 22 * len({row["threads"] for row in rows}))


def errors(document: Json) -> Drawing:
    """Simulated over measured: a panel for each role, a row per experiment, a tick per point."""
    rows = [
        {
            "experiment": e["name"],
            "role": e["role"],
            "ratio": min(max(ratio, LEAST_RATIO), LARGEST_RATIO),
            "beyond": "above" if ratio > LARGEST_RATIO else "below" if ratio < LEAST_RATIO else "",
        }
        for e in document["experiments"]
        for v in e["values"]
        for ratio in [v["simulated"] / v["measured"]]
    ]
    roles = dict.fromkeys([*ROLES, *(row["role"] for row in rows)])
    by_role = {role: [row for row in rows if row["role"] == role] for role in roles}
    return Drawing([_error_panel(here, role) for role, here in by_role.items() if here])


def _error_panel(rows: Rows, role: str) -> Piece:
    there = list(dict.fromkeys(str(row["experiment"]) for row in rows))
    colour = ROLES.get(role, COLOURS[9])
    x = alt.X(
        "ratio:Q",
        title="simulated / measured (1: equal)",
        scale=alt.Scale(type="log", domain=[LEAST_RATIO, LARGEST_RATIO]),
        axis=number_axis([0.1, 0.2, 0.5, 1, 2, 5, 10]),
    )
    base = alt.Chart(values(rows)).encode(
        x=x, y=alt.Y("experiment:N", sort=there, title=None, axis=names_axis(there))
    )
    within = base.transform_filter(alt.datum["beyond"] == "")
    ticks = within.mark_tick(thickness=1.4, size=13, opacity=0.45, color=colour)
    # Points beyond the axis stand at its end, as triangles that point outwards.
    outside = base.transform_filter(alt.datum["beyond"] != "").mark_point(
        filled=True, size=55, opacity=0.8, color=colour
    )
    outside = outside.encode(
        shape=alt.Shape(
            "beyond:N",
            scale=alt.Scale(domain=["below", "above"], range=["triangle-left", "triangle-right"]),
            legend=None,
        )
    )
    one = alt.Chart(values([{"ratio": 1}])).mark_rule(color=INK).encode(x="ratio:Q")
    return panel(alt.layer(ticks, outside, one), role, 19 * len(there), left=room_of(there))


def _curves(rows: Rows, metric: str, *, both: bool) -> Drawing:
    axis, series = _axes(rows)
    lines = [_number(value) for value in sorted({row[series] for row in rows})] if series else [""]
    for row in rows:
        row["index"] = _number(row[series]) if series else ""
    looks = palette([(name, "measured" if both else "persistent") for name in lines])
    found = [
        _curve_panel([row for row in rows if row["panel"] == one], axis, metric, looks)
        for one in dict.fromkeys(row["panel"] for row in rows)
    ]
    keys = list[Piece]()
    if len(lines) > 1:
        keys = [heading(AXIS_TITLES.get(series or "", ""))]
        keys += [key(name, looks.looks[name], line=not both) for name in lines]
    if both:
        measured = Look("currentColor", OUTLINES[0], hollow=True)
        keys.append(key(MEASURED, measured, line=False))
        keys.append(key(SIMULATED, Look("currentColor", ""), point=False))
    return Drawing(found, keys)


def _curve_panel(rows: Rows, axis: str, metric: str, looks: Palette) -> Piece:
    """Simulated values are lines; measured ones beside them are hollow dots, alone lines too."""
    top = max(row["value"] for row in rows) * 1.06 or 1.0
    x = alt.X(
        f"{axis}:Q",
        title=AXIS_TITLES[axis],
        scale=alt.Scale() if axis in LINEAR else alt.Scale(type="log", base=2, nice=False),
        axis=alt.Axis(
            grid=False,
            labelOverlap="greedy",
            labelSeparation=6,
            tickCount=5,
            labelExpr=alt.Undefined if axis in LINEAR else BYTES_LABEL,
        ),
    )
    y = alt.Y(
        "value:Q",
        title=UNIT_TITLES[metric],
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=number_axis(minExtent=NUMBER),
    )
    there = {row["index"] for row in rows}
    colours = looks.colours(there)
    drawn_as_lines = [row for row in rows if row["from"] != MEASURED]
    drawn_as_dots = [row for row in rows if row["from"] == MEASURED] or rows
    line, dot = (
        alt.Chart(values(some)).encode(
            x=x, y=y, stroke=alt.Stroke("index:N", scale=colours, legend=None)
        )
        for some in (drawn_as_lines, drawn_as_dots)
    )
    last = max(row[axis] for row in rows)
    ends = {str(row["index"]): row for row in drawn_as_lines if row[axis] == last and row["index"]}
    layers = [line.mark_line(strokeWidth=1.7), dots(dot, there, looks)]
    if len({row[axis] for row in rows}) == 1:  # no line leads from a point to itself
        layers[0] = line.mark_point(shape="stroke", size=400, strokeWidth=1.7, opacity=1)
    named = names(ends, x, y, "value", colours, HEIGHT)
    right = right_of(ends, 1.0) if named else MARGIN
    return panel(alt.layer(*layers, *named), rows[0]["panel"], HEIGHT, right=right)


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _pair_rows(values: Sequence[Json]) -> Rows:
    rows = []
    for value in values:
        for source in (MEASURED, SIMULATED):
            rows.append({**value["inputs"], "value": value[source], "from": source})
    _label(rows)
    return rows


def _axes(rows: Rows) -> tuple[str, str | None]:
    """The x axis, and the input that distinguishes the lines."""
    counts = {
        axis: len({row[axis] for row in rows if row.get(axis) is not None})
        for axis in ("region", "hit_ratio", "access_size", "mix_reads", "threads", "stride")
        if all(row.get(axis) is not None for row in rows)
    }
    ranked = sorted((a for a in counts if counts[a] > 1), key=lambda a: list(counts).index(a))
    if not ranked:
        return next(iter(counts), "threads"), None
    second = [a for a in ("threads", "access_size", "stride") if a in ranked and a != ranked[0]]
    return ranked[0], second[0] if second else None


def _label(rows: Rows) -> None:
    """Names the panel of each row after the inputs that differ and are no axis."""
    names = [
        n
        for n in ("memory", "node", "op", "pattern", "stride", "variant", "fence")
        if len({str(row.get(n)) for row in rows}) > 1
    ]
    for row in rows:
        text = " ".join(
            f"{n} {row[n]}" if n == "stride" else str(row[n])
            for n in names
            if row.get(n) is not None and row[n] != "stride"  # which is said with its length
        )
        row["panel"] = text or " ".join(str(row.get(n, "")) for n in ("op", "pattern")).strip()


def _origin(document: Json) -> str:
    return SIMULATED if str(document.get("target", "")).startswith("sim:") else "measured here"


def _cell(value: Json) -> tuple[Any, ...]:
    inputs = value["inputs"]
    names = ("memory", "pattern", "access_size", "threads")
    return (value["metric"], *(inputs.get(n) for n in names))


def time_split(rows: Rows, parts: list[str]) -> Drawing:
    """Stacked bars: a panel per "panel", a bar per index and number of threads; panels of an "axis"
    share it."""
    groups, sizes = arranged(rows)
    groups = [_titled(panels) for panels in groups]
    lines = lines_of(one for panels in groups for one in panels)
    found = []
    for panels in groups:
        totals = {name: _totals(own) for name, own in panels.items()}
        like = sharing(totals, "time_ns", logarithmic=False)
        for name, own in panels.items():
            longest = max(row["time_ns"] for row in like[name])
            chart, bars = _time_bars(own, parts, longest)
            height, left = 20 * len(bars), room_of(bars)
            found.append(panel(chart, name, height, left=left, title_lines=lines))
    square = OUTLINES[1]
    keys = [
        key(part, Look(colour, square), line=False)
        for part, colour in zip(parts, PARTS, strict=False)
    ]
    return Drawing(found, keys, groups=sizes)


def _totals(rows: Rows) -> Rows:
    return [
        {"time_ns": sum(row["time_ns"] for row in bar), "beside": bar[0]["beside"]}
        for bar in by(rows, "bar").values()
    ]


def _titled(panels: Mapping[str, Rows]) -> dict[str, Rows]:
    """With the number of threads in the title where there is one, because long names need the
    room."""
    found = {}
    for title, rows in panels.items():
        counts = {row["threads"] for row in rows}
        if len(counts) == 1:
            rows = [row | {"bar": row["index"]} for row in rows]
            title += f", {counts.pop()} thread" + "s"[: rows[0]["threads"] != 1]
        found[title] = rows
    return found


def _time_bars(rows: Rows, parts: list[str], longest: float) -> tuple[Any, list[str]]:
    """A chart, and the names of its bars."""
    bars = list(dict.fromkeys(row["bar"] for row in rows))
    colours = alt.Scale(domain=parts, range=list(PARTS[: len(parts)]))
    chart = (
        alt.Chart(values([row for row in rows if row["time_ns"] > 0]))
        .mark_bar(height=13)
        .encode(
            x=alt.X(
                "sum(time_ns):Q",
                title="ns per operation",
                scale=alt.Scale(domain=[0, longest or 1.0]),
                axis=number_axis(),
            ),
            y=alt.Y("bar:N", sort=bars, title=None, axis=names_axis(bars)),
            color=alt.Color("part:N", scale=colours, legend=None),
            order=alt.Order("position:Q"),
        )
    )
    return chart, bars
