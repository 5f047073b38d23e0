"""The crash explorer as a user runs it: perdure-sim of the Release build."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SIM = ROOT / "build" / "release" / "src" / "cli" / "perdure-sim"
RATES = ("seconds", "states_per_second", "recoveries_per_second")  # of this machine


def crash(
    *arguments: str, prefix: tuple[str, ...] = (), **changed: str
) -> subprocess.CompletedProcess[str]:
    environment = {"PMEM_IS_PMEM_FORCE": "1", **os.environ, **changed}
    return subprocess.run(
        [*prefix, str(SIM), "crash", *arguments, "--quiet"],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env=environment,
    )


def found(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(done.stdout)
    return {key: value for key, value in document.items() if key not in RATES}


@pytest.mark.parametrize("index", ["fptree", "lbtree", "toy:missing_flush"])
def test_the_same_seed_gives_the_same_trace_and_verdict(index: str, tmp_path: Path) -> None:
    flags = [
        "--index", index, "--threads", "2", "--seed", "5", "--states", "1500", "--json",
        "--out", str(tmp_path / "finding.json"),
    ]  # fmt: skip
    first = crash(*flags, prefix=("setarch", "-R"))
    second = crash(*flags, PADDING="x" * 5000)
    assert first.returncode == second.returncode == (5 if index.startswith("toy:") else 0)
    assert found(first)["trace_digest"]
    assert found(first) == found(second)


def test_states_and_budget_end_an_exploration_whichever_comes_first() -> None:
    began = time.monotonic()
    flags = ["--index", "toy:missing_flush:repaired", "--threads", "1", "--json"]
    by_clock = crash(*flags, "--states", "1000000000", "--budget", "10")
    assert by_clock.returncode == 0, by_clock.stderr
    assert 9 < time.monotonic() - began < 60
    by_states = crash(*flags, "--states", "500", "--budget", "200")
    assert by_states.returncode == 0
    assert 500 <= found(by_states)["coverage"]["states"] < 1000
    assert time.monotonic() - began < 90


@pytest.mark.parametrize("flag", ["--budget", "--states", "--threads", "--room", "--keys"])
def test_a_flag_without_a_value_is_not_taken_for_none(flag: str) -> None:
    done = crash("--index", "toy:missing_flush:repaired", flag, "")
    assert done.returncode == 2
    assert flag in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(("index", "kind"), [("engine", "bytes"), ("fptree", "integer")])
def test_the_kind_of_key_is_one_that_the_index_has(index: str, kind: str, tmp_path: Path) -> None:
    out = str(tmp_path / "finding.json")
    done = crash("--index", index, "--states", "20", "--json", "--out", out)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["key_kind"] == kind


def test_a_finding_is_replayed(tmp_path: Path) -> None:
    file = tmp_path / "finding.json"
    done = crash("--index", "toy:missing_flush", "--budget", "20", "--out", str(file))
    assert done.returncode == 5, done.stderr
    for part in ("violation:", "power cut", "lost:", "repair:", "src/crash/toys/table.cpp:"):
        assert part in done.stdout
    again = crash("--replay", str(file))
    assert again.returncode == 5, again.stderr
    assert "violation:" in again.stdout
    file.write_text(file.read_text()[:100])
    broken = crash("--replay", str(file))
    assert broken.returncode == 2
    assert broken.stderr.count("\n") == 1 and str(file) in broken.stderr


@pytest.mark.parametrize("domain", ["adr", "eadr"])
@pytest.mark.parametrize("keys", ["integer", "bytes"])
@pytest.mark.parametrize("index", ["fptree", "lbtree"])
def test_indexes_are_explored_on_libpmemobjs_heap(
    index: str, keys: str, domain: str, tmp_path: Path
) -> None:
    threads = "2" if domain == "adr" else "1"
    flags = [
        "--index", index, "--heap", "pmdk", "--key-kind", keys, "--domain", domain,
        "--threads", threads, "--states", "60", "--json", "--out", str(tmp_path / "finding.json"),
    ]  # fmt: skip
    done = crash(*flags)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["heap"] == "pmdk"
    assert document["coverage"]["states"] >= 60
    assert document["coverage"]["deep_states"] > 0


@pytest.mark.slow
def test_a_planted_defect_is_found_on_libpmemobjs_heap_and_replayed(tmp_path: Path) -> None:
    file = tmp_path / "finding.json"
    done = crash("--index", "toy:missing_flush", "--heap", "pmdk", "--out", str(file))
    assert done.returncode == 5, done.stdout + done.stderr
    assert "src/crash/toys/table.cpp:" in done.stdout
    again = crash("--replay", str(file))
    assert again.returncode == 5, again.stderr


def test_a_defect_of_elision_shows_with_transactions_only(tmp_path: Path) -> None:
    out = str(tmp_path / "finding.json")
    toy = ("--index", "toy:elided_publish", "--states", "3000", "--out", out)
    assert crash(*toy).returncode == 0
    assert crash(*toy, "--transactions", "on").returncode == 5


@pytest.mark.parametrize(
    ("flag", "value"), [("--heap", "dram"), ("--transactions", "maybe"), ("--domain", "none")]
)
def test_a_bad_choice_is_one_line(flag: str, value: str) -> None:
    done = crash("--index", "fptree", flag, value)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1 and flag in done.stderr


def test_a_pool_that_runs_full() -> None:
    many = ("--keys", "3000", "--preload", "3000", "--ops", "60", "--states", "300")
    done = crash("--index", "dptree", "--room", "1", *many, "--json")
    assert done.returncode == 0, done.stderr
    assert found(done) != found(crash("--index", "dptree", *many, "--json"))


@pytest.mark.parametrize("flags", [("--room", "few"), ("--room", "1", "--heap", "pmdk")])
def test_room_that_there_cannot_be_is_one_line(flags: tuple[str, ...]) -> None:
    done = crash("--index", "fptree", *flags)
    assert done.returncode == 2
    assert done.stdout == "" and len(done.stderr.splitlines()) == 1 and "--room" in done.stderr


@pytest.mark.slow
def test_mutants_of_one_place() -> None:
    done = crash("--mutate", "lbtree", "--place", "::commit", "--budget", "2", "--json")
    assert done.returncode == 0, done.stderr
    mutants = json.loads(done.stdout)["mutants"]
    assert mutants and all("::commit" in mutant["site"] for mutant in mutants)
    assert all(mutant["verdict"] == "killed" for mutant in mutants)


@pytest.mark.parametrize("flags", [("--index", "lbtree"), ("--mutate", "lbtree", "--budget", "1")])
def test_a_place_without_a_mutant_is_one_line(flags: tuple[str, ...]) -> None:
    done = crash(*flags, "--place", "nowhere")
    assert done.returncode == 2
    assert done.stdout == "" and len(done.stderr.splitlines()) == 1 and "--place" in done.stderr


def test_so_many_states_are_enough_within_a_run() -> None:
    done = crash("--index", "roart", "--states", "500", "--json")
    assert done.returncode == 0, done.stderr
    assert 500 <= json.loads(done.stdout)["coverage"]["states"] < 2500


@pytest.mark.slow
def test_a_fence_with_nothing_to_wait_for_is_equivalent() -> None:
    done = crash("--mutate", "dptree", "--place", "::rotate", "--budget", "1", "--json")
    assert done.returncode == 0, done.stderr
    mutants = json.loads(done.stdout)["mutants"]
    told = [mutant for mutant in mutants if "other threads" in mutant["why"]]
    assert len(told) == 1  # that of the lock
    assert told[0]["fence"] and told[0]["verdict"] == "equivalent"
