"""Starting the programs so that none of them outlives the command that a user gave.

A measuring process whose parent was killed would go on for minutes, on cores that the next run
measures with. The kernel is therefore asked to kill it with its parent: setpriv of util-linux asks
(PR_SET_PDEATHSIG, which lasts through exec), and then becomes the program. Python could ask between
fork and exec, but the Python code that runs there swallows a Ctrl-C that comes at that moment.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn, TypedDict


class Text(TypedDict):
    """How text is encoded."""

    encoding: str
    errors: str


# A parent that died before the request is noticed by its number.
_CHECKED = 'test "$PPID" = "$1" || exit 137; shift; exec "$@"'
# How children speak, whatever the locale: what is not UTF-8, such as a file's name, is shown so.
TEXT: Text = {"encoding": "utf-8", "errors": "replace"}
# Python ignores them; a program that is run in place of Python must not.
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)


def leashed(command: Sequence[str]) -> list[str]:
    """The command to start so that `command` is killed when this process is.

    The signal comes when the thread that started it ends, so that thread has to wait for it. Where
    there is no setpriv the command is returned as it is.
    """
    start = leash()
    if not start:
        return list(command)
    return [*start, "/bin/sh", "-c", _CHECKED, "perdure", str(os.getpid()), *command]


def leash() -> tuple[str, ...]:
    """What to write before a command that another program starts for us, so that it dies with
    that program; nothing where the system has no such tool."""
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "KILL", "--") if setpriv else ()


def run(
    command: Sequence[str], environment: Mapping[str, str], *, capture: bool = False
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end; `capture` keeps its stdout and stderr, else they are ours."""
    return subprocess.run(
        leashed(command), env=environment, capture_output=capture, check=False, **TEXT
    )


def become(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Runs a program in place of this process: its output, exit code and signals are the user's."""
    sys.stdout.flush()
    sys.stderr.flush()
    for number in _RESTORED:
        signal.signal(number, signal.SIG_DFL)
    os.execve(command[0], list(command), dict(environment))


def exit_code(returncode: int) -> int:
    """What a shell says of a process that was killed by a signal."""
    return returncode if returncode >= 0 else 128 - returncode
