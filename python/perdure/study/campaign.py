"""Running a study: one process per repetition of a cell, resumable, by one process or by many.

A results directory holds
    manifest.json        the study, the keys of its cells, in the order of the study, and its probes
    manifest-quick.json  the same of the last run with --quick, which leaves manifest.json alone
    probes/<key>.json    answers of simulated probes
    memories.json        what these say of each memory; fidelity.json: beside measurements of others
    cells/<key>.json     finished cells, one line each: never run again
    failed/<key>.json    failed cells with the command and stderr: run again next time
    crash/               explorations of power cuts, beside the study (results/explorations.py)
    claims/              who runs what, while a campaign runs (leases.py)
    pools/               scratch for the medium "file"
    lock                 held by the campaign's processes and all that they start (sharing.py)
A result is written to a temporary file and linked or renamed, so that a cell is finished or absent
whenever the campaign dies; what it had finished is found again by key. Only cells/ decides what is
finished; the rest may be lost.
"""

from __future__ import annotations

import hashlib
import json
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from perdure.programs import host_lock, native, outputs, probes
from perdure.programs import target as targets
from perdure.programs.processes import Children
from perdure.progress import Progress
from perdure.results import record
from perdure.results.record import MANIFEST, QUICK_MANIFEST
from perdure.study import entry, leases, memories, memory_claims, pools, repetitions, sharing
from perdure.study.engines import HERE, POLL_SECONDS, Engine
from perdure.study.flags import command_line
from perdure.study.leases import Leases
from perdure.study.memory_claims import Measured
from perdure.study.model import Cell, Study
from perdure.study.tasks import Once, Place, Result, Runner, State, Task
from perdure.types import Json


@dataclass
class Outcome:
    """The result of a campaign, in cells; probes without an answer count as failed."""

    total: int = 0
    reused: int = 0
    finished: int = 0
    failed: int = 0
    elsewhere: int = 0  # run by other shards, also those that failed there
    seconds: float = 0.0
    failures: list[Json] = field(default_factory=list)

    quick: bool = False

    @property
    def has_results(self) -> bool:
        return self.finished + self.reused + self.elsewhere > 0


class Campaign:
    """A study bound to a results directory, this build and this host."""

    def __init__(self, study: Study, results: Path) -> None:
        self.study, self.results = study, results.resolve()
        self.targets = {cell.target: targets.identity(cell.target) for cell in study.cells}
        self.host = ""
        if "native" in self.targets:
            self.host = native.host_fingerprint()
        self.tasks = self._tasks()
        self.place = Place(self.results, study.name, study.timeout_seconds)

    def pending(self) -> list[Task]:
        """The tasks that have no result yet, in running order."""
        return [task for task in self.tasks if not self.place.is_finished(task)]

    def plan(self) -> str:
        """Equal for the shards of one campaign: the digest of its manifest but for the probes."""
        known = self._manifest([]) | {"file": "", "quick": self.study.quick, "auto": None}
        text = json.dumps(known, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def probe_tasks(self) -> list[probes.Task]:
        """The probes of the memories, which run before the cells; what finds causes comes later."""
        quick = self.study.quick
        claimed = [
            task
            for target in self.probed()
            for task in memory_claims.tasks(self.study.probes, target, quick=quick)
        ]
        classifying = memories.tasks(self.study.memories, quick=quick)
        return list({task.key: task for task in [*claimed, *classifying]}.values())

    def probed(self) -> list[str]:
        """The targets that findings about the memory speak of: not those that are only classified
        beside the study's own, which comes first."""
        others = self.study.memories.targets[1:]
        return [target for target in self.targets if target not in others]

    def run(
        self,
        progress: Progress,
        engine: Engine = HERE,
        *,
        shared: bool = False,
        lease_seconds: float = leases.SECONDS,
    ) -> Outcome:
        """Runs what is pending. KeyboardInterrupt ends it with nothing lost.

        `shared`: others, started alike, may run the rest at the same time (--shard). Errors:
        InputError where another campaign has the folder; PerdureError on a full disk.
        """
        for name in ("cells", "failed"):
            outputs.folder(self.results / name, "--results")
        began = time.monotonic()
        with ExitStack() as stack:
            session = stack.enter_context(
                sharing.shared(self.results, self.plan()) if shared else sharing.alone(self.results)
            )
            stack.enter_context(_terminate_as_interrupt())
            self._sweep(session)
            try:
                with Leases(self.results, session.campaign, lease_seconds) as held:
                    outcome = self._run(progress, engine, session, held)
            finally:
                if session.is_alone():
                    leases.tidy(self.results)
                    with suppress(OSError):
                        (self.results / "pools").rmdir()
        outcome.seconds = time.monotonic() - began
        return outcome

    def _run(
        self, progress: Progress, engine: Engine, session: sharing.Session, held: Leases
    ) -> Outcome:
        pending = self.pending()
        for file in filter(Path.exists, map(self.place.cell, pending)):
            if not record.is_cell(file):
                progress.warn(f"{file} is damaged: its cell is run again")
        outcome = Outcome(total=len(self.tasks), reused=len(self.tasks) - len(pending))
        outcome.quick = self.study.quick
        prepared = self._prepare(outcome, progress, held)
        # Cells may get more repetitions even where nothing is pending yet.
        planned = self.tasks if self.study.auto else pending
        places = [task.pool_directory for task in planned if task.pool_directory]
        with (
            pools.owned(places) as owner,
            Children([session.descriptor, *owner.descriptors]) as children,
        ):
            runner = Runner(self.place, held, children, owner, Once(progress.say))
            self._run_tasks(pending, outcome, progress, engine, runner)
            while not (prepared or self._prepare(outcome, progress, held)):
                time.sleep(POLL_SECONDS)
            while more := self._more_repetitions():
                pending = [task for task in more if not self.place.is_finished(task)]
                outcome.total += len(more)
                outcome.reused += len(more) - len(pending)
                self._write_manifest(self._probed_before())
                if pending:
                    self._run_tasks(pending, outcome, progress, engine, runner)
        if self.study.auto:
            self._write_manifest(self._probed_before())
        return outcome

    def _run_tasks(
        self,
        tasks: list[Task],
        outcome: Outcome,
        progress: Progress,
        engine: Engine,
        runner: Runner,
    ) -> None:
        with progress.cells(len(tasks), outcome.reused) as advance:

            def start(task: Task) -> None:
                advance.start(task.title)

            def finish(task: Task, result: Result) -> None:
                if result.state is State.ELSEWHERE:
                    outcome.elsewhere += 1
                    advance.skip()
                    return
                failure = result.failure
                if failure is None:
                    outcome.finished += 1
                else:
                    outcome.failed += 1
                    outcome.failures.append(failure)
                advance.done(task.title, failure["reason"] if failure else None)

            engine.run(tasks, runner, start, finish)

    def _sweep(self, session: sharing.Session) -> None:
        """Removes what killed processes left."""
        for name in (".", "cells", "failed"):
            outputs.sweep(self.results / name, shared=not session.first)
        if session.first:
            leases.tidy(self.results)

    def _prepare(self, outcome: Outcome, progress: Progress, held: Leases) -> bool:
        """Measures the memories and writes the manifest; of several shards one does. False while
        another is about it."""
        key = leases.PREPARE + held.campaign
        newest = held.newest(key)
        if newest is not None and newest.state == leases.DONE:
            return True
        lease = held.take(key, "probes of the memories")
        if lease is None:
            return False
        state = leases.GIVEN_UP
        try:
            study = self.study
            with self._machine(progress):
                measured = self._measure_probes(outcome, progress)
                self._write_manifest([one.document() for one in measured])
                memories.run(study.memories, self.results, progress, quick=study.quick)
            state = leases.DONE
        finally:
            lease.end(state)
        return True

    @contextmanager
    def _machine(self, progress: Progress) -> Iterator[None]:
        """Holds the machine while probes run: alone if any of them measures it."""
        probed = [task.target for task in self.probe_tasks()]
        if not probed:
            yield
            return
        alone = any(native.kind_of(target) == "native" for target in probed)
        with host_lock.held(self.place.purpose(), alone=alone, say=progress.say):
            yield

    def _tasks(self) -> list[Task]:
        """Every cell once per repetition, shuffled within a repetition.

        Repetitions of one cell are thereby spread over the campaign's whole time, so that a slow
        drift of the machine shows up as dispersion and not as a difference between cells.
        """
        shuffle = random.Random(self.study.seed)
        tasks = []
        for repetition in range(self.study.repetitions):
            cells = list(self.study.cells)
            shuffle.shuffle(cells)
            # With automatic repetitions, what is exact runs once.
            once = self.study.auto is not None and repetition > 0
            tasks += [
                self._task(cell, repetition)
                for cell in cells
                if not (once and native.kind_of(cell.target) == "sim")
            ]
        return tasks

    def _more_repetitions(self) -> list[Task]:
        """One more task, also added to the campaign's, of each cell that has not run often enough;
        none where the study says how often. All shards find the same, because they look when every
        task has ended."""
        auto = self.study.auto
        more = [
            self._task(tasks[0].cell, len(tasks))
            for tasks in (self._by_cell() if auto else [])
            if auto and auto.end(self._finished(tasks), len(tasks)) == repetitions.UNDECIDED
        ]
        self.tasks += more
        return more

    def _by_cell(self) -> list[list[Task]]:
        """The tasks of each cell."""
        found: dict[int, list[Task]] = {id(cell): [] for cell in self.study.cells}
        for task in self.tasks:
            found[id(task.cell)].append(task)
        return list(found.values())

    def _finished(self, tasks: list[Task]) -> list[record.Run]:
        files = map(self.place.cell, filter(self.place.is_finished, tasks))
        return [run for file in files for run in record.load(file)]

    def _task(self, cell: Cell, repetition: int) -> Task:
        simulated = native.kind_of(cell.target) == "sim"
        build, host = self.targets[cell.target], "" if simulated else self.host
        key = cell.key(build, repetition, host)
        directory = self._medium_directory(cell.medium)
        program = native.program(native.kind_of(cell.target))
        command = [str(program), "bench", *command_line(cell.flags)]
        return Task(cell, repetition, key, command, directory, build, host)

    def _medium_directory(self, medium: str) -> Path | None:
        if medium in self.study.media:
            return Path(self.study.media[medium])
        return {"none": None, "tmpfs": Path("/dev/shm"), "file": self.results / "pools"}[medium]

    def _measure_probes(self, outcome: Outcome, progress: Progress) -> list[Measured]:
        study = self.study
        if not study.probes:
            return []
        progress.say("probing the memories ...")
        measured, failures = memory_claims.measure(
            study.probes, self.probed(), self.results / "probes", progress, quick=study.quick
        )
        for command, reason in failures.items():
            outcome.failed += 1
            outcome.failures.append({"command": command, "reason": reason})
        return measured

    def _manifest_file(self) -> Path:
        return self.results / (QUICK_MANIFEST if self.study.quick else MANIFEST)

    def _write_manifest(self, probed: list[Json]) -> None:
        text = json.dumps(self._manifest(probed)) + "\n"
        outputs.write(self._manifest_file(), text, durable=True)

    def _probed_before(self) -> list[Json]:
        """The probes of the manifest that this campaign has written, here or in another shard."""
        text = self._manifest_file().read_text(encoding="utf-8")
        probed: list[Json] = json.loads(text)["probes"]
        return probed

    def _manifest(self, probed: list[Json]) -> Json:
        study = self.study
        ordered = [
            task
            for tasks in self._by_cell()
            for task in sorted(tasks, key=lambda task: task.repetition)
        ]
        manifest: Json = {
            "study": study.name,
            "file": study.file,
            "title": study.title,
            "description": study.description,
            "repetitions": max((task.repetition + 1 for task in self.tasks), default=1),
            "cells": [task.key for task in ordered],
            "published": [entry.table(claim) for claim in study.published],
            "figures": [entry.table(figure) for figure in study.figures],
            "probes": probed,
            "memories": study.memories.document(),
            "left_out": study.left_out,
        }
        if study.auto:
            cells = [
                study.auto.cell(
                    tasks[0].cell.labels,
                    self._finished(tasks),
                    len(tasks),
                    failed=any(self.place.failed(task).exists() for task in tasks),
                )
                for tasks in self._by_cell()
            ]
            manifest["auto"] = study.auto.document(cells)
        return manifest


@contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """SIGTERM, and SIGHUP of a closed terminal, end a campaign as Ctrl-C does: the child dies, its
    pool goes, nothing is lost. Under nohup SIGHUP stays ignored."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]
    previous = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
