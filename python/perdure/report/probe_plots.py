"""Figures of probes: alone, as heat maps of two of them, and beside measurements.

Simulated and measured values never share a mark: measured ones are hollow dots, simulated ones are
lines, and the legend says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt

from perdure.report.figure import Drawing, Rows
from perdure.report.plots import FAINT, INK, PERSISTENT, REFERENCE, drawing
from perdure.types import Json

SHADES = ("#8db4f0", "#2f7de1", "#12a150", "#c29a4b", "#e8662d", "#c2339a", "#7d4fc9", "#555b66")
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
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("access_size:O", title="bytes per access", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("threads:O", title="threads", sort="descending"),
    )
    colour = alt.Color(
        "percent:Q",
        title=f"percent: blue {negative}, red {positive}",
        scale=alt.Scale(
            domain=[-100, 0, 100],
            range=["#2f7de1", "#f4f1ea", "#d9402b"],
            interpolate="rgb",
            clamp=True,
        ),
        legend=alt.Legend(gradientLength=220, direction="horizontal", titleLimit=500),
    )
    cells = base.mark_rect(stroke=FAINT).encode(color=colour)
    numbers = base.mark_text(fontSize=10, color="#14181d").encode(
        text=alt.Text("percent:Q", format=".0f")
    )
    return drawing(
        alt.layer(cells, numbers)
        .properties(width=250, height=alt.Step(22))
        .facet(
            column=alt.Column("from:N", sort=[MEASURED, SIMULATED], title=None),
            row=alt.Row("pattern:N", sort=["sequential", "random"], title=None),
        )
    )


def errors(document: Json) -> Drawing:
    """Simulated over measured, a tick per point and a line per experiment, on one ratio axis."""
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
    names = [e["name"] for e in document["experiments"] if e["values"]]
    x = alt.X(
        "ratio:Q",
        title="simulated / measured (1: equal)",
        scale=alt.Scale(type="log", domain=[LEAST_RATIO, LARGEST_RATIO]),
        axis=alt.Axis(values=[0.1, 0.2, 0.5, 1, 2, 5, 10], format="~g"),
    )
    colours = {
        "calibration": REFERENCE[0],
        "selection": REFERENCE[1],
        "prediction": PERSISTENT[0],
        "unexplained": PERSISTENT[1],
    }
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=x,
        y=alt.Y("experiment:N", sort=names, title=None, axis=alt.Axis(labelLimit=200)),
        color=alt.Color(
            "role:N",
            title=None,
            scale=alt.Scale(domain=list(colours), range=list(colours.values())),
            legend=alt.Legend(symbolOpacity=1, symbolType="square", symbolStrokeWidth=0),
        ),
    )
    within = base.transform_filter(alt.datum["beyond"] == "")
    ticks = within.mark_tick(thickness=1.4, size=13, opacity=0.45)
    # Points beyond the axis stand at its end, as triangles that point outwards.
    outside = base.transform_filter(alt.datum["beyond"] != "").mark_point(
        filled=True, size=55, opacity=0.8
    )
    outside = outside.encode(
        shape=alt.Shape(
            "beyond:N",
            scale=alt.Scale(domain=["below", "above"], range=["triangle-left", "triangle-right"]),
            legend=None,
        )
    )
    one = alt.Chart(alt.InlineData(values=[{"ratio": 1}])).mark_rule(color=INK).encode(x="ratio:Q")
    return drawing(alt.layer(ticks, outside, one).properties(width=620, height=alt.Step(19)))


def _curves(rows: Rows, metric: str, *, both: bool) -> Drawing:
    axis, series = _axes(rows)
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    shown = sorted({row[series] for row in rows}) if series else [""]
    names = [f"{value:g}" if isinstance(value, float) else str(value) for value in shown]
    for row in rows:
        row["series"] = (
            f"{row[series]:g}"
            if series and isinstance(row[series], float)
            else str(row[series] if series else "")
        )
    shades = [SHADES[i % len(SHADES)] for i in range(len(names))]
    linear = axis in LINEAR
    base = alt.Chart().encode(
        x=alt.X(
            f"{axis}:Q",
            title=AXIS_TITLES[axis],
            scale=alt.Scale() if linear else alt.Scale(type="log", base=2, nice=False),
            axis=alt.Axis(grid=False, labelOverlap=True)
            if linear
            else alt.Axis(
                grid=False,
                labelOverlap=True,
                tickCount=6,
                labelExpr="datum.value >= 1073741824 ? datum.value/1073741824 + 'G' : "
                "datum.value >= 1048576 ? datum.value/1048576 + 'M' : "
                "datum.value >= 1024 ? datum.value/1024 + 'K' : datum.value",
            ),
        ),
        y=alt.Y("value:Q", title=UNIT_TITLES[metric], axis=alt.Axis(tickCount=5)),
        color=alt.Color(
            "series:N",
            title=AXIS_TITLES.get(series or ""),
            scale=alt.Scale(domain=names, range=shades),
            legend=alt.Legend(symbolOpacity=1, symbolType="circle", symbolStrokeWidth=3)
            if len(names) > 1
            else None,
        ),
    )
    line = base.mark_line(strokeWidth=1.7).transform_filter(alt.datum["from"] != MEASURED)
    layers: list[Any] = [line]
    if both:
        kind = alt.Shape(
            "from:N",
            title=None,
            scale=alt.Scale(domain=[MEASURED, SIMULATED], range=["circle", "stroke"]),
            legend=alt.Legend(symbolFillColor="transparent", symbolStrokeColor=INK, offset=4),
        )
        dots = base.mark_point(size=34, filled=False, strokeWidth=1.6, opacity=1).encode(shape=kind)
        layers.append(dots.transform_filter(alt.datum["from"] == MEASURED))
    else:
        layers.append(base.mark_circle(size=26, opacity=1))
    return drawing(
        alt.layer(*layers, data=alt.InlineData(values=rows))
        .properties(width=240, height=190)
        .facet(facet=alt.Facet("panel:N", sort=panels, title=None), columns=3)
        .resolve_axis(x="independent", y="independent")
        .resolve_scale(y="independent")
    )


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
            if row.get(n) is not None
        )
        row["panel"] = text or " ".join(str(row.get(n, "")) for n in ("op", "pattern")).strip()


def _origin(document: Json) -> str:
    return SIMULATED if str(document.get("target", "")).startswith("sim:") else "measured here"


def _cell(value: Json) -> tuple[Any, ...]:
    inputs = value["inputs"]
    names = ("memory", "pattern", "access_size", "threads")
    return (value["metric"], *(inputs.get(n) for n in names))


def time_split(rows: Rows, parts: list[str]) -> Drawing:
    """Stacked bars: a panel per workload, a bar per index and number of threads."""
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    bars = list(dict.fromkeys(row["bar"] for row in rows))
    colours = [
        "#b9c0cc",
        "#cfe0fa",
        "#9cc0f2",
        "#5f9ae8",
        "#e9c46a",
        "#e8863d",
        "#d9402b",
        "#8a5fc2",
        "#c2339a",
    ]
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar(height=13)
        .encode(
            x=alt.X("sum(time_ns):Q", title="ns per operation", axis=alt.Axis(tickCount=5)),
            y=alt.Y("bar:N", sort=bars, title=None, axis=alt.Axis(labelLimit=170)),
            color=alt.Color(
                "part:N",
                title=None,
                scale=alt.Scale(domain=parts, range=colours[: len(parts)]),
                legend=alt.Legend(
                    columns=min(3, len(workloads) + 1), columnPadding=40, labelLimit=240
                ),
            ),
            order=alt.Order("position:Q"),
        )
        .properties(width=330, height=alt.Step(20))
        .facet(facet=alt.Facet("workload:N", sort=workloads, title=None), columns=2)
        .resolve_scale(x="independent", y="independent")
        .resolve_axis(x="independent", y="independent")
    )
    return drawing(chart)
