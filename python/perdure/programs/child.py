"""Starting the programs so that none of them outlives the command that a user gave.

A measuring process whose parent was killed would go on for minutes, on cores that the next run
measures with. Therefore the kernel kills it with its parent: setpriv of util-linux sets
PR_SET_PDEATHSIG, which lasts through exec, and then becomes the program. Python could set it
between fork and exec, but the Python code that runs there swallows a Ctrl-C that comes just then.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, TypedDict


class Text(TypedDict):
    """How text is encoded."""

    encoding: str
    errors: str


# If the parent died before the request, the parent's number has changed.
_CHECKED = 'test "$PPID" = "$1" || exit 137; shift; exec "$@"'
# The encoding of what children print, whatever the locale; other bytes become replacement marks.
TEXT: Text = {"encoding": "utf-8", "errors": "replace"}
# Python ignores them; a program that it starts must not.
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)
# Signals that others send to us and mean for the program.
_HANDED_ON = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2,
    signal.SIGTSTP,
)  # fmt: skip
_AWAITED = (*_HANDED_ON, signal.SIGCHLD)
_BY_KERNEL = 128  # SI_KERNEL: the terminal sent it, to the whole group
_REPORT = "a fault of the program or of a plug-in: please report it with the command"
# Signals that mean a fault -> its most likely cause.
FAULTS: dict[int, str] = {
    signal.SIGKILL: "most likely there was not enough memory (see dmesg): use fewer records or a "
    "smaller pool",
    signal.SIGBUS: "most likely the file system under the pool is full, or its file was cut (see "
    "df -h): make room, or give another --pool",
    signal.SIGXCPU: "the limit on processor time was reached (see ulimit -t)",
    signal.SIGXFSZ: "the limit on the size of files was reached (see ulimit -f)",
    signal.SIGILL: "the processor lacks an instruction that the program has: build it here",
    signal.SIGSEGV: _REPORT, signal.SIGABRT: _REPORT, signal.SIGFPE: _REPORT,
    signal.SIGSYS: _REPORT,
}  # fmt: skip


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
    """The words before a command that another program starts for us, so that the command dies with
    that program; empty where the system has no setpriv."""
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "KILL", "--") if setpriv else ()


def run(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end and keeps its stdout and stderr."""
    return subprocess.run(
        leashed(command), env=environment, capture_output=True, check=False, **TEXT
    )


def answer(
    command: Sequence[str], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end and keeps its stdout; what it says on stderr is the user's."""
    sys.stderr.flush()
    return subprocess.run(
        leashed(command), env=environment, stdout=subprocess.PIPE, check=False, **TEXT
    )


@contextmanager
def signals_held() -> Iterator[None]:
    """Blocks the signals that `attend` waits for, so that threads which start meanwhile (libraries
    start some at import) never receive them. Blocked signals arrive at the end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def attend(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs a program on the user's terminal, as if in our place; returns its exit code, or minus
    the signal that killed it.

    What the terminal sends goes to the program by itself, because it is in our process group; what
    others send to us is passed on. When the program stops, we stop too, and the shell shows that.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    start = leashed(command)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    try:
        number = os.posix_spawnp(
            start[0], start, dict(environment), setsigmask=before, setsigdef=_RESTORED
        )
        while True:
            received = signal.sigwaitinfo(_AWAITED)
            if received.si_signo != signal.SIGCHLD:
                if received.si_code != _BY_KERNEL:
                    os.kill(number, received.si_signo)
                continue
            ended, status = os.waitpid(number, os.WNOHANG | os.WUNTRACED)
            if ended and os.WIFSTOPPED(status):
                os.kill(os.getpid(), signal.SIGSTOP)
                os.kill(number, signal.SIGCONT)  # we continue, so does the program
            elif ended:
                return os.waitstatus_to_exitcode(status)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def become(command: Sequence[str], environment: Mapping[str, str], name: str) -> NoReturn:
    """Runs a program and exits as it does; `name` is the command's, for the message of a fault."""
    returncode = attend(command, environment)
    if returncode < 0 and -returncode not in FAULTS:
        # Whoever started us sees what the user did: a shell's loop ends by Ctrl-C, say.
        signal.signal(-returncode, signal.SIG_DFL)
        os.kill(os.getpid(), -returncode)
    sys.exit(exit_code(returncode, command, name))


def exit_code(returncode: int, command: Sequence[str], name: str) -> int:
    """The exit code that a shell would report; a program killed by a fault is named on stderr."""
    if returncode >= 0:
        return returncode
    if -returncode in FAULTS:
        print(f"{name}: {Path(command[0]).name} was {killed(returncode)}", file=sys.stderr)
    return 128 - returncode


def killed(returncode: int) -> str:
    """`killed by SIGKILL; ...`, with the likely cause."""
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    cause = FAULTS.get(-returncode)
    return f"killed by {name}" + (f"; {cause}" if cause else "")


def reason(returncode: int, stderr: str) -> str:
    """Why a program failed, in a line."""
    lines = stderr.strip().splitlines()
    if returncode < 0:
        return killed(returncode) + (f" (its last words: {lines[-1]})" if lines else "")
    return f"exit code {returncode}: {lines[-1] if lines else 'nothing on stderr'}"
