"""The figures of a study: cells drawn over threads, workloads or percentiles, or as bars."""

from __future__ import annotations

from perdure.programs import flame_graph
from perdure.report import looks, plots
from perdure.report.facets import Facets
from perdure.report.figure import Drawing, Rows, drawn
from perdure.report.figure import Figure as Drawn
from perdure.report.pieces import inside
from perdure.results import metrics, naming, query, record
from perdure.results.record import Run
from perdure.study import claims
from perdure.study.model import Figure
from perdure.types import Json

Cells = list[list[Run]]  # the runs of each

CAPTIONS = {
    "threads": "Medians of the repetitions over the number of threads; both axes are logarithmic.",
    "workloads": "Medians of the repetitions over the workloads.",
    "percentiles": "Latency by percentile. The steeper to the right, the worse the tail.",
    metrics.STORE_SIZES: "Of the bytes stored into a part, the share of stores of a size; a copy "
    "is one store of its length.",
    "none": "Medians of the repetitions, a panel per workload and number of threads.",
}
OVER_WORKLOADS = ("workloads", metrics.STORE_SIZES)
LEAST_SHARE = 0.01
INDEX, PLACEMENT = "index", "placement"
# Axes that every drawing has a place for; threads stand on an axis, or in the words of a panel.
PLACES = ("index", "workload", "keys", "threads")


def draw(figure: Figure, runs: list[Run], colours: looks.Palette) -> list[Drawn]:
    """The drawings of what was measured, or of all that was simulated: one, or for flame graphs one
    per cell; none where nothing was measured."""
    if figure.cells is None:
        return []
    chosen = claims.select(figure.cells, record.with_targets(runs))
    cells = _in_order(figure, list(record.group(chosen).values()))
    if figure.drawing == metrics.FLAME:
        return [_flame(figure, runs[0], i) for i, runs in enumerate(cells) if runs[0].profile]
    kind = _kind(figure, cells)
    rows = ROWS.get(kind, _rows)(figure, cells, _facets(kind, cells))
    if not rows:
        return []
    if _series(cells) != INDEX or kind == metrics.STORE_SIZES:
        names = dict.fromkeys(str(row["index"]) for row in rows)
        colours = looks.palette([(name, "persistent") for name in names])
    title = metrics.title(figure.metric, figure.subject)
    if kind == metrics.STORE_SIZES:
        title = "share of the bytes stored"
    caption = f"{title[:1].upper()}{title[1:]}. " if kind in ("none", "workloads") else ""
    caption += CAPTIONS[kind]
    drawing = _drawing(kind, figure, rows, colours, title)
    return [drawn(f"{figure.name}-{_origin(cells)}", figure.title, caption, drawing, rows)]


def _kind(figure: Figure, cells: Cells) -> str:
    """Bars for lines over a single number of threads."""
    if figure.drawing in ("percentiles", "workloads", metrics.STORE_SIZES):
        return figure.drawing
    threads = {runs[0].record["threads"] for runs in cells}
    return "threads" if figure.drawing == "threads" and len(threads) > 1 else "none"


def _facets(kind: str, cells: Cells) -> Facets:
    lines = kind in ("percentiles", "workloads", "threads")
    labels = [runs[0].labels for runs in cells]
    # Several numbers of threads would be several lines of one name.
    apart = [axis for axis in PLACES if axis != "threads" or kind not in OVER_WORKLOADS]
    return Facets.of(labels, _series(cells), apart=apart, dashes=lines)


def _drawing(kind: str, figure: Figure, rows: Rows, colours: looks.Palette, title: str) -> Drawing:
    if kind == "percentiles":
        there = {row["percentile"] for row in rows}
        labels = [label for label in query.PERCENTILES.values() if label in there]
        return plots.latency(rows, labels, colours)
    if kind in OVER_WORKLOADS:
        return plots.over_workloads(rows, colours, title)
    if kind == "threads":
        return plots.scaling(rows, colours, title)
    return plots.bars(rows, title, colours, times=metrics.is_latency(figure.metric))


def _flame(figure: Figure, run: Run, number: int) -> Drawn:
    unit = "ps" if run.simulated else "samples"
    root = flame_graph.parse(run.profile)
    rows = [
        {"stack": stack, unit: weight, "share": round(weight / root.weight, 4)}
        for stack, weight in flame_graph.stacks(root)
        if weight / root.weight >= LEAST_SHARE
    ]
    caption = "Width is the share of the time of all threads, outermost functions on top; the tool "
    caption += "tip of a box names the function. The data have frames from 1 %."
    svg = flame_graph.render(run.profile, run.record["index"], unit=unit)
    return drawn(
        f"{figure.name}-{number}-{_origin([[run]])}",
        f"{figure.title}: {flame_title(run)}",
        caption,
        Drawing([inside(svg)], broad=True),
        rows,
    )


def flame_title(run: Run) -> str:
    """The labels of a profiled cell, and the server on whose model it ran."""
    of = [value for axis, value in run.labels.items() if axis != naming.TARGET]
    return ", ".join([*of, naming.platform(run.record["target"])] if run.simulated else of)


def _origin(cells: Cells) -> str:
    """What tells the drawings of one figure apart: what was measured, and what was simulated, be it
    of one server or of several."""
    if not cells[0][0].simulated:
        return "native"
    targets = {runs[0].record["target"] for runs in cells}
    if len(targets) > 1:
        return "simulated"
    name = naming.platform(targets.pop())
    return "simulated-" + "".join(c if c.isalnum() else "-" for c in name)


def _in_order(figure: Figure, cells: Cells) -> Cells:
    """By workload as the figure lists them."""
    listed = (figure.cells or {}).get("workload")
    if not isinstance(listed, list):
        return cells
    return sorted(cells, key=lambda runs: listed.index(runs[0].labels["workload"]))


def _rows(figure: Figure, cells: Cells, facets: Facets) -> Rows:
    rows = []
    for runs, head in zip(cells, _heads(cells, facets, figure.drawing), strict=True):
        number = metrics.value(figure.metric, runs, figure.subject)
        if number is not None:
            rows.append({**head, "throughput": number, "low": number, "high": number})
    return rows


def _rows_over_threads(figure: Figure, cells: Cells, facets: Facets) -> Rows:
    """The axis is logarithmic."""
    return [row for row in _rows(figure, cells, facets) if row["throughput"] > 0]


def _bar_rows(figure: Figure, cells: Cells, facets: Facets) -> Rows:
    rows = _rows(figure, cells, facets)
    for row in rows:
        for place in ("axis", "beside", "panel"):
            row[place] = f"{row[place]}, {_threads(row)}"
    return rows


def _percentile_rows(figure: Figure, cells: Cells, facets: Facets) -> Rows:
    rows = []
    for runs, head in zip(cells, _heads(cells, facets, figure.drawing), strict=True):
        head["panel"] = f"{head['panel']}, {_threads(head)}"
        for name, label in query.PERCENTILES.items():
            number = metrics.value(name, runs, figure.operation)
            if number:
                rows.append({**head, "percentile": label, "latency_ns": number})
    return rows


def _store_size_rows(_: Figure, cells: Cells, facets: Facets) -> Rows:
    """A line for each part; the sizes stand where workloads do elsewhere."""
    rows = []
    for runs, head in zip(cells, _heads(cells, facets, "none"), strict=True):
        for part in runs[0].record["platform"].get("placement", {}).get("parts", {}):
            of_part = [metrics.store_shares(one, part) for one in runs[0].record["repetitions"]]
            rows += [
                {**head, "index": part, "name": part}
                | {"workload": _size(size), "throughput": share, "low": share, "high": share}
                for size, share in of_part[0].items()
            ]
    return rows


def _size(at_least: int) -> str:
    if at_least < metrics.SMALLEST_STORE_CLASS:
        return f"<{metrics.SMALLEST_STORE_CLASS}"
    return f"{at_least}" if at_least < 1024 else f"{at_least // 1024}K"


ROWS = {
    "percentiles": _percentile_rows,
    "threads": _rows_over_threads,
    "none": _bar_rows,
    metrics.STORE_SIZES: _store_size_rows,
}


def _series(cells: Cells) -> str:
    """What a line or a bar stands for: an index, or, of one index, where its parts lie."""
    one_index = len({runs[0].record["index"] for runs in cells}) == 1
    differing = naming.differing([runs[0].labels for runs in cells])
    return PLACEMENT if one_index and PLACEMENT in differing else INDEX


def _heads(cells: Cells, facets: Facets, drawing: str) -> list[Json]:
    """What a drawing needs to know of each cell, and a column for each axis that tells it apart."""
    series = _series(cells)
    return [_head(runs[0], facets, series, over=drawing == "workloads") for runs in cells]


def _head(run: Run, facets: Facets, series: str, *, over: bool) -> Json:
    """`over`: workloads stand on an axis, and not in the words of a panel."""
    labels = run.labels
    name = run.record["index"] if series == INDEX else labels[series]
    keys, workload = labels.get("keys"), labels.get("workload", "")
    workload = f"{workload}, {keys}" if keys else workload
    return {
        "index": name,
        "medium": labels.get("medium", "none"),
        "workload": workload,
        **{axis: labels.get(axis, "") for axis in facets.axes},
        **facets.row(labels, "" if over else workload, name),
        "threads": run.record["threads"],
    }


def _threads(row: Json) -> str:
    return f"{row['threads']} thread{'' if row['threads'] == 1 else 's'}"
