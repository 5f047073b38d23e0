"""Leases: which process runs which repetition of a cell, so that no two run the same.

A lease is a file, claims/<key>.<generation>, made by linking a file of another name there: of
several processes that try, in one machine or over NFS, exactly one succeeds.

    byte 0           13       22
         | beats     | state  | who: JSON
    beats   counts up while the owner's process lives, every `seconds` / 6
    state   running, done (its record is kept), failed (see failed/), given up

C1  The newest generation of a key is its owner. A generation is never replaced, so whoever takes a
    dead owner's work over links the next one, and again one succeeds.
C2  The owner writes its own file only, by its descriptor: when another has taken over, what the
    former owner writes is of an old generation and means nothing.
C3  A lease that runs is dead when its process is gone, where the process can be asked for
    (host.token()); elsewhere when its bytes have not changed for as long as it says, by the
    monotonic clock of whoever looks. Clocks of two machines are never compared.
C4  The record in cells/ alone says that a cell is finished: it is looked for after each link, and
    put there only by who is still the owner.
C5  Files of a key are removed only by a process that is alone in the results folder.
Heartbeats overwrite bytes in place, so a full disk ends no lease.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from perdure.errors import PerdureError
from perdure.programs import host, outputs

FOLDER = "claims"
PREPARE = "prepare-"  # begins the key of what comes before the cells
SECONDS = 120.0  # longer than any client of NFS keeps what it has read (acdirmax, 60 s)
RUNNING, DONE, FAILED, GIVEN_UP = "running", "done", "failed", "given up"
_BEATS, _HEAD, _BEATS_PER_LEASE = 12, 22, 6


@dataclass(frozen=True)
class Owner:
    """Who runs what, as a lease's file says it. `what` and `since_unix` are for people only."""

    what: str
    campaign: str
    host: str
    token: str
    pid: int
    process_start: str
    since_unix: float
    seconds: float

    def is_gone(self) -> bool:
        """Whether it can be asked for, and there is no such process."""
        return self.token == host.token() and host.is_gone(self.pid, self.process_start)


@dataclass(frozen=True)
class Claim:
    """One generation of one key, as it is on disk. A damaged one has no owner."""

    generation: int
    content: bytes
    state: str
    owner: Owner | None


class Lease:
    """The right to run one key; `Leases` keeps it alive until it ends."""

    def __init__(self, leases: Leases, key: str, generation: int, descriptor: int) -> None:
        self.key, self.generation = key, generation
        self._leases, self._descriptor = leases, descriptor
        self._beats = 0
        self._open = threading.Lock()

    def end(self, state: str) -> None:
        """Says how it ended: DONE, FAILED or GIVEN_UP."""
        with self._open:
            if self._descriptor >= 0:
                self._write(_BEATS + 1, f"{state:8}")
                os.close(self._descriptor)
                self._descriptor = -1
        self._leases.forget(self)

    def is_ours(self) -> bool:
        """False when another process took it for dead and has the key now."""
        newest = self._leases.newest(self.key)
        return newest is not None and newest.generation == self.generation

    def beat(self) -> None:
        with self._open:
            self._beats += 1
            if self._descriptor >= 0:
                self._write(0, f"{self._beats:0{_BEATS}}")

    def _write(self, offset: int, text: str) -> None:
        # Who cannot write any more loses the lease in the end, and notices it before keeping.
        with suppress(OSError):
            os.pwrite(self._descriptor, text.encode(), offset)
            os.fsync(self._descriptor)  # over NFS, others read it only then


class Leases:
    """The leases of one process in a results folder; in its context they are kept alive."""

    def __init__(self, results: Path, campaign: str, seconds: float = SECONDS) -> None:
        self.folder, self.campaign, self.seconds = results / FOLDER, campaign, seconds
        self._ours: set[Lease] = set()
        self._seen: dict[tuple[str, int], tuple[bytes, float]] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._beating = threading.Thread(target=self._beat, name="leases", daemon=True)

    def __enter__(self) -> Leases:
        self.folder.mkdir(exist_ok=True)
        self._beating.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._beating.join()
        for lease in list(self._ours):
            lease.end(GIVEN_UP)

    def take(self, key: str, what: str = "") -> Lease | None:
        """The lease of `key`, or None while another process has it. Errors: PerdureError."""
        newest = self.newest(key)
        if newest is not None and self.is_held(key, newest):
            return None
        return self._link(key, newest.generation + 1 if newest else 0, what)

    def has_failed(self, key: str) -> bool:
        """Whether it failed in this campaign, here or in another shard."""
        newest = self.newest(key)
        return newest is not None and self._failed(newest)

    def newest(self, key: str) -> Claim | None:
        """The last generation of a key."""
        found = None
        for generation in range(10**6):
            claim = read(self.folder / f"{key}.{generation}")
            if claim is None:
                break
            found = claim
        return found

    def is_held(self, key: str, claim: Claim) -> bool:
        """Whether nobody else may run the key: its owner lives, is done, or failed in this
        campaign."""
        if claim.state == GIVEN_UP:
            return False
        if claim.state == FAILED:
            return self._failed(claim)
        owner = claim.owner
        if claim.state == RUNNING and owner is not None and owner.token == host.token():
            return not owner.is_gone()
        # Of another machine. One that is done without a record that we see: it may take as long
        # until the other machine's directory reaches us.
        now = time.monotonic()
        with self._lock:
            seen = self._seen.get((key, claim.generation))
            if seen is None or seen[0] != claim.content:
                self._seen[key, claim.generation] = claim.content, now
                return True
        return now - seen[1] <= (owner.seconds if owner else self.seconds)

    def forget(self, lease: Lease) -> None:
        with self._lock:
            self._ours.discard(lease)

    def _failed(self, claim: Claim) -> bool:
        owner = claim.owner
        return claim.state == FAILED and owner is not None and owner.campaign == self.campaign

    def _link(self, key: str, generation: int, what: str) -> Lease | None:
        name = self.folder / f"{key}.{generation}"
        unique = self.folder / f".{host.token()}-{os.getpid()}-{threading.get_native_id()}"
        owner = Owner(
            what,
            self.campaign,
            host.name(),
            host.token(),
            os.getpid(),
            host.process_start(os.getpid()),
            round(time.time(), 3),
            self.seconds,
        )
        descriptor = -1
        try:
            with suppress(FileNotFoundError):
                unique.unlink()  # of a process that was killed and had our number
            descriptor = os.open(unique, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            text = f"{0:0{_BEATS}} {RUNNING:8}\n{json.dumps(asdict(owner))}\n".encode()
            if os.write(descriptor, text) != len(text):
                raise OSError(28, os.strerror(28))
            os.fsync(descriptor)
            won = _named(unique, name, descriptor)
            unique.unlink(missing_ok=True)
        except OSError as error:
            if descriptor >= 0:
                os.close(descriptor)
            unique.unlink(missing_ok=True)
            raise PerdureError(
                f"cannot be claimed: {error.strerror}",
                where=str(name),
                remedy="make room, or give another --results",
            ) from error
        if not won:
            os.close(descriptor)
            return None
        lease = Lease(self, key, generation, descriptor)
        with self._lock:
            self._ours.add(lease)
        return lease

    def _beat(self) -> None:
        while not self._ended.wait(self.seconds / _BEATS_PER_LEASE):
            with self._lock:
                ours = list(self._ours)
            for lease in ours:
                lease.beat()


def _named(unique: Path, name: Path, descriptor: int) -> bool:
    """Tries to give our file `name`; false when another has it. Errors: OSError.

    What the file is called decides, and not the answer to `link`: over NFS the answer may be lost,
    and the call that is repeated then fails, as does one that waits too long (mount option `soft`).
    Counting the file's links says the same, but not on file systems that have none.
    """
    failed: OSError | None = None
    try:
        outputs.link_new(unique, name)
    except OSError as error:
        failed = error
    try:
        if os.path.samestat(name.stat(), os.fstat(descriptor)):
            return True
    except FileNotFoundError as error:
        raise failed or error from None
    if failed is not None and not isinstance(failed, FileExistsError):
        raise failed
    return False


def read(file: Path) -> Claim | None:
    """A claim's file; None where there is none."""
    try:
        content = file.read_bytes()
    except OSError:  # also one that another machine removed meanwhile
        return None
    generation = file.name.rpartition(".")[2]
    try:
        head, who = content[:_HEAD].decode("ascii"), json.loads(content[_HEAD:])
        state, owner = head[_BEATS:].strip(), Owner(**who)
    except (TypeError, ValueError):
        return Claim(int(generation), content, RUNNING, None)
    whole = all(isinstance(getattr(owner, f.name), _TYPES[str(f.type)]) for f in fields(owner))
    return Claim(int(generation), content, state, owner if whole else None)


_TYPES: dict[str, Any] = {"str": str, "int": int, "float": (int, float)}


def all_of(results: Path) -> Iterator[tuple[str, Claim]]:
    """(key, newest generation) of everything that is or was claimed in a results folder."""
    newest: dict[str, int] = {}
    for file in (results / FOLDER).glob("*.*"):
        key, _, number = file.name.rpartition(".")
        if key and number.isdecimal():
            newest[key] = max(newest.get(key, 0), int(number))
    for key, generation in sorted(newest.items()):
        claim = read(results / FOLDER / f"{key}.{generation}")
        if claim is not None:
            yield key, claim


def taken_over_from(results: Path, key: str, claim: Claim) -> Owner | None:
    """Who had the key before and neither ended nor gave it up; None where nobody did."""
    former = read(results / FOLDER / f"{key}.{claim.generation - 1}") if claim.generation else None
    return former.owner if former is not None and former.state == RUNNING else None


def written_unix(results: Path, key: str, claim: Claim) -> float | None:
    """When a claim last changed, by the clock of the file system; None where it is gone."""
    try:
        return (results / FOLDER / f"{key}.{claim.generation}").stat().st_mtime
    except OSError:
        return None


def now_unix(results: Path) -> float:
    """The clock that `written_unix` is by, which over NFS is the server's: the time of a file made
    there, or this machine's where none can be made."""
    try:
        with tempfile.TemporaryFile(dir=results / FOLDER) as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return time.time()


def tidy(results: Path) -> None:
    """Removes claims that ended, and names that killed processes left. The caller is alone in the
    folder (C5)."""
    for key, claim in all_of(results):
        owner = claim.owner
        if claim.state != RUNNING or (owner is not None and owner.is_gone()):
            for generation in range(claim.generation, -1, -1):
                (results / FOLDER / f"{key}.{generation}").unlink(missing_ok=True)
    for left in (results / FOLDER).glob(".*-*-*"):
        left.unlink(missing_ok=True)
    with suppress(OSError):
        (results / FOLDER).rmdir()
