from __future__ import annotations

import os
from pathlib import Path

import pytest

from conftest import STUDY
from perdure import flags
from perdure import study as studies
from perdure.errors import InputError
from perdure.study import Cell

CORES = len(os.sched_getaffinity(0))


def write(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text)
    return path


def test_a_study_expands_to_every_combination_and_its_includes(study: Path) -> None:
    cells = studies.load(study).cells
    assert len(cells) == 2 * 2 * 2 + 2 * 2
    assert {c.medium for c in cells if c.labels["index"] == "null"} == {"none"}
    assert {c.flags["threads"] for c in cells} == {1, 2}
    mixed = next(c for c in cells if c.labels["workload"] == "mixed")
    assert mixed.flags["mix"] == {"lookup": 0.5, "insert": 0.5}
    assert mixed.flags["records"] == "10K"


def test_all_threads_means_the_cores_there_are_and_makes_no_second_cell(tmp_path: Path) -> None:
    text = f'[axes]\nindex = ["fptree"]\nthreads = [{CORES}, "all"]\n'
    cells = studies.load(write(tmp_path, text)).cells
    assert [c.flags["threads"] for c in cells] == [CORES]


def test_excludes_drop_what_matches_on_every_axis(tmp_path: Path) -> None:
    text = STUDY + '[[exclude]]\nindex = ["fptree"]\nthreads = [2]\n'
    cells = studies.load(write(tmp_path, text)).cells
    kept = {(c.labels["index"], c.labels["threads"]) for c in cells}
    assert ("fptree", "2") not in kept
    assert {("fptree", "1"), ("lbtree", "2")} <= kept


def test_an_override_replaces_the_way_a_run_ends(tmp_path: Path) -> None:
    text = STUDY + (
        '[[override]]\nwhen = { index = ["lbtree"] }\nset = { operations = 500, verify = true }\n'
    )
    cells = studies.load(write(tmp_path, text)).cells
    lbtree = next(c for c in cells if c.labels["index"] == "lbtree")
    fptree = next(c for c in cells if c.labels["index"] == "fptree")
    assert lbtree.flags["operations"] == 500
    assert "seconds" not in lbtree.flags
    assert fptree.flags["seconds"] == 0.1
    assert "--verify" in flags.command_line(lbtree.flags)


def test_the_command_line_follows_from_the_flags() -> None:
    line = flags.command_line(
        {
            "threads": 2,
            "index": "fptree",
            "option": {"leaf_entries": 32, "inner_entries": 64},
            "mix": {"lookup": 0.9, "insert": 0.1},
            "huge_pages": False,
            "verify": False,
            "check": True,
        }
    )
    assert " ".join(line) == (
        "--index fptree --option leaf_entries=32 --option inner_entries=64 "
        "--mix lookup=0.9,insert=0.1 --threads 2 --check --no-huge-pages"
    )


def test_a_key_changes_with_everything_the_result_depends_on() -> None:
    cell = Cell({"index": "fptree"}, {"index": "fptree", "threads": 1}, "tmpfs")
    keys = {
        cell.key("build", 0, "host"),
        cell.key("other build", 0, "host"),
        cell.key("build", 1, "host"),
        cell.key("build", 0, "other host"),
        Cell(cell.labels, {**cell.flags, "threads": 2}, "tmpfs").key("build", 0, "host"),
        Cell(cell.labels, cell.flags, "file").key("build", 0, "host"),
    }
    assert len(keys) == 6


def test_a_key_does_not_change_with_labels_or_the_order_of_flags() -> None:
    cell = Cell({"index": "fptree"}, {"index": "fptree", "threads": 1}, "tmpfs")
    same = Cell({"name": "renamed"}, {"threads": 1, "index": "fptree"}, "tmpfs")
    assert cell.key("b", 0, "h") == same.key("b", 0, "h")


def test_a_key_changes_with_the_content_of_the_workload_file(tmp_path: Path) -> None:
    workload = write(tmp_path, "name = 'a'\n")
    cell = Cell({}, {"workload": str(workload)}, "none")
    before = cell.key("b", 0, "h")
    assert before == cell.key("b", 0, "h")
    workload.write_text("name = 'b'\n")
    assert before != cell.key("b", 0, "h")


def test_quick_cuts_records_time_and_repetitions(study: Path) -> None:
    quick = studies.load(study, studies.Choices(quick=True))
    assert quick.repetitions == 1
    assert all(c.flags["records"] <= 10_000 and c.flags["seconds"] <= 0.05 for c in quick.cells)


@pytest.mark.parametrize("text", [10_000, "10K", "10_000"])
def test_counts_are_numbers_with_units(text: int | str) -> None:
    if text == "10_000":
        assert flags.check_flag("records", text) is not None
    else:
        assert flags.count_of(text) == 10_000


# (text to replace in STUDY, replacement, line, words the error must hold)
WRONG = [
    ('name = "small"', 'nmae = "small"', 2, "unknown key 'nmae'; did you mean 'name'?"),
    ("repetitions = 2", "repetitions = 0", 4, "at least 1"),
    ("repetitions = 2", 'repetitions = "2"', 4, "must be a whole number"),
    ('records = "10K"', 'record = "10K"', 6, "unknown key 'record' in [flags]; did you mean 're"),
    ('records = "10K"', 'records = "many"', 6, "records must be a count"),
    ("seconds = 0.1", "seconds = -1", 7, "at least 0"),
    ("threads = [1, 2]", "threads = 2", 10, "must be a list"),
    ("threads = [1, 2]", "theads = [1, 2]", 10, "unknown key 'theads' in [axes]; did you mean"),
    ('medium = ["file"]', 'medium = ["flie"]', 11, "unknown medium 'flie'; did you mean 'file'?"),
    ('"lookup", "mixed"', '"lookup",\n "mixd"', 13, "unknown workload 'mixd'; did you mean 'mi"),
    ("lookup = 0.5, insert = 0.5", "lookup = 0.5, insert = 0.4", 19, "add up to 0.9, not 1"),
    ("lookup = 0.5, insert", "lokup = 0.5, insert", 19, "did you mean 'lookup'?"),
    ("[workloads.mixed]", "[workloads.mixed", 18, "not valid TOML"),
    ("[[include]]", "[include]", 13, "must be [[tables]]"),
    ("[axes]", "[media]\npm = 'here'\n[axes]", 9, "not an absolute directory"),
]


@pytest.mark.parametrize(("old", "new", "line", "words"), WRONG)
def test_a_wrong_study_is_refused_with_its_line_and_a_remedy(
    tmp_path: Path, old: str, new: str, line: int, words: str
) -> None:
    assert old in STUDY
    path = write(tmp_path, STUDY.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        studies.load(path)
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    assert f":{line}: " in message or f"line {line}" in message
    assert "; " in message, "a remedy follows the semicolon"


def test_every_study_of_the_repository_is_valid() -> None:
    files = sorted((Path(__file__).parents[2] / "studies").glob("*.toml"))
    assert files
    for file in files:
        assert studies.load(file).cells
