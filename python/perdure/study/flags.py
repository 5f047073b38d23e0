"""The flags of `perdure bench` that a study may set, and how their values are written."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from perdure.errors import did_you_mean, one_of
from perdure.programs import catalogue
from perdure.programs.target import target_remedy
from perdure.results.record import OPERATIONS
from perdure.types import Json

COUNT = re.compile(r"^\d+(\.\d+)?[KMGT]?i?B?$")
LONGEST_COUNT = 32  # characters
LATENCY = re.compile(r"^(off|every|sampled(:[1-9]\d*)?)$")
RANGE = re.compile(r"^\d+-\d+$")
MULTIPLIERS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

# Flags that belong to one run: a study places its own pools and reads its own results.
ONE_RUN = ("pool", "reuse", "force", "flamegraph", "host_times", "json", "dry_run", "answers",
           "quiet")  # fmt: skip
AXES_BESIDE_FLAGS = ("medium", "workload")
SIMULATED_GROUP = "Simulated runs"


def _name(entry: catalogue.Entry) -> str:
    return str(entry["name"]).removeprefix("--").replace("-", "_")


_BENCH = {_name(e): e for e in catalogue.kept(catalogue.FLAGS) if e["command"] == "bench"}
# Flags that a study writes as the switch without `no_`, set to false.
_OFF = tuple(n for n in _BENCH if n.startswith("no_") and n.removeprefix("no_") in _BENCH)
_STUDY = {n: e for n, e in _BENCH.items() if n not in (*ONE_RUN, *_OFF)}
# name in a study -> kind of value, or the names to choose from
FLAGS: dict[str, str | tuple[str, ...]] = {
    n: (tuple(e["choices"]) or e["kind"]) if e["kind"] in ("choice", "text") else e["kind"]
    for n, e in _STUDY.items()
}
SIMULATED_FLAGS = tuple(n for n, e in _STUDY.items() if e["group"] == SIMULATED_GROUP)
# The mechanisms of the model that a simulation can go without.
ABLATIONS = tuple(_BENCH["ablate"]["choices"])


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
        elif value is not False:
            arguments += [flag, str(value)]
        elif f"no_{name}" in _OFF:
            arguments.append("--no-" + flag.removeprefix("--"))
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
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if not (is_number or isinstance(value, str) and COUNT.match(value)):
        return Problem(f"{name} must be a count, not {value!r}", 'write 10000 or "10K"')
    if isinstance(value, str) and len(value) > LONGEST_COUNT or count_of(value) >= 2**64:
        return Problem(f"{name} is more than 64 bits hold", 'write 10000 or "10K"')
    return None


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
    "bytes": _count,
    "range": _range,
    "number": _number,
    "latency": _latency,
    "switch": _switch,
    "shares": _shares,
    "options": _options,
}
