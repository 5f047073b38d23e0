"""What a figure or a claim of a study may be about: one number of a cell's runs.

A metric's name ends in its unit, as in a run record: `pm_bytes_per_record`. Counters per operation
exist for simulated cells only.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from perdure.format import nanoseconds, rate
from perdure.results.record import Run, latency, samples_of
from perdure.types import Json

THROUGHPUT = "throughput"
DRAWINGS = ("threads", "percentiles")  # the x axes that a figure may have


@dataclass(frozen=True)
class Metric:
    title: str
    more_is_better: bool = False


_LATENCIES = {
    "p50": "median latency", "p90": "latency, p90", "p99": "latency, p99",
    "p999": "latency, p99.9", "p9999": "latency, p99.99", "max": "longest latency",
}  # fmt: skip
_MEMORY = {
    "pm_bytes_per_record": "PM bytes per record",
    "dram_bytes_per_record": "DRAM bytes per record",
}
_COUNTED = {
    "llc_misses": "LLC misses per operation",
    "flushes": "flushes per operation",
    "fences": "fences per operation",
    "pm_controller_read_bytes": "PM bytes read per operation",
    "pm_controller_write_bytes": "PM bytes written per operation",
    "pm_media_read_bytes": "media bytes read per operation",
    "pm_media_write_bytes": "media bytes written per operation",
    "transaction_aborts": "aborted transactions per operation",
}
METRICS = {
    THROUGHPUT: Metric("operations per second", more_is_better=True),
    **{name: Metric(title) for name, title in {**_LATENCIES, **_MEMORY, **_COUNTED}.items()},
}


def value(name: str, runs: Sequence[Run]) -> float | None:
    """The metric of one cell: the median over its runs; None where they do not have it."""
    found = samples(name, runs)
    return statistics.median(found) if found else None


def samples(name: str, runs: Sequence[Run]) -> list[float]:
    """What `value` is the median of: numbers of repetitions, or of processes (see samples_of)."""
    if name == THROUGHPUT:
        return samples_of(runs)
    return [one for run in runs for one in _values(name, run.record)]


def text(name: str, number: float) -> str:
    """For reading: `4.21 M/s`, `310 ns`, `27.3`."""
    if name == THROUGHPUT:
        return rate(number)
    if name in _LATENCIES:
        return nanoseconds(number)
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _values(name: str, record: Json) -> list[float]:
    if name in _MEMORY:
        return [float(record["memory"][name])]
    found = []
    for repetition in record["repetitions"]:
        if name in _LATENCIES:
            # If a workload mixes operations, the most frequent one counts.
            most = max(repetition["operations"].values(), key=lambda o: o["attempted"])
            number = latency(most, name)
        else:
            number = ((repetition.get("simulation") or {}).get("per_operation") or {}).get(name)
        if number is not None:
            found.append(float(number))
    return found
