from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, STUDY
from perdure.errors import InputError
from perdure.programs import native
from perdure.programs import target as targets
from perdure.study import flags
from perdure.study import reader as studies
from perdure.study.expand import quick
from perdure.study.model import Cell, Choices
from perdure.study.presence import Listing

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
            "mix_steps": 256,
            "batch": 32,
            "think_ns": "1K",
            "huge_pages": False,
            "verify": False,
            "check": True,
        }
    )
    assert " ".join(line) == (
        "--index fptree --option leaf_entries=32 --option inner_entries=64 "
        "--mix lookup=0.9,insert=0.1 --mix-steps 256 --batch 32 --threads 2 --think-ns 1K --check "
        "--no-huge-pages"
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


def test_quick_gives_a_queue_no_records() -> None:
    cut = quick({"index": "ring:txfree", "producers": 2, "operations": "1M"})
    assert cut == {"index": "ring:txfree", "producers": 2, "operations": 2_000}


def test_quick_cuts_records_time_and_repetitions(study: Path) -> None:
    quick = studies.load(study, Choices(quick=True))
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
    ("repetitions = 2", "repetitions = 100_000_000_000", 4, "at most 10000"),
    ("repetitions = 2", "repetitions = 2\nseed = -1", 5, "seed must be a count"),
    ("repetitions = 2", f"repetitions = 2\nseed = {2**64}", 5, "more than 64 bits hold"),
    ("repetitions = 2", f"repetitions = 2\nseed = 0x{'f' * 5000}", 5, "more than 64 bits hold"),
    ("repetitions = 2", "repetitions = 2\ntimeout_seconds = 0", 5, "must be above 0"),
    ("repetitions = 2", "repetitions = 2\ntimeout_seconds = nan", 5, "must be above 0"),
    ("repetitions = 2", "repetitions = 2\ntimeout_seconds = inf", 5, "at most 1e+06"),
    ('records = "10K"', f'records = "{"9" * 400}"', 6, "more than 64 bits hold"),
    ('records = "10K"', 'records = "99999999T"', 6, "more than 64 bits hold"),
    ('records = "10K"', 'record = "10K"', 6, "unknown key 'record' in [flags]; did you mean 're"),
    ('records = "10K"', 'records = "many"', 6, "records must be a count"),
    ("seconds = 0.1", "seconds = -1", 7, "at least 0"),
    ("seconds = 0.1", 'latency = "sampld"', 7, "unknown latency 'sampld'"),
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


def test_a_number_of_too_many_digits_is_no_traceback(tmp_path: Path) -> None:
    path = write(tmp_path, f"seed = {'9' * 5000}\n{STUDY}")
    with pytest.raises(InputError, match=r"thousands of digits; write a shorter one$"):
        studies.load(path)


def test_every_study_of_the_repository_is_valid() -> None:
    files = sorted((Path(__file__).parents[2] / "studies").glob("*.toml"))
    assert files
    for file in files:
        cells = studies.load(file).cells
        assert cells
        # A clock around every operation would halve what fast indexes do.
        assert not [c for c in cells if c.flags.get("latency") == "every"]


def test_the_guides_example_is_the_study_that_it_says(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    text = guide.partition("<!-- example -->\n```toml\n")[2].partition("```")[0]
    found = studies.load(write(tmp_path, text))
    assert (found.name, len(found.cells), found.repetitions) == ("mine", 4, 3)


LARGE = """
name = "large"
optional = ["hot", "roart"]
[flags]
target = "sim:server"
records = "2M"
operations = "20K"
warm = true
[native]
seconds = 0.5
[keys]
names = "random:8-25~11"
[axes]
index = ["fptree", "hot"]
threads = [1, 20, 40]
workload = ["lookup"]
[[include]]
workload = ["strings"]
threads = [20]
keys = ["names"]
[workloads.lookup]
mix = { lookup = 1.0 }
[workloads.strings]
mix = { lookup = 1.0 }
rate = "40M"
[[figure]]
name = "one"
title = "One"
cells = { workload = ["lookup"] }
[[published]]
what = "w"
source = "s"
figure = "one"
of = { index = "hot", threads = [20, 40], workload = "lookup" }
over = { index = "fptree", threads = [20, 40], workload = "lookup" }
direction = "above"
"""


def listing(*names: str, options: dict[str, str] | None = None) -> Listing:
    """A build that has these indexes, with at most one option each."""
    entries: dict[str, dict[str, Any]] = {
        n: {
            "name": n,
            "index_class": "persistent",
            "options": [{"name": o} for i, o in (options or {}).items() if i == n],
        }
        for n in names
    }
    return lambda _kind: entries


@pytest.fixture(autouse=True)
def any_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "describe", lambda platform: {"name": platform})


def test_what_is_optional_and_not_in_the_build_is_left_out_by_name(tmp_path: Path) -> None:
    path = write(tmp_path, LARGE)
    study = studies.load(path, indexes=listing("fptree"))
    assert {c.labels["index"] for c in study.cells} == {"fptree"}
    assert study.left_out == ["hot (not in this build)"]
    study = studies.load(path, indexes=listing("fptree", "hot"))
    assert {c.labels["index"] for c in study.cells} == {"fptree", "hot"}
    assert study.left_out == []


def test_an_index_that_is_not_optional_is_never_left_out(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"study.toml:14: unknown index 'fptree'"):
        studies.load(write(tmp_path, LARGE), indexes=listing("hot"))


def test_cells_with_an_option_that_an_optional_index_lacks_are_left_out(tmp_path: Path) -> None:
    text = LARGE.replace('rate = "40M"', "option = { pools = 1 }")
    study = studies.load(
        write(tmp_path, text), indexes=listing("fptree", "hot", options={"fptree": "pools"})
    )
    assert study.left_out == ["the option pools of hot (not in this build)"]
    kept = {(c.labels["index"], c.labels["workload"]) for c in study.cells}
    assert kept == {("fptree", "lookup"), ("fptree", "strings"), ("hot", "lookup")}


def test_a_scale_multiplies_records_and_operations(tmp_path: Path) -> None:
    path = write(tmp_path, LARGE)
    cell = studies.load(path, Choices(scale=0.01)).cells[0]
    assert (cell.flags["records"], cell.flags["operations"]) == (20_000, 200)


def test_a_native_run_has_the_cores_of_this_machine_and_no_flags_of_simulations(
    tmp_path: Path,
) -> None:
    choices = Choices(target="native")
    study = studies.load(write(tmp_path, LARGE), choices, indexes=listing("fptree"))
    lookups = [c for c in study.cells if c.labels["workload"] == "lookup"]
    assert [c.flags["threads"] for c in lookups] == sorted({1, min(20, CORES), min(40, CORES)})
    assert lookups[-1].labels["threads"] == str(lookups[-1].flags["threads"])
    assert all(c.target == "native" and c.medium == "tmpfs" for c in study.cells)
    assert all("warm" not in c.flags and "operations" not in c.flags for c in study.cells)
    assert all(c.flags["seconds"] == 0.5 for c in study.cells)
    (strings,) = (c for c in study.cells if c.labels["workload"] == "strings")
    assert strings.flags["rate"] == 40_000_000 * min(20, CORES) // 20


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_native_run_on_one_numa_node_leaves_out_the_cells_that_need_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: int
) -> None:
    text = """
    name = "apart"
    [axes]
    index = ["stdmap"]
    parallel = ["single", "numa"]
    [[include]]
    index = ["stdmap"]
    parallel = ["single"]
    placement = ["none", "both"]
    """
    monkeypatch.setattr(native, "query", lambda _what: {"numa_nodes": nodes})
    path = write(tmp_path, text)
    study = studies.load(path, Choices(target="native"), indexes=listing("stdmap"))
    assert len(study.cells) == (1 if nodes == 1 else 4)
    assert nodes == 2 or study.cells[0].labels["parallel"] == "single"
    said = [
        f"{flag} (this machine has one NUMA node)" for flag in ("--parallel numa", "--placement")
    ]
    assert study.left_out == (said if nodes == 1 else [])
    assert len(studies.load(path).cells) == 4


def test_names_of_keys_stand_for_forms_and_files(tmp_path: Path) -> None:
    path, file = write(tmp_path, LARGE), tmp_path / "names.txt"
    (cell,) = (c for c in studies.load(path).cells[-2:] if c.labels["index"] == "fptree")
    assert (cell.labels["keys"], cell.flags["keys"]) == ("names", "random:8-25~11")
    file.write_text("a\nb\n")
    choices = Choices(keys={"names": str(file)})
    (cell,) = (c for c in studies.load(path, choices).cells[-2:] if c.labels["index"] == "fptree")
    assert (cell.labels["keys"], cell.flags["keys"]) == ("names", f"file:{file}")
    before = cell.key("b", 0, "h")
    file.write_text("a\nc\n")
    assert before != cell.key("b", 0, "h")
    with pytest.raises(InputError, match=r"--keys nmaes: .*did you mean 'names'"):
        studies.load(path, Choices(keys={"nmaes": str(file)}))


def test_a_switch_that_is_on_by_default_can_be_switched_off() -> None:
    assert flags.command_line({"warm": False, "verify": False}) == ["--no-warm"]


WRONG_LARGE = [
    ('name = "one"', 'name = "../one"', 27, "the name '../one' has a slash"),
    ('name = "large"', 'name = ""', 2, "the name '' is empty"),
    (
        "[[published]]",
        '[[figure]]\nname = "one"\ntitle = "Two"\ncells = { workload = "lookup" }\n[[published]]',
        31,
        "there are two figures 'one'",
    ),
    ('direction = "above"', "value = inf", 30, "needs a value above 0"),
    ('direction = "above"', 'direction = "above"\nthan = inf', 30, "`than` is a factor"),
    ('title = "One"\n', "", 26, "does not say its title"),
    ('cells = { workload = ["lookup"] }', 'cells = { workload = ["lokup"] }', 29, "names no cell"),
    ('title = "One"', 'title = "One"\nmetric = "p98"', 29, "unknown metric 'p98'; did you mean"),
    ('title = "One"', 'title = "One"\ndrawing = "thread"', 29, "unknown drawing 'thread'; did you"),
    ('figure = "one"', 'figure = "two"', 33, "unknown figure 'two'"),
    ('"hot", threads = [20, 40]', '"hot", threads = [20, 30]', 34, "`of` names 1 cells of"),
    ('names = "random:8-25~11"', "names = 8", 12, "keys must be a name"),
    ('optional = ["hot", "roart"]', "optional = [1]", 3, "`optional` lists names"),
]


@pytest.mark.parametrize(("old", "new", "line", "words"), WRONG_LARGE)
def test_a_wrong_figure_or_finding_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, words: str
) -> None:
    assert old in LARGE
    path = write(tmp_path, LARGE.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        studies.load(path)
    message = str(caught.value)
    assert words in message
    assert f":{line}: " in message


def test_the_study_of_ep2_has_a_figure_for_every_finding() -> None:
    study = studies.load(Path(__file__).parents[2] / "studies" / "ep2.toml")
    names = {figure.name for figure in study.figures}
    assert {claim.figure for claim in study.published} <= names
    assert len(study.published) > 80
    assert {c.target for c in study.cells} == {"sim:optane100-6242r-2s"}
    assert all(c.flags["cpus"] for c in study.cells if c.flags["threads"] == 40)
