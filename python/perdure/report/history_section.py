"""The report's history: the cells of these results in the baselines that were saved before.

What is measured and what is simulated, and each target, have a part of their own. Verdicts are
those of `perdure compare`, of each revision against the one before it that has the cell. Columns
begin with the latest.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perdure.format import rate
from perdure.report.verdict_matrix import MARKS, short
from perdure.results import baselines, compare, query, verdicts
from perdure.results.record import Run, group
from perdure.results.stats import Interval
from perdure.results.verdicts import Side, Verdict
from perdure.types import Json

THESE = "these results"
COLUMNS = 5  # with numbers; the drawing has all
LEAST_SPAN = 0.1  # of the last median, to each side: smaller changes are drawn small
WIDTH, HEIGHT, MARGIN = 150, 34, 8
CHANGED = (Verdict.SLOWER, Verdict.FASTER)

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Point:
    """One revision: a baseline, or these results."""

    name: str
    runs: Sequence[Run]

    @property
    def cells(self) -> Mapping[Labels, list[Run]]:
        return group(self.runs)

    def document(self) -> Json:
        commits = dict.fromkeys(run.record["build"]["commit"][:12] for run in self.runs)
        measured = baselines.measured_unix(self.runs)
        return {
            "name": self.name,
            "revision": ", ".join(commit for commit in commits if commit),
            "day": time.strftime("%Y-%m-%d", time.localtime(measured)) if measured else "",
        }


def section(runs: Sequence[Run], folder: Path) -> list[Json]:
    """A part for each target of which a baseline in `folder` has a cell. Errors: InputError."""
    saved = [Point(one.name, own) for one, own in baselines.with_runs(folder)]
    by_target: dict[str, list[Run]] = {}
    for run in runs:
        by_target.setdefault(str(run.record["target"]), []).append(run)
    parts = (_part(own, saved) for own in by_target.values())
    return [part for part in parts if part]


def _part(runs: list[Run], saved: Sequence[Point]) -> Json | None:
    wanted, target = set(group(runs)), runs[0].record["target"]
    points = []
    for point in saved:
        own = [run for run in point.runs if run.record["target"] == target]
        own = [run for run in own if tuple(sorted(run.labels.items())) in wanted]
        if own:
            points.append(Point(point.name, own))
    points = _with_these(points, runs)
    if len(points) < 2:
        return None
    shown = points[-COLUMNS:][::-1]
    cells = [point.cells for point in points]
    lines = [_line([one.get(labels) for one in cells], len(shown)) for labels in cells[-1]]
    lines = [line for line in lines if line["points"] > 1]
    judged = [line["last"] for line in lines]
    return {
        "simulated": runs[0].simulated,
        "tag": f"simulated, {target}" if runs[0].simulated else "measured, native",
        "points": [point.document() for point in shown],
        "older": len(points) - len(shown),
        "counts": [(str(v), n) for v, n in verdicts.counts(judged).items() if n],
        "changed": [line for verdict in CHANGED for line in lines if line["last"] is verdict],
        "others": [line for line in lines if line["last"] not in CHANGED],
    }


def _with_these(points: list[Point], runs: list[Run]) -> list[Point]:
    """Adds these results. A baseline that was saved of them is the same point: it comes last."""
    these = _identity(runs)
    same = [point.name for point in points if _identity(point.runs) == these]
    others = [point for point in points if point.name not in same]
    return [*others, Point(", ".join([THESE, *same]), runs)]


def _identity(runs: Sequence[Run]) -> set[tuple[str, tuple[float, ...]]]:
    """Equal for the same measurements: a cell that was measured again may have the same key."""
    return {(run.key, run.samples) for run in runs}


def _line(runs: Sequence[list[Run] | None], columns: int) -> Json:
    """One cell over the revisions; None: the revision does not have it."""
    cells: list[Json | None] = []
    before: list[Run] | None = None
    verdict = Verdict.INCONCLUSIVE
    for own in runs:
        if own is None:
            cells.append(None)
            continue
        judged = compare.judge(before, own) if before else None
        verdict = judged.verdict if judged else verdict
        cells.append(_cell(own, judged))
        before = own
    last = next(own for own in reversed(runs) if own)
    there = [(i, Side.of(own).interval()) for i, own in enumerate(runs) if own]
    return {
        "name": _name(last[0].labels),
        "variant": query.variant(last[0]),
        "drawing": trend(there, len(runs)),
        "points": len(there),
        "cells": cells[-columns:][::-1],
        "last": verdict,
    }


def _cell(runs: list[Run], judged: compare.Comparison | None) -> Json:
    found: Json = {"rate": rate(Side.of(runs).median), "word": "", "remark": ""}
    if judged is None:
        return found
    ratio = judged.ratio
    interval = f"{short(ratio.low)} to {short(ratio.high)} ({judged.kind_of_interval})"
    remarks = [one for one in judged.remark.split("; ") if one and one != "exact"]
    return found | {
        "word": str(judged.verdict),
        "mark": MARKS[judged.verdict],
        "ratio": short(ratio.value) if ratio.value else "",
        "why": "exact" if judged.exact else interval,
        "remark": "; ".join(remarks),
    }


def _name(labels: Mapping[str, str]) -> str:
    """`fptree, tmpfs, lookup, threads 4`."""
    told = (
        f"{axis.replace('_', ' ')} {value}" if value.isdecimal() else value
        for axis, value in labels.items()
        if axis != "target" and value != "none"
    )
    return ", ".join(told)


def trend(there: Sequence[tuple[int, Interval]], count: int) -> str:
    """Medians with their intervals over the revisions, as a small drawing. `there`: which of
    `count` revisions have the cell, and what they have."""
    middle = there[-1][1].value
    spans = [value for _, one in there for value in (one.low, one.high)]
    low = min([*spans, middle * (1 - LEAST_SPAN)])
    high = max([*spans, middle * (1 + LEAST_SPAN)])

    def across(position: int) -> float:
        return round(MARGIN + (WIDTH - 2 * MARGIN) * position / max(count - 1, 1), 1)

    def down(value: float) -> float:
        share = (value - low) / (high - low) if high > low else 0.5
        return round(HEIGHT - 4 - (HEIGHT - 8) * share, 1)

    line = " ".join(f"{across(i)},{down(one.value)}" for i, one in there)
    marks = [f'<polyline points="{line}" fill="none" stroke="currentColor" opacity=".5"/>']
    for i, one in there:
        x, y = across(i), down(one.value)
        if one.high > one.low:
            bar = f"M{x} {down(one.low)}V{down(one.high)}"
            marks.append(f'<path d="{bar}" stroke="currentColor" stroke-width="3" opacity=".3"/>')
        marks.append(f'<circle cx="{x}" cy="{y}" r="{3 if i == count - 1 else 2.2}"/>')
    rates = ", ".join(rate(one.value) for _, one in there)
    return (
        f'<svg class="trend" viewBox="0 0 {WIDTH} {HEIGHT}" fill="currentColor" role="img" '
        f'aria-label="{len(there)} revisions: {rates}">{"".join(marks)}</svg>'
    )
