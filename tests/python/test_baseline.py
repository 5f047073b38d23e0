"""Baselines: what is kept, what is never overwritten, and what CI learns from a comparison."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import fake_native
from conftest import Cli
from perdure.errors import InputError
from perdure.programs import outputs
from perdure.results import baselines, record


def results(folder: Path, **speeds: float) -> Path:
    """A results folder of a cell for each index, at so many million operations per second."""
    (folder / "cells").mkdir(parents=True)
    for index, speed in speeds.items():
        made = fake_native.record({"index": index, "repetitions": "1"})
        one = made["repetitions"][0]
        made["repetitions"] = [one | {"throughput_ops_s": speed * 1e6 + i} for i in range(5)]
        labels = {"index": index, "workload": "lookup"}
        cell = {"key": index, "labels": labels, "command": "c", "record": made, "profile": "a;b 1"}
        (folder / "cells" / f"{index}.json").write_text(json.dumps(cell))
    manifest = {"study": "s", "cells": list(speeds)}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_slower_cell_than_the_baselines_is_exit_code_3(cli: Cli, here: Path) -> None:
    before = results(here / "results" / "before", fptree=1, lbtree=2)
    os.utime(before / "manifest.json", (1, 1))
    results(here / "results" / "slow", fptree=0.8, lbtree=2)
    done = cli("baseline", "save", "main", "results/before")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ".perdure/baselines/main.jsonl: 2 cells of results/before\n"
    same = cli("compare", "--baseline", "main", "results/before")
    assert (same.returncode, same.stderr) == (0, "")
    done = cli("compare", "--baseline", "main", "results/slow", "--json")
    assert done.returncode == 3
    document = json.loads(done.stdout)
    found = {c["labels"]["index"]: c["verdict"] for c in document["comparisons"]}
    assert (document["baseline"], found) == ("main", {"fptree": "slower", "lbtree": "same"})
    # The other way round, what was slow is the baseline, and nothing is slower; the last results
    # are taken where none are given.
    done = cli("baseline", "save", "slow", "--json")
    assert json.loads(done.stdout)["results"] == "results/slow"
    assert cli("compare", "--baseline", "slow", "results/before").returncode == 0


def test_a_baseline_is_replaced_with_force_alone(here: Path) -> None:
    first, second = results(here / "a", fptree=1), results(here / "b", fptree=2, lbtree=2)
    saved = baselines.save("main", first, baselines.FOLDER, force=False)
    text = saved.file.read_text()
    with pytest.raises(InputError, match=r"there is a baseline of that name; .* --force"):
        baselines.save("main", second, baselines.FOLDER, force=False)
    assert saved.file.read_text() == text
    # Nor by one that came between the look and the writing.
    assert not outputs.create(saved.file, "other")
    assert saved.file.read_text() == text
    assert baselines.save("main", second, baselines.FOLDER, force=True).cells == 2
    assert [file.name for file in baselines.FOLDER.iterdir()] == ["main.jsonl"]
    assert "profile" not in saved.file.read_text()
    assert len(record.load(saved.file)) == 2


def test_the_list_says_what_each_baseline_holds(cli: Cli, here: Path) -> None:
    empty = cli("baseline", "list")
    assert empty.returncode == 0 and empty.stdout.startswith("no baselines in .perdure/baselines")
    baselines.save("b", results(here / "a", fptree=1), baselines.FOLDER, force=False)
    baselines.save("a", results(here / "b", fptree=1, hot=1), baselines.FOLDER, force=False)
    found = json.loads(cli("baseline", "list", "--json").stdout)
    assert [(one["name"], one["cells"], one["targets"]) for one in found] == [
        ("a", 2, ["native"]),
        ("b", 1, ["native"]),
    ]
    assert "revisions" in cli("baseline", "list").stdout


def test_hidden_files_beside_baselines_are_those_of_other_programs(here: Path) -> None:
    saved = baselines.save("main", results(here / "a", fptree=1), baselines.FOLDER, force=False)
    saved.file.with_name("._main.jsonl").write_bytes(b"\0\5\26\7")
    assert [one.name for one in baselines.every(baselines.FOLDER)] == ["main"]
    assert [one.name for one, _ in baselines.with_runs(baselines.FOLDER)] == ["main"]


def test_what_is_no_baseline_is_refused(cli: Cli, here: Path) -> None:
    quick = results(here / "quick", fptree=1)
    (quick / "manifest.json").rename(quick / "manifest-quick.json")
    kept = results(here / "kept", fptree=1)
    baselines.save("main", kept, baselines.FOLDER, force=False)
    for arguments, said in (
        (("baseline", "save", "q", "quick"), "a quick run decides nothing"),
        (("baseline", "save", "../x", "kept"), "has a slash"),
        (("baseline", "save", "\udcff", "kept"), "is not UTF-8"),
        (("baseline", "save", "x", "nowhere"), "no such file"),
        (("baseline", "save", "x"), "no study has run there"),
        (("compare", "--baseline", "mian", "kept"), "did you mean 'main'?"),
        (("compare", "--baseline", "main", "kept", "kept"), "compares two results, or one"),
        (("compare", "kept"), "compares two results, or one"),
    ):
        done = cli(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert said in done.stderr and done.stderr.count("\n") == 1
    assert [file.name for file in baselines.FOLDER.iterdir()] == ["main.jsonl"]


def test_a_cell_that_is_missing_fails_a_strict_comparison(cli: Cli, here: Path) -> None:
    both = results(here / "both", fptree=1, lbtree=1)
    baselines.save("main", both, baselines.FOLDER, force=False)
    results(here / "one", fptree=1)
    done = cli("compare", "--baseline", "main", "one")
    assert done.returncode == 0 and "1 cells are on one side only" in done.stderr
    assert cli("compare", "--baseline", "main", "one", "--strict").returncode == 4
    # One cell of the baseline is never compared with another one.
    results(here / "other", utree=1)
    done = cli("compare", "--baseline", "main", "other")
    assert done.returncode == 2 and "no cell is on both sides" in done.stderr
    baselines.save("single", results(here / "single", fptree=1), baselines.FOLDER, force=False)
    assert cli("compare", "--baseline", "single", "other").returncode == 2
