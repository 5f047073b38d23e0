"""The flags of `perdure bench` that a study may set, and how their values are written."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from perdure.errors import did_you_mean, one_of
from perdure.programs.target import target_remedy
from perdure.results.record import OPERATIONS
from perdure.types import Json

COUNT = re.compile(r"^\d+(\.\d+)?[KMGT]?i?B?$")
LATENCY = re.compile(r"^(off|every|sampled(:[1-9]\d*)?)$")
RANGE = re.compile(r"^\d+-\d+$")
MULTIPLIERS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

# name in a study -> kind of value, or the names to choose from
FLAGS: dict[str, str | tuple[str, ...]] = {
    "target": "target",
    "index": "text",
    "mode": ("dram", "pmem-volatile", "pmem-persist", "pmem-trans"),
    "plugin": "text",
    "option": "options",
    "workload": "text",
    "records": "count",
    "mix": "shares",
    "distribution": "text",
    "keys": "text",
    "key_kind": ("integer", "bytes", "slots"),
    "value_bytes": "count",
    "scan_count": "range",
    "load_order": ("random", "sequential"),
    "seed": "count",
    "threads": "count",
    "parallel": ("shared", "single", "parallel-saturated", "concurrent-contended", "numa"),
    "lock": ("none", "rw", "pthread", "pthread-pm", "pmemobj", "buckets"),
    "operations": "count",
    "seconds": "number",
    "warmup_seconds": "number",
    "repetitions": "count",
    "rate": "count",
    "arrivals": ("constant", "poisson"),
    "no_pin": "switch",
    "bulk_load": "switch",
    "verify": "switch",
    "check": "switch",
    "latency": "latency",
    "no_histograms": "switch",
    "export_histograms": "switch",
    "pool_bytes": "count",
    "heap": ("slab", "pmdk", "dram", "memkind"),
    "durability": ("adr", "eadr", "none"),
    "huge_pages": "switch",
    "transactions": ("auto", "on", "off"),
    "simd": ("sse2", "avx2", "avx512"),
    "flush": ("clwb", "clflushopt", "clflush"),
    # Of simulated targets only.
    "cpus": "text",
    "pool_node": "count",
    "dram_node": "count",
    "carrier": ("fibers", "threads"),
    "warm": "switch",
    "guard": "switch",
    "ablate": "ablations",
}
# The mechanisms of the model that a simulation can go without.
ABLATIONS = (
    "in-order-arrival", "lru-write-buffer", "no-directory", "no-prefetchers",
    "no-dependence-window", "no-read-modify-write", "no-address-cache", "no-wear-levelling",
)  # fmt: skip
AXES_BESIDE_FLAGS = ("medium", "workload")
ON_BY_DEFAULT = ("huge_pages", "warm")
SIMULATED_FLAGS = ("cpus", "pool_node", "dram_node", "carrier", "warm", "guard", "ablate")


@dataclass(frozen=True)
class Problem:
    what: str
    remedy: str


def check_flag(name: str, value: Any) -> Problem | None:
    """What is wrong with `name = value` in a study; the name is known to exist."""
    kind = FLAGS[name]
    if isinstance(kind, tuple):
        if value in kind:
            return None
        return Problem(f"unknown {name} '{value}'", did_you_mean(str(value), kind, one_of(kind)))
    return _CHECKS[kind](name, value)


def command_line(flags: Json) -> list[str]:
    """The flags as arguments, in a stable order."""
    arguments: list[str] = []
    for name in FLAGS:
        if name not in flags:
            continue
        value, flag = flags[name], "--" + name.replace("_", "-")
        if value is True:
            arguments.append(flag)
        elif name == "mix":
            arguments += [flag, ",".join(f"{op}={share:g}" for op, share in value.items())]
        elif name == "option":
            arguments += [a for key, number in value.items() for a in (flag, f"{key}={number}")]
        elif name in ON_BY_DEFAULT and value is False:
            arguments.append("--no-" + flag.removeprefix("--"))
        elif value is not False:
            arguments += [flag, str(value)]
    return arguments


def count_of(value: int | str) -> int:
    """10_000 or "10K" or "1.5M" (decimal multiples) as a number."""
    if isinstance(value, int):
        return value
    match = re.match(r"^([\d.]+)([KMGT]?)", value)
    assert match, value
    return round(float(match.group(1)) * MULTIPLIERS[match.group(2)])


def scaled(flags: Json, factor: float) -> Json:
    """The flags with records and operations multiplied, to at least one each."""
    sized = {n: count_of(flags[n]) for n in ("records", "operations") if n in flags}
    return flags | {n: max(1, round(count * factor)) for n, count in sized.items()}


def _text(name: str, value: Any) -> Problem | None:
    if isinstance(value, str) and value:
        return None
    return Problem(f"{name} must be a name, not {value!r}", f'write {name} = "..."')


def _target(name: str, value: Any) -> Problem | None:
    if value == "native" or isinstance(value, str) and re.fullmatch(r"sim:.+", value):
        return None
    return Problem(f"unknown {name} {value!r}", target_remedy(value))


def _ablations(_name: str, value: Any) -> Problem | None:
    given = [one.strip() for one in value.split(",")] if isinstance(value, str) else [value]
    wrong = _first(str(one) for one in given if one not in ABLATIONS)
    if wrong is None:
        return None
    return Problem(
        f"unknown mechanism '{wrong}'", did_you_mean(wrong, ABLATIONS, one_of(ABLATIONS))
    )


def _count(name: str, value: Any) -> Problem | None:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return None
    if isinstance(value, str) and COUNT.match(value):
        return None
    return Problem(f"{name} must be a count, not {value!r}", 'write 10000 or "10K"')


def _range(name: str, value: Any) -> Problem | None:
    if _count(name, value) is None or (isinstance(value, str) and RANGE.match(value)):
        return None
    return Problem(f"{name} must be a count or a range, not {value!r}", 'write 100 or "1-100"')


def _latency(name: str, value: Any) -> Problem | None:
    if isinstance(value, str) and LATENCY.match(value):
        return None
    return Problem(f"unknown {name} {value!r}", 'write "sampled", "sampled:1000", "every" or "off"')


def _number(name: str, value: Any) -> Problem | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf:
        return None
    return Problem(f"{name} must be a number of at least 0, not {value!r}", "write 0.5")


def _switch(name: str, value: Any) -> Problem | None:
    return None if isinstance(value, bool) else Problem(f"{name} must be true or false", "mend it")


def _shares(name: str, value: Any) -> Problem | None:
    if not isinstance(value, dict) or not value:
        return Problem(f"{name} must be a table of shares", "write { lookup = 0.9, insert = 0.1 }")
    unknown = _first(op for op in value if op not in OPERATIONS)
    if unknown is not None:
        return Problem(
            f"unknown operation '{unknown}'", did_you_mean(unknown, OPERATIONS, one_of(OPERATIONS))
        )
    if not all(_is_share(share) for share in value.values()):
        return Problem(
            f"the shares of {name} must be numbers from 0 to 1", "write { lookup = 1.0 }"
        )
    total = sum(value.values())
    if abs(total - 1) > 1e-9:
        return Problem(f"the shares of {name} add up to {total:g}, not 1", "mend the shares")
    return None


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _options(name: str, value: Any) -> Problem | None:
    if isinstance(value, dict) and all(type(v) is int for v in value.values()):
        return None
    return Problem(f"{name} must be a table of numbers", "write { leaf_entries = 64 }")


def _first(names: Iterable[str]) -> str | None:
    return next(iter(names), None)


_CHECKS = {
    "target": _target,
    "ablations": _ablations,
    "text": _text,
    "count": _count,
    "range": _range,
    "number": _number,
    "latency": _latency,
    "switch": _switch,
    "shares": _shares,
    "options": _options,
}
