"""A study's memories and profiles: what is classified and drawn beside the cells, and errors."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.errors import InputError
from perdure.memory import published
from perdure.results import metrics, record
from perdure.study import reader as studies
from perdure.study.model import Choices

Cli = Callable[..., subprocess.CompletedProcess[str]]

STUDY = """name = "s"
repetitions = 1
[flags]
target = "sim:optane"
operations = 100
[axes]
index = ["fptree", "lbtree"]
workload = ["lookup"]
[workloads.lookup]
mix = { lookup = 1.0 }
[[figure]]
name = "flames"
title = "Where the time goes"
cells = { index = "fptree" }
drawing = "flame"
[[figure]]
name = "search"
title = "Search"
cells = { index = "fptree" }
metric = "function_time"
function = "search"
[[published]]
what = "search takes 30 ns"
figure = "search"
of = { index = "fptree" }
metric = "function_time"
function = "search"
value = 30
source = "a paper"
[memories]
targets = ["sim:optane"]
tables = ["i7"]
[[memories.rule]]
name = "R7"
of = { index = "fptree" }
over = { index = "lbtree" }
note = "two trees"
[[memories.note]]
name = "R7"
memory = "sim:optane"
why = "trees are no rings"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "s.toml"
    path.write_text(STUDY)
    return path


@pytest.mark.slow
def test_tables_and_profiles_stand_in_the_report(sim_cli: Cli, file: Path, tmp_path: Path) -> None:
    results = tmp_path / "r"
    done = sim_cli("study", "run", file, "--results", results, "--report", "--json")
    assert done.returncode == 0, done.stderr
    (finding,) = json.loads(done.stdout)["findings"]
    assert (finding["verdict"], finding["ours"], finding["ours_text"]) == ("agrees", 30, "30.0 ns")
    text = (results / "report.html").read_text()
    figures = dict(re.findall(r'<figure id="([^"]+)">(.*?)</figure>', text, re.S))
    assert "Tree::lookup" in figures["flames-0-simulated-optane"] and "ns::search" in text
    part = text.split('<section id="memories">')[1].split("</section>")[0]
    rows = {row[0]: row[1] for row in re.findall(r"<tr><td><b>([IR]\d)</b>(.*?)</tr>", part, re.S)}
    assert len(rows) == 14
    assert "C2, C3, C4" in part and "differs" in rows["R7"] and "two trees" in part
    assert re.search(r"0\.\d\dx", rows["R7"]) and "trees are no rings" in part
    assert "<b>i7</b>" in text
    runs = {run.labels["index"]: run for run in record.load(results)}
    assert runs["fptree"].profile and not runs["lbtree"].profile


@pytest.mark.slow
def test_a_cell_kept_without_a_profile_is_run_again_for_one(
    sim_cli: Cli, file: Path, tmp_path: Path
) -> None:
    results = tmp_path / "r"
    plain = tmp_path / "plain.toml"
    plain.write_text(STUDY.split("[[figure]]")[0])
    first = json.loads(sim_cli("study", "run", plain, "--results", results, "--json").stdout)
    assert first["finished"] == 2
    again = sim_cli("study", "run", file, "--results", results, "--json")
    assert json.loads(again.stdout)["finished"] == 1 and "damaged" not in again.stderr
    third = json.loads(sim_cli("study", "run", file, "--results", results, "--json").stdout)
    assert third["reused"] == 2


def test_a_quick_run_has_numbers_and_no_verdicts(sim_cli: Cli, file: Path, tmp_path: Path) -> None:
    results = tmp_path / "r"
    done = sim_cli("study", "run", file, "--quick", "--results", results, "--report")
    assert done.returncode == 0, done.stderr
    text = (results / "report-quick.html").read_text()
    part = text.split('<section id="memories">')[1].split("</section>")[0]
    row = part.split("<b>R7</b>")[1].split("</tr>")[0]
    assert re.search(r"\d\.\d\dx", row), row
    assert "differs" not in row and "agrees" not in part and "C2, C3, C4" not in part
    assert not (results / "memories.json").exists()


def test_another_target_is_classified_alone(file: Path) -> None:
    study = studies.load(file, Choices(target="native"))
    assert (list(study.memories.targets), list(study.memories.tables)) == (["native"], [])


WRONG = [
    ('targets = ["sim:optane"]', 'targets = ["optane"]', "unknown target"),
    ('tables = ["i7"]', 'tables = ["i77"]', "i77"),
    ('name = "R7"\nof', 'name = "I7"\nof', "unknown name 'I7'"),
    ('over = { index = "lbtree" }', 'over = { index = "btree" }', "`over` names no cell"),
    ('memory = "sim:optane"', 'memory = "sim:dram"', "has no target 'sim:dram'"),
    ('why = "trees are no rings"', "", "does not say its why"),
    ('function = "search"\n[[published', "[[published", "go together"),
    ('metric = "function_time"\nfunction = "search"\nvalue', 'operation = "push"\nvalue',
     "an operation has no throughput of its own"),
    ('metric = "function_time"\nfunction = "search"\nvalue',
     'metric = "p99"\noperation = "pusch"\nvalue', "unknown operation 'pusch'; did you mean"),
]  # fmt: skip


@pytest.mark.parametrize(("good", "bad", "what"), WRONG)
def test_what_is_wrong_is_named_with_its_line(file: Path, good: str, bad: str, what: str) -> None:
    text = STUDY.replace(good, bad)
    assert text != STUDY
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        studies.load(file)
    assert what in str(caught.value) and re.match(rf"{file}:\d+: ", str(caught.value))


def test_published_impacts_follow_the_classes() -> None:
    text = "high (C2, C4), moderate (C1, C3)"
    assert published.impacts_in("high (C4), none (C1-C3)") == {
        "C4": "high", "C1": "none", "C2": "none", "C3": "none",
    }  # fmt: skip
    assert published.impact(text, ["C3"]) == "moderate"
    assert published.impact(text, ["C2", "C3"]) == "high"
    assert published.applies("C1-C4, worse in C2 and C4", ["C1"])
    assert not published.applies("C3, C4", ["C1", "C2"])
    assert published.verdict("high", "unknown") == "" and published.verdict(None, True) == ""


def test_latencies_are_of_the_operation_that_is_named() -> None:
    operations = {
        "push": {"attempted": 9, "latency_ns": {"mean": 5.0}},
        "pop": {"attempted": 5, "latency_ns": {"mean": 7.0}},
    }
    run = record.Run({}, {"target": "sim:x", "repetitions": [
        {"throughput_ops_s": 1.0, "operations": operations}]})  # fmt: skip
    assert metrics.value("mean", [run]) == 5
    assert metrics.value("mean", [run], "pop") == 7
    assert metrics.value("mean", [run], "lookup") is None
    assert metrics.value(metrics.FUNCTION_TIME, [run], "search") is None
