"""The drawings of a study's figures: what stands on the axes, and what tells panels apart."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import fake_native
from perdure.report import looks, page, study_figures
from perdure.results import metrics, record
from perdure.results.record import Run
from perdure.study.model import Figure

COLOURS = looks.palette([("fptree", "persistent"), ("lbtree", "persistent")])


def run(index: str, workload: str, durability: str, rate: float) -> Run:
    made = fake_native.record({"index": index, "threads": "1", "repetitions": "1"})
    made["repetitions"][0]["throughput_ops_s"] = rate
    return Run({"index": index, "workload": workload, "durability": durability}, made)


RUNS = [
    run(index, f"1024 keys, {share} %", durability, 1e6 + 1000 * share)
    for index in ("fptree", "lbtree")
    for durability in ("adr", "eadr")
    for share in (5, 50)
]


def figure(**more: str) -> Figure:
    return Figure(name="f", title="Title", cells={"index": ["fptree", "lbtree"]}, **more)


def test_workloads_are_an_axis_and_another_label_the_dash_of_lines() -> None:
    (drawing,) = study_figures.draw(figure(drawing="workloads"), RUNS, COLOURS)
    for word in (">5 %<", ">50 %<", ">1024 keys<", ">fptree · adr<", ">lbtree · eadr<"):
        assert word in drawing.svg, word
    assert ">1024 keys, 5 %<" not in drawing.svg
    assert len(drawing.rows) == 8 and "durability" in drawing.columns


def test_workloads_stand_in_the_order_of_the_figure() -> None:
    workloads = ["1024 keys, 50 %", "1024 keys, 5 %"]
    asked = Figure(name="f", title="Title", cells={"workload": workloads})
    (drawing,) = study_figures.draw(asked, RUNS, COLOURS)
    column = drawing.columns.index("workload")
    assert list(dict.fromkeys(row[column] for row in drawing.rows)) == workloads


def test_panels_of_bars_name_what_tells_cells_apart() -> None:
    (drawn,) = study_figures.draw(figure(drawing="none"), RUNS, COLOURS)
    assert "1024 keys, 5 %, eadr" in drawn.svg


def test_latencies_of_one_workload_share_a_panel() -> None:
    (drawn,) = study_figures.draw(figure(drawing="percentiles"), RUNS, COLOURS)
    assert len(drawn.drawing.panels) == 2 and ">1024 keys, 5 %, 1 thread</text>" in drawn.svg
    assert ">lbtree · eadr</text>" in drawn.svg


def test_a_flame_graph_needs_a_profile() -> None:
    assert study_figures.draw(figure(drawing="flame"), RUNS, COLOURS) == []


@pytest.mark.parametrize("target", ["native", "sim:optane"])
def test_a_flame_graph_is_linked_from_its_cell(tmp_path: Path, target: str) -> None:
    kept = {}
    for index, share in (("fptree", 5), ("lbtree", 5), ("lbtree", 50)):
        one = run(index, f"{share} %", "adr", 1e6)
        made = one.record if target == "native" else fake_native.simulated(one.record, target)
        profile = f"main;{index} 7\n" if share == 5 else ""
        key = f"{index}{share}"
        kept[key] = {"key": key, "labels": one.labels, "command": key, "record": made,
                     "profile": profile}  # fmt: skip
    (tmp_path / "cells").mkdir()
    for key, cell in kept.items():
        (tmp_path / "cells" / f"{key}.json").write_text(json.dumps(cell))
    manifest = {
        "cells": list(kept),
        "figures": [{"name": "flame", "title": "Time: of functions", "cells": {"durability": "adr"},
                     "drawing": "flame"}],
    }  # fmt: skip
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    page.write(tmp_path, record.load(tmp_path), tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    origin = "native" if target == "native" else "simulated-optane"
    links = dict(re.findall(r'<code>(\w+)</code> <a href="#([^"]+)">flame graph</a>', text))
    assert links == {"fptree5": f"flame-0-{origin}", "lbtree5": f"flame-1-{origin}"}
    for key, place in links.items():
        drawn = text.split(f'<figure id="{place}">')[1].split("</figure>")[0]
        assert f"Time: of functions: {key[:-1]}, 5 %, adr" in drawn
    assert "<code>lbtree50</code></td>" in text, "it was not profiled"
    assert ">Figures</h2>" in text and "Beside publication" not in text, "there are no findings"


def test_sizes_of_stores_have_a_line_for_each_part_and_shares_of_one() -> None:
    one = run("fptree", "A", "adr", 1e6)
    one.record["platform"] = {"placement": {"parts": {"records": {}, "index": {}}}}
    sizes = {"records": (100, 0, 300), "index": (0, 0, 0)}
    one.record["repetitions"][0]["simulation"] = {
        "parts": {
            part: {
                "store_sizes": [
                    {"at_least": at_least, "bytes": count}
                    for at_least, count in zip((1, 64, 4096), counts, strict=True)
                ]
            }
            for part, counts in sizes.items()
        }
    }
    wanted = Figure(name="f", title="Title", cells={"workload": "A"}, drawing="store-sizes")
    (drawn,) = study_figures.draw(wanted, [one], COLOURS)
    shares = [row[drawn.columns.index("throughput")] for row in drawn.rows]
    assert shares == ["0.25", "0", "0.75"]  # nothing was stored into the index
    for word in (">&lt;64<", ">4K<", ">records<"):
        assert word in drawn.svg, word
    assert metrics.value("part_store_share_4096", [one], "records") == 0.75
    assert metrics.value("part_store_share_4096", [one], "index") is None


def test_the_figures_of_several_servers_have_names_of_their_own() -> None:
    names = set()
    for target in ("sim:optane", "sim:mine/of us.toml"):
        one = run("fptree", "A", "adr", 1e6)
        simulated = Run(one.labels, fake_native.simulated(one.record, target), one.command)
        names |= {
            drawing.identifier for drawing in study_figures.draw(figure(), [simulated], COLOURS)
        }
    names |= {drawing.identifier for drawing in study_figures.draw(figure(), RUNS, COLOURS)}
    assert names == {"f-native", "f-simulated-optane", "f-simulated-of-us"}
