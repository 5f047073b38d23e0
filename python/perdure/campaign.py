"""Running a study: one process per cell, resumable.

A results directory holds
    manifest.json        the study, the keys of its cells, in the order of the study, and its probes
    probes/<key>.json    answers of simulated probes
    cells/<key>.json     finished cells, one line each: never run again
    failed/<key>.json    failed cells with the command and stderr: run again next time
    pools/               scratch for the medium "file"
A result is written to a temporary file and renamed, so that a cell is finished or absent whenever
the campaign dies; what it had finished is found again by key.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import shlex
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure import native, probes, simulator, study_probes
from perdure.errors import InputError, PerdureError
from perdure.flags import command_line
from perdure.processes import Children, Ended
from perdure.progress import Progress
from perdure.record import MANIFEST, SCHEMA
from perdure.study import Cell, Study


@dataclass(frozen=True)
class Task:
    """One repetition of one cell."""

    cell: Cell
    repetition: int
    key: str
    command: list[str]
    pool: Path | None

    @property
    def simulated(self) -> bool:
        return native.kind_of(self.cell.target) == "sim"

    def shell(self) -> str:
        """The command as a user would type it."""
        return "./perdure " + shlex.join(self.command[1:])


@dataclass
class Outcome:
    """What a campaign came to, in cells; probes without an answer count as failed."""

    total: int = 0
    reused: int = 0
    finished: int = 0
    failed: int = 0
    seconds: float = 0.0
    failures: list[dict[str, Any]] = field(default_factory=list)

    @property
    def has_results(self) -> bool:
        return self.finished + self.reused > 0


class Campaign:
    """A study bound to a results directory, this build and this host."""

    def __init__(self, study: Study, results: Path) -> None:
        self.study, self.results = study, results.resolve()
        self.targets = {cell.target: simulator.identity(cell.target) for cell in study.cells}
        self.host = ""
        if "native" in self.targets:
            self.host = str(native.query("environment").get("host_fingerprint", "unknown"))
        self.tasks = self._tasks()

    def pending(self) -> list[Task]:
        """The tasks that have no result yet, in running order."""
        return [task for task in self.tasks if not self._file(task).is_file()]

    def probe_tasks(self) -> list[probes.Task]:
        """What is asked of the memories before the cells run."""
        return [
            task
            for target in self.targets
            for task in study_probes.tasks(self.study.probes, target, quick=self.study.quick)
        ]

    def run(self, progress: Progress) -> Outcome:
        """Runs what is pending. KeyboardInterrupt ends it with nothing lost.

        Native cells run alone, one after the other; then simulated ones, one per core, because
        what they say does not depend on the host.
        """
        for folder in ("cells", "failed"):
            (self.results / folder).mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        with self._lock(), _terminate_as_interrupt():
            pending = self.pending()
            outcome = Outcome(total=len(self.tasks), reused=len(self.tasks) - len(pending))
            self._write_manifest(self._measure_probes(outcome, progress))
            with Children() as children, progress.cells(len(pending), outcome.reused) as advance:

                def work(task: Task) -> dict[str, Any] | None:
                    return self._run_task(task, children)

                def finish(task: Task, failure: dict[str, Any] | None) -> None:
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
        with suppress(OSError):
            (self.results / "pools").rmdir()
        outcome.seconds = time.monotonic() - began
        return outcome

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
            tasks += [self._task(cell, repetition) for cell in cells]
        return tasks

    def _task(self, cell: Cell, repetition: int) -> Task:
        simulated = native.kind_of(cell.target) == "sim"
        key = cell.key(self.targets[cell.target], repetition, "" if simulated else self.host)
        directory = self._medium_directory(cell.medium)
        pool = directory / f"perdure-{key}.pool" if directory else None
        program = native.program(native.kind_of(cell.target))
        command = [str(program), "bench", *command_line(cell.flags)]
        if pool:
            command += ["--pool", str(pool)]
        return Task(cell, repetition, key, [*command, "--json"], pool)

    def _medium_directory(self, medium: str) -> Path | None:
        if medium in self.study.media:
            return Path(self.study.media[medium])
        return {"none": None, "tmpfs": Path("/dev/shm"), "file": self.results / "pools"}[medium]

    def _run_task(self, task: Task, children: Children) -> dict[str, Any] | None:
        """Runs one process and keeps its record; returns the failure, None when it went well."""
        if task.pool:
            task.pool.parent.mkdir(parents=True, exist_ok=True)
        _remove_pool(task.pool)  # of a campaign that was killed
        began = time.time()
        try:
            ended = children.run(task.command, self.study.timeout_seconds)
        finally:
            _remove_pool(task.pool)
        document: dict[str, Any] = {
            "key": task.key,
            "labels": task.cell.labels,
            "repetition": task.repetition,
            "command": task.shell(),
            "started_unix": round(began, 3),
            "seconds": round(time.time() - began, 3),
            "build_id": self.targets[task.cell.target],
            "host_fingerprint": "" if task.simulated else self.host,
        }
        reason, record = _judge(ended)
        failed = self.results / "failed" / f"{task.key}.json"
        if reason is None:
            _write_atomically(self._file(task), document | {"record": record})
            failed.unlink(missing_ok=True)
            return None
        document |= {"reason": reason, "exit_code": ended.code, "stderr": ended.stderr[-4000:]}
        _write_atomically(failed, document)
        return document

    def _measure_probes(self, outcome: Outcome, progress: Progress) -> list[dict[str, Any]]:
        study = self.study
        if not study.probes:
            return []
        progress.say("probing the memories ...")
        measured, failures = study_probes.measure(
            study.probes, self.targets, self.results / "probes", progress, quick=study.quick
        )
        for command, reason in failures.items():
            outcome.failed += 1
            outcome.failures.append({"command": command, "reason": reason})
        return measured

    def _write_manifest(self, measured_probes: list[dict[str, Any]]) -> None:
        study = self.study
        ordered = sorted(
            self.tasks, key=lambda task: (study.cells.index(task.cell), task.repetition)
        )
        manifest = {
            "study": study.name,
            "file": study.file,
            "title": study.title,
            "description": study.description,
            "repetitions": study.repetitions,
            "cells": [task.key for task in ordered],
            "published": study.published,
            "figures": study.figures,
            "probes": measured_probes,
            "left_out": study.left_out,
        }
        _write_atomically(self.results / MANIFEST, manifest)

    def _file(self, task: Task) -> Path:
        return self.results / "cells" / f"{task.key}.json"

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with (self.results / "lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InputError(
                    "another campaign writes here",
                    where=str(self.results),
                    remedy="wait for it, or give another --results",
                ) from error
            yield


def _judge(ended: Ended) -> tuple[str | None, Any]:
    """(why the run does not count or None, the record)."""
    if ended.code != 0:
        return f"exit code {ended.code}: {ended.last_line}", None
    try:
        record = native.parse_json(ended.stdout, "perdure bench")
    except PerdureError as error:
        return str(error), None
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        return f"stdout is no run record of schema {SCHEMA}", None
    verification = record.get("verification")
    if verification and verification["wrong"]:
        return f"{verification['wrong']} wrong answers", None
    return None, record


def _title(task: Task) -> str:
    return " ".join(value for value in task.cell.labels.values() if value != "none")


def _remove_pool(pool: Path | None) -> None:
    if pool is None:
        return
    for path in [pool, *pool.parent.glob(pool.name + ".*")]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _write_atomically(path: Path, document: dict[str, Any]) -> None:
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        with temporary.open("w") as handle:
            handle.write(json.dumps(document) + "\n")
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """SIGTERM ends a campaign as Ctrl-C does: the child dies, its pool goes, nothing is lost."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
