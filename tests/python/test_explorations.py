"""Explorations of power cuts beside the cells of a results folder, and their part of the report."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import fake_native
from conftest import Cli
from perdure.errors import InputError
from perdure.report import crash_section, page
from perdure.results import explorations
from perdure.results.record import Run

COVERAGE = {"crash_points": 1200, "exhausted_points": 1150, "states": 34567, "recovery_cuts": 89}
EXPLORED = {
    "index": "fptree", "domain": "adr", "key_kind": "integer", "heap": "slab",
    "transactions": False, "threads": 1, "thread_counts": [1, 2, 6], "seed": 1, "programs": 7,
    "runs": 30, "coverage": COVERAGE, "seconds": 10.04, "violation": None,
}  # fmt: skip
VIOLATION = {
    "oracle": "recovery", "what": "a record <b> is gone", "text": "violation: of\nseveral lines",
    "replay": f"/of/another{'_long_name' * 9}/machine.json",
}  # fmt: skip


def put(folder: Path, name: str, **changed: Any) -> None:
    """As if somebody had redirected `crash --json` into a file."""
    (folder / "crash").mkdir(exist_ok=True)
    file = folder / "crash" / f"{name}.exploration.json"
    file.write_text(json.dumps(EXPLORED | changed))


def written(folder: Path) -> str:
    """The page of a folder with one cell."""
    labels = {"index": "fptree", "workload": "lookup", "medium": "none"}
    run = Run(labels, fake_native.record({"index": "fptree"}), "./perdure bench")
    page.write(folder, [run], folder / "report.html")
    return (folder / "report.html").read_text()


def test_crash_keeps_what_it_explored_in_a_results_folder(sim_cli: Cli, tmp_path: Path) -> None:
    flags = ("crash", "--index", "fptree", "--budget", "2", "--results", tmp_path)
    done = sim_cli(*flags)
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout == "fptree, adr, 1, 2 and 6 threads: 100 states at 10 moments, 0 violations\n"
    )
    (file,) = (tmp_path / "crash").iterdir()
    kept = json.loads(file.read_text())
    assert kept["command"] == "./perdure crash --index fptree --budget 2"
    assert kept["coverage"]["states"] == 90 and kept["started_unix"] > 0 and kept["build_id"]
    # The same flags again, with a violation: in place of the former, with its counterexample.
    found = sim_cli(*flags, "--json", FAKE_SIM_FOUND="fptree")
    assert found.returncode == 5
    document = json.loads(found.stdout)
    names = sorted(one.name for one in (tmp_path / "crash").iterdir())
    stem = file.name.removesuffix(".exploration.json")
    assert names == [f"{stem}.counterexample.json", file.name]
    assert document["violation"]["replay"] == str(tmp_path / "crash" / names[0])
    (read,) = explorations.read(tmp_path)
    assert read == document
    # Other flags are another exploration; mended, the counterexample goes.
    other = sim_cli(*flags, "--domain", "eadr", FAKE_SIM_FOUND="fptree", NO_COLOR="1")
    assert other.stdout.splitlines()[-1].startswith("replay: ./perdure crash --replay ")
    assert len(explorations.read(tmp_path)) == 2
    assert sim_cli(*flags).returncode == 0
    assert len(list((tmp_path / "crash").glob("*.counterexample.json"))) == 1


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--results", "--json"), "--results: needs a folder"),
        (("--index", "nowhere", "--results", "{}"), "unknown index"),
        (("--replay", "x.json", "--results", "{}"), "--results: keeps explorations only"),
        (("--mutate", "fptree", "--results", "{}"), "--results: keeps explorations only"),
        (("--index", "fptree", "--results", "/dev/null"), "--results /dev/null/crash"),
    ],
)
def test_what_cannot_be_kept_is_one_line(
    sim_cli: Cli, tmp_path: Path, flags: tuple[str, ...], said: str
) -> None:
    done = sim_cli("crash", "--budget", "1", *(flag.format(tmp_path) for flag in flags))
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and said in done.stderr
    assert not list(tmp_path.rglob("*.json"))


def test_the_report_tells_coverage_by_index_domain_and_threads(tmp_path: Path) -> None:
    put(tmp_path, "b")
    put(tmp_path, "a", index="toy:torn", violation=VIOLATION)
    put(tmp_path, "c", domain="eadr", thread_counts=[2], key_kind="bytes", transactions=True)
    text = written(tmp_path)
    assert '<a href="#crash">Crash coverage</a>' in text
    section = text.split('<section id="crash">')[1].split("</section>")[0]
    rows = re.findall(r"<tr[^>]*>(<td>.*?)</tr>", section)
    cells = [re.sub(r"<[^>]+>", "|", row.replace("<br>", "")).split("||") for row in rows]
    assert [[part.strip("|") for part in row] for row in cells] == [
        ["fptree", "adr", "1, 2, 6", "34,567", "89", "1,200", "50", "0", "10.0"],
        ["fptree|bytes keys, transactions", "eadr",
         "2", "34,567", "89", "1,200", "50", "0", "10.0"],
        ["toy:torn|planted defect", "adr",
         "1, 2, 6", "34,567", "89", "1,200", "50", "✗ 1", "10.0"],
    ]  # fmt: skip
    assert "A power cut may damage" not in text, "a planted defect is none of an index"


def test_a_violation_stands_at_the_top_with_the_way_to_see_it_again(tmp_path: Path) -> None:
    put(tmp_path, "a", violation=VIOLATION)
    text = written(tmp_path)
    assert "A power cut may damage fptree:" in text.split("<main>")[0]
    assert f"./perdure crash --replay {VIOLATION['replay']}" in text
    assert "a record &lt;b&gt; is gone" in text and "a record <b>" not in text
    # What lies beside it counts, wherever the folder was moved to.
    beside = tmp_path / "crash" / "a.counterexample.json"
    beside.write_text("{}")
    assert f"./perdure crash --replay {beside}" in written(tmp_path)
    put(tmp_path, "a", violation=VIOLATION | {"replay": None})
    beside.unlink()
    assert "could not be written" in written(tmp_path)


def test_a_quick_run_has_explorations_of_its_own(tmp_path: Path) -> None:
    put(tmp_path, "a")
    assert explorations.read(tmp_path, quick=True) == explorations.read(tmp_path)
    quick = explorations.folder_of(tmp_path, quick=True)
    quick.mkdir()
    explorations.keep(quick, "q", EXPLORED | {"seconds": 0.5})
    assert [one["seconds"] for one in explorations.read(tmp_path, quick=True)] == [0.5]
    assert [one["seconds"] for one in explorations.read(tmp_path)] == [10.04]


@pytest.mark.parametrize("changed", [{"coverage": {}}, {"threads": 0}, {"violation": {}}])
def test_a_damaged_exploration_is_one_line(
    study: Path, tmp_path: Path, changed: dict[str, Any]
) -> None:
    put(tmp_path, "a", **changed)
    with pytest.raises(InputError, match=r"a\.exploration\.json: not a crash exploration"):
        crash_section.section(tmp_path, quick=False)
    assert crash_section.section(study, quick=False) is None, "a file has no folder"
