"""Findings of others about the memories themselves: ratios of two probes, beside the cells.

[[probe]]
what   = "random reads of one thread: latency, PM over DRAM"
figure = "fig4"                 # a [[figure]], which then needs no cells
inputs = { probe = "latency", op = "load", pattern = "rand", threads = 1 }
of     = { memory = "pm" }      # more inputs: of the one side, and of the other
over   = { memory = "dram" }
metric = "latency"              # or bandwidth
value  = 2.8                    # or a direction, `than`, `within`, `note`: as in [[published]]
source = "paper, figure"
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from perdure.errors import did_you_mean, one_of
from perdure.programs import native, probes
from perdure.programs.probes import Inputs
from perdure.progress import Progress
from perdure.results.record import Run
from perdure.study import claims, entry
from perdure.study.claims import Claim
from perdure.study.flags import Problem
from perdure.types import Json

SIDES = ("of", "over")
UNITS = {"latency": "ns", "bandwidth": "GiB/s"}
KEYS = (*(key for key in claims.KEYS if key not in SIDES), "inputs", *SIDES)


@dataclass(frozen=True)
class MemoryClaim:
    """A ratio of two probes that others measured. `claim` has the more inputs of each side."""

    claim: Claim
    inputs: Inputs

    @classmethod
    def read(cls, table: Json) -> MemoryClaim:
        return cls(entry.read(Claim, table), table.get("inputs", {}))

    def table(self) -> Json:
        return entry.table(self.claim) | {"inputs": self.inputs}

    def task(self, side: str, target: str, *, quick: bool) -> probes.Task:
        inputs = self.inputs_of(side)
        swept = inputs.get(probes.SWEPT[str(inputs["probe"])])
        return probes.task(target, inputs, [] if swept is None else [swept], quick=quick)

    def on(self, target: str) -> MemoryClaim:
        """The same with as many threads as the target has; a simulated one has those it needs."""
        if native.kind_of(target) != "native":
            return self
        cores = len(os.sched_getaffinity(0))

        def cut(inputs: Mapping[str, Any]) -> Json:
            threads = {k: min(int(v), cores) for k, v in inputs.items() if k == "threads"}
            return {**inputs, **threads}

        claim = replace(self.claim, of=cut(self.claim.of), over=cut(self.claim.over))
        return MemoryClaim(claim, cut(self.inputs))

    @property
    def compares(self) -> bool:
        """Whether its sides differ: threads that were cut may have been the difference."""
        return self.inputs_of("of") != self.inputs_of("over")

    def inputs_of(self, side: str) -> Inputs:
        return _inputs({"inputs": self.inputs, "of": self.claim.of, "over": self.claim.over}, side)


@dataclass(frozen=True)
class Answer:
    """What the probe of one side said, in the metric's unit; None: it said nothing."""

    number: float | None
    command: str


@dataclass(frozen=True)
class Measured:
    """A claim with the answers of both sides on one target."""

    target: str
    entry: MemoryClaim
    of: Answer
    over: Answer

    @classmethod
    def read(cls, document: Json) -> Measured:
        """From a manifest."""
        of, over = (entry.read(Answer, document[side]) for side in SIDES)
        return cls(document["target"], MemoryClaim.read(document["entry"]), of, over)

    def document(self) -> Json:
        """For a manifest."""
        return {
            "target": self.target,
            "entry": self.entry.table(),
            "of": asdict(self.of),
            "over": asdict(self.over),
        }

    def finding(self) -> claims.Finding:
        claim = self.entry.claim
        upper, lower = self.of.number, self.over.number
        if not upper or not lower:
            return claims.Finding(claim, None, "", claims.NOT_MEASURED, ())
        shown = [f"{n:,.0f}" if n >= 100 else f"{n:.3g}" for n in (upper, lower)]
        numbers = f"{shown[0]} over {shown[1]} {UNITS[claim.metric]}"
        return claims.judge_ratio(claim, upper / lower, numbers)


def check(table: Json) -> Problem | None:
    """What is wrong with an entry; its figure is checked by whoever reads the study."""
    problem = claims.check(table)
    if problem:
        return problem
    if table.get("metric") not in UNITS:
        return Problem("does not say its metric", one_of(UNITS))
    for part in ("inputs", *SIDES):
        if not isinstance(table.get(part), dict):
            return Problem(f"needs the table `{part}`", f"write {part} = {{ memory = ... }}")
    for side in SIDES:
        inputs = _inputs(table, side)
        probe = inputs.get("probe")
        if probe not in probes.FLAGS_OF:
            remedy = did_you_mean(str(probe), probes.FLAGS_OF, one_of(probes.FLAGS_OF))
            return Problem(f"unknown probe '{probe}'", remedy)
        taken = ("probe", probes.SWEPT[probe], *probes.FLAGS_OF[probe])
        for name in inputs:
            if name not in taken:
                return Problem(
                    f"{probe} has no input '{name}'", did_you_mean(name, taken, one_of(taken))
                )
    return None


def tasks(entries: Iterable[MemoryClaim], target: str, *, quick: bool) -> list[probes.Task]:
    """Two processes for every entry, in the order of the entries and of `SIDES`."""
    fitted = (one.on(target) for one in entries)
    return [one.task(s, target, quick=quick) for one in fitted if one.compares for s in SIDES]


def measure(
    entries: Sequence[MemoryClaim],
    targets: Iterable[str],
    cache: Path,
    progress: Progress,
    *,
    quick: bool,
) -> tuple[list[Measured], dict[str, str]]:
    """(every entry on every target, reasons of those without an answer by command)."""
    plan = [task for target in targets for task in tasks(entries, target, quick=quick)]
    answers = probes.run(plan, cache, progress)
    failures = {
        task.shell(): answers.failures[task.key] for task in plan if task.key in answers.failures
    }

    def answer(asked: MemoryClaim, side: str, target: str) -> Answer:
        one = asked.on(target)
        task = one.task(side, target, quick=quick)
        if not one.compares:
            return Answer(None, task.shell())
        point = answers.point(task, one.inputs_of(side).get(probes.SWEPT[task.probe]))
        number = point.value(one.claim.metric) if point else None
        return Answer(number, task.shell())

    measured = [
        Measured(target, one, answer(one, "of", target), answer(one, "over", target))
        for target in targets
        for one in entries
    ]
    return measured, failures


def findings(manifest: Json, runs: Sequence[Run]) -> dict[str, list[claims.Finding]]:
    """By target, what a study's runs and the target's probes say; of a quick run, the numbers
    alone. A target that others' findings do not speak of has none, where there are others."""
    targets = list(dict.fromkeys(run.record["target"] for run in runs))
    found = {t: _findings(manifest, [r for r in runs if r.record["target"] == t]) for t in targets}
    spoken_of = {t: some for t, some in found.items() if any(f.ours is not None for f in some)}
    return spoken_of or dict(list(found.items())[:1])


def _findings(manifest: Json, runs: Sequence[Run]) -> list[claims.Finding]:
    measured = [Measured.read(document) for document in manifest.get("probes", [])]
    published = [entry.read(Claim, table) for table in manifest.get("published", [])]
    found = [one.finding() for one in measured if one.target == runs[0].record["target"]]
    found += claims.judge(published, runs)
    return [finding.undecided() for finding in found] if manifest.get("quick") else found


def _inputs(table: Json, side: str) -> Inputs:
    return {**table["inputs"], **table[side]}
