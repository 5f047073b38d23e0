"""Shared fixtures: the command line as a subprocess, and a stand-in for perdure-native."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from perdure.programs import native
from served import folder_in_memory

ROOT = Path(__file__).resolve().parents[2]
Cli = Callable[..., subprocess.CompletedProcess[str]]
Answer = TypeVar("Answer")

# A shell's background job inherits ignored SIGINT and SIGQUIT, and its children would never be
# interrupted.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With PERDURE_TEST_SEED a quarter of the slow tests runs: which ones follows from it."""
    seed = os.environ.get("PERDURE_TEST_SEED")
    if not seed:
        return

    def is_left_out(item: pytest.Item) -> bool:
        return item.get_closest_marker("slow") is not None and bool(
            zlib.crc32(f"{seed} {item.nodeid}".encode()) % 4
        )

    left_out = [item for item in items if is_left_out(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def executable_copy(script: str, name: str, folder: Path) -> Path:
    """Copies a script, to be run by this interpreter; the one on PATH may be a slow wrapper."""
    _, body = Path(__file__).with_name(script).read_text().split("\n", 1)
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{body}")
    path.chmod(0o755)
    return path


def wait_for(condition: Callable[[], Answer], seconds: float = 30) -> Answer:
    """The first answer that says something; a test that waits for ever would say nothing."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.01)
    return answer


def numbers_in(file: Path) -> list[int]:
    """What FAKE_PIDS wrote: whole lines only."""
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    return [int(line) for line in lines if line.endswith("\n")]


def alive(number: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        state = Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return executable_copy("fake_native.py", "perdure-native", tmp_path_factory.mktemp("stand-in"))


@pytest.fixture(autouse=True)
def own_machine(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tests that run side by side do not wait for each other's measurements."""
    place = tmp_path_factory.mktemp("locks")
    monkeypatch.setenv("PERDURE_LOCKS", str(place))
    return place


@pytest.fixture
def real_programs(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """The build tree's programs, by kind; a test run without them must not pass silently."""
    for variable in native.VARIABLES.values():
        monkeypatch.delenv(variable, raising=False)
    native.program.cache_clear()
    return native.program


@pytest.fixture
def folder() -> Iterator[Path]:
    """For pools, in memory."""
    with folder_in_memory() as path:
        yield path


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
