"""Reading files that a user names: whatever is wrong with one becomes an error of one line."""

from __future__ import annotations

import stat
from pathlib import Path

from perdure.errors import InputError


def text(file: Path, remedy: str = "give a readable text file") -> str:
    """A file's text, which is UTF-8. Errors: InputError.

    A pipe is read as well, but no device: some of them never end.
    """
    try:
        mode = file.stat().st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise InputError("is a device, and no file", where=str(file), remedy=remedy)
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError("is not UTF-8 text", where=str(file), remedy=remedy) from error
    except OSError as error:
        raise InputError(
            error.strerror or "cannot be read", where=str(file), remedy=remedy
        ) from error
