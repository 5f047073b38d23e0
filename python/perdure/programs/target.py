"""Targets, native or sim:PLATFORM: their program, their identity, and their size."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path
from typing import Any

from perdure.errors import InputError, did_you_mean
from perdure.programs import child, native
from perdure.tree import ROOT
from perdure.types import Json

PLATFORMS = ROOT / "platforms"


def program_for(target: str) -> Path:
    """The program that measures on `target`: native, or sim:PLATFORM."""
    return native.program(native.kind_of(target))


@cache
def describe(platform: str) -> Json:
    """A platform's numbers. Errors: InputError with what the program says of a bad file or name."""
    command = [str(native.program("sim")), "describe", "platform", platform, "--json"]
    done = child.run(command, native.environment())
    if done.returncode != 0:
        raise InputError(native.said(done).splitlines()[-1])
    document = native.parse_json(done.stdout, " ".join(command))
    return dict(document)


def identity(target: str) -> str:
    """Equal exactly when the same command on `target` would give the same result.

    For a simulated target it hashes the program and the platform's numbers, for native the program
    alone, because those who keep results record the host beside it.
    """
    if native.kind_of(target) == "native":
        return native.build_id()
    fingerprint = describe(target.removeprefix("sim:"))["fingerprint"]
    return hashlib.sha256(f"{native.build_id('sim')} {fingerprint}".encode()).hexdigest()[:16]


def cores_per_socket(target: str) -> int:
    """How many threads fit on one socket with a core each; on native, on this machine."""
    if native.kind_of(target) == "native":
        return len(os.sched_getaffinity(0))
    values = describe(target.removeprefix("sim:"))["values"]
    return next(int(v["value"]) for v in values if v["key"] == "cores_per_socket")


def check_target(target: str) -> None:
    if target != "native" and not target.startswith("sim:"):
        raise InputError(
            f"unknown target '{target}'", where="--target", remedy=target_remedy(target)
        )


def target_remedy(given: Any) -> str:
    """The remedy for an unknown target; most users leave out `sim:`."""
    platforms = [f"sim:{file.stem}" for file in PLATFORMS.glob("*.toml")]
    return did_you_mean(
        str(given),
        ["native", *platforms],
        "write native, sim:PLATFORM or sim:FILE.toml (perdure list platforms)",
    )
