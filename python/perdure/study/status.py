"""What a campaign has done, does and has yet to do, read from its results folder.

Nothing is locked: what is read may be a moment old. A lease of another machine is lost when its
file was not written for as long as it says (`leases.now_unix`); a shard that watches it takes its
work over then.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perdure.errors import InputError
from perdure.programs import host
from perdure.results import record, schemas
from perdure.study import leases
from perdure.study.leases import Owner
from perdure.types import Json


@dataclass(frozen=True)
class Failure:
    """A cell that failed, and was not run again since."""

    key: str
    labels: dict[str, str]
    reason: str
    command: str


@dataclass(frozen=True)
class Work:
    """What somebody runs, or ran when the last sign of life came."""

    key: str
    owner: Owner
    silent_since_unix: float | None = None  # lost; None: running
    taken_over_from: Owner | None = None

    @property
    def free_since_unix(self) -> float | None:
        """When whoever watched took it over, or could have."""
        since = self.silent_since_unix
        return None if since is None else since + self.owner.seconds

    def document(self) -> Json:
        owner, former = self.owner, self.taken_over_from
        found = {"key": self.key, "what": owner.what, "host": owner.host, "pid": owner.pid}
        found |= {"since_unix": owner.since_unix}
        if self.silent_since_unix is None:
            return found | {"taken_over_from": former.host if former else None}
        return found | {
            "silent_since_unix": self.silent_since_unix,
            "free_since_unix": self.free_since_unix,
        }


@dataclass(frozen=True)
class Status:
    study: str
    results: Path
    quick: bool
    done: int
    running: list[Work]
    lost: list[Work]
    failed: list[Failure]
    waiting: int
    seconds_left: float | None  # None: nobody works on it, or nothing is finished yet

    @property
    def total(self) -> int:
        claimed = [*self.running, *self.lost]
        cells = [one for one in claimed if not one.key.startswith(leases.PREPARE)]
        return self.done + len(cells) + len(self.failed) + self.waiting

    def document(self) -> Json:
        return {
            "study": self.study,
            "results": str(self.results),
            "quick": self.quick,
            "total": self.total,
            "done": self.done,
            "running": [one.document() for one in self.running],
            "lost": [one.document() for one in self.lost],
            "failed": [vars(one) for one in self.failed],
            "waiting": self.waiting,
            "seconds_left": self.seconds_left,
        }


def read(results: Path, *, quick: bool = False) -> Status:
    """The status of the latest campaign in a results folder. Errors: InputError."""
    manifest = record.read_manifest(results, quick=quick)
    claimed = list(_claimed(results))
    if not manifest and not claimed:
        raise InputError(
            "holds no campaign", where=str(results), remedy="give the --results of a study run"
        )
    keys = manifest.get("cells", [])
    seconds = {key: _seconds(results / "cells" / f"{key}.json") for key in keys}
    finished = [spent for spent in seconds.values() if spent is not None]
    # A cell may be finished after its lease was read.
    claimed = [one for one in claimed if seconds.get(one.key) is None]
    held = {one.key for one in claimed}
    open_keys = [k for k in keys if seconds[k] is None and k not in held]
    failed = [one for one in (_failure(results, key) for key in open_keys) if one]
    waiting = len(open_keys) - len(failed)
    running = [one for one in claimed if one.silent_since_unix is None]
    lost = [one for one in claimed if one.silent_since_unix is not None]
    return Status(
        manifest.get("study", ""),
        results,
        manifest.get("quick", quick),
        len(finished),
        running,
        lost,
        failed,
        waiting,
        _left(finished, len(running), waiting + len(lost)),
    )


def _claimed(results: Path) -> Iterator[Work]:
    """What runs or is lost. Of this machine, what is lost is known at once and waits again."""
    now: float | None = None
    for key, claim in leases.all_of(results):
        owner = claim.owner
        if claim.state != leases.RUNNING or owner is None or owner.is_gone():
            continue
        written, silent = leases.written_unix(results, key, claim), None
        if owner.token != host.token() and written is not None:
            now = leases.now_unix(results) if now is None else now
            silent = written if now - written > owner.seconds else None
        yield Work(key, owner, silent, leases.taken_over_from(results, key, claim))


def _left(finished: list[float], running: int, waiting: int) -> float | None:
    """As if each cell took as long as those that are finished took on average, as many ran at a
    time as now, and those that run were half-way."""
    if running + waiting == 0:
        return 0.0
    if not finished or not running:
        return None
    return round(statistics.fmean(finished) * (waiting + running / 2) / running, 3)


def _seconds(file: Path) -> float | None:
    """How long a finished cell took; None where there is none."""
    if not record.is_cell(file):
        return None
    return float(schemas.loads(file.read_text(encoding="utf-8")).get("seconds", 0.0))


def _failure(results: Path, key: str) -> Failure | None:
    try:
        document = schemas.read(results / "failed" / f"{key}.json", "failed cell", "")
    except InputError:
        return None
    return Failure(key, document["labels"], document["reason"], document["command"])
