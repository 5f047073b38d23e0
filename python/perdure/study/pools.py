"""Pools of campaigns: each named for one campaign, and swept when nobody of that campaign is left.

    perdure-TOKEN.owner           locked by the campaign and by every process that it starts
    perdure-TOKEN-KEY.pool        the pool of the cell KEY, with what programs put beside it: .1 ...

Two campaigns in one directory never share a name, so neither can remove what the other uses. The
lock and not a process number says who lives: it is free once the campaign and its processes are
gone, however they went, and it holds in other containers that see the directory.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from perdure.programs import outputs

_OWNER = re.compile(r"perdure-([0-9a-f]{16})\.owner")
_POOL = r"perdure-{token}-[0-9a-f]{{32}}\.pool(\..+)?"


class Pools:
    """The pools of one campaign in the directories that it uses."""

    def __init__(self, token: str, descriptors: list[int]) -> None:
        self.token = token
        self.descriptors = descriptors  # of the locks, for processes to inherit

    def path(self, directory: Path, key: str) -> Path:
        return directory / f"perdure-{self.token}-{key}.pool"


@contextmanager
def owned(directories: Iterable[Path]) -> Iterator[Pools]:
    """Sweeps the directories, then holds the locks of a new campaign's pools there."""
    token, descriptors = secrets.token_hex(8), list[int]()
    with ExitStack() as stack:
        for directory in dict.fromkeys(directories):
            outputs.folder(directory)
            sweep(directory)
            descriptors.append(stack.enter_context(_owner(directory, token)))
        yield Pools(token, descriptors)


def remove(pool: Path) -> None:
    """Removes a pool of ours, a file or an engine's directory, and what stands beside it."""
    for path in [pool, *pool.parent.glob(pool.name + ".*")]:
        _remove(path)


def sweep(directory: Path) -> None:
    """Removes pools whose campaign is gone: those named by an owner that nobody has locked."""
    for owner in directory.glob("perdure-*.owner"):
        named = _OWNER.fullmatch(owner.name)
        descriptor = _open_ours(owner) if named else None
        if named is None or descriptor is None:
            continue
        try:
            if not locked(descriptor) or not _is_still(owner, descriptor):
                continue
            pool = re.compile(_POOL.format(token=named.group(1)))
            for path in directory.glob(f"perdure-{named.group(1)}-*"):
                if pool.fullmatch(path.name):
                    _remove(path)
            owner.unlink(missing_ok=True)
        finally:
            os.close(descriptor)


@contextmanager
def _owner(directory: Path, token: str) -> Iterator[int]:
    path = directory / f"perdure-{token}.owner"
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        # A sweep between the two calls would have taken the file for a dead campaign's.
        if locked(descriptor) and _is_still(path, descriptor):
            break
        os.close(descriptor)
    try:
        yield descriptor
    finally:
        # Before the lock goes: afterwards the name could be somebody's who sweeps.
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _open_ours(path: Path) -> int | None:
    """Opens a regular file of this user; in /dev/shm others may have put anything."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
        return descriptor
    os.close(descriptor)
    return None


def locked(descriptor: int) -> bool:
    """Takes the lock of a file; false when another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the name still leads to the file that is open."""
    try:
        there = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)
