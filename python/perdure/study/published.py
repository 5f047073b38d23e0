"""Reading the figures of a study, and what others found: [[figure]], [[published]], [[probe]]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from perdure.errors import did_you_mean, one_of
from perdure.programs import outputs
from perdure.results import metrics
from perdure.results.record import OPERATIONS, QUEUE_OPERATIONS
from perdure.study import claims, entry, memory_claims
from perdure.study.claims import Claim
from perdure.study.document import Document
from perdure.study.memory_claims import MemoryClaim
from perdure.study.model import Cell, Figure
from perdure.study.toml_lines import Path as KeyPath
from perdure.types import Json

FIGURE_KEYS = tuple(one.name for one in fields(Figure))
ALL_OPERATIONS = (*OPERATIONS, *QUEUE_OPERATIONS)
DRAWINGS = (*metrics.DRAWINGS, "none")


class PublishedReader:
    """Checks the entries against the cells of the study. Errors: InputError naming the line."""

    def __init__(self, document: Document, cells: Sequence[Cell]) -> None:
        self.document, self.cells = document, cells

    def figures(self) -> list[Figure]:
        probed = [probe.get("figure") for probe in self.document.entries("probe")]
        names = list[str]()
        for i, figure in enumerate(self.document.entries("figure")):
            self.check_figure(("figure", i), figure, needs_cells=figure.get("name") not in probed)
            if figure["name"] in names:  # its files would take the place of the other's
                what = f"there are two figures '{figure['name']}'"
                raise self.document.error(what, ("figure", i, "name"), "give one another name")
            names.append(figure["name"])
        return [entry.read(Figure, one) for one in self.document.entries("figure")]

    def memory_claims(self, figures: Sequence[Figure]) -> list[MemoryClaim]:
        for i, one in enumerate(self.document.entries("probe")):
            here = ("probe", i)
            self.document.check_keys(here, one, memory_claims.KEYS)
            problem = memory_claims.check(one)
            if problem:
                raise self.document.error(problem.what, here, problem.remedy)
            self.check_its_figure(here, one, figures)
        return [MemoryClaim.read(one) for one in self.document.entries("probe")]

    def claims(self, figures: Sequence[Figure]) -> list[Claim]:
        for i, one in enumerate(self.document.entries("published")):
            here = ("published", i)
            self.document.check_keys(here, one, claims.KEYS)
            problem = claims.check(one)
            if problem:
                raise self.document.error(problem.what, here, problem.remedy)
            self.check_metric(here, one)
            self.check_its_figure(here, one, figures)
            for side in ("of", "over"):
                if side == "of" or "over" in one:
                    self.check_side(here, side, one.get(side))
        return [entry.read(Claim, one) for one in self.document.entries("published")]

    def check_figure(self, path: KeyPath, figure: Json, *, needs_cells: bool) -> None:
        self.document.check_keys(path, figure, FIGURE_KEYS)
        for key in ("name", "title"):
            if not isinstance(figure.get(key), str):
                remedy = f'add {key} = "..."'
                raise self.document.error(f"does not say its {key}", path, remedy)
        check_name(self.document, (*path, "name"), figure["name"])
        self.check_metric(path, figure)
        drawing = figure.get("drawing", "none")
        if drawing not in DRAWINGS:
            remedy = did_you_mean(str(drawing), DRAWINGS, one_of(DRAWINGS))
            raise self.document.error(f"unknown drawing '{drawing}'", (*path, "drawing"), remedy)
        wanted = figure.get("cells")
        if wanted is None and not needs_cells:
            return
        if not isinstance(wanted, dict) or not claims.select(wanted, self.cells):
            raise self.document.error(
                "`cells` names no cell of the study",
                (*path, "cells"),
                "write cells = { workload = [...] } with labels that there are",
            )

    def check_its_figure(self, path: KeyPath, table: Json, figures: Sequence[Figure]) -> None:
        names = [figure.name for figure in figures]
        if "figure" in table and table["figure"] not in names:
            remedy = did_you_mean(str(table["figure"]), names, one_of(names))
            what = f"unknown figure '{table['figure']}'"
            raise self.document.error(what, (*path, "figure"), remedy)

    def check_metric(self, path: KeyPath, table: Json) -> None:
        name = table.get("metric", metrics.THROUGHPUT)
        if name not in metrics.METRICS:
            remedy = did_you_mean(str(name), metrics.METRICS, one_of(metrics.METRICS))
            raise self.document.error(f"unknown metric '{name}'", (*path, "metric"), remedy)
        if (name == metrics.FUNCTION_TIME) != isinstance(table.get("function"), str):
            what = f"metric = '{metrics.FUNCTION_TIME}' and `function` go together"
            raise self.document.error(what, path, 'add function = "search", or drop the other')
        if metrics.is_of_a_part(name) != isinstance(table.get("part"), str):
            what = f"metric = '{name}' and `part` do not go together"
            remedy = 'metrics of parts, as "part_ewr", need part = "index", and no others take it'
            raise self.document.error(what, path, remedy)
        operation = table.get("operation")
        if operation is None:
            return
        here = (*path, "operation")
        if operation not in ALL_OPERATIONS:
            remedy = did_you_mean(str(operation), ALL_OPERATIONS, one_of(ALL_OPERATIONS))
            raise self.document.error(f"unknown operation '{operation}'", here, remedy)
        if not metrics.is_latency(name):
            what = f"an operation has no {name} of its own"
            raise self.document.error(what, here, 'drop it, or name a latency, as metric = "p99"')

    def check_side(self, path: KeyPath, side: str, labels: Any) -> None:
        if not isinstance(labels, dict) or not labels:
            remedy = f"write {side} = {{ index = ... }}"
            raise self.document.error(f"needs the labels `{side}`", path, remedy)
        wanted = math.prod(len(v) if isinstance(v, list) else 1 for v in labels.values())
        found = len(claims.select(labels, self.cells))
        if found != wanted:
            counted = "one" if wanted == 1 else str(wanted)
            raise self.document.error(
                f"`{side}` names {found} cells of the study, not {counted}",
                (*path, side),
                "give the value of each axis that tells cells apart",
            )


def check_name(document: Document, path: KeyPath, name: str) -> None:
    """A name that becomes a folder's or a file's."""
    if problem := outputs.name_problem(name):
        what = f"the name '{name}' {problem}".replace("\n", " ")
        raise document.error(what, path, "use letters, digits and dashes")
