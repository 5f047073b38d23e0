"""Finding and starting the C++ programs: perdure-native measures, perdure-sim simulates."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from perdure.errors import InputError, PerdureError
from perdure.programs import child
from perdure.tree import ROOT
from perdure.types import Json

Entry = Json  # of an index, as `perdure list indexes --json` has it
BUILD_TREE_PLACES = ("build/release", "build/release/bin", "build/release/src/cli")


# Kind of target -> the environment variable that names another program.
VARIABLES = {"native": "PERDURE_NATIVE", "sim": "PERDURE_SIM"}


def kind_of(target: str) -> str:
    """native, or sim for a target such as sim:optane100-8280l-2s."""
    return "sim" if target.startswith("sim:") else "native"


@cache
def program(kind: str = "native") -> Path:
    """The program to use: what its variable names, else the build tree's, else the one on PATH."""
    variable, name = VARIABLES[kind], f"perdure-{kind}"
    named = os.environ.get(variable)
    if named:
        path = Path(named)
        if not path.is_file() or not os.access(path, os.X_OK):
            raise InputError(
                "not an executable file",
                where=f"{variable}={named}",
                remedy="unset it to use the build tree's program",
            )
        return path.resolve()
    for place in BUILD_TREE_PLACES:
        path = ROOT / place / name
        if path.is_file():
            return path
    found = shutil.which(name)
    if found:
        return Path(found).resolve()
    raise InputError(
        f"{name} not found ({variable}, build/release, PATH)",
        remedy="run ./perdure demo once, or cmake --build build/release",
    )


def is_built(kind: str) -> bool:
    try:
        program(kind)
    except InputError:
        return bool(os.environ.get(VARIABLES[kind]))  # a wrong variable is for the user to mend
    return True


def environment() -> dict[str, str]:
    """The environment of every measuring process."""
    # libpmemobj refuses to treat tmpfs as persistent memory unless told to.
    return {"PMEM_IS_PMEM_FORCE": "1", **os.environ}


def query(*arguments: str, kind: str = "native") -> Any:
    """Runs a sub-command that prints JSON, such as `environment`, and parses it."""
    command = [str(program(kind)), *arguments, "--json"]
    done = child.run(command, environment())
    if done.returncode != 0:
        raise PerdureError(said(done), where=command[0])
    return parse_json(done.stdout, " ".join(command))


def said(done: subprocess.CompletedProcess[str]) -> str:
    """Why a program failed, in its own words if it gave any."""
    said = done.stderr.strip()
    return said if said and done.returncode > 0 else child.reason(done.returncode, said)


@cache
def indexes(kind: str = "native") -> dict[str, Entry]:
    """The registered indexes by name, as `perdure list indexes --json` tells them."""
    entries = query("list", "indexes", kind=kind)
    entries = entries.get("indexes", entries) if isinstance(entries, dict) else entries
    return {entry["name"]: entry for entry in entries}


@cache
def measurable(kind: str = "native") -> dict[str, Entry]:
    """The registered indexes and queues by name: what a study may name as its index."""
    return {each["name"]: each for each in query("list", "queues", kind=kind)} | indexes(kind)


def entry_of(listing: dict[str, Entry], flags: Mapping[str, object]) -> Entry | None:
    """The entry of the index that the flags name; of a structure without a mode, the entry of its
    default mode, which is the last."""
    name = ":".join(str(flags[part]) for part in ("index", "mode") if part in flags)
    modes = [entry for full, entry in listing.items() if full.startswith(f"{name}:")]
    return listing.get(name) or (modes[-1] if modes else None)


def parse_json(text: str, where: str) -> Any:
    """Parses a program's stdout; anything but JSON is the program's fault, named by `where`."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise PerdureError(
            f"printed no valid JSON ({error})", where=where, remedy="rebuild the program"
        ) from error


@cache
def build_id(kind: str = "native") -> str:
    """Names the code that measures: a hash of the program and of the perdure libraries it loads."""
    path = program(kind)
    digest = hashlib.sha256()
    for file in [path, *_own_libraries(path)]:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


@cache
def host_fingerprint() -> str:
    """Equal for machines of one kind: processor, cores, memory, kernel."""
    return str(query("environment").get("host_fingerprint", "unknown"))


def _own_libraries(path: Path) -> list[Path]:
    """The shared libraries of this project that `path` links, in a stable order."""
    listing = subprocess.run(["ldd", str(path)], capture_output=True, check=False, **child.TEXT)
    files = {
        Path(line.split("=>")[1].split("(")[0].strip())
        for line in listing.stdout.splitlines()
        if "libperdure" in line and "=>" in line
    }
    return sorted(file for file in files if file.is_file())
