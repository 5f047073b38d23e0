"""A study's axes expanded into cells, and cells fitted to another target, build or machine."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from perdure.programs import native, profile
from perdure.study import claims
from perdure.study.document import Document
from perdure.study.flags import AXES_BESIDE_FLAGS, SIMULATED_FLAGS, count_of
from perdure.study.model import Cell, Figure, Flags
from perdure.study.presence import Listing

Matrix = Mapping[str, Sequence[Any]]  # axis -> its values


class Expansion:
    """The cells of a document that was checked. `keys` replaces entries of [keys]."""

    def __init__(self, document: Document, keys: Mapping[str, str]) -> None:
        self.document, self.keys = document, keys

    def cells(self, defaults: Flags, last: Flags | None = None) -> list[Cell]:
        axes = self.document.table("axes")
        matrices = [axes, *({**axes, **entry} for entry in self.document.entries("include"))]
        cells: dict[str, Cell] = {}
        for matrix in matrices:
            for values in itertools.product(*matrix.values()):
                choice = {a: _resolve(a, v) for a, v in zip(matrix, values, strict=True)}
                if any(_matches(choice, rule) for rule in self.document.entries("exclude")):
                    continue
                cell = self.cell(choice, defaults, last or {})
                cells.setdefault(json.dumps(cell.configuration(), sort_keys=True), cell)
        if not cells:
            raise self.document.error(
                "every cell is excluded", ("exclude", 0), "drop an [[exclude]]"
            )
        return list(cells.values())

    def cell(self, choice: Flags, defaults: Flags, last: Flags) -> Cell:
        flags = {**defaults, **self.document.table("flags")}
        workload = choice.get("workload")
        if workload in self.document.table("workloads"):
            flags = _merged(flags, self.document.table("workloads")[workload])
        elif workload is not None:
            flags["workload"] = str(workload_file(self.document.path, workload))
        flags = _merged(flags, {a: v for a, v in choice.items() if a not in AXES_BESIDE_FLAGS})
        for rule in self.document.entries("override"):
            if _matches(choice, rule["when"]):
                flags = _merged(flags, rule["set"])
        flags = _merged(flags, last)
        if "keys" in flags:
            flags["keys"] = self.key_form(flags["keys"])
        medium = choice.get("medium", "none")
        return Cell({a: str(v) for a, v in choice.items()}, flags, medium)

    def key_form(self, name: str) -> str:
        """What `perdure bench --keys` takes for an entry of [keys], or for a form as it is."""
        chosen = self.keys.get(name)
        if chosen is not None:
            return f"file:{Path(chosen).resolve()}" if Path(chosen).is_file() else chosen
        return str(self.document.table("keys").get(name, name))

    def cells_on(self, target: str, defaults: Flags, indexes: Listing | None) -> list[Cell]:
        """The cells for another target than the study's own.

        Natively there are as many threads as cores, flags of simulations fall away, [native] has
        the last word, and what needs a pool gets one on tmpfs.
        """
        if target != "native":
            return self.cells(defaults, {"target": target})
        cores = len(os.sched_getaffinity(0))
        last = self.document.table("native")
        found: dict[str, Cell] = {}
        for cell in self.cells(defaults, last):
            wanted = count_of(cell.flags.get("threads", 1))
            threads = min(wanted, cores)
            flags = {n: v for n, v in cell.flags.items() if n not in SIMULATED_FLAGS}
            flags = {n: v for n, v in flags.items() if n not in ("target", "threads")}
            listed = indexes("native") if indexes else {}
            index = native.entry_of(listed, flags)
            pooled = index is not None and index["index_class"] in ("persistent", "volatile_pm")
            medium = cell.medium
            if medium == "none" and pooled and flags.get("heap") != "dram":
                medium = "tmpfs"
            if "rate" in flags:  # the rate per thread stays the same
                flags["rate"] = max(1, count_of(flags["rate"]) * threads // wanted)
            labels = dict(cell.labels)
            if "threads" in labels:
                labels["threads"] = str(threads)
            if is_of_queue(flags):
                half = max(1, cores // 2)
                sides = [side for side in ("producers", "consumers") if side in flags]
                flags |= {side: min(count_of(flags[side]), half) for side in sides}
            else:
                flags["threads"] = threads
            native_cell = Cell(labels, flags, medium)
            found.setdefault(json.dumps(native_cell.configuration(), sort_keys=True), native_cell)
        return list(found.values())


def workload_file(study: Path, value: Any) -> Path | None:
    """A workload file is looked for beside the study and below the study's parent folder."""
    if not isinstance(value, str) or not value.endswith(".toml"):
        return None
    for base in (study.parent, study.parent.parent, Path()):
        if (base / value).is_file():
            return (base / value).resolve()
    return None


def available(
    cells: list[Cell], optional: Sequence[str], indexes: Listing
) -> tuple[list[Cell], list[str]]:
    """The cells that this build can run, and what it lacks of the study's `optional`."""
    kept: list[Cell] = []
    missing: dict[str, None] = {}
    for cell in cells:
        name = str(cell.flags.get("index"))
        listed = indexes("native" if cell.target == "native" else "sim")
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


def without_numa(cells: list[Cell]) -> tuple[list[Cell], list[str]]:
    """The cells that a machine of one NUMA node can run, if this is one, and what it lacks."""
    needing: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.flags.get("parallel") == "numa":
            needing.setdefault("--parallel numa", []).append(cell)
        elif "placement" in cell.flags:
            needing.setdefault("--placement", []).append(cell)
    if not needing or native.query("environment")["numa_nodes"] > 1:
        return cells, []
    dropped = {id(cell) for group in needing.values() for cell in group}
    kept = [cell for cell in cells if id(cell) not in dropped]
    return kept, [f"{flag} (this machine has one NUMA node)" for flag in needing]


def profiled(cells: list[Cell], figures: Sequence[Figure]) -> tuple[list[Cell], list[str]]:
    """The cells with those marked whose functions a figure shows, and what this machine lacks."""
    wanted = [f.cells for f in figures if f.needs_profile and f.cells is not None]
    chosen = [id(cell) for one in wanted for cell in claims.select(one, cells)]
    if not chosen:
        return cells, []
    natively = any(id(c) in chosen and native.kind_of(c.target) == "native" for c in cells)
    missing = profile.why_not() if natively else ""
    marked = [
        replace(cell, profiled=True)
        if id(cell) in chosen and not (missing and native.kind_of(cell.target) == "native")
        else cell
        for cell in cells
    ]
    return marked, [f"flame graphs ({missing})"] if missing else []


def is_of_queue(flags: Flags) -> bool:
    """A queue has producers and consumers, and neither records nor threads."""
    return "producers" in flags or "consumers" in flags


def quick(flags: Flags) -> Flags:
    cut = dict(flags)
    if not is_of_queue(flags):
        cut["records"] = min(count_of(flags.get("records", 10_000)), 10_000)
    if "operations" in flags:
        cut["operations"] = min(count_of(flags["operations"]), 2_000)
    if "seconds" in flags or "operations" not in flags:
        cut["seconds"] = min(float(flags.get("seconds", 0.05)), 0.05)
    return cut


def _resolve(axis: str, value: Any) -> Any:
    if axis == "threads" and value == "all":
        return len(os.sched_getaffinity(0))
    return value


def _merged(flags: Flags, more: Flags) -> Flags:
    """`more` wins. A run ends by seconds or by operations, so either one replaces the other."""
    dropped = {"seconds": "operations", "operations": "seconds"}
    losers = {dropped[name] for name in more if name in dropped} - set(more)
    return {name: value for name, value in flags.items() if name not in losers} | more


def _matches(choice: Flags, rule: Matrix) -> bool:
    return all(
        choice.get(axis) in [_resolve(axis, value) for value in values]
        for axis, values in rule.items()
    )
