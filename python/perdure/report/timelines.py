"""Throughput over the time of a run: a panel per workload, a line per index.

Records hold, of each repetition, how many operations ended in intervals of 0.1 s, of a simulated
run in intervals of 1 ms of its own time. Short runs have few of them, and are not drawn.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import altair as alt

from perdure.report.figure import Drawing, Figure, Rows, drawn
from perdure.report.looks import Palette
from perdure.report.panels import Lines, number_axis
from perdure.results import naming, record
from perdure.results.record import Run
from perdure.types import Json

FEWEST = 6  # intervals of a line
MOST = 120  # of a line, which is 200 pixels wide: of more, neighbours are added up
MOST_PANELS = 12
SHORT = 0.5  # seconds: shorter times are told in ms
APART = ("index", "threads", "medium", "target")  # labels that name lines, or are said elsewhere


def figure(identifier: str, runs: Sequence[Run], colours: Palette) -> Figure | None:
    """Of runs that share an axis: all measured, or all of one simulated server. None where none
    was long enough."""
    panels = [rows for rows in _panels(runs).values() if rows]
    if not panels:
        return None
    shown = sorted(sorted(panels, key=_variation, reverse=True)[:MOST_PANELS], key=panels.index)
    rows = [row for panel in shown for row in panel]
    step = "1 ms of simulated time" if runs[0].simulated else "0.1 s"
    caption = (
        f"Operations that ended in an interval of about {step}, per second, successful or not: of "
        "each cell the repetition with the median throughput, at the most threads. An even line is "
        "a steady state; a dip is work in the background, or another process on the machine."
    )
    if len(shown) < len(panels):
        caption += f" Drawn are the {len(shown)} of {len(panels)} workloads that vary most."
    return drawn(identifier, "Throughput over time", caption, _drawing(shown, colours), rows)


def intervals(timeline: Sequence[Json]) -> list[tuple[float, float]]:
    """(end in seconds, operations per second) of each interval. The last one, which ends with the
    run, is added to the one before unless it is half as long as others at least."""
    ends = [0.0, *(float(point["second"]) for point in timeline)]
    spans = [
        (after - before, after, int(point["operations"]))
        for before, after, point in zip(ends, ends[1:], timeline, strict=False)
        if after > before
    ]
    if len(spans) > 1 and spans[-1][0] < statistics.median(span for span, _, _ in spans) / 2:
        (before, _, more), (last, end, rest) = spans[-2:]
        spans[-2:] = [(before + last, end, more + rest)]
    together = max(1, -(-len(spans) // MOST))
    groups = [spans[i : i + together] for i in range(0, len(spans), together)]
    return [
        (group[-1][1], sum(count for _, _, count in group) / sum(span for span, _, _ in group))
        for group in groups
    ]


def _panels(runs: Sequence[Run]) -> dict[str, Rows]:
    """Rows by what tells panels apart; of each panel only the most threads."""
    cells = list(record.group(record.with_targets(runs)).values())
    cells = [cell for cell in cells if cell[0].record["index_class"] != "harness"] or cells
    found = dict[str, Rows]()
    most = dict[str, int]()
    labels = [cell[0].labels for cell in cells]
    common = naming.common_medium(labels)
    told = [axis for axis in dict.fromkeys(a for one in labels for a in one) if axis not in APART]
    if naming.TARGET in naming.differing(labels):
        told.append(naming.TARGET)
    for cell in cells:
        name = naming.words(cell[0].labels, told)
        most[name] = max(most.get(name, 0), int(cell[0].record["threads"]))
    for cell in cells:
        threads, name = int(cell[0].record["threads"]), naming.words(cell[0].labels, told)
        if threads == most[name]:
            title = f"{name}, {threads} thread{'' if threads == 1 else 's'}".removeprefix(", ")
            found.setdefault(title, []).extend(_rows(cell, title, common))
    return found


def _rows(cell: Sequence[Run], panel: str, common: str) -> Rows:
    repetitions = [one for run in cell for one in run.record["repetitions"]]
    by_rate = sorted(repetitions, key=lambda one: float(one["throughput_ops_s"]))
    found = intervals(by_rate[(len(by_rate) - 1) // 2]["timeline"])
    if len(found) < FEWEST:
        return []
    index, medium = cell[0].record["index"], cell[0].labels.get("medium", "none")
    return [
        {
            "index": index,
            "medium": medium,
            "name": naming.with_medium(index, medium, common),
            "dash": "" if medium == common else medium,
            "panel": panel,
            "second": round(second, 6),
            "ops_s": round(rate, 1),
        }
        for second, rate in found
    ]


def _variation(rows: Rows) -> float:
    """Of the line that varies most: its spread over its median."""
    spreads = []
    for name in {row["name"] for row in rows}:
        rates = [row["ops_s"] for row in rows if row["name"] == name]
        median = statistics.median(rates)
        spreads.append(float((max(rates) - min(rates)) / median if median else max(rates)))
    return max(spreads)


def _drawing(panels: Sequence[Rows], colours: Palette) -> Drawing:
    found = [_panel(rows, colours) for rows in panels]
    keys = dict.fromkeys(key for one in found for key in one.keys)
    return Drawing([panel for one in found for panel in one.panels], list(keys))


def _panel(rows: Rows, colours: Palette) -> Drawing:
    longest = max(row["second"] for row in rows)
    unit, scale = ("ms", 1e3) if longest < SHORT else ("s", 1.0)
    return Lines(
        x=alt.X(
            "time:Q",
            title=f"time in {unit}",
            scale=alt.Scale(domain=[0, longest * scale], nice=False),
            axis=number_axis(grid=False),
        ),
        columns=("time", "ops_s"),
        title="operations per second",
        palette=colours,
        height=170,
        most_points=4,
        near=0.04,
    ).drawing([row | {"time": row["second"] * scale} for row in rows])
