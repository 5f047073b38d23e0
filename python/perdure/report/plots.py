"""The figures: Altair charts, drawn to SVG offline by vl-convert, wide and narrow.

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

from perdure.report.figure import Drawing, Rows
from perdure.types import Json

INK, FAINT = "#010203", "#040506"
# Strong hues for the indexes in a pool, quiet ones for what they are compared with.
PERSISTENT = ("#2f7de1", "#e8662d", "#12a150", "#c2339a", "#7d4fc9", "#b8860b")
REFERENCE = ("#7d8aa8", "#c29a4b", "#4fa3ab", "#a77bc4", "#8fa84e", "#c07474")
# A colour that comes again has another shape and another line.
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [4, 4], [1, 3])
# Of a narrow drawing.
NARROW_WIDTH, NARROW_LABELS = 215, 105
# Pixels: of a legend in the narrowest wide drawing, of a symbol with its padding, of a letter.
LEGEND_WIDTH, LEGEND_SYMBOL, LETTER = 520, 40, 7


def _time_label() -> str:
    """For an axis of ns: the largest unit that fits."""
    expression = "datum.value + ' ns'"
    for unit, size in (("µs", "1e3"), ("ms", "1e6"), ("s", "1e9")):  # the last is asked first
        expression = f"datum.value >= {size} ? datum.value/{size} + ' {unit}' : {expression}"
    return expression


TIME_LABEL = _time_label()


@dataclass(frozen=True)
class Palette:
    """Of each series its colour, shape and line, the same in every figure; no two share all."""

    names: list[str]
    colours: list[str]
    shapes: list[str]
    dashes: list[list[int]]

    def scale(self, used: set[str], of: str = "colours") -> alt.Scale:
        """A scale of the series that are used: of colours, shapes or dashes."""
        pairs = [(n, c) for n, c in zip(self.names, getattr(self, of), strict=True) if n in used]
        return alt.Scale(domain=[n for n, _ in pairs], range=[c for _, c in pairs])


def palette(indexes: Sequence[tuple[str, str]]) -> Palette:
    """`indexes`: (name, class), in order of appearance. References are dashed."""
    colours, shapes, dashes = [], [], []
    counts = {"persistent": 0, "": 0}
    for _, index_class in indexes:
        kind = index_class if index_class == "persistent" else ""
        choice = PERSISTENT if kind else REFERENCE
        position, turn = counts[kind], counts[kind] // len(choice)
        colours.append(choice[position % len(choice)])
        shapes.append(SHAPES[(position + turn) % len(SHAPES)])
        dashes.append(DASHES[(turn + (0 if kind else 1)) % len(DASHES)])
        counts[kind] += 1
    return Palette([name for name, _ in indexes], colours, shapes, dashes)


def throughput(rows: Rows, workloads: list[str], names: list[str]) -> Drawing:
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
    return drawing(
        alt.layer(interval, dots, data=_values(rows))
        .properties(width=250, height=alt.Step(10))
        .facet(facet=alt.Facet("workload:N", sort=workloads, title=None), columns=3)
        .resolve_axis(x="independent")
    )


def scaling(
    rows: Rows, workloads: list[str], colours: Palette, title: str = "operations per second"
) -> Drawing:
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
    dash = (
        _index_dash(rows, colours)
        if len(media) == 1
        else alt.StrokeDash(
            "medium:N",
            title=None,
            scale=alt.Scale(domain=media, range=DASHES[: len(media)]),
            legend=alt.Legend(
                orient="bottom", symbolType="stroke", symbolStrokeColor=INK, offset=14
            ),
        )
    )
    y = alt.Y("throughput:Q", title=title, scale=_log(ticks), axis=_rates(ticks))
    intervals = base.mark_rule(strokeWidth=4, opacity=0.35).encode(y=alt.Y("low:Q"), y2="high:Q")
    lines = base.mark_line(strokeWidth=1.8).encode(y=y, strokeDash=dash)
    dots = _dots(base, rows, colours).encode(y=y)
    return drawing(
        alt.layer(intervals, lines, dots, data=_values(rows))
        .properties(width=240, height=230)
        .facet(facet=alt.Facet("workload:N", sort=workloads, title=None), columns=3)
        .resolve_axis(x="independent", y="independent")
    )


def speedup(rows: Rows, workloads: list[str], colours: Palette) -> Drawing:
    """How many times the throughput grows from the fewest to the most threads: a dot for each
    index, a panel per workload, and a rule where it would grow with the threads."""
    names = list(dict.fromkeys(row["name"] for row in rows))
    values = [v for row in rows for v in (row["low"], row["high"], row["perfect"])]
    x = alt.X(
        "speedup:Q",
        title="speed-up",
        scale=alt.Scale(domain=[min(0.8, *values), max(values) * 1.05], zero=False, nice=False),
        axis=alt.Axis(tickCount=6, labelOverlap=True),
    )
    scale = colours.scale({row["index"] for row in rows})
    base = alt.Chart().encode(
        y=alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=160)),
        color=alt.Color("index:N", scale=scale, legend=None),
    )
    perfect = alt.Chart().mark_rule(color=INK, strokeDash=[4, 3]).encode(x="perfect:Q")
    spans = base.mark_rule(strokeWidth=2.5, opacity=0.5).encode(x=alt.X("low:Q"), x2="high:Q")
    dots = (
        _dots(base, rows, colours)
        .encode(x=x)
        .encode(
            shape=alt.Shape(
                "index:N",
                scale=colours.scale({row["index"] for row in rows}, "shapes"),
                legend=None,
            )
        )
    )
    return drawing(
        alt.layer(perfect, spans, dots, data=_values(rows))
        .properties(width=250, height=alt.Step(16))
        .facet(facet=alt.Facet("workload:N", sort=workloads, title=None), columns=3)
        .resolve_axis(x="independent")
    )


def over_workloads(rows: Rows, colours: Palette, title: str) -> Drawing:
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
    return drawing(
        (_lines(base, rows, colours) + _dots(base, rows, colours))
        .properties(width=300, height=230)
        .facet(facet=alt.Facet("panel:N", sort=panels, title=None), columns=2)
        .resolve_axis(x="independent", y="independent")
        .resolve_scale(y="independent")
    )


def latency(rows: Rows, percentiles: list[str], operations: list[str], colours: Palette) -> Drawing:
    """Latency over percentile, both growing: a panel per operation, a line per index."""
    ticks = _ticks(rows, "latency_ns", "latency_ns")
    base = alt.Chart(_values(rows)).encode(
        x=alt.X("percentile:N", sort=percentiles, title=None, axis=alt.Axis(labelAngle=0)),
        y=alt.Y("latency_ns:Q", title="latency", scale=_log(ticks), axis=_times(ticks)),
        color=_index_colour(rows, colours),
    )
    return drawing(
        (_lines(base, rows, colours) + _dots(base, rows, colours))
        .properties(width=240, height=220)
        .facet(facet=alt.Facet("operation:N", sort=operations, title=None), columns=3)
        .resolve_axis(x="independent", y="independent")
    )


def bars(rows: Rows, title: str, colours: Palette, *, times: bool = False) -> Drawing:
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
    return drawing(chart)


def memory(rows: Rows, names: list[str]) -> Drawing:
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
    return drawing(chart)


def _shared_words(names: list[str]) -> str:
    """`1024 keys, ` of `1024 keys, 5 %` and `1024 keys, 50 %`."""
    words = [name.split(", ") for name in names]
    count = 0
    while all(len(one) > count + 1 and one[count] == words[0][count] for one in words):
        count += 1
    return "".join(f"{word}, " for word in words[0][:count])


def drawing(chart: Any) -> Drawing:
    """Draws a chart without any network, in colours that follow the page."""
    spec = _styled(chart).to_dict()
    return Drawing(svg(spec), svg(narrowed(spec)))


def svg(spec: Json) -> str:
    """As wide as the column it stands in, but never wider than drawn."""
    text = vl_convert.vegalite_to_svg(spec)
    text = text.replace(f'stroke="{FAINT}"', 'stroke="currentColor" stroke-opacity="0.14"')
    text = text.replace(f'fill="{INK}"', 'fill="currentColor"')
    text = text.replace(f'stroke="{INK}"', 'stroke="currentColor"')
    return re.sub(r'<svg ([^>]*?)width="([\d.]+)" height="[\d.]+"', _fluid, text, count=1)


def narrowed(spec: Json) -> Json:
    """The same chart for a page of 360 px: its panels below each other, short names."""
    changed: Json = _narrowed(spec)
    if "facet" in changed and "columns" in changed:
        changed["columns"] = 1
    return changed


def _narrowed(node: Any, place: str = "") -> Any:
    if isinstance(node, list):
        return [_narrowed(one) for one in node]
    if not isinstance(node, dict) or place in ("data", "datasets"):
        return node
    found = {name: _narrowed(value, name) for name, value in node.items()}
    if place == "legend" and "columns" in found:
        found["columns"] = max(1, found["columns"] // 2)
    if isinstance(found.get("width"), int):
        found["width"] = min(found["width"], NARROW_WIDTH)
    if "labelLimit" in found and place != "legend":
        # A browser may lack the font that is measured here, and take a wider one.
        limit = NARROW_WIDTH * 4 // 5 if place == "header" else NARROW_LABELS
        found["labelLimit"] = min(found["labelLimit"], limit)
    return found


def _styled(chart: Any) -> Any:
    return chart.configure(
        background="transparent",
        # A browser may lack the font that is measured here, and draw a legend wider.
        padding={"left": 18, "right": 28, "top": 4, "bottom": 4},
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
            labelLimit=400,
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
        facet=alt.CompositionConfig(spacing=34),
    )


def _fluid(match: re.Match[str]) -> str:
    return f'<svg {match.group(1)}style="width:100%;max-width:{match.group(2)}px;height:auto"'


def _values(rows: Rows) -> alt.InlineData:
    return alt.InlineData(values=rows)


def _index_colour(rows: Rows, colours: Palette) -> alt.Color:
    scale = colours.scale({row["index"] for row in rows})
    return alt.Color("index:N", scale=scale, title=None, legend=_index_legend(rows))


def _index_dash(rows: Rows, colours: Palette) -> alt.StrokeDash:
    scale = colours.scale({row["index"] for row in rows}, "dashes")
    return alt.StrokeDash("index:N", scale=scale, title=None, legend=_index_legend(rows))


def _index_legend(rows: Rows) -> alt.Legend:
    """Those of colour, shape and line must be alike, to become one. Its columns fit the names."""
    longest = max(len(str(row["index"])) for row in rows)
    columns = max(1, min(6, LEGEND_WIDTH // (LEGEND_SYMBOL + LETTER * longest)))
    return alt.Legend(symbolOpacity=1, columns=columns, labelLimit=260, columnPadding=26)


def _lines(base: Any, rows: Rows, colours: Palette) -> Any:
    return base.mark_line(strokeWidth=1.7).encode(strokeDash=_index_dash(rows, colours))


def _dots(base: Any, rows: Rows, colours: Palette) -> Any:
    scale = colours.scale({row["index"] for row in rows}, "shapes")
    return base.mark_point(size=38, filled=True, opacity=1).encode(
        shape=alt.Shape("index:N", scale=scale, title=None, legend=_index_legend(rows))
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
