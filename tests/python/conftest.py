"""Shared fixtures: the command line as a subprocess, and a stand-in for perdure-native."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
Cli = Callable[..., subprocess.CompletedProcess[str]]

# A shell's background job inherits an ignored SIGINT, and its children would never be interrupted.
signal.signal(signal.SIGINT, signal.default_int_handler)

STUDY = """
name = "small"
title = "A small study"
repetitions = 2
[flags]
records = "10K"
seconds = 0.1
[axes]
index = ["fptree", "lbtree"]
threads = [1, 2]
medium = ["file"]
workload = ["lookup", "mixed"]
[[include]]
index = ["null"]
medium = ["none"]
[workloads.lookup]
mix = { lookup = 1.0 }
[workloads.mixed]
mix = { lookup = 0.5, insert = 0.5 }
"""


def executable_copy(script: str, name: str, folder: Path) -> Path:
    """Copies a script, to be run by this interpreter; the one on PATH may be a slow wrapper."""
    _, body = Path(__file__).with_name(script).read_text().split("\n", 1)
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{body}")
    path.chmod(0o755)
    return path


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return executable_copy("fake_native.py", "perdure-native", tmp_path_factory.mktemp("stand-in"))


@pytest.fixture
def environment(stand_in: Path) -> dict[str, str]:
    """The variables of a perdure process that uses the stand-in."""
    path = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PERDURE_NATIVE": str(stand_in), "PYTHONPATH": path, "NO_COLOR": "1"}


@pytest.fixture
def cli(environment: dict[str, str]) -> Cli:
    """cli("study", "run", ..., FAKE_FAIL="fptree") runs perdure and returns what it said."""

    def run(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "perdure", *map(str, arguments)],
            env={**environment, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    return run


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(STUDY)
    return path


@pytest.fixture(scope="session")
def sim_stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return executable_copy("fake_sim.py", "perdure-sim", tmp_path_factory.mktemp("stand-in-sim"))


@pytest.fixture
def sim_cli(cli: Cli, sim_stand_in: Path) -> Cli:
    """`cli` with the stand-in for perdure-sim as well."""

    def run(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        return cli(*arguments, **{"PERDURE_SIM": str(sim_stand_in), **variables})

    return run
