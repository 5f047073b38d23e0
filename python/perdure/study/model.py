"""What a study is after reading: its cells, figures and claims."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from perdure.results import metrics
from perdure.study import entry
from perdure.study.claims import Claim
from perdure.study.entry import Wanted
from perdure.study.memory_claims import MemoryClaim
from perdure.study.repetitions import Auto
from perdure.types import Json

Labels = dict[str, str]
Flags = Json  # name -> value, as TOML has it


@dataclass(frozen=True)
class Cell:
    """One configuration to measure, resolved: nothing in it depends on the study's other cells."""

    labels: Labels  # the axes' values as text, in the study's order
    flags: Flags  # flags of `perdure bench` but for --pool and --json
    medium: str
    profiled: bool = False  # kept with the time of each function; the other numbers are the same

    @property
    def target(self) -> str:
        """native, or sim:PLATFORM."""
        return str(self.flags.get("target", "native"))

    def configuration(self) -> dict[str, object]:
        """What the result is a function of; files count with their content."""
        flags = dict(self.flags)
        for name, prefix in (("workload", ""), ("keys", "file:")):
            text = flags.get(name, "")
            if text and text.startswith(prefix) and Path(text.removeprefix(prefix)).is_file():
                digest = hashlib.sha256(Path(text.removeprefix(prefix)).read_bytes())
                flags[name] = prefix + digest.hexdigest()
        return {"flags": flags, "medium": self.medium}

    def key(self, build_id: str, repetition: int, host: str) -> str:
        """The name of the result: equal exactly when running again would tell nothing new."""
        parts = {
            "configuration": self.configuration(),
            "build": build_id,
            "repetition": repetition,
            "host": host,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Figure:
    """Cells that the report draws together."""

    name: str
    title: str
    note: str = ""
    cells: Wanted | None = None  # None: only claims about the memory stand there
    metric: str = metrics.THROUGHPUT
    operation: str = ""  # of a latency; empty: the most frequent one
    function: str = ""  # of metric = "function_time"
    part: str = ""  # of a metric of parts: "record-store", "index"
    drawing: str = "none"

    @property
    def needs_profile(self) -> bool:
        return self.drawing == metrics.FLAME or self.metric == metrics.FUNCTION_TIME

    @property
    def subject(self) -> str:
        """The operation, function or part that the metric is of."""
        return self.operation or self.function or self.part


@dataclass(frozen=True)
class Rule:
    """A rule of table 4 of `pmidio` whose gain cells measure; see memories.py."""

    name: str
    of: Wanted
    over: Wanted
    note: str = ""


@dataclass(frozen=True)
class Note:
    """Why a memory differs from the publication."""

    name: str
    memory: str
    why: str


@dataclass(frozen=True)
class Memories:
    """What a study asks about memories."""

    targets: Sequence[str] = ()
    tables: Sequence[str] = ()
    rules: Sequence[Rule] = ()
    notes: Sequence[Note] = ()

    def document(self) -> Json:
        """For a manifest."""
        return {
            "targets": list(self.targets),
            "rules": [entry.table(one) for one in self.rules],
            "notes": [entry.table(one) for one in self.notes],
        }

    def on(self, target: str) -> Memories:
        """The same of another target's memory alone. Measurements of others are of servers."""
        return replace(self, targets=(target,), tables=()) if self.targets else self


@dataclass(frozen=True)
class Study:
    name: str
    file: str
    title: str
    description: str
    seed: int
    repetitions: int
    timeout_seconds: float
    media: dict[str, str]  # name -> directory; the built-in ones are resolved by the campaign
    cells: list[Cell] = field(repr=False)
    published: list[Claim] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    probes: list[MemoryClaim] = field(default_factory=list)
    memories: Memories = Memories()
    left_out: list[str] = field(default_factory=list)  # what this build or machine lacks
    quick: bool = False
    auto: Auto | None = None  # more repetitions of the cells that need them


@dataclass(frozen=True)
class Choices:
    """What the command line says about a study as a whole."""

    quick: bool = False  # at most 10 000 records and 0.05 s: does it all run?
    scale: float = 1.0  # records and operations are multiplied with it
    target: str | None = None  # every cell's target; native: up to this machine's cores
    keys: dict[str, str] = field(default_factory=dict)  # replaces entries of [keys]


def axes_of(cells: list[Cell]) -> dict[str, list[str]]:
    """The values each axis takes, in first-seen order."""
    axes: dict[str, dict[str, None]] = {}
    for cell in cells:
        for axis, value in cell.labels.items():
            axes.setdefault(axis, {})[value] = None
    return {axis: list(values) for axis, values in axes.items()}
