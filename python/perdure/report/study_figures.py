"""The figures of a study: cells drawn over threads, workloads or percentiles, or as bars."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perdure.programs import flame_graph
from perdure.report import looks, plots
from perdure.report.figure import Drawing, Rows, drawn
from perdure.report.figure import Figure as Drawn
from perdure.report.pieces import inside
from perdure.results import metrics, query, record
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
# Labels that rows have columns of their own for, or that are the same all over a section.
LEAST_SHARE = 0.01
INDEX, PLACEMENT = "index", "placement"
COLUMNS = ("index", "workload", "keys", "threads", "medium", "target")


def draw(figure: Figure, runs: list[Run], colours: looks.Palette) -> list[Drawn]:
    """One target's drawings: one, or for flame graphs one per cell; none where nothing was
    measured."""
    if figure.cells is None:
        return []
    cells = _in_order(figure, list(record.group(claims.select(figure.cells, runs)).values()))
    if figure.drawing == metrics.FLAME:
        return [_flame(figure, runs[0], i) for i, runs in enumerate(cells) if runs[0].profile]
    kind = figure.drawing
    rows = ROWS.get(kind, _rows)(figure, cells)
    if not rows:
        return []
    if _series(cells) != INDEX or kind == metrics.STORE_SIZES:
        names = dict.fromkeys(str(row["index"]) for row in rows)
        colours = looks.palette([(name, "persistent") for name in names])
    title = metrics.title(figure.metric, figure.subject)
    if kind == metrics.STORE_SIZES:
        title = "share of the bytes stored"
    if kind == "percentiles":
        there = {row["percentile"] for row in rows}
        labels = [label for label in query.PERCENTILES.values() if label in there]
        operations = list(dict.fromkeys(row["operation"] for row in rows))
        svg = plots.latency(rows, labels, operations, colours)
    elif kind in ("workloads", metrics.STORE_SIZES):
        svg = plots.over_workloads(rows, colours, title)
    elif kind == "threads" and len({row["threads"] for row in rows}) > 1:
        rows = [row for row in rows if row["throughput"] > 0]  # the axis is logarithmic
        svg = plots.scaling(rows, _panels(rows), colours, title)
    else:
        kind = "none"
        times = metrics.is_latency(figure.metric)
        by_panel = [{**row, "workload": _panel(row)} for row in rows]
        svg = plots.bars(by_panel, title, colours, times=times)
    caption = f"{title[:1].upper()}{title[1:]}. " if kind in ("none", "workloads") else ""
    return [
        drawn(
            f"{figure.name}-{_origin(runs[0])}", figure.title, caption + CAPTIONS[kind], svg, rows
        )
    ]


def _flame(figure: Figure, run: Run, number: int) -> Drawn:
    unit = "ps" if run.simulated else "samples"
    root = flame_graph.parse(run.profile)
    rows = [
        {"stack": stack, unit: weight, "share": round(weight / root.weight, 4)}
        for stack, weight in flame_graph.stacks(root)
        if weight / root.weight >= LEAST_SHARE
    ]
    what = ", ".join(value for axis, value in run.labels.items() if axis != "target")
    caption = "Width is the share of the time of all threads, outermost functions on top; the tool "
    caption += "tip of a box names the function. The data have frames from 1 %."
    svg = flame_graph.render(run.profile, run.record["index"], unit=unit)
    return drawn(
        f"{figure.name}-{number}-{_origin(run)}",
        f"{figure.title}: {what}",
        caption,
        Drawing([inside(svg)], broad=True),
        rows,
    )


def _origin(run: Run) -> str:
    """What tells the drawings of one figure apart: a study may have several servers."""
    if not run.simulated:
        return "native"
    name = Path(run.record["target"].removeprefix("sim:")).stem
    return "simulated-" + "".join(c if c.isalnum() else "-" for c in name)


def _in_order(figure: Figure, cells: Cells) -> Cells:
    """By workload as the figure lists them."""
    listed = (figure.cells or {}).get("workload")
    if not isinstance(listed, list):
        return cells
    return sorted(cells, key=lambda runs: listed.index(runs[0].labels["workload"]))


def _rows(figure: Figure, cells: Cells) -> Rows:
    rows = []
    for runs, head in zip(cells, _heads(cells), strict=True):
        number = metrics.value(figure.metric, runs, figure.subject)
        if number is not None:
            rows.append({**head, "throughput": number, "low": number, "high": number})
    return rows


def _percentile_rows(figure: Figure, cells: Cells) -> Rows:
    rows = []
    for runs, head in zip(cells, _heads(cells), strict=True):
        panel = f"{_panel(head)}, {head['threads']} thread{'s'[: head['threads'] != 1]}"
        for name, label in query.PERCENTILES.items():
            number = metrics.value(name, runs, figure.operation)
            if number:
                rows.append({**head, "operation": panel, "percentile": label, "latency_ns": number})
    return rows


def _store_size_rows(_: Figure, cells: Cells) -> Rows:
    """A line for each part; the sizes stand where workloads do elsewhere."""
    rows = []
    for runs, head in zip(cells, _heads(cells), strict=True):
        for part in runs[0].record["platform"].get("placement", {}).get("parts", {}):
            of_part = [metrics.store_shares(one, part) for one in runs[0].record["repetitions"]]
            rows += [
                {**head, "index": part, "name": part, "panel": _panel(head)}
                | {"workload": _size(size), "throughput": share, "low": share, "high": share}
                for size, share in of_part[0].items()
            ]
    return rows


def _size(at_least: int) -> str:
    if at_least < metrics.SMALLEST_STORE_CLASS:
        return f"<{metrics.SMALLEST_STORE_CLASS}"
    return f"{at_least}" if at_least < 1024 else f"{at_least // 1024}K"


ROWS = {"percentiles": _percentile_rows, metrics.STORE_SIZES: _store_size_rows}


def _heads(cells: Cells) -> list[Json]:
    """What tells cells apart: columns of their own, and in "panel" all other labels that differ."""
    series = _series(cells)
    told = [axis for axis in _differing(cells) if axis not in COLUMNS and axis != series]
    return [_head(runs[0], told, series) for runs in cells]


def _differing(cells: Cells) -> list[str]:
    labels = [runs[0].labels for runs in cells]
    axes = dict.fromkeys(axis for one in labels for axis in one)
    return [axis for axis in axes if len({one.get(axis) for one in labels}) > 1]


def _series(cells: Cells) -> str:
    """What a line or a bar stands for: an index, or, of one index, where its parts lie."""
    one_index = len({runs[0].record["index"] for runs in cells}) == 1
    return PLACEMENT if one_index and PLACEMENT in _differing(cells) else INDEX


def _head(run: Run, told: Sequence[str], series: str) -> Json:
    labels = run.labels
    name = run.record["index"] if series == INDEX else labels[series]
    keys, workload = labels.get("keys"), labels.get("workload", "")
    # A word speaks for itself, a number does not.
    words = (
        labels[axis] if labels[axis].isalpha() else f"{axis.replace('_', ' ')} {labels[axis]}"
        for axis in told
        if axis in labels
    )
    return {
        "index": name,
        "name": name,
        "medium": labels.get("medium", "none"),
        "workload": f"{workload}, {keys}" if keys else workload,
        "panel": ", ".join(words),
        "threads": run.record["threads"],
    }


def _panel(row: Json) -> str:
    return ", ".join(filter(None, (row["workload"], row["panel"])))


def _panels(rows: Rows) -> list[str]:
    """Names the rows' panels, and lists the names."""
    for row in rows:
        row["workload"] = _panel(row)
    return list(dict.fromkeys(row["workload"] for row in rows))
