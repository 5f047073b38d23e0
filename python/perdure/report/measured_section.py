"""The report's section about what was measured here: throughput, scaling, latency, memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perdure.format import rate
from perdure.report import looks, plots, timelines
from perdure.report.figure import Figure, Row, drawn
from perdure.report.looks import Palette
from perdure.report.verdict_matrix import MARKS, short
from perdure.results import naming, query, record, stats, verdicts
from perdure.results.query import Cell, Results
from perdure.types import Json

MOST_COLUMNS = 9  # of an overview, of 92 pixels each, beside a name in a page of 1280
KIND_TITLES = {
    "integer": "8-byte integer keys",
    "bytes": "Byte-string keys",
    "slots": "8-byte integer keys, values in 128-byte slots",
    "queue": "Queues",  # pushes and pops together
}


def section(data: Results, *, quick: bool, with_figures: bool) -> Json:
    """The context of the section. `with_figures` is false for a study with figures of its
    own, which decide what belongs together."""
    colours = looks.palette(list(dict.fromkeys((c.index, c.index_class) for c in data.cells)))
    kinds = [kind for kind in KIND_TITLES if any(cell.key_kind == kind for cell in data.cells)]
    found = [] if quick else [one for kind in kinds for one in leaders(data, kind)]
    intervals = (a["interval_name"] for one in found for a in one["against"] if a)
    figures = {kind: _figures(data, kind, colours) if with_figures else [] for kind in kinds}
    for kind in kinds:
        runs = [run for run in data.runs if (run.record["key_kind"] or "queue") == kind]
        over_time = timelines.figure(f"timeline-{kind}", runs, colours)
        figures[kind] += [over_time] if over_time else []
    return {
        "overviews": [overview(data, kind, quick=quick) for kind in kinds],
        "leaders": found,
        "ratio_intervals": ", ".join(dict.fromkeys(intervals)),
        "intervals": stats.names(cell.throughput for cell in data.cells),
        "sections": [(KIND_TITLES[kind], found) for kind, found in figures.items() if found],
        "memory": _memory_figure(data) if with_figures else None,
    }


def _workloads(cells: Iterable[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.workload for cell in cells))


def _of_kind(data: Results, kind: str) -> list[Cell]:
    return [cell for cell in data.cells if cell.key_kind == kind]


def overview(data: Results, kind: str, *, quick: bool) -> Json:
    """Throughput at the most threads: a line per index and medium, a column per workload; turned
    where so many columns are wider than a page.

    Bars in the table are relative to the largest median of the workload; whoever shares its first
    place is bold, except in a quick run. The harness (`null`) is left out, because it is no index.
    """
    cells = [cell for cell in _of_kind(data, kind) if cell.index_class != "harness"]
    threads = max((cell.threads for cell in cells), default=1)
    cells = [cell for cell in cells if cell.threads == threads]
    workloads = _workloads(cells)
    best = {w: max(c.throughput.value for c in cells if c.workload == w) for w in workloads}
    first = (
        set[int]()
        if quick
        else {c.number for w in workloads for c in _fastest([c for c in cells if c.workload == w])}
    )
    lines: dict[str, Json] = {}
    for cell in cells:
        line = lines.setdefault(
            cell.name, {"name": cell.name, "index_class": cell.index_class, "cells": {}}
        )
        share = cell.throughput.value / best[cell.workload] if best[cell.workload] else 0.0
        line["cells"][cell.workload] = {
            "rate": rate(cell.throughput.value),
            "share": round(share * 100, 1),
            "best": cell.number in first,
            "number": cell.number,
        }
    return {
        "title": KIND_TITLES[kind],
        "threads": threads,
        "workloads": workloads,
        "lines": list(lines.values()),
        "turned": len(workloads) > max(MOST_COLUMNS, len(lines)),
    }


def leaders(data: Results, kind: str) -> Iterable[Json]:
    """Per workload: the fastest recoverable index beside the fastest one of the other classes, and
    who shares their places."""
    cells = _of_kind(data, kind)
    threads = max((cell.threads for cell in cells), default=1)
    for workload in _workloads(cells):
        here = [c for c in cells if c.workload == workload and c.threads == threads]
        first = _fastest(here, "persistent")
        if not first:
            continue
        yield {
            "kind": KIND_TITLES[kind],
            "workload": workload,
            "first": first,
            "rate": rate(first[0].throughput.value),
            "against": [
                _against(first[0], _fastest(here, other)) for other in ("in_memory", "on_disk")
            ],
        }


def _fastest(cells: Sequence[Cell], index_class: str = "") -> list[Cell]:
    """Who shares the first place, the largest median first."""
    there = [cell for cell in cells if index_class in ("", cell.index_class)]
    tied = verdicts.tied_for_best([cell.side for cell in there])
    first = [cell for cell, is_first in zip(there, tied, strict=True) if is_first]
    return sorted(first, key=lambda cell: -cell.throughput.value)


def _against(leader: Cell, others: list[Cell]) -> Json | None:
    if not others or min(others[0].samples + leader.samples) <= 0:
        return None
    other = others[0]
    found = verdicts.judge(other.side, leader.side)
    ratio = found.ratio
    return {
        "name": other.name,
        "tied": [one.name for one in others[1:]],
        "interval_name": ratio.name,
        "ratio": short(ratio.value),
        "interval": f"{short(ratio.low)} to {short(ratio.high)}",
        "verdict": str(found.verdict),
        "mark": MARKS[found.verdict],
    }


def _figures(data: Results, kind: str, colours: Palette) -> list[Figure]:
    cells = _of_kind(data, kind)
    # The harness is orders of magnitude faster: it would flatten every other line.
    cells = [cell for cell in cells if cell.index_class != "harness"] or cells
    found = (
        _throughput_figure(kind, cells),
        _scaling_figure(kind, cells, colours),
        _latency_figure(data, kind, cells, colours),
    )
    return [figure for figure in found if figure]


def _throughput_figure(kind: str, cells: list[Cell]) -> Figure:
    rows = [_row(cell) for cell in cells]
    names = list(dict.fromkeys(cell.name for cell in cells))
    return drawn(
        f"throughput-{kind}",
        "Throughput by operation",
        "Successful operations per second: the median of the repetitions with its interval "
        f"({_interval_names(cells)}). The axis is logarithmic.",
        plots.throughput(rows, _workloads(cells), names),
        rows,
    )


def _interval_names(cells: list[Cell]) -> str:
    return stats.names(cell.throughput for cell in cells)


def _scaling_figure(kind: str, cells: list[Cell], colours: Palette) -> Figure | None:
    """Lines over threads. Of two numbers of threads lines would be a knot, so these become their
    ratio."""
    several = {
        key
        for key in ((c.name, c.workload) for c in cells)
        if len({c.threads for c in cells if (c.name, c.workload) == key}) > 1
    }
    cells = [c for c in cells if (c.name, c.workload) in several]
    threads = sorted({c.threads for c in cells})
    if len(threads) < 2:
        return None
    if len(threads) == 2:
        return _speedup_figure(kind, cells, threads[0], threads[1], colours)
    media = len({c.medium for c in cells if c.name != c.index}) > 1
    rows = [
        _row(cell)
        | {"panel": cell.workload, "axis": cell.labels.get("workload", "")}
        | {"dash": cell.medium if media else ""}
        for cell in cells
    ]
    return drawn(
        f"scaling-{kind}",
        "Scaling with threads",
        f"The same medians over the number of threads; bars are intervals "
        f"({_interval_names(cells)}). Both axes are logarithmic. A line twice as high at twice the "
        "threads scales perfectly.",
        plots.scaling(rows, colours),
        rows,
    )


def _speedup_figure(
    kind: str, cells: list[Cell], few: int, many: int, colours: Palette
) -> Figure | None:
    at = {(c.name, c.workload, c.threads): c for c in cells}
    rows, spans = [], []
    for cell in cells:
        before = at.get((cell.name, cell.workload, few))
        if cell.threads != many or before is None:
            continue
        ratio = verdicts.judge(before.side, cell.side).ratio
        if ratio.value:
            spans.append(ratio)
            rows.append(
                {
                    "index": cell.index,
                    "medium": cell.medium,
                    "name": cell.name,
                    "workload": cell.workload,
                    "speedup": ratio.value,
                    "low": ratio.low,
                    "high": ratio.high,
                    "interval": ratio.name,
                    "perfect": many / few,
                }
            )
    if not rows:
        return None
    return drawn(
        f"scaling-{kind}",
        f"Scaling from {few} to {many} threads",
        f"The ratio of the medians with its interval ({stats.names(spans)}). The dashed rule is "
        f"where throughput grows as the threads do, {many / few:g} times.",
        plots.speedup(rows, _workloads(cells), colours),
        rows,
    )


def _latency_figure(data: Results, kind: str, cells: list[Cell], colours: Palette) -> Figure | None:
    """Each operation from the workload in which it has the largest part, at the most threads."""
    threads = max(cell.threads for cell in cells)
    media = list(dict.fromkeys(cell.medium for cell in cells if cell.medium != "none"))
    by_variant = {
        cell.variant: cell
        for cell in cells
        if cell.threads == threads and cell.medium in ("none", *media[:1])
    }
    parts = {(row["variant"], row["operation"]): row["succeeded"] for row in query.operations(data)}
    found: dict[tuple[str, str, str], Json] = {}
    for row in query.latencies(data):
        cell = by_variant.get(row["variant"])
        if cell is None or row["p50"] is None:
            continue
        key = (cell.name, row["operation"], cell.told)
        share = parts[row["variant"], row["operation"]] / max(
            1, sum(n for (variant, _), n in parts.items() if variant == row["variant"])
        )
        if key not in found or share > found[key]["share"]:
            found[key] = {**row, "cell": cell, "share": share}
    known = (*record.OPERATIONS, *record.QUEUE_OPERATIONS)
    rows = [
        {
            "index": f["cell"].index,
            "axis": f["operation"],
            "panel": ", ".join(filter(None, (f["operation"], f["cell"].told))),
            "operation": f["operation"],
            "percentile": label,
            "latency_ns": f[p],
            "workload": f["cell"].workload,
            "medium": f["cell"].medium,
            "threads": threads,
            "cell": f["cell"].number,
        }
        for f in sorted(found.values(), key=lambda f: known.index(f["operation"]))
        for p, label in query.PERCENTILES.items()
        if f[p]
    ]
    if not rows:
        return None
    medium = f", pools on {media[0]}" if media else ""
    return drawn(
        f"latency-{kind}",
        f"Latency by percentile, {threads} thread{'' if threads == 1 else 's'}{medium}",
        "Per operation, from the workload in which it has the largest part; medians over the "
        "repetitions. The steeper to the right, the worse the tail.",
        plots.latency(rows, list(query.PERCENTILES.values()), colours),
        rows,
    )


def _memory_figure(data: Results) -> Figure | None:
    common = naming.common_medium([run.labels for run in data.runs])
    rows = []
    for row in query.memory(data):  # of value sizes, say, each has a panel
        if row["class"] not in ("persistent", "in_memory") or row["key_kind"] == "queue":
            continue
        name = naming.with_medium(row["index"], row["medium"], common)
        for where, column in (("PM", "pm"), ("DRAM", "dram")):
            rows.append(
                {
                    "name": name,
                    "key_kind": ", ".join(
                        filter(None, (KIND_TITLES[row["key_kind"]], row["told"]))
                    ),
                    "where": where,
                    "bytes": row[column] or 0.0,
                    "records": row["records"],
                    "load_ops_s": row["load_ops_s"],
                }
            )
    if not any(row["bytes"] for row in rows):
        return None
    return drawn(
        "memory",
        "Memory per record",
        "Bytes reserved after the load, in the pool (PM) and beside it (DRAM), divided by the "
        "records. Small indexes pay for whole chunks, so compare figures of one size only.",
        plots.memory(rows, list(dict.fromkeys(str(row["name"]) for row in rows))),
        rows,
    )


def _row(cell: Cell) -> Row:
    return {
        "index": cell.index,
        "medium": cell.medium,
        "name": cell.name,
        "workload": cell.workload,
        "threads": cell.threads,
        "throughput": cell.throughput.value,
        "low": cell.throughput.low,
        "high": cell.throughput.high,
        "interval": cell.throughput.name,
        "cell": cell.number,
    }
