"""What a reader should know of how good the figures are: spread, failures, machine, warnings."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perdure.format import plain, rate, size
from perdure.results import query, record, schemas, stats
from perdure.results.query import Cell, Results
from perdure.study import repetitions
from perdure.types import Json

# A range of fewer holds the true median less often than 95 times in 100.
FEW_SAMPLES = 6
WIDE_DISPERSION = 0.15
STRIP_SPAN = 0.5  # of the median, to each side
LEAST_INTERFERENCE = 0.05  # cores, on average over the repetitions


def cell_row(cell: Cell) -> Json:
    return {
        "number": cell.number,
        "variant": cell.variant,
        "labels": [cell.name, cell.key_kind, cell.workload, str(cell.threads)],
        "rate": rate(cell.throughput.value),
        "low": rate(cell.throughput.low),
        "high": rate(cell.throughput.high),
        "interval": cell.throughput.name,
        "samples": len(cell.samples),
        "strip": strip(cell),
        "dispersion": percent(stats.dispersion(cell.samples), 1),
        "wide": stats.dispersion(cell.samples) > WIDE_DISPERSION,
        "command": cell.command,
    }


def percent(share: float, digits: int = 0) -> str:
    """A spread relative to the median; infinite where that is 0."""
    return f"{share * 100:.{digits}f} %" if math.isfinite(share) else "∞ (median 0)"


def strip(cell: Cell) -> str:
    """Each sample as a dot, relative to the median; those farther off than STRIP_SPAN as triangles
    at the end of the axis. Empty without a successful operation."""
    middle = cell.throughput.value
    if middle <= 0:
        return ""

    def place(value: float) -> float:
        share = min(max(value / middle - 1, -STRIP_SPAN), STRIP_SPAN) / STRIP_SPAN
        return round(65 + 58 * share, 1)

    low, high = place(cell.throughput.low), place(cell.throughput.high)
    marks = [
        f'<rect x="{low}" y="2" width="{max(high - low, 0.5):.1f}" height="12" opacity=".18"/>',
        '<path d="M65 1V15" stroke="currentColor"/>',
    ]
    for value in cell.samples:
        x, off = place(value), value / middle - 1
        if abs(off) > STRIP_SPAN:
            tip = 5 if off > 0 else -5
            marks.append(f'<path d="M{x} 4V12L{x + tip} 8Z"/>')
        else:
            marks.append(f'<circle cx="{x}" cy="8" r="2.4" opacity=".6"/>')
    label = f"{len(cell.samples)} samples, {rate(min(cell.samples))} to {rate(max(cell.samples))}"
    return (
        f'<svg class="strip" viewBox="0 0 130 16" fill="currentColor" role="img" '
        f'aria-label="{label}">{"".join(marks)}</svg>'
    )


def environments(data: Results) -> list[Json]:
    """One entry per distinct host and build, which a sound comparison has only one of."""
    entries: dict[str, Json] = {}
    for run in data.runs:
        build, host = run.record["build"], dict(run.record["environment"])
        # Both belong to the run: its cell shows the medium, the quality section the interference.
        for of_run in ("medium", "interference"):
            host.pop(of_run, None)
        entries.setdefault(
            json.dumps([host, build], sort_keys=True),
            {"host": _readable(host), "build": _readable(build)},
        )
    return list(entries.values())


def _readable(table: Json) -> list[tuple[str, str]]:
    formats: dict[str, Callable[[Any], str]] = {"memory_bytes": size}
    names = {"memory_bytes": "memory", "pmdk_variables": "PMDK variables"}
    return [
        (names.get(name, name.replace("_", " ")), formats.get(name, plain)(value))
        for name, value in table.items()
        if value not in (None, "", {}, [])
    ]


def interference(data: Results) -> str:
    """The most that others used of the machine, as far as the runs recorded it."""
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


def quality(source: Path, data: Results) -> Json:
    spread = sorted(data.cells, key=lambda cell: -stats.dispersion(cell.samples))
    odd = [(cell, stats.outliers(cell.samples)) for cell in data.cells]
    failed = [r for r in query.operations(data) if r["failed"] and r["class"] != "harness"]
    failures = _failures(source, data.runs[0].quick)
    return {
        "warnings": query.warnings(data),
        "wide": [
            (c, percent(stats.dispersion(c.samples)))
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
        "interference": interference(data),
        "repeated": repeated(record.read_manifest(source, quick=data.runs[0].quick)),
        "failures": [schemas.read(file, "failed cell", "remove it") for file in failures],
    }


def repeated(manifest: Json) -> Json | None:
    """How automatic repetitions ended; None where the study says how many there are."""
    auto = manifest.get("auto")
    if not auto:
        return None
    ends = [one["ended_by"] for one in auto["cells"]]
    return {
        "width": f"{auto['interval_width'] * 100:g} %",
        "most": auto["most_repetitions"],
        "narrow": ends.count(repetitions.NARROW),
        "wide": [
            (" ".join(v for v in one["labels"].values() if v != "none"),
             percent(math.inf if one["relative_width"] is None else one["relative_width"], 1))
            for one in auto["cells"] if one["ended_by"] == repetitions.BUDGET
        ],
    }  # fmt: skip


def _failures(source: Path, quick: bool) -> list[Path]:
    """The failed cells of this run of the study; a quick run beside it has its own."""
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
