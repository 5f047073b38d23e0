"""Figures that several servers, sizes of values or media share: lines, panels, axes and names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import fake_native
import test_report
from perdure.report import figure_files, page, plots, timelines, verdict_matrix
from perdure.report import looks as looking
from perdure.report.facets import MOST_LINES, Facets
from perdure.report.figure import Figure, Rows
from perdure.results import naming, record
from perdure.results import query as reading
from perdure.results.record import Run
from test_simulated_report import fill, run

SERVERS = ("sim:optane100-8280l-2s", "sim:nvdimm-n", "sim:cxl-asic")
SIZES = ("16", "256")
NAMES = ("linetree", "fptree", "lbtree")
APART = ("workload", "threads")
FIGURES = [
    {"name": "scaling", "title": "S", "cells": {"threads": [1, 4, 12]}, "drawing": "threads"},
    {"name": "tail", "title": "T", "cells": {"threads": 12}, "drawing": "percentiles"},
    {"name": "misses", "title": "M", "cells": {"threads": 12}, "metric": "llc_misses"},
    {"name": "flushes", "title": "F", "cells": {"threads": 12}, "metric": "flushes",
     "drawing": "workloads"},
]  # fmt: skip


def cells() -> list[dict[str, Any]]:
    """Each server is ten times as fast as the one before."""
    found = []
    for number, server in enumerate(SERVERS):
        for size in SIZES:
            for place, name in enumerate(NAMES):
                for threads in (1, 4, 12):
                    for workload in ("lookup", "insert"):
                        rate = 1e6 * threads * (1 + place) * 10**number
                        made = run(name, threads, rate, server)
                        made["key"] = f"{server[4:]}-{size}-{name}-{threads}-{workload}"
                        made["labels"] |= {"workload": workload, "target": server}
                        made["labels"]["value_bytes"] = size
                        found.append(made)
    return found


@pytest.fixture(scope="module", params=[FIGURES, []], ids=["own", "usual"])
def study(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of three servers and two sizes of values, with figures of its own and without."""
    folder = tmp_path_factory.mktemp("study")
    fill(folder, cells(), figures=request.param)
    return folder


def content(study: Path) -> Any:
    return page.content(study, record.load(study))


def figures_of(study: Path) -> dict[str, Figure]:
    return {one.identifier: one for one in figure_files._figures(content(study))}


def test_all_servers_and_sizes_stand_in_one_set_of_figures(study: Path) -> None:
    found = figures_of(study)
    own = {f"{name}-simulated" for name in ("scaling", "tail", "misses", "flushes")}
    usual = {"simulated-scaling", "simulated-time"}
    assert set(found) in (own, usual)
    for one in found.values():
        assert one.title.endswith("(simulated, 3 servers)")
        for server in ("optane100-8280l-2s", "nvdimm-n", "cxl-asic"):
            assert server in one.svg, one.identifier
        for size in SIZES:
            assert f"value bytes {size}" in one.svg, one.identifier
        assert {"target", "value_bytes"} <= set(one.columns), one.identifier


def test_servers_stand_side_by_side_with_the_same_axis(study: Path) -> None:
    found = figures_of(study)
    scaling = found.get("scaling-simulated") or found["simulated-scaling"]
    rows = scaling.drawing.rows
    assert [len(row) for row in rows] == [3, 3], "a row for each workload"
    for row in rows:
        ticks = [re.findall(r">(\d+[kMG])</text>", panel.body) for panel in row]
        assert ticks[0] == ticks[1] == ticks[2] and len(ticks[0]) > 1
        heights = [panel.height for panel in row]  # of titles with one line and with two
        assert max(heights) - min(heights) <= 1
    dashed = re.findall(r'stroke-dasharray="7,3"', rows[0][0].body)
    assert dashed and [k for k in scaling.drawing.keys if "value bytes 256" in k.body]
    assert "Panels of the same workload have one axis" in scaling.caption


def test_panels_of_two_facets_stand_in_rows_that_differ_in_one(study: Path) -> None:
    found = figures_of(study)
    bars = found.get("misses-simulated") or found["simulated-time"]
    titles = [
        tuple(" ".join(re.findall(r">([^<>]+)<", panel.body.split("bold")[1])) for panel in row)
        for row in bars.drawing.rows
    ]
    ending = ", 12 threads" if "misses-simulated" in found else ""
    assert titles == [
        tuple(f"{workload}, {server[4:]}, value bytes {size}{ending}" for server in SERVERS)
        for workload in ("lookup", "insert")
        for size in SIZES
    ]


def test_the_page_says_all_of_it_once(study: Path) -> None:
    page.write(study, record.load(study), study / "r.html")
    text = (study / "r.html").read_text()
    assert text.count("The simulated servers</h2>") == 1
    identifiers = re.findall(r'<figure id="([^"]+)"', text)
    assert len(identifiers) == len(set(identifiers)) in (2, 4)
    shown = [body.count('<div class="panels">') for body in text.split("<figure ")[1:]]
    assert shown == [len(one.drawing.rows) for one in figures_of(study).values()]
    for server in SERVERS:
        assert f"simulated, {server}" in text, "its cells and verdicts"


def labels(count: int, **axes: list[str]) -> list[dict[str, str]]:
    found = [{"index": f"index{n}", "workload": "w"} for n in range(count)]
    for axis, values in axes.items():
        found = [{**one, axis: value} for one in found for value in values]
    return found


@pytest.mark.parametrize(
    ("count", "axes", "dashed", "panels"),
    [
        (3, {"target": list(SERVERS)}, "target", ()),
        (3, {"target": list(SERVERS), "value_bytes": list(SIZES)}, "value_bytes", ("target",)),
        (6, {"target": list(SERVERS)}, "", ("target",)),
        (2, {"value_bytes": ["8", "16", "32", "64"]}, "", ("value_bytes",)),
        (3, {"medium": ["tmpfs", "none"]}, "", ()),
        (3, {"workload": ["a", "b"], "threads": ["1", "2"]}, "", ()),
    ],
)
def test_one_axis_may_be_dashes_where_few_lines_are_left_and_others_are_panels(
    count: int, axes: dict[str, list[str]], dashed: str, panels: tuple[str, ...]
) -> None:
    there = labels(count, **axes)
    found = Facets.of(there, "index", apart=APART)
    assert (found.dashed, found.panels) == (dashed, panels)
    lines = {(one["index"], one.get(dashed)) for one in there}
    assert not dashed or len(lines) <= MOST_LINES
    none = Facets.of(there, "index", apart=APART, dashes=False)
    assert none.dashed == "" and set(none.panels) == set(found.axes)


def test_a_panel_that_would_be_flat_has_an_axis_of_its_own() -> None:
    def drawn(low: float) -> list[list[str]]:
        rows: Rows = [
            {"index": "a", "axis": "", "panel": panel, "workload": workload, "throughput": most}
            for panel, most in (("one", 100.0), ("other", low))
            for workload in ("x", "y")
        ]
        palette = looking.palette([("a", "persistent")])
        drawing = plots.over_workloads(rows, palette, "t")
        assert drawing.groups == [2]
        return [re.findall(r">(\d+)</text>", one.body) for one in drawing.panels]

    one, other = drawn(60)
    assert one == other
    one, other = drawn(2)
    assert one != other


def test_where_rows_differ_much_each_has_an_axis() -> None:
    rows: Rows = [
        {"index": "a", "axis": "", "beside": row, "panel": f"{row} {panel}", "throughput": most}
        for row, numbers in (("small", (1.0, 0.8)), ("large", (100.0, 80.0)))
        for panel, most in zip("xy", numbers, strict=True)
    ]
    drawing = plots.bars(rows, "t", looking.palette([("a", "persistent")]))
    assert [len(row) for row in drawing.rows] == [2, 2]
    axes = [re.findall(r">([\d.]+)<", one.body) for one in drawing.panels]
    assert axes[0] == axes[1] != axes[2] == axes[3]


def test_words_speak_for_themselves_and_numbers_do_not() -> None:
    there = {"target": "sim:own/of us.toml", "value_bytes": "16", "placement": "none",
             "medium": "none", "durability": "adr", "workload": "50 %"}  # fmt: skip
    assert naming.words(there, there) == "of us, value bytes 16, placement none, adr, 50 %"
    assert naming.origin(["native"]) == "measured, native"
    assert naming.origin(SERVERS[:1]) == f"simulated, {SERVERS[0]}"


def measured(index: str, medium: str, **more: str) -> Run:
    made = test_report.run_of(index, [1e6, 1.01e6, 1.02e6])
    for one in made.record["repetitions"]:
        one["timeline"] = [{"second": i / 10, "operations": 100} for i in range(1, 9)]
    return Run(made.labels | {"medium": medium, "workload": "lookup", **more}, made.record)


@pytest.mark.parametrize(("media", "said"), [(("tmpfs",), False), (("tmpfs", "file"), True)])
def test_names_say_the_medium_where_pools_lie_on_several(
    tmp_path: Path, media: tuple[str, ...], said: bool
) -> None:
    runs = [measured(index, medium) for index in ("fptree", "lbtree") for medium in media]
    runs.append(measured("stdmap", "none"))
    names = {cell.name for cell in reading.read(runs).cells}
    assert names == (
        {"fptree · tmpfs", "fptree · file", "lbtree · tmpfs", "lbtree · file", "stdmap"}
        if said
        else {"fptree", "lbtree", "stdmap"}
    )
    (part,) = verdict_matrix.section(runs, quick=False)
    assert set(part["places"][0]["names"]) == names
    figure = timelines.figure("t", runs, looking.palette([(r.labels["index"], "x") for r in runs]))
    assert figure and ("· tmpfs" in figure.svg) == said
    page.write(tmp_path / "x.json", runs, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert ("· tmpfs" in text) == said
    assert text.count("pools on <b>tmpfs</b>") == (not said)


def test_sizes_of_values_are_told_apart_in_every_table_and_figure() -> None:
    runs = [
        Run(one.labels, one.record | {"memory": memory(int(size))})
        for size in SIZES
        for index in ("fptree", "lbtree")
        for one in [measured(index, "tmpfs", value_bytes=size)]
    ]
    data = page.content(Path("x.json"), runs)
    places = [f"lookup, value bytes {size}" for size in SIZES]
    (overview,) = data["overviews"]
    assert overview["workloads"] == places
    assert [line["workload"] for line in data["leaders"]] == places
    ((_, figures),) = data["sections"]
    for one in figures:
        assert all(f"value bytes {size}" in one.svg for size in SIZES), one.identifier
    memories = data["memory"]
    assert {row[memories.columns.index("bytes")] for row in memories.rows} == {"16", "256", "0"}


def memory(size: int) -> dict[str, Any]:
    found = fake_native.record({"index": "fptree", "threads": "1"})["memory"]
    return {**json.loads(json.dumps(found)), "pm_bytes_per_record": float(size),
            "dram_bytes_per_record": 0.0}  # fmt: skip
