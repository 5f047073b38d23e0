from __future__ import annotations

import json
from pathlib import Path

import pytest

import fake_native
from conftest import Cli
from perdure.results import compare
from perdure.results.record import Run


@pytest.fixture
def results(cli: Cli, study: Path, tmp_path: Path) -> Path:
    text = study.read_text().replace("repetitions = 2", "repetitions = 4")
    study.write_text(text.replace("threads = [1, 2]", "threads = [2]"))
    path = tmp_path / "before"
    assert cli("study", "run", study, "--results", path).returncode == 0
    return path


def rerun(cli: Cli, study: Path, path: Path, speed: str) -> Path:
    assert cli("study", "run", study, "--results", path, FAKE_SPEED=speed).returncode == 0
    return path


def test_noise_within_the_threshold_is_called_the_same(
    cli: Cli, study: Path, results: Path, tmp_path: Path
) -> None:
    again = rerun(cli, study, tmp_path / "again", "1")
    done = cli("compare", results, again, "--json", "--strict")
    assert done.returncode == 0
    comparisons = json.loads(done.stdout)["comparisons"]
    assert len(comparisons) == 6
    assert {c["verdict"] for c in comparisons} == {"same"}
    assert any(c["ratio"] != 1 for c in comparisons)


def test_a_slower_b_is_a_regression(cli: Cli, study: Path, results: Path, tmp_path: Path) -> None:
    slower = rerun(cli, study, tmp_path / "after", "0.7")
    done = cli("compare", results, slower)
    assert done.returncode == 3
    assert "slower" in done.stdout
    back = cli("compare", slower, results, "--json")
    assert back.returncode == 0
    document = json.loads(back.stdout)
    assert {c["verdict"] for c in document["comparisons"]} == {"faster"}
    assert all(c["ratio_low"] < c["ratio_high"] for c in document["comparisons"])
    assert all(c["ratio_low"] <= c["ratio"] <= c["ratio_high"] for c in document["comparisons"])


def test_a_difference_below_the_threshold_is_no_regression(
    cli: Cli, study: Path, results: Path, tmp_path: Path
) -> None:
    slower = rerun(cli, study, tmp_path / "after", "0.8")
    assert cli("compare", results, slower, "--threshold", "0.6").returncode == 0


def test_single_records_are_compared_and_too_few_samples_decide_nothing(
    cli: Cli, tmp_path: Path
) -> None:
    for name, index in (("a", "fptree"), ("b", "lbtree")):
        done = cli("bench", "--index", index, "--repetitions", "2", "--json")
        (tmp_path / name).write_text(done.stdout)
    done = cli("compare", tmp_path / "a", tmp_path / "b", "--json")
    assert done.returncode == 0
    (comparison,) = json.loads(done.stdout)["comparisons"]
    assert comparison["labels"]["index"] == "fptree / lbtree"
    assert comparison["verdict"] == "inconclusive"
    assert comparison["ratio"] > 1.5
    assert cli("compare", tmp_path / "a", tmp_path / "b", "--strict").returncode == 4


def test_a_clock_between_operations_on_one_side_is_said() -> None:
    a, b = (fake_native.record({"index": "fptree"}) for _ in range(2))
    b["configuration"]["latency"] = {"method": "sampled", "interval": 256}
    for latency, said in (
        ({"method": "every", "interval": None}, True),
        (None, True),
        ({"method": "sampled", "interval": 256}, False),
    ):
        a["configuration"]["latency"] = latency
        (found,) = compare.compare(
            [Run({}, a)], [Run({}, b)], threshold=0.05, confidence=0.95
        ).comparisons
        assert ("which changes throughput" in found.remark) == said


def test_a_comparison_says_what_its_interval_is(cli: Cli, tmp_path: Path) -> None:
    for name in ("a", "b"):
        record = fake_native.record({"index": "fptree"})
        (tmp_path / name).write_text(json.dumps(record))
    done = cli("compare", tmp_path / "a", tmp_path / "b", "--json")
    (comparison,) = json.loads(done.stdout)["comparisons"]
    assert comparison["interval"] == "range of 3"
    assert comparison["interval_confidence"] == pytest.approx(0.9)
    assert "interval (range of 3)" in cli("compare", tmp_path / "a", tmp_path / "b").stdout


def test_json_lines_are_read_like_a_folder(cli: Cli, results: Path, tmp_path: Path) -> None:
    lines = tmp_path / "all.jsonl"
    lines.write_text("".join(f.read_text() for f in sorted((results / "cells").glob("*.json"))))
    done = cli("compare", results, lines, "--json")
    assert len(json.loads(done.stdout)["comparisons"]) == 6


def test_cells_of_one_side_only_are_named_and_not_compared(
    cli: Cli, study: Path, results: Path, tmp_path: Path
) -> None:
    study.write_text(study.read_text() + '[[exclude]]\nindex = ["null"]\n')
    other = rerun(cli, study, tmp_path / "other", "1")
    done = cli("compare", results, other, "--json")
    document = json.loads(done.stdout)
    assert len(document["comparisons"]) == 4
    assert [labels["index"] for labels in document["only_a"]] == ["null"] * 2
    assert "2 cells are on one side only" in done.stderr


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_flag_with_a_range_takes_numbers_alone(cli: Cli, value: str) -> None:
    for command, flags in (
        (("compare", "a", "b"), ("--threshold", "--confidence")),
        (("study", "run", "x.toml"), ("--scale", "--lease")),
    ):
        for flag in flags:
            done = cli(*command, flag, value)
            assert (done.returncode, done.stdout) == (2, "")
            assert flag in done.stderr and done.stderr.count("\n") == 1, done.stderr
