"""The report: one HTML file that needs no network: every figure's drawing, data and command."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from perdure import __version__
from perdure.errors import InputError
from perdure.format import plain, rate, size
from perdure.programs import outputs
from perdure.report import plots, simulated_section, study_section
from perdure.report.plots import Palette
from perdure.results import query, record, schemas, stats
from perdure.results.query import Cell, Results
from perdure.results.record import Run

KIND_TITLES = {
    "integer": "8-byte integer keys",
    "bytes": "Byte-string keys",
    "slots": "8-byte integer keys, values in 128-byte slots",
}
# A range of fewer holds the true median less often than 95 times in 100.
FEW_SAMPLES = 6
WIDE_DISPERSION = 0.15
LEAST_INTERFERENCE = 0.05  # cores, on average over the repetitions


@dataclass(frozen=True)
class Figure:
    """A drawing with what is needed to check it and to make it again."""

    identifier: str
    title: str
    caption: str
    svg: str
    columns: list[str]
    rows: list[list[str]]
    csv_uri: str
    svg_uri: str


def write(source: Path, runs: list[Run], path: Path) -> None:
    """Draws the report of `runs`, which were read from the results directory or file `source`."""
    template = _environment().get_template("report.html.j2")
    try:
        page = template.render(_page(source, runs))
    except jinja2.UndefinedError as error:  # only of documents without a schema
        raise InputError(
            f"a document there is damaged, or of another version ({error})", where=str(source),
            remedy=simulated_section.AGAIN,
        ) from error  # fmt: skip
    outputs.write(path, page)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("perdure.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["rate"] = rate
    environment.filters["percent"] = lambda share: f"{share * 100:.1f} %"
    return environment


def _page(source: Path, runs: list[Run]) -> dict[str, Any]:
    """What was measured and what was simulated, apart: they never share a table or an axis."""
    measured = [run for run in runs if not run.simulated]
    simulated = [run for run in runs if run.simulated]
    quick = any(run.quick for run in runs)
    own = (source if source.is_dir() else source.parent) / simulated_section.FOLDER
    if source.is_dir() and record.read_manifest(own) and record.cell_files(own, quick=quick):
        there = record.manifest_file(own, quick=quick)
        wanted = there is not None and there.name == record.QUICK_MANIFEST
        simulated += record.load(own, quick=wanted)
    manifest = record.read_manifest(source, quick=quick) or record.read_manifest(own, quick=quick)
    parts = {
        "study": study_section.section(manifest, [*measured, *simulated], _figure),
        "simulated": simulated_section.section(source, simulated, _figure, quick=quick),
        "quick": record.QUICK_BANNER if any(r.quick for r in (*runs, *simulated)) else "",
    }
    if measured:
        return _context(source, query.read(measured), quick) | parts
    return _head(source, simulated, quick) | {"cells": []} | parts


def _head(source: Path, runs: list[Run], quick: bool) -> dict[str, Any]:
    manifest = record.read_manifest(source, quick=quick)
    return {
        "title": manifest.get("title") or f"{runs[0].record['index']} and others",
        "description": manifest.get("description", ""),
        "version": __version__,
        "command": study_section.command(manifest),
        "targets": sorted({run.record["target"] for run in runs}),
        "process_count": len(runs),
        "cell_count": len({json.dumps(run.labels, sort_keys=True) for run in runs}),
        "record_counts": [f"{n:,}" for n in sorted({int(r.record["records"]) for r in runs})],
        "environments": [],
        "memory": None,
        "glossary": GLOSSARY,
    }


def _context(source: Path, data: Results, quick: bool) -> dict[str, Any]:
    colours = plots.palette(list(dict.fromkeys((c.index, c.index_class) for c in data.cells)))
    # A study with figures of its own says what belongs together; ours would mix it.
    kinds = [] if record.read_manifest(source, quick=quick).get("figures") else _kinds(data)
    leaders = [] if quick else [one for kind in _kinds(data) for one in _leaders(data, kind)]
    return {
        **_head(source, data.runs, quick),
        "overviews": [_overview(data, kind, quick) for kind in _kinds(data)],
        "leaders": leaders,
        "ratio_intervals": ", ".join(
            dict.fromkeys(a["interval_name"] for one in leaders for a in one["against"] if a)
        ),
        "intervals": stats.names(cell.throughput for cell in data.cells),
        "environments": _environments(data),
        "sections": [(KIND_TITLES[kind], _figures(data, kind, colours)) for kind in kinds],
        "memory": _memory_figure(data) if kinds else None,
        "cells": data.cells,
        "cell_rows": [_cell_row(cell) for cell in data.cells],
        "quality": _quality(source, data),
    }


def _kinds(data: Results) -> list[str]:
    present = {cell.key_kind for cell in data.cells}
    return [kind for kind in KIND_TITLES if kind in present]


def _workloads(cells: Iterable[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.workload for cell in cells))


def _of_kind(data: Results, kind: str) -> list[Cell]:
    return [cell for cell in data.cells if cell.key_kind == kind]


def _overview(data: Results, kind: str, quick: bool) -> dict[str, Any]:
    """Throughput at the most threads: a line per index and medium, a column per workload.

    Bars in the table are relative to the largest median of the column; whoever shares its first
    place is bold, in a quick run nobody. The harness alone (`null`) is left out, because it
    measures what is not an index.
    """
    cells = [cell for cell in _of_kind(data, kind) if cell.index_class != "harness"]
    threads = max((cell.threads for cell in cells), default=1)
    cells = [cell for cell in cells if cell.threads == threads]
    workloads = _workloads(cells)
    best = {w: max(c.throughput.value for c in cells if c.workload == w) for w in workloads}
    first = set[int]() if quick else {c.number for w in workloads for c in _fastest(
        [c for c in cells if c.workload == w])}  # fmt: skip
    lines: dict[str, dict[str, Any]] = {}
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
    }


def _leaders(data: Results, kind: str) -> Iterable[dict[str, Any]]:
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
    tied = stats.tied_for_best([cell.samples for cell in there])
    first = [cell for cell, is_first in zip(there, tied, strict=True) if is_first]
    return sorted(first, key=lambda cell: -cell.throughput.value)


def _against(leader: Cell, others: list[Cell]) -> dict[str, Any] | None:
    if not others or min(others[0].samples + leader.samples) <= 0:
        return None
    other = others[0]
    ratio = stats.ratio_interval(other.samples, leader.samples)
    fewest = min(len(other.samples), len(leader.samples))
    verdict = stats.verdict(ratio, stats.THRESHOLD, samples=fewest)
    return {
        "name": other.name,
        "tied": [one.name for one in others[1:]],
        "interval_name": ratio.name,
        "ratio": _short(ratio.value),
        "interval": f"{_short(ratio.low)} to {_short(ratio.high)}",
        "verdict": str(verdict),
    }


def _short(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def _figures(data: Results, kind: str, colours: Palette) -> list[Figure]:
    cells = _of_kind(data, kind)
    # The harness is orders of magnitude faster: it would flatten every other line.
    cells = [cell for cell in cells if cell.index_class != "harness"] or cells
    figures = [_throughput_figure(kind, cells)]
    if len({cell.threads for cell in cells}) > 1:
        figures.append(_scaling_figure(kind, cells, colours))
    latency = _latency_figure(data, kind, cells, colours)
    return [*figures, latency] if latency else figures


def _throughput_figure(kind: str, cells: list[Cell]) -> Figure:
    rows = [_row(cell) for cell in cells]
    names = list(dict.fromkeys(cell.name for cell in cells))
    return _figure(
        f"throughput-{kind}",
        "Throughput by operation",
        "Successful operations per second: the median of the repetitions with its interval "
        f"({_interval_names(cells)}). The axis is logarithmic.",
        plots.throughput(rows, _workloads(cells), names),
        rows,
    )


def _interval_names(cells: list[Cell]) -> str:
    return stats.names(cell.throughput for cell in cells)


def _scaling_figure(kind: str, cells: list[Cell], colours: Palette) -> Figure:
    rows = [_row(cell) for cell in cells]
    return _figure(
        f"scaling-{kind}",
        "Scaling with threads",
        f"The same medians over the number of threads; bars are intervals "
        f"({_interval_names(cells)}). A line twice as high at twice the threads scales perfectly.",
        plots.scaling(rows, _workloads(cells), colours),
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
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in query.latencies(data):
        cell = by_variant.get(row["variant"])
        if cell is None or row["p50"] is None:
            continue
        key = (cell.name, row["operation"])
        share = parts[row["variant"], row["operation"]] / max(
            1, sum(n for (variant, _), n in parts.items() if variant == row["variant"])
        )
        if key not in found or share > found[key]["share"]:
            found[key] = {**row, "cell": cell, "share": share}
    rows = [
        {"index": f["cell"].index, "operation": f["operation"], "percentile": label,
         "latency_ns": f[p], "workload": f["cell"].workload, "medium": f["cell"].medium,
         "threads": threads, "cell": f["cell"].number}
        for f in found.values() for p, label in query.PERCENTILES.items() if f[p]
    ]  # fmt: skip
    if not rows:
        return None
    order = [op for op in record.OPERATIONS if any(row["operation"] == op for row in rows)]
    medium = f", pools on {media[0]}" if media else ""
    return _figure(
        f"latency-{kind}",
        f"Latency by percentile, {threads} thread{'' if threads == 1 else 's'}{medium}",
        "Per operation, from the workload in which it has the largest part; medians over the "
        "repetitions. The steeper to the right, the worse the tail.",
        plots.latency(rows, list(query.PERCENTILES.values()), order, colours),
        rows,
    )


def _memory_figure(data: Results) -> Figure | None:
    rows = []
    for row in query.memory(data):
        if row["class"] not in ("persistent", "in_memory"):
            continue
        name = row["index"] if row["medium"] == "none" else f"{row['index']} · {row['medium']}"
        for where, column in (("PM", "pm"), ("DRAM", "dram")):
            rows.append(
                {"name": name, "key_kind": KIND_TITLES[row["key_kind"]], "where": where,
                 "bytes": row[column] or 0.0, "records": row["records"],
                 "load_ops_s": row["load_ops_s"]}
            )  # fmt: skip
    if not any(row["bytes"] for row in rows):
        return None
    return _figure(
        "memory",
        "Memory per record",
        "Bytes reserved after the load, in the pool (PM) and beside it (DRAM), divided by the "
        "records. Small indexes pay for whole chunks, so compare figures of one size only.",
        plots.memory(rows, list(dict.fromkeys(str(row["name"]) for row in rows))),
        rows,
    )


def _row(cell: Cell) -> dict[str, Any]:
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


def _figure(
    identifier: str, title: str, caption: str, svg: str, rows: list[dict[str, Any]]
) -> Figure:
    columns = [name for name in rows[0] if name != "name"] if "index" in rows[0] else list(rows[0])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([row[name] for name in columns] for row in rows)
    return Figure(
        identifier=identifier,
        title=title,
        caption=caption,
        svg=svg,
        columns=columns,
        rows=[[_text(row[name]) for name in columns] for row in rows],
        csv_uri=_data_uri("text/csv", text.getvalue()),
        svg_uri=_data_uri("image/svg+xml", svg),
    )


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4g}"
    return str(value)


def _data_uri(kind: str, text: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(text.encode()).decode()}"


def _cell_row(cell: Cell) -> dict[str, Any]:
    return {
        "number": cell.number,
        "labels": [cell.name, cell.key_kind, cell.workload, str(cell.threads)],
        "rate": rate(cell.throughput.value),
        "low": rate(cell.throughput.low),
        "high": rate(cell.throughput.high),
        "interval": cell.throughput.name,
        "samples": len(cell.samples),
        "dispersion": f"{stats.dispersion(cell.samples) * 100:.1f} %",
        "wide": stats.dispersion(cell.samples) > WIDE_DISPERSION,
        "command": cell.command,
    }


def _environments(data: Results) -> list[dict[str, Any]]:
    """One entry per distinct host and build, which a sound comparison has only one of."""
    entries: dict[str, dict[str, Any]] = {}
    for run in data.runs:
        build, host = run.record["build"], dict(run.record["environment"])
        # Both are of the run: the medium stands with its cell, the rest under the quality.
        for of_run in ("medium", "interference"):
            host.pop(of_run, None)
        entries.setdefault(
            json.dumps([host, build], sort_keys=True),
            {"host": _readable(host), "build": _readable(build)},
        )
    return list(entries.values())


def _readable(table: dict[str, Any]) -> list[tuple[str, str]]:
    formats: dict[str, Callable[[Any], str]] = {"memory_bytes": size}
    names = {"memory_bytes": "memory", "pmdk_variables": "PMDK variables"}
    return [
        (names.get(name, name.replace("_", " ")), formats.get(name, plain)(value))
        for name, value in table.items()
        if value not in (None, "", {}, [])
    ]


def _interference(data: Results) -> str:
    """What else used the machine at worst, as far as the runs have recorded it."""
    found = [run.record["environment"].get("interference") or {} for run in data.runs]
    others = max((float(one.get("other_cores") or 0) for one in found), default=0.0)
    stolen = max((float(one.get("steal_cores") or 0) for one in found), default=0.0)
    told = sum(bool(one) for one in found)
    if max(others, stolen) < LEAST_INTERFERENCE:
        return ""
    return (
        f"of {told} runs that recorded it, the worst shared the machine with other processes on "
        f"{others:.2f} cores, and the hypervisor took {stolen:.2f} (steal time)"
    )


def _quality(source: Path, data: Results) -> dict[str, Any]:
    spread = sorted(data.cells, key=lambda cell: -stats.dispersion(cell.samples))
    odd = [(cell, stats.outliers(cell.samples)) for cell in data.cells]
    failed = [r for r in query.operations(data) if r["failed"] and r["class"] != "harness"]
    failures = _failures(source, data.runs[0].quick)
    return {
        "warnings": query.warnings(data),
        "wide": [
            (c, f"{stats.dispersion(c.samples) * 100:.0f} %")
            for c in spread
            if stats.dispersion(c.samples) > WIDE_DISPERSION
        ],
        "wide_limit": f"{WIDE_DISPERSION * 100:.0f} %",
        "median_dispersion": stats.median_interval(
            [stats.dispersion(c.samples) for c in data.cells]
        ).value,
        "outliers": [(cell, len(found)) for cell, found in odd if found],
        "few": sum(len(cell.samples) < FEW_SAMPLES for cell in data.cells),
        "few_limit": FEW_SAMPLES,
        "failed_operations": sum(row["failed"] for row in failed),
        "failed_operation_kinds": sorted({row["operation"] for row in failed}),
        "harness": _harness(data),
        "interference": _interference(data),
        "failures": [schemas.read(file, "failed cell", "remove it") for file in failures],
    }


def _failures(source: Path, quick: bool) -> list[Path]:
    """What failed of this run of the study: a quick run beside it has failures of its own."""
    if not source.is_dir():
        return []
    wanted = record.read_manifest(source, quick=quick).get("cells")
    files = sorted((source / "failed").glob("*.json"))
    return [file for file in files if wanted is None or file.stem in wanted]


def _harness(data: Results) -> list[str]:
    """What an operation costs before any index does anything, per kind of key and threads."""
    costs: dict[tuple[str, int], list[float]] = {}
    for cell in data.cells:
        if cell.index_class == "harness" and cell.throughput.value > 0:
            cost = 1e9 * cell.threads / cell.throughput.value
            costs.setdefault((cell.key_kind, cell.threads), []).append(cost)
    return [
        f"{min(found):.0f} to {max(found):.0f} ns ({kind} keys, "
        f"{threads} thread{'' if threads == 1 else 's'})"
        for (kind, threads), found in costs.items()
    ]


GLOSSARY = [
    ("cell", "One configuration of a study, measured by a process of its own."),
    ("repetition", "One measurement of a cell. Repetitions of all cells are shuffled together."),
    ("95 %", "An interval of the median: resampling moves the median within it, and it holds "
     "the true one 95 times in 100."),
    ("range of 3", "From the smallest to the largest of so many samples, too few for 95 %. It "
     "holds the true median 50 times in 100 with 2 samples, 75 with 3, 88 with 4, 94 with 5."),
    ("fastest, bold", "The largest median, and all that `perdure compare` does not call slower: "
     "they share the place."),
    ("dispersion", "(largest - smallest) / median over a cell's samples."),
    ("outlier", "A sample more than 3.5 scaled median absolute deviations off. Kept, and counted."),
    ("measured, native", "Timed on the machine named above, not simulated."),
    ("simulated, sim:…", "Counted in the virtual time of a model of that server."),
    ("measured by others", "Published figures of real servers; the source stands beside them."),
    ("persistent", "An index that lives in a pool and recovers from it."),
    ("in memory", "A reference in DRAM. It keeps nothing over a restart."),
    ("on disk", "A storage engine with files of its own and durable commits."),
    ("tmpfs, file", "Where the pool lies: in memory (/dev/shm), or in a file on a disk. A mapped "
     "file is cached by the kernel: flushes reach memory and not the disk."),
    ("adr, eadr", "What survives a power cut: what was flushed (adr), or all that is visible "
     "(eadr)."),
    ("p50 … p99.99", "Half, …, 99.99 % of the operations were at most that slow. Measured ones "
     "rest on those that were timed, by default one in 256, drawn at random; what too few of them "
     "tell is left out."),
    ("PM, DRAM", "Bytes in the pool, and bytes allocated beside it."),
]  # fmt: skip
