"""Studies: a TOML file of axes, expanded into the cells to run.

name = "demo"
repetitions = 1                 # processes per cell
[flags]                         # for every cell: any flag of `perdure bench`, - written as _
records = "100K"
[axes]                          # every combination is a cell
index    = ["fptree", "lbtree"]
threads  = [1, "all"]
medium   = ["tmpfs", "file"]    # where the pool lies; "none" for indexes that need no pool
workload = ["lookup"]           # a table below [workloads], or a workload file
[workloads.lookup]              # flags again
mix = { lookup = 1.0 }
[[include]]                     # more cells: a smaller matrix; axes not named are inherited
index  = ["stdmap"]
medium = ["none"]
[[exclude]]                     # drops the cells that match every line
index = ["stdmap"]
[[override]]                    # sets flags where `when` matches
when = { medium = ["file"] }
set  = { seconds = 1.0 }
[[published]]                   # a ratio that others measured; the report prints ours beside it
what   = "inserts, 20 threads: lbtree over fptree"
of     = { index = "lbtree", threads = 20 }   # the one cell with these labels
over   = { index = "fptree", threads = 20 }
value  = 2.09                                 # or direction = "above", "below": of 1
source = "paper, figure"
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure.errors import InputError, did_you_mean, one_of
from perdure.flags import AXES_BESIDE_FLAGS, FLAGS, check_flag, count_of
from perdure.toml_lines import Path as KeyPath
from perdure.toml_lines import line_of, line_of_value

TOP_LEVEL = (
    "name",
    "title",
    "description",
    "seed",
    "repetitions",
    "timeout_seconds",
    "flags",
    "media",
    "axes",
    "workloads",
    "include",
    "exclude",
    "override",
    "published",
)
PUBLISHED = ("what", "note", "of", "over", "value", "direction", "source")  # fmt: skip
BUILT_IN_MEDIA = ("tmpfs", "file", "none")

Flags = dict[str, Any]
Labels = dict[str, str]


@dataclass(frozen=True)
class Cell:
    """One configuration to measure, resolved: nothing in it depends on the study's other cells."""

    labels: Labels  # the axes' values as text, in the study's order
    flags: Flags  # flags of `perdure bench` but for --pool and --json
    medium: str

    @property
    def target(self) -> str:
        """native, or sim:PLATFORM."""
        return str(self.flags.get("target", "native"))

    def configuration(self) -> dict[str, Any]:
        """What the result is a function of; a workload file counts with its content."""
        resolved: dict[str, Any] = {"flags": self.flags, "medium": self.medium}
        file = self.flags.get("workload")
        if file is not None:
            digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()
            resolved["flags"] = {**self.flags, "workload": digest}
        return resolved

    def key(self, build_id: str, repetition: int, host: str) -> str:
        """The name of the result: equal exactly when running again would tell nothing new."""
        parts = {
            "configuration": self.configuration(),
            "build": build_id,
            "repetition": repetition,
            "host": host,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Study:
    name: str
    file: str
    title: str
    description: str
    seed: int
    repetitions: int
    timeout_seconds: float
    media: dict[str, str]  # name -> directory; the built-in ones are resolved by the campaign
    cells: list[Cell] = field(repr=False)
    published: list[dict[str, Any]] = field(default_factory=list)


def load(path: Path, *, quick: bool = False) -> Study:
    """Reads, checks and expands a study. Errors: InputError naming the line and the remedy.

    quick cuts every cell to at most 10 000 records and 0.05 s, for a look at whether it all runs.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise InputError(error.strerror or "cannot be read", where=str(path)) from error
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            f"not valid TOML: {error}", where=str(path), remedy="mend that line"
        ) from error
    return _Reader(path, text, tables).study(quick)


def axes_of(cells: list[Cell]) -> dict[str, list[str]]:
    """The values each axis takes, in first-seen order."""
    axes: dict[str, dict[str, None]] = {}
    for cell in cells:
        for axis, value in cell.labels.items():
            axes.setdefault(axis, {})[value] = None
    return {axis: list(values) for axis, values in axes.items()}


class _Reader:
    def __init__(self, path: Path, text: str, tables: dict[str, Any]) -> None:
        self.path, self.text, self.tables = path, text, tables

    def study(self, quick: bool) -> Study:
        tables = self.tables
        self.known_keys((), tables, TOP_LEVEL)
        name = self.typed(("name",), str, self.path.stem)
        repetitions = self.typed(("repetitions",), int, 3)
        if repetitions < 1:
            raise self.error("repetitions must be at least 1", ("repetitions",), "use 3 or more")
        seed = self.typed(("seed",), int, 7)
        self.check_tables()
        cells = self.cells({"seed": seed})
        if quick:
            cells = [Cell(c.labels, _quick(c.flags), c.medium) for c in cells]
        return Study(
            name=name,
            file=_short(self.path),
            title=self.typed(("title",), str, name),
            description=self.typed(("description",), str, "").strip(),
            seed=seed,
            repetitions=1 if quick else repetitions,
            timeout_seconds=float(self.typed(("timeout_seconds",), (int, float), 600)),
            media=dict(tables.get("media", {})),
            cells=cells,
            published=self.published(cells),
        )

    def published(self, cells: list[Cell]) -> list[dict[str, Any]]:
        claims: list[dict[str, Any]] = self.tables.get("published", [])
        for i, claim in enumerate(claims):
            here = ("published", i)
            self.known_keys(here, claim, PUBLISHED)
            for key in ("what", "source"):
                if not isinstance(claim.get(key), str):
                    raise self.error(f"does not say its {key}", here, f'add {key} = "..."')
            value = claim.get("value")
            is_ratio = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
            if is_ratio == (claim.get("direction") in ("above", "below")):
                raise self.error(
                    "needs a value above 0, or a direction, and not both", here,
                    'write value = 2.09, or direction = "above" or "below"',
                )  # fmt: skip
            for side in ("of", "over"):
                self.check_claimed(here, side, claim.get(side), cells)
        return claims

    def check_claimed(self, path: KeyPath, side: str, labels: Any, cells: list[Cell]) -> None:
        if not isinstance(labels, dict) or not labels:
            raise self.error(
                f"needs the labels `{side}`", path, f"write {side} = {{ index = ... }}"
            )
        wanted = {axis: str(value) for axis, value in labels.items()}.items()
        found = sum(wanted <= cell.labels.items() for cell in cells)
        if found != 1:
            raise self.error(
                f"`{side}` names {found} cells of the study, not one", (*path, side),
                "give the value of each axis that tells cells apart",
            )  # fmt: skip

    def check_tables(self) -> None:
        for table in ("flags", "media", "axes", "workloads"):
            self.typed((table,), dict, {})
        for table in ("include", "exclude", "override", "published"):
            for i, entry in enumerate(self.typed((table,), list, [])):
                if not isinstance(entry, dict):
                    raise self.error("must be a table", (table, i), f"write [[{table}]]")
        self.check_flags(("flags",), self.tables.get("flags", {}))
        for name, flags in self.tables.get("workloads", {}).items():
            self.check_flags(("workloads", name), flags)
        for name, directory in self.tables.get("media", {}).items():
            if not isinstance(directory, str) or not directory.startswith("/"):
                raise self.error(
                    f"medium '{name}' is not an absolute directory", ("media", name),
                    'write it as pm = "/DIRECTORY"',
                )  # fmt: skip
        if not self.tables.get("axes"):
            raise self.error("no axes", ("axes",), "add [axes] with at least index = [...]")
        self.check_axes(("axes",), self.tables["axes"])
        for i, entry in enumerate(self.tables.get("include", [])):
            self.check_axes(("include", i), entry)
        for i, entry in enumerate(self.tables.get("exclude", [])):
            self.check_axes(("exclude", i), entry)
        for i, entry in enumerate(self.tables.get("override", [])):
            self.known_keys(("override", i), entry, ("when", "set"))
            for part in ("when", "set"):
                if not isinstance(entry.get(part), dict):
                    raise self.error(
                        f"an override needs the table `{part}`", ("override", i),
                        "write when = { ... } and set = { ... }",
                    )  # fmt: skip
            self.check_axes(("override", i, "when"), entry["when"])
            self.check_flags(("override", i, "set"), entry["set"])

    def check_flags(self, path: KeyPath, flags: Any) -> None:
        if not isinstance(flags, dict):
            raise self.error("must be a table of flags", path, "write it as [flags]")
        self.known_keys(path, flags, FLAGS)
        for name, value in flags.items():
            problem = check_flag(name, value)
            if problem:
                raise self.error(problem.what, (*path, name), problem.remedy)

    def check_axes(self, path: KeyPath, axes: Mapping[str, Any]) -> None:
        self.known_keys(path, axes, (*AXES_BESIDE_FLAGS, *FLAGS))
        for axis, values in axes.items():
            here = (*path, axis)
            if not isinstance(values, list) or not values:
                raise self.error(
                    f"axis '{axis}' must be a list of values", here, f"write {axis} = [...]"
                )
            for value in values:
                self.check_axis_value(here, axis, value)

    def check_axis_value(self, path: KeyPath, axis: str, value: Any) -> None:
        line = line_of_value(self.text, path, value)
        if axis == "medium":
            media = (*BUILT_IN_MEDIA, *self.tables.get("media", {}))
            if value not in media:
                remedy = did_you_mean(str(value), media, one_of(media))
                raise self.error(f"unknown medium '{value}'", path, remedy, line)
        elif axis == "workload":
            workloads = self.tables.get("workloads", {})
            if value not in workloads and self.workload_file(value) is None:
                remedy = did_you_mean(
                    str(value), workloads, f"add [workloads.{value}] or name an existing file"
                )
                raise self.error(f"unknown workload '{value}'", path, remedy, line)
        elif not (axis == "threads" and value == "all"):
            problem = check_flag(axis, value)
            if problem:
                raise self.error(problem.what, path, problem.remedy, line)

    def workload_file(self, value: Any) -> Path | None:
        """A workload file is looked for beside the study and below the study's parent folder."""
        if not isinstance(value, str) or not value.endswith(".toml"):
            return None
        for base in (self.path.parent, self.path.parent.parent, Path()):
            if (base / value).is_file():
                return (base / value).resolve()
        return None

    def cells(self, defaults: Flags) -> list[Cell]:
        axes = self.tables["axes"]
        matrices = [axes, *({**axes, **entry} for entry in self.tables.get("include", []))]
        cells: dict[str, Cell] = {}
        for matrix in matrices:
            for values in itertools.product(*matrix.values()):
                choice = {a: _resolve(a, v) for a, v in zip(matrix, values, strict=True)}
                if any(_matches(choice, rule) for rule in self.tables.get("exclude", [])):
                    continue
                cell = self.cell(choice, defaults)
                cells.setdefault(json.dumps(cell.configuration(), sort_keys=True), cell)
        if not cells:
            raise self.error("every cell is excluded", ("exclude", 0), "drop an [[exclude]]")
        return list(cells.values())

    def cell(self, choice: dict[str, Any], defaults: Flags) -> Cell:
        flags = {**defaults, **self.tables.get("flags", {})}
        workload = choice.get("workload")
        if workload in self.tables.get("workloads", {}):
            flags = _merged(flags, self.tables["workloads"][workload])
        elif workload is not None:
            flags["workload"] = str(self.workload_file(workload))
        flags = _merged(flags, {a: v for a, v in choice.items() if a not in AXES_BESIDE_FLAGS})
        for rule in self.tables.get("override", []):
            if _matches(choice, rule["when"]):
                flags = _merged(flags, rule["set"])
        medium = choice.get("medium", "none")
        return Cell({a: str(v) for a, v in choice.items()}, flags, medium)

    def known_keys(self, path: KeyPath, table: Mapping[str, Any], known: Any) -> None:
        for key in table:
            if key not in known:
                where = f" in [{'.'.join(str(p) for p in path)}]" if path else ""
                raise self.error(
                    f"unknown key '{key}'{where}", (*path, key),
                    did_you_mean(key, known, one_of(known)),
                )  # fmt: skip

    def typed(self, path: tuple[str], kind: Any, fallback: Any) -> Any:
        value = self.tables.get(path[0], fallback)
        if not isinstance(value, kind) or isinstance(value, bool):
            expected = {
                str: "text in quotes", int: "a whole number", dict: "a table", list: "[[tables]]",
            }.get(kind, "a number")  # fmt: skip
            raise self.error(f"'{path[0]}' must be {expected}", path, "mend the value")
        return value

    def error(self, what: str, path: KeyPath, remedy: str, line: int | None = None) -> InputError:
        number = line if line is not None else line_of(self.text, path)
        return InputError(what, where=f"{self.path}:{number}", remedy=remedy)


def _short(path: Path) -> str:
    """Relative to the current directory where that is below it: how a user would write it."""
    with suppress(ValueError):
        return str(path.resolve().relative_to(Path.cwd()))
    return str(path)


def _resolve(axis: str, value: Any) -> Any:
    if axis == "threads" and value == "all":
        return len(os.sched_getaffinity(0))
    return value


def _merged(flags: Flags, more: Flags) -> Flags:
    """`more` wins. A run ends by seconds or by operations, so either one replaces the other."""
    dropped = {"seconds": "operations", "operations": "seconds"}
    losers = {dropped[name] for name in more if name in dropped} - set(more)
    return {name: value for name, value in flags.items() if name not in losers} | more


def _matches(choice: Mapping[str, Any], rule: Mapping[str, Any]) -> bool:
    return all(
        choice.get(axis) in [_resolve(axis, value) for value in values]
        for axis, values in rule.items()
    )


def _quick(flags: Flags) -> Flags:
    cut = dict(flags)
    cut["records"] = min(count_of(flags.get("records", 10_000)), 10_000)
    if "operations" in flags:
        cut["operations"] = min(count_of(flags["operations"]), 2_000)
    if "seconds" in flags or "operations" not in flags:
        cut["seconds"] = min(float(flags.get("seconds", 0.05)), 0.05)
    return cut
