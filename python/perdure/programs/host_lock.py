"""One lock for each machine, so that nothing is measured beside something else.

What measures natively holds the machine alone; simulations hold it beside each other. All campaigns
and all users of a machine use two files, perdure-machine.lock and perdure-machine.turn:

    lock   flock, exclusive of what measures, shared of each simulation; names its holder
    turn   held while waiting for `lock`, so that simulations which keep coming make nobody wait for
           ever

They lie in the first of PLACES that every user may write to, or in the folder PERDURE_LOCKS, which
containers of one machine can share. A process that is started inherits the lock, so it lasts until
the last one is gone, however it went.
"""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from perdure.errors import InputError, PerdureError
from perdure.programs import host

PLACES = ("/run/lock", "/dev/shm", "/var/tmp", "/tmp")
LOCK, TURN = "perdure-machine.lock", "perdure-machine.turn"
POLL_SECONDS = 0.05
QUIET_SECONDS = 1.0  # a wait that is over by then is not worth a line
LONGEST_TEXT = 200


class StoppedError(Exception):
    """The campaign ends while it waits."""


@contextmanager
def held(
    purpose: str,
    *,
    alone: bool,
    say: Callable[[str], None],
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[int]:
    """Holds this machine, alone or beside others that need it not alone; yields the lock's
    descriptor, for processes to inherit. `purpose` is shown to those who wait.

    Errors: InputError where the files cannot be opened; StoppedError.
    """
    place = folder()
    descriptor = _open(place / LOCK)
    try:
        wait = _Wait(descriptor, say, stopped)
        turn = _open(place / TURN)
        try:
            wait.until(lambda: locked(turn, fcntl.LOCK_EX))
            wait.until(lambda: locked(descriptor, fcntl.LOCK_EX if alone else fcntl.LOCK_SH))
        finally:
            os.close(turn)
        if alone:
            _name_holder(descriptor, purpose)
        yield descriptor
    finally:
        os.close(descriptor)


def folder() -> Path:
    """Where the files lie. The same for every user, whatever each may write to."""
    if named := os.environ.get("PERDURE_LOCKS"):
        return Path(named)
    for name in PLACES:
        with suppress(OSError):
            mode = Path(name).stat().st_mode
            if stat.S_ISDIR(mode) and mode & 0o1777 == 0o1777:
                return Path(name)
    return Path(PLACES[-1])


class _Wait:
    def __init__(
        self, descriptor: int, say: Callable[[str], None], stopped: Callable[[], bool]
    ) -> None:
        self._descriptor, self._say, self._stopped = descriptor, say, stopped
        self._began, self._said = time.monotonic(), ""

    def until(self, locked: Callable[[], bool]) -> None:
        while not locked():
            if self._stopped():
                raise StoppedError
            if time.monotonic() - self._began > QUIET_SECONDS:
                self._name()
            time.sleep(POLL_SECONDS)

    def _name(self) -> None:
        who = holder(self._descriptor)
        if who != self._said:
            self._say(f"waiting for this machine: {who}")
            self._said = who


def holder(descriptor: int) -> str:
    """Who measures, for people; other users wrote it, so it is cut and cleaned."""
    try:
        document = json.loads(os.pread(descriptor, 4096, 0).decode("utf-8"))
        running = not host.is_gone(int(document["pid"]), str(document["process_start"]))
        began = datetime.fromtimestamp(float(document["since_unix"])).strftime("%H:%M:%S")
        text = f"{document['user']} measures {document['purpose']} (process {document['pid']})"
        if running or document["token"] != host.token():
            clean = "".join(c if c.isprintable() else "?" for c in text)
            return f"{clean[:LONGEST_TEXT]} since {began}"
    except (LookupError, OSError, OverflowError, TypeError, ValueError):
        pass
    return "simulations, or a process that is ending, hold it"


def _name_holder(descriptor: int, purpose: str) -> None:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    document = {
        "user": user,
        "pid": os.getpid(),
        "token": host.token(),
        "process_start": host.process_start(os.getpid()),
        "purpose": purpose[:LONGEST_TEXT],
        "since_unix": round(time.time(), 3),
    }
    with suppress(OSError):  # for people only: the lock holds on a full disk as well
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(document).encode(), 0)


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        try:
            descriptor = os.open(path, flags)
        except FileNotFoundError:
            # Two steps, because with O_CREAT the kernel refuses another user's file in such a
            # folder (fs.protected_regular).
            with suppress(FileExistsError):
                made = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
                os.fchmod(made, 0o666)  # whatever the umask
                os.close(made)
            descriptor = os.open(path, flags)
    except OSError as error:
        raise InputError(
            f"the lock of this machine cannot be opened: {error.strerror}",
            where=str(path),
            remedy="remove it if nobody measures, or name a folder in PERDURE_LOCKS",
        ) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise PerdureError(
            "is no file", where=str(path), remedy="remove it, or name a folder in PERDURE_LOCKS"
        )
    return descriptor


def locked(descriptor: int, kind: int) -> bool:
    """Whether the lock of an open file is ours now: fcntl.LOCK_EX or LOCK_SH. Does not wait.
    Errors: InputError where the file system has no locks."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise InputError(
            f"cannot be locked: {error.strerror}",
            where=str(Path(f"/proc/self/fd/{descriptor}").readlink()),
            remedy="use a folder with flock; over NFS 3 it needs rpc.statd on both machines",
        ) from error
    return True
