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

THROUGHPUT, FUNCTION_TIME = "throughput", "function_time"
FLAME = "flame"  # a flame graph per cell
SMALLEST_STORE_CLASS = 64  # bytes; stores of fewer are one class
STORE_SIZES = "store-sizes"  # the shares of what each part of a pool was given, by size of store
DRAWINGS = ("threads", "workloads", "percentiles", STORE_SIZES, FLAME)  # besides bars


@dataclass(frozen=True)
class Metric:
    title: str
    more_is_better: bool = False


_LATENCIES = {
    "mean": "mean latency", "p50": "median latency", "p90": "latency, p90", "p99": "latency, p99",
    "p999": "latency, p99.9",
    "p9999": "latency, p99.99", "max": "longest latency",
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
# Of one part of a pool whose parts were placed: a key of its ratios, or of those that are computed
# as the scripts of pmidio do.
_PARTS = {
    "part_ewr": (("ratios", "ewr"), "EWR"),
    "part_ebr_read": (("ratios", "ebr_read"), "EBR of reads"),
    "part_ebr_write": (("ratios", "ebr_write"), "EBR of writes"),
    "part_published_ewr": (("published", "ewr"), "media bytes over controller bytes, written"),
    "part_published_ebr_read": (("published", "ebr_read"), "EBR of reads at the media"),
    "part_published_ebr_write": (("published", "ebr_write"), "EBR of writes at the media"),
}
# Of what was stored into a part, the share of stores of so many bytes up to twice as many.
_STORE_SHARES = {
    f"part_store_share_{size}": (size, f"share of stores of {size} to {2 * size - 1} B")
    for size in (64, 128, 256, 512, 1024, 2048, 4096)
}
METRICS = {
    THROUGHPUT: Metric("operations per second", more_is_better=True),
    FUNCTION_TIME: Metric("time per operation"),
    **{name: Metric(title) for name, title in {**_LATENCIES, **_MEMORY, **_COUNTED}.items()},
    **{name: Metric(title, more_is_better=True) for name, (_, title) in _PARTS.items()},
    **{name: Metric(title) for name, (_, title) in _STORE_SHARES.items()},
}


def value(name: str, runs: Sequence[Run], of: str = "") -> float | None:
    """The metric of one cell: the median over its runs; None where they do not have it.

    A latency is that of the operation `of`; without one, that of the most frequent operation. The
    time of a function is that of the function `of`; a ratio of a part is that of the part `of`.
    """
    found = samples(name, runs, of)
    return statistics.median(found) if found else None


def samples(name: str, runs: Sequence[Run], of: str = "") -> list[float]:
    """What `value` is the median of: numbers of repetitions, or of processes (see samples_of)."""
    if name == THROUGHPUT:
        return samples_of(runs)
    if name == FUNCTION_TIME:
        times = (_function_time(run, of) for run in runs)
        return [time for time in times if time is not None]
    return [one for run in runs for one in _values(name, run.record, of)]


def title(name: str, of: str = "") -> str:
    """For an axis: `latency, p99, of push`."""
    return METRICS[name].title + (f", of {of}" if of else "")


def is_latency(name: str) -> bool:
    return name in _LATENCIES


def is_memory(name: str) -> bool:
    """Counted, and not timed: natively, too."""
    return name in _MEMORY


def is_of_a_part(name: str) -> bool:
    return name in _PARTS or name in _STORE_SHARES


def text(name: str, number: float) -> str:
    """For reading: `4.21 M/s`, `310 ns`, `27.3`."""
    if name == THROUGHPUT:
        return rate(number)
    if name in _LATENCIES or name == FUNCTION_TIME:
        return nanoseconds(number)
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _values(name: str, record: Json, operation: str) -> list[float]:
    if name in _MEMORY:
        return [float(record["memory"][name])]
    found = []
    for repetition in record["repetitions"]:
        if name in _LATENCIES:
            timed = _operation(repetition["operations"], operation)
            number = latency(timed, name) if timed else None
        elif name in _PARTS:
            (kind, key), _ = _PARTS[name]
            parts = (repetition.get("simulation") or {}).get("parts") or {}
            number = parts.get(operation, {}).get(kind, {}).get(key)
        elif name in _STORE_SHARES:
            number = store_shares(repetition, operation).get(_STORE_SHARES[name][0])
        else:
            number = ((repetition.get("simulation") or {}).get("per_operation") or {}).get(name)
        if number is not None:
            found.append(float(number))
    return found


def store_shares(repetition: Json, part: str) -> dict[int, float]:
    """Least size of a store -> share of the bytes stored into the part. Empty: none are known."""
    parts = (repetition.get("simulation") or {}).get("parts") or {}
    sizes = parts.get(part, {}).get("store_sizes", [])
    stored = sum(one["bytes"] for one in sizes)
    return {one["at_least"]: one["bytes"] / stored for one in sizes} if stored else {}


def _operation(operations: Json, name: str) -> Json | None:
    """The one of that name; without a name the most frequent one. None where nothing did it."""
    if name:
        found: Json | None = operations.get(name)
        return found
    most: Json = max(operations.values(), key=lambda one: one["attempted"])
    return most


def _function_time(run: Run, function: str) -> float | None:
    """Nanoseconds in a function and what it calls, per operation of those that call it.

    None where no profile was kept, or of virtual time; 0 where the function was never called.
    """
    if not run.profile or not run.simulated:
        return None
    time, callers = 0, set[str]()
    attempted = {
        name: sum(r["operations"].get(name, {"attempted": 0})["attempted"] for r in repetitions)
        for repetitions in [run.record["repetitions"]]
        for name in {name for r in repetitions for name in r["operations"]}
    }
    for line in run.profile.splitlines():
        stack, _, weight = line.rpartition(" ")
        names = [frame.rpartition("::")[2] for frame in stack.split(";")]
        if function in names:
            time += int(weight)
            callers |= attempted.keys() & names
    count = sum(attempted[name] for name in callers)
    return time / 1000 / count if count else 0.0
