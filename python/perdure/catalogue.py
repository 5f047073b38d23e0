"""What `perdure list` knows without a build, and what `perdure --help` prints without Python.

`python -m perdure.catalogue` writes both files from the built program; a test says when to.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from perdure import child, native, outputs

Entry = dict[str, Any]

KINDS = ("indexes", "workloads", "heaps", "options", "platforms")
FLAGS = "flags"
ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = Path(__file__).with_name("catalogue.json")
HELP = Path(__file__).with_name("help.txt")
COLUMNS = "80"


def entries(kind: str) -> list[Entry]:
    """What there is of a kind, as the program tells; without a build, as the catalogue has it."""
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
    """The entry with its file as it is called in any clone."""
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
