"""What `perdure list` knows without a build, and what `perdure --help` prints without Python.

`python -m perdure.programs.catalogue` writes both files from the built program; a test fails when
they are out of date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from perdure.programs import child, native, outputs
from perdure.tree import PACKAGE, ROOT
from perdure.types import Json

Entry = Json  # of `perdure list`

KINDS = ("indexes", "queues", "workloads", "heaps", "options", "platforms")
CATALOGUE = PACKAGE / "catalogue.json"
HELP = PACKAGE / "help.txt"
FLAGS = "flags"
COLUMNS = "80"


def entries(kind: str) -> list[Entry]:
    """The entries of a kind: from the program, or from the catalogue where nothing is built."""
    if native.is_built("native"):
        return asked(kind)
    return [
        entry | {"file": str(ROOT / entry["file"])} if entry.get("file") else entry
        for entry in kept(kind)
    ]


def kept(kind: str) -> list[Entry]:
    """What the catalogue has of a kind, with files as they are called in any clone."""
    found: list[Entry] = json.loads(CATALOGUE.read_text(encoding="utf-8"))[kind]
    return found


def asked(kind: str, program: str = "native") -> list[Entry]:
    """What a built program tells of a kind."""
    told = native.query("list", kind, kind=program)
    found = told.get(kind, told) if isinstance(told, dict) else told
    return [entry if isinstance(entry, dict) else {"name": entry} for entry in found]


def portable(entry: Entry) -> Entry:
    """The entry with its file relative to the tree, so that it is the same in any clone."""
    file = Path(entry.get("file") or "")
    return entry | {"file": str(file.relative_to(ROOT))} if file.is_relative_to(ROOT) else entry


def current() -> dict[str, list[Entry]]:
    """What the catalogue should hold. The flags are those of perdure-sim, which has all."""
    told = {kind: [portable(entry) for entry in asked(kind)] for kind in KINDS}
    return {**told, FLAGS: asked(FLAGS, "sim")}


def help_text() -> str:
    """What `perdure --help` prints at 80 columns."""
    command = [sys.executable, "-m", "perdure", "--help"]
    variables = {**native.environment(), "COLUMNS": COLUMNS}
    return child.run(command, variables).stdout


def main() -> None:
    outputs.write(CATALOGUE, json.dumps(current(), indent=1, ensure_ascii=False) + "\n")
    outputs.write(HELP, help_text())
    print(f"{CATALOGUE}\n{HELP}")


if __name__ == "__main__":
    main()
