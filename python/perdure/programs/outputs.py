"""Files that a command writes: refused before its work where they cannot be written, whole after.

A file is written beside its place and renamed, so that nobody sees half of it. What is no regular
file (a terminal, a pipe, /dev/null) is written in place, because a rename would replace the device.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from perdure.errors import InputError, PerdureError
from perdure.programs import host
from perdure.programs.child import Text

# A temporary file beside NAME.EXT is NAME.<process>-<thread>-<machine>.tmp: several machines may
# share a folder. `sweep` finds those of the dead.
TEMPORARY = "*.[0-9]*-[0-9]*.tmp"
_OF_PROCESS = re.compile(r".*\.(\d+)-\d+-([0-9a-f]{16})\.tmp", re.DOTALL)
LONGEST_NAME = 100
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
# Bytes of a name that are not UTF-8 are written as escapes.
_TEXT: Text = {"encoding": "utf-8", "errors": "backslashreplace"}


def short(path: Path) -> str:
    """Relative to the current directory where that is below it: how a user would write it."""
    with contextlib.suppress(ValueError):
        return str(path.resolve().relative_to(Path.cwd()))
    return str(path)


def write(path: Path, text: str, *, durable: bool = False) -> None:
    """Makes `path` hold `text`, or leaves it as it was. Errors: PerdureError naming the file.

    `durable` also waits for the disk, for what would be expensive to make again.
    """
    try:
        if _in_place(path):
            path.write_text(text, **_TEXT)
            return
        with _beside(path) as handle:
            _fill(handle, text, durable)
    except OSError as error:
        raise _unwritten(path, error) from error


def write_new(path: Path, text: str) -> bool:
    """As `write`, durably, but only where there is nothing yet: of several processes, also of
    several machines, one succeeds. False for the others."""
    try:
        with _beside(path, replace=False) as handle:
            _fill(handle, text, durable=True)
    except FileExistsError:
        return False
    except OSError as error:
        raise _unwritten(path, error) from error
    return True


def link_new(source: Path, target: Path) -> None:
    """Gives a file a name that nobody has yet, in one step that one of several processes does, also
    over NFS. `source` may keep its own name. Errors: FileExistsError; OSError."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # A file system without hard links: it is a local one. A crash here leaves an empty file.
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
        source.replace(target)


def write_bytes(path: Path, data: bytes) -> None:
    """As `write`, of a file that is no text."""
    temporary = _temporary(path)
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        raise PerdureError(
            f"cannot be written: {error.strerror}", where=str(path), remedy="give another place"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def create(path: Path, text: str) -> bool:
    """As a durable `write`, but leaves a file that is there alone; whether it was made. Errors:
    PerdureError naming the file."""
    temporary = _temporary(path)
    try:
        write(temporary, text, durable=True)
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            return False
        except OSError as error:
            raise PerdureError(
                f"cannot be made: {error.strerror}", where=str(path), remedy="give another place"
            ) from error
        return True
    finally:
        temporary.unlink(missing_ok=True)


def check(path: Path, flag: str = "") -> None:
    """Tries what `write` will do. Call it before work whose result would be lost."""
    where = f"{flag} {path}".strip()
    if path.is_dir() or not path.name:
        raise InputError("is a directory", where=where, remedy="give the name of a file")
    try:
        if _in_place(path):
            if not os.access(path, os.W_OK):
                raise PermissionError(13, "Permission denied")
            return
        target = path.resolve()
        temporary = _temporary(target)
        temporary.touch(exist_ok=False)
        temporary.unlink(missing_ok=True)  # a campaign that starts may have swept it
    except OSError as error:
        raise InputError(
            error.strerror or "cannot be written",
            where=where,
            remedy="give a file in a directory that exists and may be written",
        ) from error


def folder(path: Path, flag: str = "") -> Path:
    """Makes `path` a directory that files can be made in. Errors: InputError."""
    where = f"{flag} {path}".strip()
    try:
        path.mkdir(parents=True, exist_ok=True)
        temporary = _temporary(path / "try")
        temporary.touch(exist_ok=False)
        temporary.unlink(missing_ok=True)  # a campaign that starts may have swept it
    except OSError as error:
        reason = "is no directory" if isinstance(error, FileExistsError) else error.strerror
        raise InputError(
            reason or "cannot be made", where=where, remedy="give a directory that may be written"
        ) from error
    return path


def sweep(directory: Path, *, shared: bool = False) -> None:
    """Removes temporary files that killed processes left; the caller holds the directory's lock.

    Where others write as well (`shared`), only those of this machine's processes that are gone.
    """
    for left in directory.glob(TEMPORARY):
        if not shared or _is_left(left):
            left.unlink(missing_ok=True)


def name_problem(name: str) -> str | None:
    """Why `name` cannot become a file's name, None where it can.

    Names of studies and figures do; one with a slash would be written somewhere else.
    """
    if not name.strip():
        return "is empty"
    if any(c in "/\\" or ord(c) < 32 or ord(c) == 127 for c in name):
        return "has a slash or a control character, and becomes a file's name"
    if name.startswith((".", "-")):
        return "begins with a dot or a dash, and becomes a file's name"
    if any(0xD800 <= ord(c) < 0xE000 for c in name):
        return "is not UTF-8, and becomes a file's name"
    if len(name.encode()) > LONGEST_NAME:
        return f"is longer than {LONGEST_NAME} bytes, and becomes a file's name"
    return None


def _in_place(path: Path) -> bool:
    return path.exists() and not path.is_file()


def _temporary(path: Path) -> Path:
    process = f"{os.getpid()}-{threading.get_native_id()}-{host.token()}"
    return path.with_name(f"{path.stem[:80]}.{process}.tmp")


def _is_left(temporary: Path) -> bool:
    named = _OF_PROCESS.fullmatch(temporary.name)
    return (
        named is not None
        and named.group(2) == host.token()
        and not host.process_start(int(named.group(1)))
    )


def _unwritten(path: Path, error: OSError) -> PerdureError:
    return PerdureError(
        f"cannot be written: {error.strerror}",
        where=str(path),
        remedy="give another place, or make room",
    )


def _fill(handle: TextIO, text: str, durable: bool) -> None:
    handle.write(text)
    handle.flush()
    if durable:
        os.fsync(handle.fileno())


@contextlib.contextmanager
def _beside(path: Path, *, replace: bool = True) -> Iterator[TextIO]:
    """A new file that takes the place of `path`, or of what a link there leads to."""
    target = path.resolve()
    temporary = _temporary(target)
    try:
        with temporary.open("w", **_TEXT) as handle:
            yield handle
        if not replace:
            link_new(temporary, target)
            return
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
