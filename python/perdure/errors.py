"""Exit codes, and the one-line errors of the command line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import IntEnum


class ExitCode(IntEnum):
    """What the commands return; the README documents the same list."""

    OK = 0
    CELL_FAILED = 1
    USAGE = 2
    REGRESSION = 3
    INCONCLUSIVE = 4
    VIOLATION = 5
    INTERRUPTED = 130


class PerdureError(Exception):
    """Ends a command with one line on stderr: where: what; remedy."""

    exit_code = ExitCode.CELL_FAILED

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        line = f"{where}: {what}" if where else what
        if remedy:
            line += f"; {remedy}"
        super().__init__(line)


class InputError(PerdureError):
    """A wrong flag, name or file: exit code 2."""

    exit_code = ExitCode.USAGE


def did_you_mean(given: str, candidates: Iterable[str], otherwise: str = "") -> str:
    """`did you mean 'fptree'?` for the nearest candidate, else `otherwise`."""
    near = difflib.get_close_matches(given, list(candidates), n=1, cutoff=0.6)
    return f"did you mean '{near[0]}'?" if near else otherwise


def one_of(names: Iterable[str]) -> str:
    """`use one of a, b, c`, the remedy when nothing is near."""
    return "use one of " + ", ".join(names)
