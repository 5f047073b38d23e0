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
[[published]]                   # what others found; the report says whether our cells agree
what   = "inserts, 20 threads: lbtree over fptree"
of     = { index = "lbtree", threads = 20 }   # the cell with these labels; lists: all of them
over   = { index = "fptree", threads = 20 }   # left out: `of` itself is compared with `value`
value  = 2.09                                 # or direction = "above", "below": of 1
source = "paper, figure"
See claims.py for the rest of it. A large study also has
optional = ["hot"]              # indexes, left out where the build lacks them or an option of them
[keys]                          # names for the axis `keys`; --keys names=FILE replaces one
names = "random:8-25"
[native]                        # flags that a run with --target native sets last
seconds = 1.0
[[figure]]                      # cells that the report draws together, with their [[published]]
name   = "fig4"
title  = "Uniform accesses"
cells  = { threads = [1, 20] }  # labels, each one of these
metric = "throughput"           # or any other of metrics.py
[[probe]]                       # what others found of the memory itself; see memory_claims.py
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure.errors import InputError, did_you_mean, one_of
from perdure.programs import inputs, native, outputs
from perdure.results import metrics
from perdure.study import claims, memory_claims, presence
from perdure.study.flags import (
    AXES_BESIDE_FLAGS,
    FLAGS,
    SIMULATED_FLAGS,
    check_flag,
    count_of,
    scaled,
)
from perdure.study.presence import Flags, Listing
from perdure.study.toml_lines import Path as KeyPath
from perdure.study.toml_lines import line_of, line_of_value

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
    "optional",
    "keys",
    "native",
    "figure",
    "probe",
)
FIGURE = ("name", "title", "note", "cells", "metric", "drawing")
BUILT_IN_MEDIA = ("tmpfs", "file", "none")

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
        """What the result is a function of; files count with their content."""
        flags = dict(self.flags)
        for name, prefix in (("workload", ""), ("keys", "file:")):
            text = flags.get(name, "")
            if text and text.startswith(prefix) and Path(text.removeprefix(prefix)).is_file():
                digest = hashlib.sha256(Path(text.removeprefix(prefix)).read_bytes())
                flags[name] = prefix + digest.hexdigest()
        return {"flags": flags, "medium": self.medium}

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
    figures: list[dict[str, Any]] = field(default_factory=list)
    probes: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)  # what this build or machine lacks
    quick: bool = False


@dataclass(frozen=True)
class Choices:
    """What the command line says about a study as a whole."""

    quick: bool = False  # at most 10 000 records and 0.05 s: does it all run?
    scale: float = 1.0  # records and operations are multiplied with it
    target: str | None = None  # every cell's target; native: up to this machine's cores
    keys: dict[str, str] = field(default_factory=dict)  # replaces entries of [keys]


def load(path: Path, choices: Choices | None = None, *, indexes: Listing | None = None) -> Study:
    """Reads, checks and expands a study. Errors: InputError naming the line and the remedy.

    `indexes` tells what the build has; it is asked only by studies with something optional and
    for runs with another target than the study's own.
    """
    text = inputs.text(path, "give a study, such as studies/demo.toml")
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(
            f"not valid TOML: {error}", where=str(path), remedy="mend that line"
        ) from error
    return _Reader(path, text, tables, choices or Choices(), indexes).study()


def axes_of(cells: list[Cell]) -> dict[str, list[str]]:
    """The values each axis takes, in first-seen order."""
    axes: dict[str, dict[str, None]] = {}
    for cell in cells:
        for axis, value in cell.labels.items():
            axes.setdefault(axis, {})[value] = None
    return {axis: list(values) for axis, values in axes.items()}


class _Reader:
    def __init__(
        self, path: Path, text: str, tables: dict[str, Any], choices: Choices,
        indexes: Listing | None,
    ) -> None:  # fmt: skip
        self.path, self.text, self.tables = path, text, tables
        self.choices, self.indexes = choices, indexes

    def study(self) -> Study:
        tables = self.tables
        self.known_keys((), tables, TOP_LEVEL)
        name = self.typed(("name",), str, self.path.stem)
        self.check_name(("name",), name)
        repetitions = self.typed(("repetitions",), int, 3)
        if repetitions < 1:
            raise self.error("repetitions must be at least 1", ("repetitions",), "use 3 or more")
        seed = self.typed(("seed",), int, 7)
        self.check_tables()
        cells = self.cells({"seed": seed})
        figures = self.figures(cells)
        probes = self.probes(figures)
        published = self.published(cells, figures)
        if self.choices.target:
            if problem := check_flag("target", self.choices.target):
                raise InputError(problem.what, where="--target", remedy=problem.remedy)
            cells = self.cells_on({"seed": seed}, self.choices.target)
        if self.indexes is not None:
            optional = self.typed(("optional",), list, [])
            check = presence.Check(self.path, self.text, self.indexes, optional)
            check.cells((cell.flags for cell in cells), self.choices.target)
        cells, left_out = self.available(cells)
        if self.choices.target == "native":
            cells, one_node = _without_numa(cells)
            left_out += one_node
        if self.choices.scale != 1:
            cells = [Cell(c.labels, scaled(c.flags, self.choices.scale), c.medium) for c in cells]
        if self.choices.quick:
            cells = [Cell(c.labels, _quick(c.flags), c.medium) for c in cells]
        return Study(
            name=name,
            file=_short(self.path),
            title=self.typed(("title",), str, name),
            description=self.typed(("description",), str, "").strip(),
            seed=seed,
            repetitions=1 if self.choices.quick else repetitions,
            timeout_seconds=float(self.typed(("timeout_seconds",), (int, float), 600)),
            media=dict(tables.get("media", {})),
            cells=cells,
            published=published,
            figures=figures,
            probes=probes,
            left_out=left_out,
            quick=self.choices.quick,
        )

    def figures(self, cells: list[Cell]) -> list[dict[str, Any]]:
        figures = self.entries("figure")
        probed = {probe.get("figure") for probe in self.entries("probe")}
        for i, figure in enumerate(figures):
            here = ("figure", i)
            self.known_keys(here, figure, FIGURE)
            for key in ("name", "title"):
                if not isinstance(figure.get(key), str):
                    raise self.error(f"does not say its {key}", here, f'add {key} = "..."')
            self.check_name((*here, "name"), figure["name"])
            self.check_metric(here, figure)
            drawings = (*metrics.DRAWINGS, "none")
            if figure.get("drawing", "none") not in drawings:
                raise self.error(
                    f"unknown drawing '{figure['drawing']}'", (*here, "drawing"),
                    did_you_mean(str(figure["drawing"]), drawings, one_of(drawings)),
                )  # fmt: skip
            wanted = figure.get("cells")
            if wanted is None and figure["name"] in probed:
                continue
            if not isinstance(wanted, dict) or not claims.select(wanted, cells, _labels):
                raise self.error(
                    "`cells` names no cell of the study", (*here, "cells"),
                    "write cells = { workload = [...] } with labels that there are",
                )  # fmt: skip
        return figures

    def probes(self, figures: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for i, entry in enumerate(self.entries("probe")):
            here = ("probe", i)
            self.known_keys(here, entry, memory_claims.KEYS)
            problem = memory_claims.check(entry)
            if problem:
                raise self.error(problem.what, here, problem.remedy)
            self.check_figure(here, entry, figures)
        return self.entries("probe")

    def published(self, cells: list[Cell], figures: list[dict[str, Any]]) -> list[dict[str, Any]]:
        entries = self.entries("published")
        for i, claim in enumerate(entries):
            here = ("published", i)
            self.known_keys(here, claim, claims.KEYS)
            problem = claims.check(claim)
            if problem:
                raise self.error(problem.what, here, problem.remedy)
            self.check_metric(here, claim)
            self.check_figure(here, claim, figures)
            for side in ("of", "over"):
                if side == "of" or "over" in claim:
                    self.check_claimed(here, side, claim.get(side), cells)
        return entries

    def entries(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.tables.get(name, [])
        return found

    def check_figure(
        self, path: KeyPath, entry: dict[str, Any], figures: list[dict[str, Any]]
    ) -> None:
        names = [figure["name"] for figure in figures]
        if "figure" in entry and entry["figure"] not in names:
            raise self.error(
                f"unknown figure '{entry['figure']}'", (*path, "figure"),
                did_you_mean(str(entry["figure"]), names, one_of(names)),
            )  # fmt: skip

    def check_name(self, path: KeyPath, name: str) -> None:
        """What becomes the name of a folder or a file."""
        if problem := outputs.name_problem(name):
            raise self.error(f"the name '{name}' {problem}".replace("\n", " "), path,
                             "use letters, digits and dashes")  # fmt: skip

    def check_metric(self, path: KeyPath, entry: dict[str, Any]) -> None:
        name = entry.get("metric", metrics.THROUGHPUT)
        if name not in metrics.METRICS:
            remedy = did_you_mean(str(name), metrics.METRICS, one_of(metrics.METRICS))
            raise self.error(f"unknown metric '{name}'", (*path, "metric"), remedy)

    def check_claimed(self, path: KeyPath, side: str, labels: Any, cells: list[Cell]) -> None:
        if not isinstance(labels, dict) or not labels:
            raise self.error(
                f"needs the labels `{side}`", path, f"write {side} = {{ index = ... }}"
            )
        wanted = math.prod(len(v) if isinstance(v, list) else 1 for v in labels.values())
        found = len(claims.select(labels, cells, _labels))
        if found != wanted:
            raise self.error(
                f"`{side}` names {found} cells of the study, not {_counted(wanted)}",
                (*path, side), "give the value of each axis that tells cells apart",
            )  # fmt: skip

    def cells_on(self, defaults: Flags, target: str) -> list[Cell]:
        """The cells for another target than the study's own.

        Natively there are as many threads as cores, flags of simulations fall away, [native] has
        the last word, and what needs a pool gets one on tmpfs.
        """
        if target != "native":
            return self.cells(defaults, {"target": target})
        cores = len(os.sched_getaffinity(0))
        last = self.tables.get("native", {})
        found: dict[str, Cell] = {}
        for cell in self.cells(defaults, last):
            wanted = count_of(cell.flags.get("threads", 1))
            threads = min(wanted, cores)
            flags = {n: v for n, v in cell.flags.items() if n not in SIMULATED_FLAGS}
            flags = {n: v for n, v in flags.items() if n not in ("target", "threads")}
            listed = self.indexes("native") if self.indexes else {}
            index = native.entry_of(listed, flags)
            pooled = index is not None and index["index_class"] in ("persistent", "volatile_pm")
            medium = cell.medium
            if medium == "none" and pooled and flags.get("heap") != "dram":
                medium = "tmpfs"
            if "rate" in flags:  # what each thread has to bear stays the same
                flags["rate"] = max(1, count_of(flags["rate"]) * threads // wanted)
            labels = dict(cell.labels)
            if "threads" in labels:
                labels["threads"] = str(threads)
            native_cell = Cell(labels, {**flags, "threads": threads}, medium)
            found.setdefault(json.dumps(native_cell.configuration(), sort_keys=True), native_cell)
        return list(found.values())

    def available(self, cells: list[Cell]) -> tuple[list[Cell], list[str]]:
        """The cells that this build can run, and what it lacks of the study's `optional`."""
        optional = self.typed(("optional",), list, [])
        if not optional or self.indexes is None:
            return cells, []
        kept: list[Cell] = []
        missing: dict[str, None] = {}
        for cell in cells:
            name = str(cell.flags.get("index"))
            listed = self.indexes("native" if cell.target == "native" else "sim")
            entry = native.entry_of(listed, cell.flags)
            lacks = name if entry is None else None
            if entry is not None:
                has = {option["name"] for option in entry.get("options", [])}
                unknown = [o for o in cell.flags.get("option", {}) if o not in has]
                lacks = f"the option {unknown[0]} of {name}" if unknown else None
            if lacks is None or name not in optional:
                kept.append(cell)
            else:
                missing[f"{lacks} (not in this build)"] = None
        return kept, list(missing)

    def check_tables(self) -> None:
        for table in ("flags", "media", "axes", "workloads", "keys", "native"):
            self.typed((table,), dict, {})
        for table in ("include", "exclude", "override", "published", "figure", "probe"):
            for i, entry in enumerate(self.typed((table,), list, [])):
                if not isinstance(entry, dict):
                    raise self.error("must be a table", (table, i), f"write [[{table}]]")
        for name in self.typed(("optional",), list, []):
            if not isinstance(name, str):
                raise self.error("`optional` lists names", ("optional",), 'write ["hot"]')
        for name in self.choices.keys:
            if name not in self.tables.get("keys", {}):
                known = list(self.tables.get("keys", {}))
                remedy = did_you_mean(name, known, one_of(known)) if known else "drop the flag"
                raise self.error(f"--keys {name}: [keys] names no such keys", ("keys",), remedy)
            presence.check_keys(name, self.choices.keys[name])
        for name, form in self.tables.get("keys", {}).items():
            problem = check_flag("keys", form)
            if problem:
                raise self.error(problem.what, ("keys", name), problem.remedy)
        self.check_flags(("native",), self.tables.get("native", {}))
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
        if axis in AXES_BESIDE_FLAGS and not isinstance(value, str):
            raise self.error(f"{axis} must be a name, not {value!r}", path, "write it in quotes",
                             line)  # fmt: skip
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

    def cells(self, defaults: Flags, last: Flags | None = None) -> list[Cell]:
        axes = self.tables["axes"]
        matrices = [axes, *({**axes, **entry} for entry in self.tables.get("include", []))]
        cells: dict[str, Cell] = {}
        for matrix in matrices:
            for values in itertools.product(*matrix.values()):
                choice = {a: _resolve(a, v) for a, v in zip(matrix, values, strict=True)}
                if any(_matches(choice, rule) for rule in self.tables.get("exclude", [])):
                    continue
                cell = self.cell(choice, defaults, last or {})
                cells.setdefault(json.dumps(cell.configuration(), sort_keys=True), cell)
        if not cells:
            raise self.error("every cell is excluded", ("exclude", 0), "drop an [[exclude]]")
        return list(cells.values())

    def cell(self, choice: dict[str, Any], defaults: Flags, last: Flags) -> Cell:
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
        flags = _merged(flags, last)
        if "keys" in flags:
            flags["keys"] = self.key_form(flags["keys"])
        medium = choice.get("medium", "none")
        return Cell({a: str(v) for a, v in choice.items()}, flags, medium)

    def key_form(self, name: str) -> str:
        """What `perdure bench --keys` takes for an entry of [keys], or for a form as it is."""
        chosen = self.choices.keys.get(name)
        if chosen is not None:
            return f"file:{Path(chosen).resolve()}" if Path(chosen).is_file() else chosen
        return str(self.tables.get("keys", {}).get(name, name))

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


def _labels(cell: Cell) -> Labels:
    return cell.labels


def _without_numa(cells: list[Cell]) -> tuple[list[Cell], list[str]]:
    """The cells that a machine of one NUMA node can run, if this is one, and what it lacks."""
    kept = [cell for cell in cells if cell.flags.get("parallel") != "numa"]
    if len(kept) == len(cells) or native.query("environment")["numa_nodes"] > 1:
        return cells, []
    return kept, ["--parallel numa (this machine has one NUMA node)"]


def _counted(cells: int) -> str:
    return "one" if cells == 1 else str(cells)


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
