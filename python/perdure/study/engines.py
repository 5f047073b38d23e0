"""Engines: in which order and where the tasks of a campaign run.

An engine calls `Runner.run` for every task until each has run, here or elsewhere. Who may run what
is decided there (leases.py), so an engine keeps no state that could be lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from perdure.programs import host
from perdure.study.tasks import Result, Runner, State, Task

POLL_SECONDS = 0.5
Finish = Callable[[Task, Result], None]


class Engine(Protocol):
    """Runs tasks; calls `start` before a task that runs alone, and `finish` once for each task that
    ran or that another process ran."""

    def run(
        self, tasks: Sequence[Task], runner: Runner, start: Callable[[Task], None], finish: Finish
    ) -> None: ...


@dataclass(frozen=True)
class Here:
    """This process: native tasks one after the other, then simulated ones, one per core, because
    what they say does not depend on the host.

    Of several shards each begins with its own tasks and then helps the others with theirs, from
    the end, where their owners come last. While others still run something it waits, to run that
    itself if they die.
    """

    shard: int = 0
    shards: int = 1

    def run(
        self, tasks: Sequence[Task], runner: Runner, start: Callable[[Task], None], finish: Finish
    ) -> None:
        left = self.order(tasks)
        while left:
            busy: list[Task] = []

            def sort(task: Task, result: Result, busy: list[Task] = busy) -> None:
                busy.append(task) if result.state is State.BUSY else finish(task, result)

            for task in left:
                if not task.simulated:
                    start(task)
                    sort(task, runner.run(task))
            simulated = [task for task in left if task.simulated]
            runner.children.spread(simulated, host.granted_cores(), runner.run, sort)
            if len(busy) == len(left):
                time.sleep(POLL_SECONDS)
            left = busy

    def order(self, tasks: Sequence[Task]) -> list[Task]:
        # Shards beyond the tasks have none of their own.
        parts = [list(tasks[n :: self.shards]) for n in range(min(self.shards, len(tasks)))]
        own = parts[self.shard] if self.shard < len(parts) else []
        others = parts[self.shard + 1 :] + parts[: self.shard]
        return own + [task for part in others for task in reversed(part)]


HERE = Here()
