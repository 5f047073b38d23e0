from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Cli
from perdure.results.record import Run, load
from perdure.study import advise as advising

MIX = {"lookup": 0.9, "insert": 0.1}
SIM, NATIVE = "sim:somewhere", "native"
ASKED = ("advise", "--records", "10M", "--mix", "lookup=0.9,insert=0.1")


def run_of(index: str, rates: list[float], template: Run, target: str = NATIVE) -> Run:
    """A run of an index at these rates."""
    repetition = template.record["repetitions"][0]
    repetitions = [repetition | {"throughput_ops_s": rate} for rate in rates]
    labels = {"index": index, "target": target}
    return Run(
        labels,
        template.record | {"index": index, "target": target, "repetitions": repetitions},
        index,
    )


@pytest.fixture
def template(cli: Cli, tmp_path: Path) -> Run:
    done = cli("bench", "--index", "fptree", "--json")
    file = tmp_path / "record.json"
    file.write_text(done.stdout)
    return load(file)[0]


def test_who_is_not_slower_shares_a_rank_and_targets_are_ranked_apart(template: Run) -> None:
    places = advising.rank(
        [
            run_of("slow", [50.0, 51.0, 52.0], template),
            run_of("near", [97.0, 98.0, 99.0], template),
            run_of("best", [100.0, 101.0, 102.0], template),
            run_of("wild", [40.0, 90.0, 130.0], template),
            run_of("slow", [7.0], template, SIM),
            run_of("best", [6.9], template, SIM),
            run_of("near", [1.0], template, SIM),
        ]
    )
    assert [(p.target, p.rank, p.index) for p in places] == [
        (NATIVE, 1, "best"),
        (NATIVE, 1, "near"),
        (NATIVE, 1, "wild"),
        (NATIVE, 4, "slow"),
        (SIM, 1, "slow"),
        (SIM, 1, "best"),
        (SIM, 3, "near"),
    ]
    assert places[3].of_best == pytest.approx(51 / 101)


def test_a_case_takes_the_simplest_kind_of_key_that_holds_it() -> None:
    every = ["integer", "slots", "bytes"]
    assert advising.Case(1, MIX).kind(every) == "integer"
    assert advising.Case(1, MIX).kind(["bytes"]) == "bytes"
    assert advising.Case(1, MIX, value_bytes=100).kind(every) == "slots"
    assert advising.Case(1, MIX, value_bytes=120).kind(["integer", "bytes"]) == "bytes"
    assert advising.Case(1, MIX, value_bytes=121).kind(every) == "bytes"
    assert advising.Case(1, MIX, key_bytes=9).kind(every) == "bytes"
    assert advising.Case(1, MIX, key_bytes=9).kind(["integer"]) is None


def test_needs_leave_indexes_out_with_the_reason() -> None:
    durable, ordered = advising.NEEDS["durability"][1], advising.NEEDS["scan"][1]
    assert durable({"recovers": True, "tearing": "nothing"}) == ""
    assert durable({"recovers": True, "tearing": "values"})
    assert durable({"recovers": False, "tearing": "nothing"})
    assert ordered({"ordered": True}) == ""
    assert ordered({"ordered": False})
    assert advising.Case(1, {"scan": 1.0}).all_needs == ("scan",)


def test_advice_comes_with_ranks_reasons_and_commands(sim_cli: Cli, tmp_path: Path) -> None:
    asked = (*ASKED, "--needs", "durability", "--results", tmp_path / "r", "--quick")
    done = sim_cli(*asked, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    by_target: dict[str, list[str]] = {}
    for place in document["ranks"]:
        by_target.setdefault(place["target"], []).append(place["index"])
        assert place["command"].startswith("./perdure bench ")
        assert place["throughput_ops_s"] > 0
        assert place["rank"] is None, "a quick run ranks nobody"
        assert place["interval"] == ("range of 3" if place["target"] == NATIVE else "exact")
    assert document["quick"] is True
    assert by_target["sim:optane100-6242r-2s"] == ["fptree"]
    assert by_target["native"][0] == "lbtree"
    assert "power cut" in document["left_out"]["stdmap"]
    assert "null" not in document["left_out"]
    assert any("10,000 of 10,000,000" in note for note in document["notes"])
    again = sim_cli(*asked)
    assert "0 cells to run" in again.stderr
    assert "left out: stdmap" in again.stdout and "(simulated)" in again.stdout
    assert again.stdout.startswith("quick run: ")


def test_a_dry_run_prints_the_commands_and_writes_nothing(cli: Cli, tmp_path: Path) -> None:
    done = cli(*ASKED, "--value-bytes", "100", "--target", "native", "--dry-run",
               "--results", tmp_path / "r")  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert all("--keys random:8" in line and "--value-bytes 100" in line for line in lines)
    assert any("--index fptree" in line for line in lines)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--mix", "lookup=0.5"), "--mix: the shares of mix add up to 0.5"),
        (("--mix", "lookup"), "--mix: 'lookup' is no share"),
        (("--records", "many"), "--records: not a count: 'many'"),
        (("--needs", "durabilty"), "did you mean 'durability'?"),
    ],
)
def test_a_mistake_is_one_line(cli: Cli, flags: tuple[str, ...], words: str) -> None:
    done = cli(*ASKED, *flags)
    assert done.returncode == 2
    assert words in done.stderr and done.stderr.count("\n") == 1


def test_a_cell_that_fails_is_told_and_the_rest_is_ranked(cli: Cli, tmp_path: Path) -> None:
    done = cli(*ASKED, "--target", "native", "--results", tmp_path / "r", FAKE_FAIL="fptree")
    assert done.returncode == 1
    assert "fptree failed" in done.stdout and "lbtree" in done.stdout
