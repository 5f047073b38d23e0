"""The crash explorer as a user runs it: perdure-sim of the Release build."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SIM = ROOT / "build" / "release" / "src" / "cli" / "perdure-sim"
RATES = ("seconds", "recoveries_per_second")  # of this machine


def crash(
    *arguments: str, prefix: tuple[str, ...] = (), **changed: str
) -> subprocess.CompletedProcess[str]:
    environment = {"PMEM_IS_PMEM_FORCE": "1", **os.environ, **changed}
    return subprocess.run(
        [*prefix, str(SIM), "crash", *arguments, "--quiet"],
        capture_output=True, text=True, check=False, timeout=240, env=environment,
    )  # fmt: skip


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
