"""A task: one repetition of one cell, run as one process, by whichever engine.

`Runner.run` is the only place where a cell is claimed, run and kept. Repetitions are claimed and
not cells, because a result is kept for each repetition, and because those of one cell then spread
over time and machines as the plan's order has them.
"""

from __future__ import annotations

import json
import shlex
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from perdure.errors import PerdureError
from perdure.programs import flame_graph, host, host_lock, native, outputs, profile
from perdure.programs.processes import Children, Ended
from perdure.results import record, schemas
from perdure.results.record import SCHEMA
from perdure.study import leases, pools
from perdure.study.leases import Lease, Leases
from perdure.study.model import Cell
from perdure.types import Json


@dataclass(frozen=True)
class Task:
    """One repetition of one cell."""

    cell: Cell
    repetition: int
    key: str
    command: list[str]
    pool_directory: Path | None
    build_id: str
    host_fingerprint: str

    @property
    def simulated(self) -> bool:
        return native.kind_of(self.cell.target) == "sim"

    @property
    def title(self) -> str:
        return " ".join(value for value in self.cell.labels.values() if value != "none")

    def shell(self) -> str:
        """The command as a user would type it here; its pool has a name of its own."""
        directory = self.pool_directory
        pool = outputs.short(directory / f"perdure-{self.key}.pool") if directory else None
        return "./perdure " + shlex.join(self.with_pool(pool)[1:])

    def with_pool(self, pool: Path | str | None) -> list[str]:
        return [*self.command, *(("--pool", str(pool)) if pool else ()), "--json"]


class State(Enum):
    """What became of a task."""

    FINISHED = "finished"
    FAILED = "failed"
    ELSEWHERE = "elsewhere"  # another process of the campaign has run it
    BUSY = "busy"  # another one runs it, or was about to
    REFUSED = "refused"  # not by this machine or build; see dask_engine.py


@dataclass(frozen=True)
class Result:
    state: State
    failure: Json | None = None  # of FAILED and REFUSED, with the reason


@dataclass(frozen=True)
class Place:
    """A results folder, and how long its cells may take."""

    results: Path
    study: str
    timeout_seconds: float

    def cell(self, task: Task) -> Path:
        return self.results / "cells" / f"{task.key}.json"

    def failed(self, task: Task) -> Path:
        return self.results / "failed" / f"{task.key}.json"

    def is_finished(self, task: Task) -> bool:
        return record.is_cell(self.cell(task), profiled=task.cell.profiled)

    def purpose(self) -> str:
        """For those who wait for the machine."""
        return f"{self.study} in {self.results}"


class Once:
    """Says once for whom the campaign waits, although each of its threads waits again and again."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._said = say, set[str]()

    def __call__(self, text: str) -> None:
        who = text.partition(" since ")[0]
        if who not in self._said:
            self._said.add(who)
            self._say(text)


@dataclass(frozen=True)
class Runner:
    """What a process of a campaign needs to run tasks, in any of its threads."""

    place: Place
    leases: Leases
    children: Children
    owner: pools.Pools
    say: Callable[[str], None]

    def run(self, task: Task) -> Result:
        """Runs a task that nobody else runs or has run. The machine comes before the claim, so that
        another machine may have the cell while this one waits."""
        if elsewhere := self._elsewhere(task):
            return elsewhere
        try:
            with host_lock.held(
                self.place.purpose(),
                alone=not task.simulated,
                say=self.say,
                stopped=lambda: self.children.stopped,
            ) as descriptor:
                lease = self.leases.take(task.key, task.title)
                if lease is None:
                    return Result(State.BUSY)
                return self._run_claimed(task, lease, descriptor)
        except host_lock.StoppedError:
            return Result(State.BUSY)

    def _elsewhere(self, task: Task) -> Result | None:
        """What another process has made, or is about to make, of the task."""
        claim = self.leases.newest(task.key)
        if claim is None or not self.leases.is_held(task.key, claim):
            return None
        over = self.place.is_finished(task) or self.leases.has_failed(task.key)
        return Result(State.ELSEWHERE if over else State.BUSY)

    def _run_claimed(self, task: Task, lease: Lease, descriptor: int) -> Result:
        state = leases.GIVEN_UP
        try:
            if self.place.is_finished(task):
                state = leases.DONE
                return Result(State.ELSEWHERE)
            document, reason = self._measure(task, descriptor)
            if not lease.is_ours():
                return Result(State.BUSY)  # we were taken for dead; who runs it now keeps it
            if reason is None:
                ours = self._keep(task, document)
                self.place.failed(task).unlink(missing_ok=True)
                state = leases.DONE
                return Result(State.FINISHED if ours else State.ELSEWHERE)
            if not self.children.stopped:
                outputs.write(self.place.failed(task), _line(document), durable=True)
                state = leases.FAILED
            return Result(State.FAILED, document)
        finally:
            lease.end(state)

    def _measure(self, task: Task, descriptor: int) -> tuple[Json, str | None]:
        """(the document to keep, why the run does not count or None)."""
        directory = task.pool_directory
        pool = self.owner.path(directory, task.key) if directory else None
        began, start = time.time(), time.monotonic()
        try:
            ended, folded = self._run_process(task, pool, descriptor)
        finally:
            end = time.monotonic()
            if pool:
                pools.remove(pool)
        document: Json = {
            "key": task.key,
            "labels": task.cell.labels,
            "repetition": task.repetition,
            "command": task.shell(),
            "started_unix": round(began, 3),
            "seconds": round(end - start, 3),
            "build_id": task.build_id,
            "host_fingerprint": task.host_fingerprint,
            "interval": {
                "machine": host.token(),
                "boot_id": host.boot_id(),
                "start_s": round(start, 6),
                "end_s": round(end, 6),
            },
        }
        reason, found = _judge(ended)
        if reason is None:
            return document | ({"profile": folded} if folded else {}) | {"record": found}, None
        document |= {"reason": reason, "exit_code": ended.code, "stderr": ended.stderr[-4000:]}
        return document, reason

    def _run_process(self, task: Task, pool: Path | None, descriptor: int) -> tuple[Ended, str]:
        """How it ended, and the folded stacks of a cell that is profiled."""
        command, seconds = task.with_pool(pool), self.place.timeout_seconds
        if not task.cell.profiled:
            return self.children.run(command, seconds, [descriptor]), ""
        with tempfile.TemporaryDirectory(prefix="perdure-") as folder:
            stacks = Path(folder) / "run.folded"
            wanted = [*command, profile.FLAG, str(stacks)]
            with profile.recorded(wanted, task.cell.target) as profiled:
                ended = self.children.run(profiled, seconds, [descriptor])
            text = stacks.read_text(encoding="utf-8") if stacks.is_file() else ""
        return ended, flame_graph.shortened(text)

    def _keep(self, task: Task, document: Json) -> bool:
        """Keeps a finished cell; false when another process has kept it meanwhile. On a full disk
        it is printed, before the campaign ends."""
        file = self.place.cell(task)
        try:
            if not outputs.write_new(file, _line(document)):
                if self.place.is_finished(task):
                    return False
                outputs.write(file, _line(document), durable=True)  # it was damaged
        except PerdureError:
            print(json.dumps(document), flush=True)
            raise
        return True


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


def _line(document: Json) -> str:
    return json.dumps(document) + "\n"
