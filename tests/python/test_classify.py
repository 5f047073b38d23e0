"""Classification: factors, classes and rules, against a stand-in whose causes are known."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.memory import classify

Cli = Callable[..., subprocess.CompletedProcess[str]]


def run(cli: Cli, folder: Path, target: str = "sim:optane100-8280l-2s", **variables: str) -> Any:
    done = cli("classify", "--target", target, "--results", folder, "--json", "-q", **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_memory_like_optane_shows_all_and_why(tmp_path: Path, sim_cli: Cli) -> None:
    document = run(sim_cli, tmp_path)
    found = {one["name"]: one for one in document["idiosyncrasies"]}
    assert [n for n, one in found.items() if one["shown"]] == [f"I{n}" for n in range(1, 8)]
    # What the stand-in does, by its formulas.
    assert found["I3"]["factor"] == pytest.approx(4.0)
    assert found["I4"]["factor"] == pytest.approx(5.0)
    assert found["I7"]["factor"] == pytest.approx(1.8 / 0.95)
    assert found["I3"]["causes"][0]["ablation"] == "no-read-modify-write"
    assert found["I3"]["causes"][0]["explains"] == pytest.approx(1.0)
    assert found["I5"]["causes"][0]["ablation"] == "in-order-arrival"
    assert found["I5"]["causes"][0]["by"] == "speeding the slow side"
    assert found["I4"]["causes"][0]["explains"] == pytest.approx(0.0)
    assert document["classes"]["names"] == ["C2", "C3", "C4"]
    assert document["classes"]["certain"] is True


def test_dram_is_class_c1(tmp_path: Path, sim_cli: Cli) -> None:
    document = run(sim_cli, tmp_path, FAKE_SIM_DRAM="1")
    assert document["classes"]["names"] == ["C1"]
    shown = {one["name"]: one["shown"] for one in document["idiosyncrasies"]}
    assert not any(shown[name] for name in ("I2", "I3", "I5", "I7"))


@pytest.mark.slow
def test_what_cannot_be_measured_stays_unknown(tmp_path: Path, sim_cli: Cli) -> None:
    document = run(sim_cli, tmp_path, FAKE_SIM_SKIP="remote")
    (i4,) = [one for one in document["idiosyncrasies"] if one["name"] == "I4"]
    assert i4["shown"] is None and i4["missing"] == ["no second node"]
    (r4,) = [rule for rule in document["rules"] if rule["rule"] == "R4"]
    assert r4["impact"] == "unknown"
    assert "I4 is unknown: no second node" in document["notes"]


def test_native_names_no_switches(tmp_path: Path, sim_cli: Cli, sim_stand_in: Path) -> None:
    document = run(sim_cli, tmp_path, "native", PERDURE_NATIVE=str(sim_stand_in))
    assert all(not one["causes"] for one in document["idiosyncrasies"])
    assert all("no switch" in one["cause_note"] for one in document["idiosyncrasies"])


@pytest.mark.parametrize(
    ("factor", "word"),
    [(None, "unknown"), (1.0, "none"), (1.49, "low"), (1.5, "moderate"), (3.0, "moderate"),
     (3.01, "high")],
)  # fmt: skip
def test_impact_has_the_words_of_table_4(factor: float | None, word: str) -> None:
    assert classify.level(factor) == word


@pytest.mark.parametrize(
    ("shown", "names", "certain"),
    [
        ({"I2": True, "I3": True, "I5": True, "I7": True}, ["C2", "C3", "C4"], True),
        ({"I2": True, "I3": True, "I5": False, "I7": True}, ["C3"], True),
        ({"I2": False, "I3": False, "I5": True, "I7": False}, ["C2"], True),
        ({"I2": False, "I3": False, "I5": False, "I7": False}, ["C1"], True),
        ({"I2": False, "I3": False, "I5": False, "I7": None}, [], False),
    ],
)
def test_classes_follow_table_1(
    shown: dict[str, bool | None], names: list[str], certain: bool
) -> None:
    found = classify.classes_of(shown)
    assert (found["names"], found["certain"]) == (names, certain)


@pytest.mark.slow
def test_the_table_names_a_target_as_it_is(tmp_path: Path, sim_cli: Cli) -> None:
    done = sim_cli("classify", "--target", "sim:x", "--results", tmp_path, "-q")
    assert done.returncode == 0, done.stderr
    assert "sim:x: class C2, C3, C4" in done.stdout
    assert "R7" in done.stdout


def test_an_unknown_target_is_one_line_and_exit_2(sim_cli: Cli) -> None:
    done = sim_cli("classify", "--target", "moon")
    assert done.returncode == 2
    assert "unknown target 'moon'" in done.stderr and done.stderr.count("\n") == 1
