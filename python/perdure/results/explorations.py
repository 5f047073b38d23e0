"""Explorations of power cuts that a results folder keeps beside its cells.

    crash/NAME.exploration.json       what `perdure crash --json` printed (schema/crash.schema.json)
    crash/NAME.counterexample.json    of a violation: what `perdure crash --replay` takes
    crash-quick/                      the same of a run with --quick
NAME is the index and a digest of the flags: the same exploration, run again, replaces the former.
Files that were put there otherwise count as well.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

from perdure.programs import outputs
from perdure.results import schemas
from perdure.types import Json

FOLDER, QUICK_FOLDER = "crash", "crash-quick"
SUFFIX, COUNTEREXAMPLE = ".exploration.json", ".counterexample.json"
PLANTED = "toy:"  # begins the name of a structure with a planted defect
AGAIN = "explore again, or remove it"


def folder_of(results: Path, *, quick: bool = False) -> Path:
    """Where explorations are kept."""
    return results / (QUICK_FOLDER if quick else FOLDER)


def name_of(index: str, flags: Sequence[str]) -> str:
    """The name of an exploration with these flags."""
    digest = hashlib.sha256("\0".join(flags).encode()).hexdigest()[:8]
    return f"{re.sub(r'[^0-9A-Za-z_]', '-', index) or 'exploration'}-{digest}"


def keep(folder: Path, name: str, document: Json) -> None:
    """Writes an exploration; a former counterexample goes when nothing is found any more. Errors:
    PerdureError."""
    outputs.write(folder / f"{name}{SUFFIX}", json.dumps(document, indent=1) + "\n", durable=True)
    if not document["violation"]:
        (folder / f"{name}{COUNTEREXAMPLE}").unlink(missing_ok=True)


def read(results: Path, *, quick: bool = False) -> list[Json]:
    """What a results folder keeps, planted defects last; of a quick run its own, if it has some.
    Errors: InputError."""
    folder = folder_of(results, quick=quick)
    if quick and not folder.is_dir():
        folder = folder_of(results)
    found = [_read(file) for file in sorted(folder.glob(f"*{SUFFIX}"))]
    return sorted(found, key=lambda one: (is_planted(one), one["index"], one["domain"],
                                          threads_of(one), one["seed"]))  # fmt: skip


def is_planted(document: Json) -> bool:
    """Whether its violation shows what the explorer finds, and nothing of an index."""
    return str(document["index"]).startswith(PLANTED)


def threads_of(document: Json) -> list[int]:
    """Of its programs."""
    return list(document.get("thread_counts") or [document["threads"]])


def states_of(document: Json) -> int:
    """States that were recovered and asked, those that a second cut left included."""
    coverage = document["coverage"]
    return int(coverage["states"] + coverage["recovery_cuts"])


def _read(file: Path) -> Json:
    """With the counterexample that lies beside it, wherever the folder was moved to."""
    document = schemas.read(file, "crash exploration", AGAIN)
    beside = file.with_name(file.name.removesuffix(SUFFIX) + COUNTEREXAMPLE)
    if document["violation"] and beside.is_file():
        document["violation"]["replay"] = str(beside)
    return document
