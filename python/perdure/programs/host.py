"""Which machine this is, and whether a process of it still runs.

PERDURE_HOST=NAME gives the machine another name; processes with different names count as being on
different machines.
"""

from __future__ import annotations

import hashlib
import os
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

# Where a batch system says how many cores of the machine a job has; many bind it to none.
_GRANTED = ("SLURM_CPUS_ON_NODE", "NCPUS")
_GONE = ("Z", "X")  # dead, and only not yet waited for


def name() -> str:
    """For people."""
    return os.environ.get("PERDURE_HOST") or socket.gethostname()


@cache
def token() -> str:
    """16 hex digits, equal exactly where process numbers mean the same processes: one boot of one
    machine, and in it one namespace of process numbers, as a container has its own."""
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    text = f"{boot_id()} {namespace} {name()}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def boot_id() -> str:
    """Changes with every start of the machine; times of its monotonic clock compare within it."""
    file = Path("/proc/sys/kernel/random/boot_id")
    return file.read_text(encoding="ascii").strip() if file.is_file() else ""


def granted_cores() -> int:
    """How many processes may run here side by side: as many as there are cores that this process
    may run on, or fewer where a batch system granted the job fewer."""
    cores = len(os.sched_getaffinity(0))
    for variable in _GRANTED:
        with suppress(ValueError):
            cores = min(cores, max(1, int(os.environ.get(variable, ""))))
    return cores


def process_start(number: int) -> str:
    """When a process began, in ticks since boot: with its number, it names one process and none
    that gets the number later. Empty when there is none."""
    try:
        text = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = text.rsplit(")", 1)[-1].split()
    return fields[19] if len(fields) > 19 and fields[0] not in _GONE else ""


def is_gone(number: int, start: str) -> bool:
    """Whether the process that began at `start` has ended. One of another user that is hidden from
    us (hidepid) has not."""
    found = process_start(number)
    if found or number <= 0:
        return found != start
    try:
        os.kill(number, 0)
    except PermissionError:
        return False
    except (OSError, OverflowError):
        return True
    return True  # it has ended, and nobody has waited for it
