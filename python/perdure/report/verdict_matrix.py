"""The report's verdicts: of every workload, each index against each other one.

A row over a column: the ratio of their medians, the word, and a mark, so that none of it rests on
colour. They are the verdicts of `perdure compare`, at the most threads of a workload.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perdure.results import naming, verdicts
from perdure.results.record import Run, group
from perdure.results.verdicts import Judgement, Side, Verdict
from perdure.types import Json

MARKS = {
    Verdict.FASTER: "▲",
    Verdict.SLOWER: "▼",
    Verdict.SAME: "=",
    Verdict.INCONCLUSIVE: "?",
}
OPEN = 4  # matrices of a target that are not folded
LARGEST_OPEN = 8  # columns of one that is not folded
# Pixels, as the style sheet has it: of the text of a page that is 1280 wide, of a letter of a name
# in a wide font, and of a cell with the word `faster`, with the longest, and without one.
TEXT, LETTER, PADDING, CELL, LONGEST_CELL, DENSE_CELL = 1024, 8.8, 18, 76, 100, 52
# What tells competitors apart; all other labels are of the place where they compete.
COMPETITOR, PLACEMENT = ("index", "medium"), "placement"
Cells = Sequence[list[Run]]


def section(runs: Sequence[Run], *, quick: bool) -> list[Json]:
    """A part for each target with two indexes or more. A quick run has none."""
    if quick:
        return []
    by_target: dict[str, list[Run]] = {}  # in the study's order
    for run in runs:
        by_target.setdefault(str(run.record["target"]), []).append(run)
    parts = [_part(list(group(own).values())) for own in by_target.values()]
    return [part for part in parts if part["places"]]


def _part(cells: Cells) -> Json:
    cells = [runs for runs in cells if runs[0].record["index_class"] != "harness"]
    common = naming.common_medium([runs[0].labels for runs in cells])
    places = [one for own in _places(cells) if (one := _matrix(own, common))]
    for position, one in enumerate(places):
        one["open"] = position < OPEN and len(one["names"]) <= LARGEST_OPEN
    first = cells[0][0] if cells else None
    return {
        "simulated": bool(first and first.simulated),
        "tag": naming.origin([first.record["target"]] if first else []),
        "places": places,
    }


def _places(cells: Cells) -> list[list[list[Run]]]:
    """Cells that differ in what competes alone, at the most threads of each such group."""
    competitor = _competitor(cells)
    found: dict[tuple[tuple[str, str], ...], list[list[Run]]] = {}
    for runs in cells:
        rest = {
            axis: value
            for axis, value in runs[0].labels.items()
            if axis not in (*competitor, "threads", "target")
        } | {"key_kind": runs[0].record["key_kind"] or "queue"}
        found.setdefault(tuple(sorted(rest.items())), []).append(runs)
    return [
        [runs for runs in own if runs[0].record["threads"] == max(map(_threads, own))]
        for own in found.values()
    ]


def _competitor(cells: Cells) -> tuple[str, ...]:
    """The index with its medium; of one index, where its parts lie."""
    one_index = len({runs[0].record["index"] for runs in cells}) == 1
    if one_index and all(PLACEMENT in runs[0].labels for runs in cells):
        return (PLACEMENT, "medium")
    return COMPETITOR


def _threads(runs: list[Run]) -> int:
    return int(runs[0].record["threads"])


def _matrix(cells: Cells, common: str) -> Json | None:
    """The fastest first; None for less than two."""
    if len(cells) < 2:
        return None
    sides = [Side.of(runs) for runs in cells]
    ranked = verdicts.ranks(sides)
    ordered = [position for position, _ in ranked]
    names = [_name(cells[position][0].labels, cells, common) for position in ordered]
    judged = verdicts.matrix([sides[position] for position in ordered])
    first = [
        name for name, (position, rank) in zip(names, ranked, strict=True)
        if rank == 1 and sides[position].median > 0
    ]  # fmt: skip
    run = cells[0][0]
    return {
        "title": _title(run.labels, cells),
        "threads": run.record["threads"],
        "names": names,
        "style": _style(names, judged),
        "first": first,
        "rows": [
            {"name": name, "cells": [_cell(one) for one in row]}
            for name, row in zip(names, judged, strict=True)
        ],
    }


def _style(names: Sequence[str], judged: Sequence[Sequence[Judgement | None]]) -> str:
    """Classes of a table with these names, so that it fits: names on their side; if that is not
    enough cells without their words, which screen readers still get; and then with their mark above
    the ratio."""
    open_ones = any(one and one.verdict is Verdict.INCONCLUSIVE for row in judged for one in row)
    cell = LONGEST_CELL if open_ones else CELL
    room = TEXT - max(map(_wide, names))
    if sum(max(cell, _wide(name)) for name in names) <= room:
        return ""
    if cell * len(names) <= room:
        return "many"
    return "many dense" if DENSE_CELL * len(names) <= room else "many dense stacked"


def _wide(name: str) -> float:
    return LETTER * len(name) + PADDING


def _name(labels: Mapping[str, str], cells: Cells, common: str) -> str:
    """`common`: the only medium of the part."""
    series = _competitor(cells)[0]
    return naming.with_medium(labels.get(series, ""), labels.get("medium", "none"), common)


def _title(labels: Mapping[str, str], cells: Cells) -> str:
    """`lookup`, and whatever else was chosen there."""
    left_out = (*_competitor(cells), "threads", "target", "workload")
    more = naming.words(labels, [axis for axis in labels if axis not in left_out])
    return ", ".join(filter(None, (labels.get("workload", "throughput"), more)))


def _cell(judged: Judgement | None) -> Json | None:
    if judged is None:
        return None
    ratio = judged.ratio
    interval = "" if ratio.is_exact else f"{short(ratio.low)} to {short(ratio.high)} ({ratio.name})"
    return {
        "mark": MARKS[judged.verdict],
        "word": str(judged.verdict),
        "ratio": short(ratio.value) if ratio.value else "",
        "why": judged.why or interval or "exact",
    }


def short(ratio: float) -> str:
    """Three digits or two: `0.04`, `1.25`, `12`."""
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
