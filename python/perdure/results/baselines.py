"""Baselines: results that were kept under a name, for later ones to be compared with.

A baseline is a file NAME.jsonl, a line of JSON for each cell, as anything that reads results takes
it. It lies in `.perdure/baselines/` of the working directory, and not beside the results: these are
scratch that is deleted and not committed, while the baseline of an index belongs to its repository,
where a job of continuous integration finds it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from perdure.errors import InputError, did_you_mean
from perdure.programs import outputs
from perdure.results import record
from perdure.results.record import Run, group
from perdure.types import Json

FOLDER = Path(".perdure/baselines")
SUFFIX = ".jsonl"


@dataclass(frozen=True)
class Baseline:
    """What `perdure baseline list` says of one."""

    name: str
    file: Path
    cells: int
    processes: int
    targets: list[str]
    revisions: list[str]
    saved_unix: float

    def document(self) -> Json:
        return {
            "name": self.name,
            "file": str(self.file),
            "cells": self.cells,
            "processes": self.processes,
            "targets": self.targets,
            "revisions": self.revisions,
            "saved_unix": round(self.saved_unix, 3),
        }


def save(name: str, results: Path, folder: Path, *, force: bool) -> Baseline:
    """Keeps the finished cells of `results` as baseline `name`. Errors: InputError if there is one
    of that name, unless `force`; if the results are those of a quick run, or not whole."""
    file = _file(name, folder)
    runs = record.load(results)
    if any(run.quick for run in runs):
        raise InputError(
            "a quick run decides nothing, and is no baseline",
            where=str(results),
            remedy="run the study without --quick",
        )
    if file.exists() and not force:
        raise _taken(file)
    # A profile is no part of a comparison, and larger than all that is.
    lines = [
        json.dumps({key: value for key, value in document.items() if key != "profile"}) + "\n"
        for _, document in record.documents(results)
    ]
    outputs.folder(folder, "--folder")
    if force:
        outputs.write(file, "".join(lines), durable=True)
    elif not outputs.create(file, "".join(lines)):
        raise _taken(file)
    return _described(file, runs)


def find(name: str, folder: Path) -> Path:
    """The file of a baseline. Errors: InputError."""
    file = _file(name, folder)
    if not file.is_file():
        remedy = did_you_mean(name, _names(folder), f"perdure baseline save {name} RESULTS")
        raise InputError(f"no baseline '{name}'", where=str(folder), remedy=remedy)
    return file


def every(folder: Path) -> list[Baseline]:
    """All baselines in a folder, by name; none where the folder is absent. Errors: InputError."""
    files = [_file(name, folder) for name in _names(folder)]
    return [_described(file, record.load(file)) for file in files]


def with_runs(folder: Path) -> list[tuple[Baseline, list[Run]]]:
    """All baselines in a folder with what they hold, the oldest measurements first: a clone of a
    repository gives its files the time of the clone. Errors: InputError."""
    files = [_file(name, folder) for name in _names(folder)]
    found = [(file, record.load(file)) for file in files]
    return sorted(
        ((_described(file, runs), runs) for file, runs in found),
        key=lambda one: (measured_unix(one[1]) or one[0].saved_unix, one[0].name),
    )


def measured_unix(runs: Iterable[Run]) -> float:
    """When the last of the runs began; 0 where none says it."""
    return max((run.started_unix for run in runs), default=0.0)


def _names(folder: Path) -> list[str]:
    """Of the files that can be baselines: others, such as hidden ones, are of other programs."""
    names = sorted(file.name.removesuffix(SUFFIX) for file in folder.glob(f"*{SUFFIX}"))
    return [name for name in names if not outputs.name_problem(name)]


def _file(name: str, folder: Path) -> Path:
    if problem := outputs.name_problem(name):
        raise InputError(f"the name '{name}' {problem}", where="baseline", remedy="give another")
    return folder / f"{name}{SUFFIX}"


def _taken(file: Path) -> InputError:
    return InputError(
        "there is a baseline of that name", where=str(file), remedy="give another name, or --force"
    )


def _described(file: Path, runs: list[Run]) -> Baseline:
    return Baseline(
        name=file.name.removesuffix(SUFFIX),
        file=file,
        cells=len(group(runs)),
        processes=len(runs),
        targets=_distinct(run.record["target"] for run in runs),
        revisions=_distinct(run.record["build"]["commit"] for run in runs),
        saved_unix=file.stat().st_mtime,
    )


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def newest(folder: Path) -> Path:
    """The results folder below `folder` in which a study ran last, --quick left aside. Errors:
    InputError where there is none."""
    manifests = sorted(folder.glob(f"*/{record.MANIFEST}"), key=lambda file: file.stat().st_mtime)
    if not manifests:
        raise InputError(
            "no study has run there",
            where=str(folder),
            remedy="give the results: baseline save NAME RESULTS",
        )
    return manifests[-1].parent


def day(saved_unix: float) -> str:
    """`2026-11-28 15:04`, in local time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(saved_unix))
