"""The lock of a results folder: one campaign alone, or the shards of one.

`lock` is held by flock, exclusive or shared, by each process of a campaign and whatever it starts,
and says in JSON who may join:

    campaign   a number of 16 hex digits that the first shard drew; claims carry it
    plan       digest of the cells: a shard of another study, build or kind of machine is refused
    shared     false: nobody may join
    pid        of who wrote it

The first shard is the one that got the lock exclusively; it writes the line and then shares the
lock. A shard that comes when all have gone is a first one again, of a new campaign: cells that
failed are then tried again.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from perdure.errors import InputError
from perdure.programs import host
from perdure.programs.host_lock import locked
from perdure.types import Json

DYING_SECONDS = 10.0  # what a killed process may take to give back a large pool
LEAVING_SECONDS = 1.0
POLL_SECONDS = 0.02
LOCK = "lock"


@dataclass(frozen=True)
class Session:
    """A campaign's hold on its results folder."""

    campaign: str
    descriptor: int  # of the lock, for processes to inherit
    first: bool  # nobody else was there

    def is_alone(self) -> bool:
        """Tries to become the only one; the lock is exclusive then."""
        return locked(self.descriptor, fcntl.LOCK_EX)


@contextmanager
def alone(results: Path) -> Iterator[Session]:
    """Holds the folder alone. Errors: InputError while others work there."""
    with (results / LOCK).open("a+", encoding="utf-8") as handle:
        deadline = time.monotonic() + DYING_SECONDS
        while not locked(handle.fileno(), fcntl.LOCK_EX):
            _refuse_living(handle, results, deadline, joins=False)
        session = Session(secrets.token_hex(8), handle.fileno(), first=True)
        _write(handle, session, "", shared=False)
        yield session


@contextmanager
def shared(results: Path, plan: str) -> Iterator[Session]:
    """Joins the shards of the same plan in a folder, or is their first.

    Errors: InputError while a campaign has it alone, or shards of another plan work there.
    """
    with (results / LOCK).open("a+", encoding="utf-8") as handle:
        descriptor = handle.fileno()
        began = time.monotonic()
        while True:
            first = locked(descriptor, fcntl.LOCK_EX)
            if first:
                _write(handle, Session(secrets.token_hex(8), descriptor, first), plan, shared=True)
                # This may let the lock go for a moment, in which another becomes the first: so the
                # line counts that is there when we share.
                fcntl.flock(descriptor, fcntl.LOCK_SH)
            elif not locked(descriptor, fcntl.LOCK_SH):
                _refuse_living(handle, results, began + DYING_SECONDS, joins=True)
                continue
            said = _said(handle)
            if said.get("shared") and said.get("plan") == plan:
                break
            # Theirs, or that of somebody who has just left.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            if time.monotonic() > began + LEAVING_SECONDS:
                raise InputError(
                    "shards of another study, build or kind of machine work here",
                    where=str(results),
                    remedy="wait for them, or give another --results",
                )
            time.sleep(POLL_SECONDS)
        yield Session(str(said["campaign"]), descriptor, first)


@contextmanager
def joined(results: Path, campaign: str) -> Iterator[int]:
    """Shares the lock of a campaign that others began; yields its descriptor. Errors: InputError
    when it has ended, or the folder is not seen here."""
    try:
        handle = (results / LOCK).open("r", encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot be read on this machine: {error.strerror}",
            where=str(results / LOCK),
            remedy="give a --results that all machines see",
        ) from error
    with handle:
        if not locked(handle.fileno(), fcntl.LOCK_SH) or _said(handle).get("campaign") != campaign:
            raise InputError("the campaign has ended", where=str(results))
        yield handle.fileno()


def _refuse_living(handle: TextIO, results: Path, deadline: float, *, joins: bool) -> None:
    """The processes of a campaign that was killed hold the lock until they are gone as well; shards
    that come and go hold it alone for a moment."""
    said = _said(handle)
    lives = bool(host.process_start(int(said.get("pid", 0))))
    if lives and not (joins and said.get("shared")) or time.monotonic() > deadline:
        raise InputError(
            "another campaign writes here",
            where=str(results),
            remedy="wait for it, or give another --results",
        )
    time.sleep(POLL_SECONDS)


def _write(handle: TextIO, session: Session, plan: str, *, shared: bool) -> None:
    document = {
        "campaign": session.campaign,
        "plan": plan,
        "shared": shared,
        "pid": os.getpid(),
    }
    handle.seek(0)
    handle.truncate()
    handle.write(json.dumps(document) + "\n")
    handle.flush()
    os.fsync(handle.fileno())


def _said(handle: TextIO) -> Json:
    """The line of the lock; empty where it is of another version, or was not written whole."""
    handle.seek(0)
    try:
        document = json.loads(handle.read())
    except ValueError:
        return {}
    if isinstance(document, int):  # earlier versions wrote the process's number
        return {"pid": document}
    return document if isinstance(document, dict) else {}
