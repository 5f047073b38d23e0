"""Reading a study: everything in it is checked before the first cell runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from perdure.errors import InputError, did_you_mean, one_of
from perdure.programs import outputs
from perdure.study import expand, memories, presence
from perdure.study.document import Document
from perdure.study.expand import Expansion, workload_file
from perdure.study.flags import AXES_BESIDE_FLAGS, FLAGS, check_flag, scaled
from perdure.study.model import Cell, Choices, Flags, Study
from perdure.study.presence import Listing
from perdure.study.published import PublishedReader, check_name
from perdure.study.repetitions import AUTO, LEAST, MOST, WIDTH, Auto
from perdure.study.toml_lines import Path as KeyPath
from perdure.types import Json

AUTO_KEYS = tuple(one.name for one in fields(Auto))
TOP_LEVEL = (
    "name",
    "title",
    "description",
    "seed",
    "repetitions",
    *AUTO_KEYS,
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
    "memories",
)
LONGEST_SECONDS = 1e6  # eleven days; a machine that waits for ever is no answer
MOST_PROCESSES = 10_000  # of a cell
BUILT_IN_MEDIA = ("tmpfs", "file", "none")


def load(path: Path, choices: Choices | None = None, *, indexes: Listing | None = None) -> Study:
    """Reads, checks and expands a study. Errors: InputError naming the line and the remedy.

    `indexes` lists what the build has; without it names of indexes are not checked.
    """
    return Reader(Document(path), choices or Choices(), indexes).study()


class Reader:
    """Checks a document and makes a study of it. Errors: InputError naming the line."""

    def __init__(self, document: Document, choices: Choices, indexes: Listing | None) -> None:
        self.document, self.choices, self.indexes = document, choices, indexes
        self.expansion = Expansion(document, choices.keys)

    def study(self) -> Study:
        document, choices = self.document, self.choices
        document.check_keys((), document.tables, TOP_LEVEL)
        name = document.typed("name", document.path.stem)
        check_name(document, ("name",), name)
        repetitions, auto = self.repetitions()
        seed, timeout_seconds = self.numbers()
        self.check_tables()
        cells = self.expansion.cells({"seed": seed})
        reader = PublishedReader(document, cells)
        figures = reader.figures()
        probes = reader.memory_claims(figures)
        published = reader.claims(figures)
        asked = memories.load(document, cells)
        cells, left_out = self.fitted(cells, {"seed": seed})
        cells, unprofiled = expand.profiled(cells, figures)
        left_out += unprofiled
        return Study(
            name=name,
            file=outputs.short(document.path),
            title=document.typed("title", name),
            description=document.typed("description", "").strip(),
            seed=seed,
            repetitions=1 if choices.quick else repetitions,
            timeout_seconds=timeout_seconds,
            media=dict(document.table("media")),
            cells=cells,
            published=published,
            figures=figures,
            probes=probes,
            memories=asked.on(choices.target) if choices.target else asked,
            left_out=left_out,
            quick=choices.quick,
            auto=None if choices.quick else auto,
        )

    def numbers(self) -> tuple[int, float]:
        """The seed, and how many seconds a cell may take."""
        document = self.document
        seed, timeout_seconds = document.typed("seed", 7), document.typed("timeout_seconds", 600.0)
        if problem := check_flag("seed", seed):
            raise document.error(problem.what, ("seed",), problem.remedy)
        if not 0 < timeout_seconds <= LONGEST_SECONDS:
            raise document.error(
                f"timeout_seconds must be above 0 and at most {LONGEST_SECONDS:g}",
                ("timeout_seconds",),
                "write 600, or leave it out",
            )
        return seed, float(timeout_seconds)

    def repetitions(self) -> tuple[int, Auto | None]:
        """How many processes each cell has, at first where the study says "auto"."""
        document = self.document
        if document.tables.get("repetitions") == AUTO:
            auto = Auto(
                float(document.typed("interval_width", WIDTH)),
                document.typed("most_repetitions", MOST),
            )
            if problem := auto.check():
                place = next((key for key in AUTO_KEYS if f"`{key}`" in problem.what), AUTO)
                raise document.error(problem.what, (place,), problem.remedy)
            return LEAST, auto
        for key in AUTO_KEYS:
            if key in document.tables:
                raise document.error(
                    f"'{key}' goes with automatic repetitions", (key,), 'write repetitions = "auto"'
                )
        repetitions = document.typed("repetitions", 3)
        if not 1 <= repetitions <= MOST_PROCESSES:
            what = f"repetitions must be at least 1 and at most {MOST_PROCESSES}"
            raise document.error(what, ("repetitions",), 'use 3 or more, or "auto"')
        return repetitions, None

    def fitted(self, cells: list[Cell], defaults: Flags) -> tuple[list[Cell], list[str]]:
        """The cells as the command line wants them and this build and machine can run them, and
        what had to be left out."""
        target, left_out = self.choices.target, list[str]()
        if target:
            if problem := check_flag("target", target):
                raise InputError(problem.what, where="--target", remedy=problem.remedy)
            cells = self.expansion.cells_on(target, defaults, self.indexes)
        if self.indexes is not None:
            optional = self.document.typed("optional", list[str]())
            check = presence.Check(self.document, self.indexes, optional)
            check.cells((cell.flags for cell in cells), target)
            cells, left_out = expand.available(cells, optional, self.indexes)
        if target == "native":
            cells, one_node = expand.without_numa(cells)
            left_out += one_node
        if self.choices.scale != 1:
            cells = [replace(c, flags=scaled(c.flags, self.choices.scale)) for c in cells]
        if self.choices.quick:
            cells = [replace(c, flags=expand.quick(c.flags)) for c in cells]
        return cells, left_out

    def check_tables(self) -> None:
        for table in ("flags", "media", "axes", "workloads", "keys", "native"):
            self.document.typed(table, Json())
        for table in ("include", "exclude", "override", "published", "figure", "probe"):
            for i, entry in enumerate(self.document.typed(table, list[Any]())):
                if not isinstance(entry, dict):
                    raise self.document.error("must be a table", (table, i), f"write [[{table}]]")
        for name in self.document.typed("optional", list[Any]()):
            if not isinstance(name, str):
                raise self.document.error("`optional` lists names", ("optional",), 'write ["hot"]')
        for name in self.choices.keys:
            if name not in self.document.table("keys"):
                known = list(self.document.table("keys"))
                remedy = did_you_mean(name, known, one_of(known)) if known else "drop the flag"
                raise self.document.error(
                    f"--keys {name}: [keys] names no such keys", ("keys",), remedy
                )
            presence.check_keys(name, self.choices.keys[name])
        for name, form in self.document.table("keys").items():
            problem = check_flag("keys", form)
            if problem:
                raise self.document.error(problem.what, ("keys", name), problem.remedy)
        self.check_flags(("native",), self.document.table("native"))
        self.check_flags(("flags",), self.document.table("flags"))
        for name, flags in self.document.table("workloads").items():
            self.check_flags(("workloads", name), flags)
        for name, directory in self.document.table("media").items():
            if not isinstance(directory, str) or not directory.startswith("/"):
                raise self.document.error(
                    f"medium '{name}' is not an absolute directory",
                    ("media", name),
                    'write it as pm = "/DIRECTORY"',
                )
        if not self.document.table("axes"):
            raise self.document.error(
                "no axes", ("axes",), "add [axes] with at least index = [...]"
            )
        self.check_axes(("axes",), self.document.table("axes"))
        for i, entry in enumerate(self.document.entries("include")):
            self.check_axes(("include", i), entry)
        for i, entry in enumerate(self.document.entries("exclude")):
            self.check_axes(("exclude", i), entry)
        for i, entry in enumerate(self.document.entries("override")):
            self.document.check_keys(("override", i), entry, ("when", "set"))
            for part in ("when", "set"):
                if not isinstance(entry.get(part), dict):
                    raise self.document.error(
                        f"an override needs the table `{part}`",
                        ("override", i),
                        "write when = { ... } and set = { ... }",
                    )
            self.check_axes(("override", i, "when"), entry["when"])
            self.check_flags(("override", i, "set"), entry["set"])

    def check_flags(self, path: KeyPath, flags: Any) -> None:
        if not isinstance(flags, dict):
            raise self.document.error("must be a table of flags", path, "write it as [flags]")
        self.document.check_keys(path, flags, FLAGS)
        for name, value in flags.items():
            problem = check_flag(name, value)
            if problem:
                raise self.document.error(problem.what, (*path, name), problem.remedy)

    def check_axes(self, path: KeyPath, axes: Mapping[str, Any]) -> None:
        self.document.check_keys(path, axes, (*AXES_BESIDE_FLAGS, *FLAGS))
        for axis, values in axes.items():
            here = (*path, axis)
            if not isinstance(values, list) or not values:
                raise self.document.error(
                    f"axis '{axis}' must be a list of values", here, f"write {axis} = [...]"
                )
            for value in values:
                self.check_axis_value(here, axis, value)

    def check_axis_value(self, path: KeyPath, axis: str, value: Any) -> None:
        line = self.document.line_of_value(path, value)
        if axis in AXES_BESIDE_FLAGS and not isinstance(value, str):
            what = f"{axis} must be a name, not {value!r}"
            raise self.document.error(what, path, "write it in quotes", line)
        if axis == "medium":
            media = (*BUILT_IN_MEDIA, *self.document.table("media"))
            if value not in media:
                remedy = did_you_mean(str(value), media, one_of(media))
                raise self.document.error(f"unknown medium '{value}'", path, remedy, line)
        elif axis == "workload":
            workloads = self.document.table("workloads")
            if value not in workloads and workload_file(self.document.path, value) is None:
                remedy = did_you_mean(
                    str(value), workloads, f"add [workloads.{value}] or name an existing file"
                )
                raise self.document.error(f"unknown workload '{value}'", path, remedy, line)
        elif not (axis == "threads" and value == "all"):
            problem = check_flag(axis, value)
            if problem:
                raise self.document.error(problem.what, path, problem.remedy, line)
