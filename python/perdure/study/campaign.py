"""Running a study: one process per cell, resumable.

A results directory holds
    manifest.json        the study, the keys of its cells, in the order of the study, and its probes
    manifest-quick.json  the same of the last run with --quick, which leaves manifest.json alone
    probes/<key>.json    answers of simulated probes
    memories.json        what these say of each memory; fidelity.json: beside measurements of others
    cells/<key>.json     finished cells, one line each: never run again
    failed/<key>.json    failed cells with the command and stderr: run again next time
    pools/               scratch for the medium "file"
    lock                 held by the campaign and by every process that it starts
A result is written to a temporary file and renamed, so that a cell is finished or absent whenever
the campaign dies; what it had finished is found again by key.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from perdure.errors import InputError, PerdureError
from perdure.programs import flame_graph, native, outputs, probes, profile
from perdure.programs import target as targets
from perdure.programs.processes import Children, Ended
from perdure.progress import Progress
from perdure.results import record, schemas
from perdure.results.record import MANIFEST, QUICK_MANIFEST, SCHEMA
from perdure.study import entry, memories, memory_claims, pools, repetitions
from perdure.study.flags import command_line
from perdure.study.memory_claims import Measured
from perdure.study.model import Cell, Study
from perdure.types import Json

DYING_SECONDS = 10.0  # what a killed process may take to give back a large pool


@dataclass(frozen=True)
class Task:
    """One repetition of one cell."""

    cell: Cell
    repetition: int
    key: str
    command: list[str]
    pool_directory: Path | None

    @property
    def simulated(self) -> bool:
        return native.kind_of(self.cell.target) == "sim"

    def shell(self) -> str:
        """The command as a user would type it; its pool has a name of its own."""
        directory = self.pool_directory
        pool = directory / f"perdure-{self.key}.pool" if directory else None
        return "./perdure " + shlex.join(self.with_pool(pool)[1:])

    def with_pool(self, pool: Path | None) -> list[str]:
        return [*self.command, *(("--pool", str(pool)) if pool else ()), "--json"]


@dataclass
class Outcome:
    """The result of a campaign, in cells; probes without an answer count as failed."""

    total: int = 0
    reused: int = 0
    finished: int = 0
    failed: int = 0
    seconds: float = 0.0
    failures: list[Json] = field(default_factory=list)

    quick: bool = False

    @property
    def has_results(self) -> bool:
        return self.finished + self.reused > 0


class Campaign:
    """A study bound to a results directory, this build and this host."""

    def __init__(self, study: Study, results: Path) -> None:
        self.study, self.results = study, results.resolve()
        self.targets = {cell.target: targets.identity(cell.target) for cell in study.cells}
        self.host = ""
        if "native" in self.targets:
            self.host = str(native.query("environment").get("host_fingerprint", "unknown"))
        self.tasks = self._tasks()

    def pending(self) -> list[Task]:
        """The tasks that have no result yet, in running order."""
        return [
            task
            for task in self.tasks
            if not record.is_cell(self._file(task), profiled=task.cell.profiled)
        ]

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

    def run(self, progress: Progress) -> Outcome:
        """Runs what is pending. KeyboardInterrupt ends it with nothing lost.

        Native cells run alone, one after the other; then simulated ones, one per core, because
        what they say does not depend on the host.
        """
        for name in ("cells", "failed"):
            outputs.folder(self.results / name, "--results")
        began = time.monotonic()
        with ExitStack() as stack:
            lock = stack.enter_context(_lock(self.results))
            stack.enter_context(_terminate_as_interrupt())
            for name in ("cells", "failed"):
                outputs.sweep(self.results / name)
            pending = self.pending()
            for file in filter(Path.exists, map(self._file, pending)):
                if not record.is_cell(file):
                    progress.warn(f"{file} is damaged: its cell is run again")
            outcome = Outcome(total=len(self.tasks), reused=len(self.tasks) - len(pending))
            outcome.quick = self.study.quick
            measured = self._measure_probes(outcome, progress)
            self._write_manifest(measured)
            memories.run(self.study.memories, self.results, progress, quick=self.study.quick)
            # Cells may get more repetitions even where nothing is pending yet.
            planned = self.tasks if self.study.auto else pending
            places = [task.pool_directory for task in planned if task.pool_directory]
            owner = stack.enter_context(pools.owned(places))
            children = stack.enter_context(Children([lock, *owner.descriptors]))
            self._run_tasks(pending, outcome, progress, children, owner)
            while more := self._more_repetitions():
                pending = [task for task in more if not record.is_cell(self._file(task))]
                outcome.total += len(more)
                outcome.reused += len(more) - len(pending)
                self._write_manifest(measured)
                if pending:
                    self._run_tasks(pending, outcome, progress, children, owner)
            if self.study.auto:
                self._write_manifest(measured)
        with suppress(OSError):
            (self.results / "pools").rmdir()
        outcome.seconds = time.monotonic() - began
        return outcome

    def _run_tasks(
        self,
        pending: list[Task],
        outcome: Outcome,
        progress: Progress,
        children: Children,
        owner: pools.Pools,
    ) -> None:
        """Native tasks alone, one after the other; then simulated ones, one per core."""
        with progress.cells(len(pending), outcome.reused) as advance:

            def work(task: Task) -> Json | None:
                return self._run_task(task, children, owner)

            def finish(task: Task, failure: Json | None) -> None:
                if failure is None:
                    outcome.finished += 1
                else:
                    outcome.failed += 1
                    outcome.failures.append(failure)
                advance.done(_title(task), failure["reason"] if failure else None)

            for task in pending:
                if not task.simulated:
                    advance.start(_title(task))
                    finish(task, work(task))
            simulated = [task for task in pending if task.simulated]
            children.spread(simulated, len(os.sched_getaffinity(0)), work, finish)

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
        none where the study says how often."""
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
        files = filter(record.is_cell, map(self._file, tasks))
        return [run for file in files for run in record.load(file)]

    def _task(self, cell: Cell, repetition: int) -> Task:
        simulated = native.kind_of(cell.target) == "sim"
        key = cell.key(self.targets[cell.target], repetition, "" if simulated else self.host)
        directory = self._medium_directory(cell.medium)
        program = native.program(native.kind_of(cell.target))
        command = [str(program), "bench", *command_line(cell.flags)]
        return Task(cell, repetition, key, command, directory)

    def _medium_directory(self, medium: str) -> Path | None:
        if medium in self.study.media:
            return Path(self.study.media[medium])
        return {"none": None, "tmpfs": Path("/dev/shm"), "file": self.results / "pools"}[medium]

    def _run_task(self, task: Task, children: Children, owner: pools.Pools) -> Json | None:
        """Runs one process and keeps its record; returns the failure, None when it went well."""
        directory = task.pool_directory
        pool = owner.path(directory, task.key) if directory else None
        began = time.time()
        try:
            ended, folded = self._run_process(task, pool, children)
        finally:
            if pool:
                pools.remove(pool)
        document: Json = {
            "key": task.key,
            "labels": task.cell.labels,
            "repetition": task.repetition,
            "command": task.shell(),
            "started_unix": round(began, 3),
            "seconds": round(time.time() - began, 3),
            "build_id": self.targets[task.cell.target],
            "host_fingerprint": "" if task.simulated else self.host,
        }
        reason, found = _judge(ended)
        failed = self._failed(task)
        if reason is None:
            self._keep(task, document | ({"profile": folded} if folded else {}) | {"record": found})
            failed.unlink(missing_ok=True)
            return None
        document |= {"reason": reason, "exit_code": ended.code, "stderr": ended.stderr[-4000:]}
        _write(failed, document)
        return document

    def _run_process(self, task: Task, pool: Path | None, children: Children) -> tuple[Ended, str]:
        """How it ended, and the folded stacks of a cell that is profiled."""
        command = task.with_pool(pool)
        if not task.cell.profiled:
            return children.run(command, self.study.timeout_seconds), ""
        with tempfile.TemporaryDirectory(prefix="perdure-") as folder:
            stacks = Path(folder) / "run.folded"
            wanted = [*command, profile.FLAG, str(stacks)]
            with profile.recorded(wanted, task.cell.target) as profiled:
                ended = children.run(profiled, self.study.timeout_seconds)
            text = stacks.read_text(encoding="utf-8") if stacks.is_file() else ""
        return ended, flame_graph.shortened(text)

    def _keep(self, task: Task, document: Json) -> None:
        """Keeps a finished cell; on a full disk it is printed, before the campaign ends."""
        try:
            _write(self._file(task), document)
        except PerdureError:
            print(json.dumps(document), flush=True)
            raise

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

    def _write_manifest(self, measured: list[Measured]) -> None:
        study = self.study
        ordered = sorted(
            self.tasks, key=lambda task: (study.cells.index(task.cell), task.repetition)
        )
        manifest: Json = {
            "study": study.name,
            "file": study.file,
            "title": study.title,
            "description": study.description,
            "repetitions": max((task.repetition + 1 for task in self.tasks), default=1),
            "cells": [task.key for task in ordered],
            "published": [entry.table(claim) for claim in study.published],
            "figures": [entry.table(figure) for figure in study.figures],
            "probes": [one.document() for one in measured],
            "memories": study.memories.document(),
            "left_out": study.left_out,
        }
        if study.auto:
            cells = [
                study.auto.cell(
                    tasks[0].cell.labels,
                    self._finished(tasks),
                    len(tasks),
                    failed=any(self._failed(task).exists() for task in tasks),
                )
                for tasks in self._by_cell()
            ]
            manifest["auto"] = study.auto.document(cells)
        _write(self.results / (QUICK_MANIFEST if study.quick else MANIFEST), manifest)

    def _file(self, task: Task) -> Path:
        return self.results / "cells" / f"{task.key}.json"

    def _failed(self, task: Task) -> Path:
        return self.results / "failed" / f"{task.key}.json"


@contextmanager
def _lock(results: Path) -> Iterator[int]:
    """Holds the folder's lock; yields the descriptor for processes to inherit."""
    with (results / "lock").open("a+", encoding="utf-8") as handle:
        deadline = time.monotonic() + DYING_SECONDS
        while not pools.locked(handle.fileno()):
            # The processes of a campaign that was killed hold the lock until they are gone as well.
            if _is_alive(handle) or time.monotonic() > deadline:
                raise InputError(
                    "another campaign writes here",
                    where=str(results),
                    remedy="wait for it, or give another --results",
                )
            time.sleep(0.02)
        handle.truncate(0)
        handle.write(f"{os.getpid()}\n")
        handle.flush()
        yield handle.fileno()


def _is_alive(handle: TextIO) -> bool:
    """Whether the campaign that wrote its number into the lock still runs."""
    handle.seek(0)
    number = handle.read().strip()
    return not number.isdigit() or Path(f"/proc/{number}").exists()


def _judge(ended: Ended) -> tuple[str | None, Any]:
    """(why the run does not count or None, the record)."""
    if ended.code != 0:
        return ended.reason, None
    try:
        found = native.parse_json(ended.stdout, "perdure bench")
    except PerdureError as error:
        return str(error), None
    if problem := schemas.problem("run record", found):
        return f"stdout is no run record of schema {SCHEMA}: {problem}", None
    verification = found.get("verification")
    if verification and verification["wrong"]:
        return f"{verification['wrong']} wrong answers", None
    return None, found


def _title(task: Task) -> str:
    return " ".join(value for value in task.cell.labels.values() if value != "none")


def _write(path: Path, document: Json) -> None:
    outputs.write(path, json.dumps(document) + "\n", durable=True)


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
