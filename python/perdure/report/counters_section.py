"""The report's section about what the processor counted in measured runs, per operation."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from perdure.results import query
from perdure.results.query import Cell, Results
from perdure.results.record import Run
from perdure.types import Json

# Heading -> name in the run record; "instructions per cycle" is made of the first two.
COUNTERS = {
    "cycles": "cycles", "instructions": "instructions", "LLC misses": "llc_misses",
    "branch misses": "branch_misses", "dTLB misses": "dtlb_misses", "page faults": "page_faults",
}  # fmt: skip
PER_CYCLE = "instructions per cycle"
NOT_ASKED = "the records are of a version that did not count, or of replays"
SMALLEST = 0.0005  # what is less is shown as 0


def section(data: Results) -> Json:
    """The context of the section: without lines where nothing was counted, and then with the
    reason. A line for each cell at the most threads of its workload."""
    by_cell: dict[str, list[Run]] = {}
    for run in data.runs:
        by_cell.setdefault(query.variant(run), []).append(run)
    cells = [cell for cell in data.cells if cell.index_class != "harness"] or data.cells
    found = [(cell, _medians(by_cell[cell.variant])) for cell in _at_most_threads(cells)]
    kinds = len({cell.key_kind for cell, _ in found})
    headings = [name for name in (*COUNTERS, PER_CYCLE) if any(name in own for _, own in found)]
    return {
        "headings": headings,
        "lines": [
            {
                "name": cell.name,
                "workload": _where(cell, kinds),
                "number": cell.number,
                "values": [_text(own.get(name)) for name in headings],
            }
            for cell, own in found
            if own
        ],
        "missing": _missing(data.runs),
    }


def _where(cell: Cell, kinds: int) -> str:
    """`lookup, 2 threads`, with the kind of key where there are several."""
    threads = f"{cell.threads} thread{'' if cell.threads == 1 else 's'}"
    return ", ".join([cell.workload, *([cell.key_kind] if kinds > 1 else []), threads])


def _at_most_threads(cells: Sequence[Cell]) -> list[Cell]:
    most: dict[tuple[str, str], int] = {}
    for cell in cells:
        place = (cell.key_kind, cell.workload)
        most[place] = max(most.get(place, 0), cell.threads)
    return [cell for cell in cells if cell.threads == most[cell.key_kind, cell.workload]]


def _medians(runs: Sequence[Run]) -> dict[str, float]:
    """Heading -> median over the repetitions, of those that have the counter."""
    found: dict[str, list[float]] = {}
    for repetition in (one for run in runs for one in run.record["repetitions"]):
        counters = (repetition.get("hardware") or {}).get("counters") or {}
        attempted = sum(one["attempted"] for one in repetition["operations"].values())
        for heading, name in COUNTERS.items():
            if counters.get(name) is not None and attempted:
                found.setdefault(heading, []).append(counters[name] / attempted)
        if counters.get("cycles") and counters.get("instructions") is not None:
            ratio = counters["instructions"] / counters["cycles"]
            found.setdefault(PER_CYCLE, []).append(ratio)
    return {heading: statistics.median(values) for heading, values in found.items()}


def _missing(runs: Sequence[Run]) -> list[str]:
    """Why something was not counted, each reason once."""
    reasons: dict[str, None] = {}
    for repetition in (one for run in runs for one in run.record["repetitions"]):
        hardware = repetition.get("hardware")
        reason = hardware["missing"] if hardware else NOT_ASKED
        if reason:
            reasons[reason] = None
    return list(reasons)


def _text(value: float | None) -> str:
    if value is None:
        return "–"  # noqa: RUF001 (as elsewhere on the page)
    if value < SMALLEST:
        return "0"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
