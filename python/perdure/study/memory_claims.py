"""What a study asks of the memories themselves: ratios of two probes, beside its cells.

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

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from perdure.errors import did_you_mean, one_of
from perdure.programs import probes
from perdure.progress import Progress
from perdure.results.record import Run
from perdure.study import claims
from perdure.study.flags import Problem

Json = dict[str, Any]

SIDES = ("of", "over")
UNITS = {"latency": "ns", "bandwidth": "GiB/s"}
KEYS = (*(key for key in claims.KEYS if key not in SIDES), "inputs", *SIDES)


def check(entry: Json) -> Problem | None:
    """What is wrong with an entry; whether its figure is there is the study's business."""
    problem = claims.check(entry)
    if problem:
        return problem
    if entry.get("metric") not in UNITS:
        return Problem("does not say its metric", one_of(UNITS))
    for part in ("inputs", *SIDES):
        if not isinstance(entry.get(part), dict):
            return Problem(f"needs the table `{part}`", f"write {part} = {{ memory = ... }}")
    for side in SIDES:
        inputs = _inputs(entry, side)
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


def tasks(entries: Iterable[Json], target: str, *, quick: bool) -> list[probes.Task]:
    """Two processes for every entry, in the order of the entries and of `SIDES`."""
    return [_task(entry, side, target, quick) for entry in entries for side in SIDES]


def measure(
    entries: Sequence[Json], targets: Iterable[str], cache: Path, progress: Progress, *, quick: bool
) -> tuple[list[Json], dict[str, str]]:
    """(every entry on every target with its two numbers, reasons of those without by command).

    A number is in the metric's unit, or None.
    """
    plan = [task for target in targets for task in tasks(entries, target, quick=quick)]
    answers = probes.run(plan, cache, progress)
    failures = {task.shell(): answers.failures[task.key] for task in plan
                if task.key in answers.failures}  # fmt: skip
    measured = []
    for target in targets:
        for entry in entries:
            document: Json = {"target": target, "entry": entry}
            for side in SIDES:
                task = _task(entry, side, target, quick)
                swept = _inputs(entry, side).get(probes.SWEPT[task.arguments[1]])
                point = probes.find(answers.points(task), task.arguments[1], swept)
                number = probes.value_of(point, entry["metric"]) if point else None
                document[side] = {"number": number, "command": task.shell()}
            measured.append(document)
    return measured, failures


def findings(manifest: Json, runs: Sequence[Run]) -> list[claims.Finding]:
    """What the runs of a study, all of one target, and the target's probes say; of a quick run,
    the numbers alone."""
    probed = judge(manifest.get("probes", []), runs[0].record["target"])
    found = [*probed, *claims.judge(manifest.get("published", []), runs)]
    return [finding.undecided() for finding in found] if manifest.get("quick") else found


def judge(measured: Iterable[Json], target: str) -> list[claims.Finding]:
    """The findings of one target, from what `measure` gave."""
    return [_judge(document) for document in measured if document["target"] == target]


def _judge(document: Json) -> claims.Finding:
    entry = document["entry"]
    upper, lower = (document[side]["number"] for side in SIDES)
    if not upper or not lower:
        return claims.Finding(entry, None, "", claims.NOT_MEASURED, ())
    numbers = f"{upper:.3g} over {lower:.3g} {UNITS[entry['metric']]}"
    return claims.judge_ratio(entry, upper / lower, numbers)


def _inputs(entry: Json, side: str) -> probes.Inputs:
    return {**entry["inputs"], **entry[side]}


def _task(entry: Json, side: str, target: str, quick: bool) -> probes.Task:
    inputs = _inputs(entry, side)
    swept = inputs.get(probes.SWEPT[str(inputs["probe"])])
    return probes.task(target, inputs, [] if swept is None else [swept], quick=quick)
