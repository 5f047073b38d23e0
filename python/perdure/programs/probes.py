"""Running `probe` on a target. Simulated ones run many at a time, and their answers are kept.

A task is one process: one command with a list along one axis. A simulated answer is kept in
`<cache>/<key>.json`, where the key names the command, the program and the platform's numbers, so
that a task which ran once is not run again before one of them changes.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure.errors import PerdureError
from perdure.programs import host, native, outputs
from perdure.programs import target as targets
from perdure.programs.processes import Children
from perdure.progress import Progress
from perdure.types import Json

Value = str | int | float
Inputs = dict[str, Value | None]

# The list that one process sweeps, by probe.
SWEPT = {
    "bandwidth": "access_size",
    "latency": "access_size",
    "chase": "region",
    "write-buffer": "region",
    "I1": "hit_ratio",
    "I7": "access_size",
}
LIST_FLAG = {"access_size": "--sizes", "region": "--regions", "hit_ratio": "--hit-ratios"}
# The flags of the other inputs.
FLAG: dict[str, str] = {
    "memory": "--memory", "op": "--op", "variant": "--variant", "pattern": "--pattern",
    "stride": "--stride", "access_size": "--sizes", "threads": "--threads",
    "region": "--region", "dimms": "--dimms", "node": "--node", "prefetch": "--prefetch",
    "fence": "--fence", "mix_reads": "--mix-reads", "op_cost_ns": "--op-cost-ns",
    "op_cost": "--op-cost", "op_state": "--op-state", "durability": "--durability",
    "readers": "--readers", "align": "--align",
}  # fmt: skip
FLAGS_OF = {
    "bandwidth": ("memory", "op", "pattern", "stride", "threads", "region", "dimms", "node",
                  "prefetch", "fence", "mix_reads", "op_cost_ns", "op_cost", "op_state",
                  "durability", "readers", "align"),
    "latency": ("memory", "op", "pattern", "threads", "region", "dimms", "node", "prefetch",
                "durability"),
    "chase": ("memory", "op", "access_size", "dimms", "node", "prefetch"),
    "write-buffer": ("dimms",),
    "I1": ("memory", "op", "variant", "threads", "op_cost_ns", "durability"),
    "I7": ("memory",),
}  # fmt: skip
TIMEOUT_SECONDS = 900.0


@dataclass(frozen=True)
class Task:
    """One process of the probe program."""

    target: str
    arguments: tuple[str, ...]
    identity: str

    @property
    def probe(self) -> str:
        return self.arguments[1]

    @property
    def key(self) -> str:
        text = json.dumps([self.identity, *self.arguments])
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def shell(self) -> str:
        """The command as a user would type it."""
        return "./perdure " + shlex.join(self.arguments)


@dataclass(frozen=True)
class Point:
    """One answer of a probe."""

    inputs: Json
    document: Json  # with a number per metric
    skipped: str  # why it has no numbers

    @classmethod
    def read(cls, document: Json) -> Point:
        return cls(document["inputs"], document, str(document.get("skipped") or ""))

    def value(self, metric: str) -> float | None:
        """A metric in the probe's unit: GiB/s, ns, or a plain ratio."""
        if metric == "bandwidth":
            value = self.document.get("bandwidth_gib_s")
        elif metric == "latency":
            value = (self.document.get("latency_ns") or {}).get("mean")
        else:
            value = self.document.get(metric)
        return None if value is None else float(value)


@dataclass
class Answers:
    """What the tasks said: one document each, or the reason why there is none."""

    documents: dict[str, Json] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def points(self, task: Task) -> list[Point]:
        document = self.documents.get(task.key)
        return [Point.read(point) for point in document["points"]] if document else []

    def point(self, task: Task, swept: Value | None) -> Point | None:
        """The answer for one value of the task's list; the only one where the probe has no list."""
        name = SWEPT[task.probe]
        for point in self.points(task):
            if task.probe == "I7" or swept is None:
                return point
            if _same(point.inputs.get(name, point.inputs.get(f"{name}_bytes")), swept):
                return point
        return None


def task(
    target: str,
    inputs: Inputs,
    swept: Iterable[Value] = (),
    *,
    quick: bool = False,
    ablate: Iterable[str] = (),
    identity: str | None = None,
) -> Task:
    """The process that answers `inputs` for every value of `swept` along the probe's list."""
    probe = str(inputs["probe"])
    arguments = ["probe", probe, "--target", target]
    for name in FLAGS_OF[probe]:
        value = inputs.get(name)
        if value is not None and name != SWEPT[probe]:
            arguments += [FLAG[name], _text(value)]
    values = list(swept)
    if values and SWEPT[probe] in LIST_FLAG and probe != "I7":
        arguments += [LIST_FLAG[SWEPT[probe]], ",".join(_text(v) for v in values)]
    if names := list(ablate):
        arguments += ["--ablate", ",".join(names)]
    if quick:
        arguments.append("--quick")
    # `run` starts a process per core, so each has one job.
    return Task(target, (*arguments, "--jobs", "1", "--json"), identity or targets.identity(target))


def run(tasks: Iterable[Task], cache: Path, progress: Progress, jobs: int = 0) -> Answers:
    """Runs what is not kept yet. Simulations run side by side, one a core; native tasks alone."""
    tasks = list({task.key: task for task in tasks}.values())
    outputs.folder(cache)
    answers, pending = Answers(), []
    for one in tasks:
        # What was measured may differ next time; what was simulated cannot.
        kept = _kept(cache / f"{one.key}.json") if one.target.startswith("sim:") else None
        if kept is None:
            pending.append(one)
        else:
            answers.documents[one.key] = kept
    simulated = all(one.target.startswith("sim:") for one in pending)
    workers = (jobs or host.granted_cores()) if simulated else 1
    with Children() as children, progress.cells(len(pending), len(answers.documents)) as advance:

        def finish(one: Task, outcome: tuple[Json | None, str]) -> None:
            document, reason = outcome
            if document is None:
                answers.failures[one.key] = reason
            else:
                answers.documents[one.key] = document
                if one.target.startswith("sim:"):
                    _keep(cache / f"{one.key}.json", document, progress)
            advance.done(_title(one), reason or None)

        children.spread(pending, workers, lambda one: _ask(one, children), finish)
    return answers


def _ask(one: Task, children: Children) -> tuple[Json | None, str]:
    """(the answer, "") or (None, why there is none)."""
    command = [str(targets.program_for(one.target)), *one.arguments]
    ended = children.run(command, TIMEOUT_SECONDS)
    if ended.code != 0:
        return None, ended.reason
    try:
        document = native.parse_json(ended.stdout, shlex.join(command))
    except PerdureError as error:
        return None, str(error)
    if not _is_answer(document):
        return None, "stdout is no answer of a probe"
    return document, ""


def _is_answer(document: Any) -> bool:
    points = document.get("points") if isinstance(document, dict) else None
    return isinstance(points, list) and all(
        isinstance(point, dict) and isinstance(point.get("inputs"), dict) for point in points
    )


def _kept(file: Path) -> Json | None:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document if _is_answer(document) else None


def _keep(file: Path, document: Json, progress: Progress) -> None:
    try:
        outputs.write(file, json.dumps(document))
    except PerdureError as error:  # it will be measured again next time; this run goes on
        progress.say(f"not kept: {error}")


def _title(one: Task) -> str:
    """What is measured, where, and with how many threads, for a line of progress."""
    flags = dict(zip(one.arguments, one.arguments[1:], strict=False))
    parts = [one.probe]
    names = ("--memory", "--op", "--pattern", "--stride", "--node", "--variant")
    parts += [flags[name] for name in names if flags.get(name, "local") != "local"]
    if threads := flags.get("--threads"):
        parts.append(f"{threads} thread{'' if threads == '1' else 's'}")
    if off := flags.get("--ablate"):
        parts.append(f"without {off}")
    return " ".join([*parts, "on", one.target.rsplit("/", 1)[-1]])


def _text(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _same(a: Any, b: Any) -> bool:
    with suppress(TypeError, ValueError):
        return abs(float(a) - float(b)) <= 1e-9 * max(1.0, abs(float(b)))
    return bool(a == b)
