"""Targets: which program runs, what a simulated result is a function of, and several at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import fake_native
from perdure.errors import InputError, PerdureError
from perdure.programs import profile
from perdure.results import compare
from perdure.results.record import Run
from perdure.study.reader import load

Cli = Callable[..., subprocess.CompletedProcess[str]]
STUDY = """name = "s"
repetitions = 1
[flags]
operations = 100
[axes]
index = ["fptree", "lbtree"]
target = ["native", "sim:optane"]
threads = [1, 2]
workload = ["insert"]
[workloads.insert]
mix = { insert = 1.0 }
"""


@pytest.fixture
def both(tmp_path: Path) -> Path:
    path = tmp_path / "both.toml"
    path.write_text(STUDY)
    return path


def test_a_study_runs_each_cell_on_its_target(sim_cli: Cli, both: Path, tmp_path: Path) -> None:
    results = tmp_path / "r"
    done = sim_cli("study", "run", both, "--results", results, "--json")
    assert done.returncode == 0, done.stderr
    kept = [json.loads(f.read_text()) for f in (results / "cells").iterdir()]
    assert len(kept) == 8
    for one in kept:
        assert one["record"]["target"] == one["labels"]["target"]
        assert (one["record"]["repetitions"][0]["simulation"] is not None) == (
            one["labels"]["target"] == "sim:optane"
        )


def test_a_simulated_result_belongs_to_no_host(
    sim_cli: Cli, both: Path, tmp_path: Path, stand_in: Path
) -> None:
    elsewhere = tmp_path / "perdure-native"
    text = stand_in.read_text().replace("00112233aabbccdd", "ffeeddccbbaa9988")
    elsewhere.write_text(text)
    elsewhere.chmod(0o755)

    def keys(**variables: str) -> dict[str, set[str]]:
        done = sim_cli("study", "run", both, "--dry-run", "--json", **variables)
        assert done.returncode == 0, done.stderr
        plan = json.loads(done.stdout)
        return {
            target: {t["key"] for t in plan if t["labels"]["target"] == target}
            for target in ("native", "sim:optane")
        }

    here, there = keys(), keys(PERDURE_NATIVE=str(elsewhere))
    assert here["sim:optane"] == there["sim:optane"]
    assert here["native"].isdisjoint(there["native"])


def test_bench_goes_to_the_program_of_its_target(sim_cli: Cli) -> None:
    for flags in (["--target", "sim:optane"], ["--target=sim:optane"]):
        done = sim_cli("bench", "--index", "fptree", *flags, "--json")
        assert done.returncode == 0, done.stderr
    assert sim_cli("bench", "--index", "fptree", "--target", "sim:optane").returncode == 0
    missing = sim_cli("bench", "--target", "sim:x", PERDURE_SIM="/nowhere")
    assert missing.returncode == 2 and "PERDURE_SIM=/nowhere" in missing.stderr


def test_an_interrupt_leaves_no_simulation_behind(
    environment: dict[str, str], sim_stand_in: Path, both: Path, tmp_path: Path
) -> None:
    both.write_text(STUDY.replace('"native", ', ""))
    results = tmp_path / "r"
    process = subprocess.Popen(
        [sys.executable, "-m", "perdure", "study", "run", str(both), "--results", str(results)],
        env={**environment, "PERDURE_SIM": str(sim_stand_in), "FAKE_SLEEP_SECONDS": "600"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not children_of(process.pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    started = children_of(process.pid)
    assert started
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert not any(Path(f"/proc/{child}").exists() for child in started)


def children_of(pid: int) -> list[str]:
    """Bench processes: the short-lived queries for platform and host are none."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            stat = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            command = (entry / "cmdline").read_bytes().split(b"\0")
        except (OSError, IndexError):
            continue
        if int(stat[1]) == pid and b"bench" in command:
            found.append(entry.name)
    return found


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("sim:optane", "optane", "unknown target 'optane'"),
        ("operations = 100", "operations = 100\nwarm = 1", "warm must be true or false"),
        ("operations = 100", 'operations = 100\ncarrier = "fibres"', "did you mean 'fibers'"),
    ],
)
def test_a_bad_target_names_its_line(tmp_path: Path, old: str, new: str, what: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(STUDY.replace(old, new))
    with pytest.raises(InputError) as caught:
        load(path)
    assert what in str(caught.value) and f"{path}:" in str(caught.value)


def test_flags_are_found_and_dropped_in_either_form() -> None:
    arguments = ["bench", "--flamegraph", "a.svg", "--index=x", "--flamegraph=b.svg", "--json"]
    assert profile.value_of(arguments, "--flamegraph") == "b.svg"
    assert profile.value_of(arguments, "--index") == "x"
    assert profile.value_of(arguments, "--seed") is None
    assert profile.without(arguments, "--flamegraph") == ["bench", "--index=x", "--json"]


def test_a_simulated_profile_is_drawn_from_folded_stacks(tmp_path: Path) -> None:
    out = tmp_path / "out.svg"
    command = ["perdure-sim", "bench", "--index", "lbtree", "--flamegraph", str(out)]
    with profile.recorded(command, "sim:optane") as wrapped:
        assert wrapped[:4] == command[:4] and wrapped[4] == "--flamegraph"
        Path(wrapped[5]).write_text("main;lookup 5000000\n")
    assert "lbtree, sim:optane: 5 µs" in out.read_text()


def test_a_native_profile_without_perf_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        pytest.raises(PerdureError, match="perf is not installed"),
        profile.recorded(["perdure-native", "bench", "--flamegraph", "x.svg"], "native"),
    ):
        pass


def test_a_native_profile_is_refused_where_only_root_may_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    perf, level = tmp_path / "perf", tmp_path / "level"
    perf.write_text("#!/bin/sh\n")
    perf.chmod(0o755)
    level.write_text("4\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(profile, "PARANOID", level)
    with pytest.raises(PerdureError, match="perf_event_paranoid is 4"):
        profile.perf_record(tmp_path / "perf.data")
    level.write_text("2\n")
    assert profile.perf_record(tmp_path / "perf.data")[0] == str(perf)


def test_probe_is_passed_on_and_drawn(sim_cli: Cli, tmp_path: Path) -> None:
    arguments = ["probe", "bandwidth", "--target", "sim:optane", "--op", "load",
                 "--sizes", "64,256,4096", "--threads", "1,4"]  # fmt: skip
    passed = sim_cli(*arguments, "--json")
    assert passed.returncode == 0, passed.stderr
    assert len(json.loads(passed.stdout)["points"]) == 6
    out = tmp_path / "out.svg"
    drawn = sim_cli(*arguments, "--plot", out)
    assert drawn.returncode == 0, drawn.stderr
    assert drawn.stdout == f"table of bandwidth\n{out}\n"
    assert "<svg" in out.read_text() and "bytes per access" in out.read_text()
    failed = sim_cli(*arguments, "--plot", out, FAKE_SIM_FAIL="load")
    assert failed.returncode == 1 and "load broke" in failed.stderr


@pytest.mark.parametrize(
    ("factor", "verdict", "remark"),
    [(1.0, "same", "exact"), (1.02, "same", "exact; not bit for bit"),
     (1.2, "faster", "exact"), (0.8, "slower", "exact")],
)  # fmt: skip
def test_simulated_cells_are_compared_exactly(factor: float, verdict: str, remark: str) -> None:
    before, after = kept_run("sim:a", 1e6), kept_run("sim:a", 1e6 * factor)
    (found,) = compare.compare([before], [after], threshold=0.05, confidence=0.95).comparisons
    assert (str(found.verdict), found.remark) == (verdict, remark)
    assert found.ratio.low == found.ratio.high == pytest.approx(factor)


def test_a_difference_in_any_counter_is_not_bit_for_bit() -> None:
    before, after = kept_run("sim:a", 1e6), kept_run("sim:a", 1e6)
    after.record["repetitions"][0]["simulation"] = {"flushes": 3}
    (found,) = compare.compare([before], [after], threshold=0.05, confidence=0.95).comparisons
    assert found.remark == "exact; not bit for bit"


def test_simulated_against_measured_is_refused() -> None:
    with pytest.raises(InputError, match="simulated cell against a measured one"):
        compare.compare(
            [kept_run("sim:a", 1e6)], [kept_run("native", 1e6)], threshold=0.05, confidence=0.95
        )


def kept_run(target: str, throughput: float) -> Run:
    record = fake_native.record({"index": "fptree"})
    operations = {"lookup": {"attempted": 1, "succeeded": 1, "failed": 0, "latency_ns": None}}
    repetition = {"throughput_ops_s": throughput, "operations": operations}
    record |= {"target": target, "repetitions": [repetition]}
    return Run({"index": "fptree"}, record)
