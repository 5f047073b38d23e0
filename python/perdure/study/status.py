"""What a campaign has done, does and has yet to do, read from its results folder.

Nothing is locked: what is read may be a moment old. A lease of another machine counts as running,
because only time shows that its owner is dead.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path

from perdure.errors import InputError
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
class Status:
    study: str
    results: Path
    quick: bool
    done: int
    running: list[tuple[str, Owner]]  # with the key
    failed: list[Failure]
    waiting: int
    seconds_left: float | None  # None: nobody works on it, or nothing is finished yet

    @property
    def total(self) -> int:
        cells = [key for key, _ in self.running if not key.startswith(leases.PREPARE)]
        return self.done + len(cells) + len(self.failed) + self.waiting

    def document(self) -> Json:
        return {
            "study": self.study,
            "results": str(self.results),
            "quick": self.quick,
            "total": self.total,
            "done": self.done,
            "running": [
                {
                    "key": key,
                    "what": owner.what,
                    "host": owner.host,
                    "pid": owner.pid,
                    "since_unix": owner.since_unix,
                }
                for key, owner in self.running
            ],
            "failed": [vars(one) for one in self.failed],
            "waiting": self.waiting,
            "seconds_left": self.seconds_left,
        }


def read(results: Path, *, quick: bool = False) -> Status:
    """The status of the latest campaign in a results folder. Errors: InputError."""
    manifest = record.read_manifest(results, quick=quick)
    running = [
        (key, claim.owner)
        for key, claim in leases.all_of(results)
        if claim.state == leases.RUNNING and claim.owner and not claim.owner.is_gone()
    ]
    if not manifest and not running:
        raise InputError(
            "holds no campaign", where=str(results), remedy="give the --results of a study run"
        )
    keys = manifest.get("cells", [])
    seconds = {key: _seconds(results / "cells" / f"{key}.json") for key in keys}
    finished = [spent for spent in seconds.values() if spent is not None]
    # A cell may be finished after its lease was read.
    running = [(key, owner) for key, owner in running if seconds.get(key) is None]
    open_keys = [k for k in keys if seconds[k] is None and k not in dict(running)]
    failed = [one for one in (_failure(results, key) for key in open_keys) if one]
    waiting = len(open_keys) - len(failed)
    return Status(
        manifest.get("study", ""),
        results,
        manifest.get("quick", quick),
        len(finished),
        running,
        failed,
        waiting,
        _left(finished, len(running), waiting),
    )


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
