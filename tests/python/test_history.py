"""The report's history: these results beside the baselines of the same cells."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import fake_native
from conftest import Cli
from perdure.report import history_section, page
from perdure.results import baselines, compare, record
from perdure.results.stats import Interval, exact

DAY = 86_400.0


def results(
    folder: Path, commit: str, day: float, target: str = "native", **speeds: list[float]
) -> Path:
    """A results folder whose cells have these throughputs, in millions per second."""
    (folder / "cells").mkdir(parents=True)
    for index, samples in speeds.items():
        made = fake_native.record({"index": index, "repetitions": "1"})
        if target != "native":
            made = fake_native.simulated(made, target)
        one = made["repetitions"][0]
        made["repetitions"] = [one | {"throughput_ops_s": sample * 1e6} for sample in samples]
        made["build"] = made["build"] | {"commit": commit}
        cell = {
            "key": f"{index}-{commit}", "labels": {"index": index, "workload": "lookup"},
            "command": "c", "record": made, "started_unix": day * DAY,
        }  # fmt: skip
        (folder / "cells" / f"{index}-{commit}.json").write_text(json.dumps(cell))
    manifest = {"study": "s", "cells": [f"{index}-{commit}" for index in speeds]}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def around(middle: float) -> list[float]:
    return [middle + 0.001 * i for i in range(-3, 4)]


def save(place: Path, name: str, commit: str, day: float, **more: Any) -> None:
    baselines.save(name, results(place / name, commit, day, **more), place / "b", force=False)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Three baselines whose names and files say nothing of their order."""
    save(tmp_path, "a-last", "c" * 40, 30, fptree=around(1.3), lbtree=around(2))
    save(tmp_path, "first", "a" * 40, 10, fptree=around(1), hot=around(7))
    save(tmp_path, "second", "b" * 40, 20, fptree=around(1.2), lbtree=around(2))
    os.utime(tmp_path / "b" / "first.jsonl", (1e9, 2e9))
    return tmp_path


def section(place: Path, now: Path) -> list[dict[str, Any]]:
    return history_section.section(record.load(now), place / "b")


def test_each_revision_is_judged_beside_the_one_before_it(saved: Path) -> None:
    now = results(saved / "now", "d" * 40, 40, fptree=around(1.29), lbtree=around(1), utree=[3.0])
    (part,) = section(saved, now)
    points = [(p["name"], p["revision"], p["day"]) for p in part["points"]]
    assert [name for name, _, _ in points] == ["these results", "a-last", "second", "first"]
    assert [revision for _, revision, _ in points] == [letter * 12 for letter in "dcba"]
    assert points[-1][2].startswith("1970-01-1")
    (slower,), (same,) = part["changed"], part["others"]
    assert slower["name"] == "lbtree, lookup" and same["name"] == "fptree, lookup"
    assert [cell and cell["word"] for cell in slower["cells"]] == ["slower", "same", "", None]
    assert [cell["word"] for cell in same["cells"]] == ["same", "faster", "faster", ""]
    assert part["counts"] == [("slower", 1), ("same", 1)], "utree and hot stand on one side only"
    # By the same rule as compare, ratio included.
    loaded = {name: record.load(saved / name) for name in ("second", "first")}
    judged = compare.compare(loaded["first"], loaded["second"], threshold=0.05, confidence=0.95)
    (one,) = judged.comparisons
    assert same["cells"][2]["ratio"] == f"{one.ratio.value:.2f}"


def test_a_baseline_of_these_very_results_is_the_same_revision(saved: Path) -> None:
    now = results(saved / "now", "d" * 40, 5, fptree=around(1))
    baselines.save("kept", now, saved / "b", force=False)
    (part,) = section(saved, now)
    assert [p["name"] for p in part["points"]] == [
        "these results, kept",
        "a-last",
        "second",
        "first",
    ]
    again = results(saved / "again", "d" * 40, 50, fptree=around(1.1))
    assert len(section(saved, again)[0]["points"]) == 5, "the same key, but measured again"
    only = results(saved / "only", "e" * 40, 50, roart=[1.0])
    baselines.save("alone", only, saved / "b", force=False)
    assert section(saved, only) == []


def test_measured_and_simulated_cells_share_no_history(saved: Path) -> None:
    save(saved, "simulated", "f" * 40, 35, target="sim:x", fptree=[1.0])
    now = results(saved / "now", "d" * 40, 40, target="sim:x", fptree=[1.2])
    (part,) = section(saved, now)
    assert part["tag"] == "simulated, sim:x"
    assert [p["name"] for p in part["points"]] == ["these results", "simulated"]
    (line,) = part["changed"]
    assert line["cells"][0]["why"] == "exact" and line["cells"][0]["word"] == "faster"


def test_another_machine_is_named(saved: Path) -> None:
    now = results(saved / "now", "d" * 40, 40, fptree=around(1.3))
    (file,) = (now / "cells").iterdir()
    cell = json.loads(file.read_text())
    cell["record"]["environment"]["host_fingerprint"] = "f" * 16
    file.write_text(json.dumps(cell))
    (part,) = section(saved, now)
    assert part["others"][0]["cells"][0]["remark"] == "different hosts"


def test_only_the_last_revisions_have_a_column_and_all_are_drawn(tmp_path: Path) -> None:
    for day in range(1, 9):
        save(tmp_path, f"n{day}", str(day) * 40, day, fptree=around(1 + day / 100))
    (part,) = section(tmp_path, results(tmp_path / "now", "d" * 40, 40, fptree=around(1.07)))
    assert [p["name"] for p in part["points"]] == ["these results", "n8", "n7", "n6", "n5"]
    assert part["older"] == 4
    (line,) = part["others"]
    assert line["drawing"].count("<circle") == 9 and len(line["cells"]) == 5


def test_small_changes_are_drawn_small() -> None:
    def heights(*values: float) -> list[float]:
        drawn = history_section.trend([(i, exact(v)) for i, v in enumerate(values)], len(values))
        return [float(y) for y in re.findall(r'cy="([\d.]+)"', drawn)]

    first, last = heights(100, 101)
    assert 0 < first - last < 2, "1 % of a scale of 20 %"
    first, last = heights(50, 100)
    assert first - last > 15
    drawn = history_section.trend([(0, Interval(1, 0.5, 1.5)), (2, exact(1.0))], 3)
    assert drawn.count("stroke-width") == 1, "an exact number has no bar"
    assert 'aria-label="2 revisions: 1.00 /s, 1.00 /s"' in drawn


def test_the_report_takes_the_baselines_of_the_working_directory(
    cli: Cli, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = results(saved / "now", "d" * 40, 40, fptree=around(1.29), lbtree=around(1))
    monkeypatch.chdir(saved)
    assert cli("report", now).returncode == 0
    assert 'id="history"' not in (now / "report.html").read_text()
    done = cli("report", now, "--folder", saved / "b")
    assert done.returncode == 0, done.stderr
    text = (now / "report.html").read_text()
    assert '<a href="#history">History</a>' in text
    history = text.split('<section id="history">')[1].split("</section>")[0]
    assert '<a href="#cell-2">lbtree, lookup</a>' in history
    assert re.search(r"<i>▼</i> 0\.50. slower</small>", history)
    (saved / "b").rename(saved / ".perdure-b")
    (saved / ".perdure").mkdir()
    (saved / ".perdure-b").rename(saved / baselines.FOLDER)
    assert cli("report", now).returncode == 0
    assert 'id="history"' in (now / "report.html").read_text()
    # A quick run decides nothing.
    (now / "manifest.json").rename(now / "manifest-quick.json")
    page.write(now, record.load(now, quick=True), saved / "q.html", baselines.FOLDER)
    assert 'id="history"' not in (saved / "q.html").read_text()
