"""Throughput over time: what is drawn of which runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import fake_native
from perdure.report import looks, page, timelines
from perdure.results.record import Run

COLOURS = looks.palette([("fptree", "persistent"), ("lbtree", "persistent")])


def timeline(rates: list[float], step: float = 0.1) -> list[dict[str, Any]]:
    return [{"second": step * (i + 1), "operations": round(rate * step)}
            for i, rate in enumerate(rates)]  # fmt: skip


def run(index: str, repetitions: list[list[float]], threads: int = 2, **more: str) -> Run:
    """Of each repetition its rates in intervals of 0.1 s."""
    made = fake_native.record({"index": index, "threads": str(threads)})
    one = made["repetitions"][0]
    made["repetitions"] = [
        one | {"timeline": timeline(rates), "throughput_ops_s": sum(rates) / max(1, len(rates))}
        for rates in repetitions
    ]
    labels = {"index": index, "threads": str(threads), "workload": "insert", **more}
    return Run(labels, made, f"./perdure bench {index}")


def rates_of(figure: Any, index: str = "fptree") -> list[float]:
    column = figure.columns.index("ops_s")
    return [float(row[column].replace(",", "")) for row in figure.rows if row[0] == index]


def test_the_repetition_with_the_median_throughput_is_drawn() -> None:
    runs = [run("fptree", [[1e6] * 8, [4e6, 2e6] * 4, [9e6] * 8]), run("lbtree", [[2e6] * 8])]
    figure = timelines.figure("timeline", runs, COLOURS)
    assert figure is not None
    assert rates_of(figure) == [4e6, 2e6] * 4
    assert ">insert, 2 threads</text>" in figure.svg
    assert ">fptree</text>" in figure.svg and ">time in s</text>" in figure.svg
    shapes = re.findall(r'<path transform="translate\([^)]*\)" d="M[^"]*Z"', figure.svg)
    assert len(shapes) == 8, "four points on each line of eight numbers"


def test_short_runs_are_not_drawn() -> None:
    assert timelines.figure("timeline", [run("fptree", [[1e6] * 5])], COLOURS) is None
    assert timelines.figure("timeline", [run("fptree", [[]])], COLOURS) is None


def test_only_the_most_threads_of_a_workload_are_drawn() -> None:
    runs = [run("fptree", [[1e6] * 8], threads) for threads in (1, 4)]
    figure = timelines.figure("timeline", runs, COLOURS)
    assert figure is not None and len(figure.rows) == 8 and "insert, 4 threads" in figure.svg


def test_of_many_workloads_those_that_vary_most_are_drawn() -> None:
    runs = [run("fptree", [[1e6] * 7 + [1e6 + 1e4 * n]], value_bytes=f"{n}") for n in range(20)]
    figure = timelines.figure("timeline", runs, COLOURS)
    assert figure is not None and len(figure.drawing.panels) == timelines.MOST_PANELS
    assert "the 12 of 20 workloads that vary most" in figure.caption
    assert "value bytes 19, 2 threads" in figure.svg and "value bytes 7," not in figure.svg


def test_a_last_interval_that_is_too_short_to_count_is_added_to_the_one_before() -> None:
    points = [*timeline([1000.0] * 8), {"second": 0.801, "operations": 9}]
    found = timelines.intervals(points)
    assert len(found) == 8 and found[-1] == pytest.approx((0.801, 109 / 0.101))
    points[-1] = {"second": 0.86, "operations": 60}
    assert timelines.intervals(points)[-1] == pytest.approx((0.86, 1000))


def test_long_runs_become_as_many_intervals_as_a_line_shows() -> None:
    found = timelines.intervals(timeline([1000.0, 3000.0] * 300))
    assert len(found) == timelines.MOST
    assert {round(rate) for _, rate in found} <= {1800, 2000, 2200}
    assert found[-1][0] == pytest.approx(60)


def test_simulated_time_stands_in_a_figure_of_its_own() -> None:
    measured, simulated = run("fptree", [[1e6] * 8]), run("lbtree", [[2e6] * 8])
    record = fake_native.simulated(simulated.record, "sim:x")
    record["repetitions"][0]["timeline"] = timeline([2e6] * 8, 0.001)
    simulated = Run(simulated.labels, record, simulated.command)
    content = page.content(Path("all.json"), [measured, simulated])
    ((_, figures),) = content["sections"]
    (ours,) = [one for one in figures if one.identifier == "timeline-integer"]
    assert rates_of(ours, "lbtree") == [] and "simulated" not in ours.caption
    (theirs,) = [
        one
        for one in content["simulated"]["figures"]
        if one.identifier.startswith("simulated-timeline")
    ]
    assert rates_of(theirs) == [] and len(rates_of(theirs, "lbtree")) == 8
    assert "1 ms of simulated time" in theirs.caption and ">time in ms</text>" in theirs.svg
