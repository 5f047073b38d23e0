from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from conftest import Cli, alive, numbers_in, wait_for
from perdure.errors import PerdureError
from perdure.programs import native, outputs
from perdure.progress import Progress
from perdure.study import campaign
from perdure.study import reader as studies

CELLS = 12 * 2


def cells(results: Path) -> list[Path]:
    return sorted((results / "cells").glob("*.json"))


def runs_logged(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_a_finished_study_is_not_run_again(cli: Cli, study: Path, tmp_path: Path) -> None:
    results, log = tmp_path / "results", tmp_path / "log"
    first = cli("study", "run", study, "--results", results, "--json", FAKE_LOG=str(log))
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["finished"] == CELLS
    second = cli("study", "run", study, "--results", results, "--json", FAKE_LOG=str(log))
    assert json.loads(second.stdout) | {"seconds": 0} == {
        "study": "small",
        "results": str(results),
        "quick": False,
        "total": CELLS,
        "finished": 0,
        "reused": CELLS,
        "failed": 0,
        "elsewhere": 0,
        "seconds": 0,
        "failures": [],
        "report": None,
        "findings": [],
    }
    assert runs_logged(log) == CELLS


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_killed_study_resumes_and_loses_nothing(
    environment: dict[str, str], cli: Cli, study: Path, tmp_path: Path, how: signal.Signals
) -> None:
    results, log = tmp_path / "results", tmp_path / "log"
    command = [sys.executable, "-m", "perdure", "study", "run", str(study)]
    process = subprocess.Popen(
        [*command, "--results", str(results), "--quiet"],
        env={**environment, "FAKE_SLEEP_SECONDS": "0.3", "FAKE_LOG": str(log)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while len(cells(results)) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(how)
    _, stderr = process.communicate(timeout=30)
    done = cells(results)
    assert 4 <= len(done) < CELLS
    assert all(json.loads(cell.read_text())["record"] for cell in done)
    if how is not signal.SIGKILL:
        assert process.returncode == 130
        assert stderr.count("\n") == 1, stderr
        assert not list((results / "pools").glob("*")), "the interrupted cell's pool is removed"
    before = {cell: cell.stat().st_mtime_ns for cell in done}
    again = cli("study", "run", study, "--results", results, "--json", FAKE_LOG=str(log))
    assert again.returncode == 0, again.stderr
    summary = json.loads(again.stdout)
    assert summary["reused"] == len(done)
    assert summary["finished"] == CELLS - len(done)
    assert {cell: cell.stat().st_mtime_ns for cell in done} == before
    # A cell may have been measured and killed before it was kept; no other ran twice.
    assert runs_logged(log) in (CELLS, CELLS + 1)
    assert not list(results.glob("pools/*"))


def test_failed_cells_keep_the_command_and_stderr_and_run_again(
    cli: Cli, study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    results = tmp_path / "results"
    failed = cli("study", "run", study, "--results", results, FAKE_FAIL="lbtree")
    assert failed.returncode == 1
    assert "cells failed" in failed.stderr
    kept = [json.loads(f.read_text()) for f in (results / "failed").glob("*.json")]
    assert len(kept) == 8
    assert all("lbtree ran out of space" in k["stderr"] and k["exit_code"] == 1 for k in kept)
    assert all(k["command"].startswith("./perdure bench --index lbtree ") for k in kept)
    # As typed here: a report that is passed on names no folder of its author.
    assert all(" --pool results/pools/perdure-" in k["command"] for k in kept)
    assert len(cells(results)) == CELLS - 8
    mended = cli("study", "run", study, "--results", results, "--json")
    assert mended.returncode == 0
    assert json.loads(mended.stdout)["finished"] == 8
    assert not list((results / "failed").glob("*.json"))


def test_repetitions_are_spread_over_the_whole_campaign(
    cli: Cli, study: Path, tmp_path: Path
) -> None:
    plan = cli("study", "run", study, "--results", tmp_path / "r", "--dry-run", "--json")
    tasks = json.loads(plan.stdout)
    assert [task["repetition"] for task in tasks] == [0] * 12 + [1] * 12
    orders = [[t["labels"] for t in tasks if t["repetition"] == r] for r in (0, 1)]
    assert orders[0] != orders[1]
    again = cli("study", "run", study, "--results", tmp_path / "r", "--dry-run", "--json")
    assert again.stdout == plan.stdout
    assert not (tmp_path / "r").exists()


def test_a_second_campaign_in_the_same_folder_is_refused(
    environment: dict[str, str], cli: Cli, study: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    command = [sys.executable, "-m", "perdure", "study", "run", str(study)]
    first = subprocess.Popen(
        [*command, "--results", str(results), "--quiet"],
        env={**environment, "FAKE_SLEEP_SECONDS": "0.3"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while not (results / "manifest.json").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        second = cli("study", "run", study, "--results", results)
        assert second.returncode == 2
        assert "another campaign writes here; wait for it" in second.stderr
    finally:
        first.terminate()
        first.wait(timeout=30)


def test_a_run_without_a_terminal_says_every_cell_once_and_quiet_says_nothing(
    cli: Cli, study: Path, tmp_path: Path
) -> None:
    loud = cli("study", "run", study, "--results", tmp_path / "a")
    assert loud.stderr.count(" left)") == CELLS
    assert "fptree" in loud.stdout
    quiet = cli("study", "run", study, "--results", tmp_path / "b", "--quiet")
    assert quiet.stderr == ""


def test_a_hanging_cell_is_killed_and_reported(cli: Cli, study: Path, tmp_path: Path) -> None:
    text = study.read_text().replace("repetitions = 2", "repetitions = 1\ntimeout_seconds = 0.3")
    study.write_text(text.replace('["fptree", "lbtree"]', '["fptree"]').replace("[1, 2]", "[1]"))
    done = cli("study", "run", study, "--results", tmp_path / "r", FAKE_SLEEP_SECONDS="30")
    assert done.returncode == 1
    assert "no result within 0.3 s" in done.stderr


def shared_pools(study: Path, tmp_path: Path) -> Path:
    """Makes the study small, with its pools in a folder that campaigns share as they do tmpfs."""
    folder = tmp_path / "shared"
    text = study.read_text().replace("[flags]", f'[media]\nshared = "{folder}"\n[flags]')
    text = text.replace('medium = ["file"]', 'medium = ["shared"]').replace("[1, 2]", "[1]")
    text = text.replace('["lookup", "mixed"]', '["lookup"]')
    study.write_text(text + '[[exclude]]\nindex = ["null"]\n')
    return folder


def start(
    environment: dict[str, str], study: Path, results: Path, **variables: str
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "perdure", "study", "run", str(study), "--quiet"]
    return subprocess.Popen(
        [*command, "--results", str(results)],
        env={**environment, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_campaigns_of_one_study_do_not_touch_each_others_pools(
    environment: dict[str, str], study: Path, tmp_path: Path
) -> None:
    folder = shared_pools(study, tmp_path)
    for name in "ab":
        (tmp_path / name).mkdir()
    # The stand-in fails when its pool goes while it sleeps.
    # Of two machines, because on one they would wait for each other.
    both = [
        start(
            environment,
            study,
            tmp_path / name,
            FAKE_SLEEP_SECONDS="0.3",
            PERDURE_LOCKS=str(tmp_path / name),
        )
        for name in "ab"
    ]
    together = 0
    while any(process.poll() is None for process in both):
        together = max(together, len(list(folder.glob("*.pool"))))
        time.sleep(0.01)
    for process in both:
        stdout, stderr = process.communicate(timeout=60)
        assert process.returncode == 0, stderr
        assert "4 cells run" in stdout and " 0 failed" in stdout
    assert together == 2, "they never ran at once"
    assert not list(folder.iterdir())


def test_a_killed_campaign_leaves_no_process_and_its_pools_are_swept(
    environment: dict[str, str], cli: Cli, study: Path, tmp_path: Path
) -> None:
    folder, pids = shared_pools(study, tmp_path), tmp_path / "pids"
    killed = start(environment, study, tmp_path / "a", FAKE_SLEEP_SECONDS="60", FAKE_PIDS=str(pids))
    (number,) = wait_for(lambda: numbers_in(pids))
    left = wait_for(lambda: sorted(folder.glob("*.pool.1")))
    (folder / "perdure-mine.pool").write_text("of somebody else")
    killed.kill()
    killed.communicate(timeout=30)
    wait_for(lambda: not alive(number))
    assert left[0].exists(), "nobody was left to remove it"
    # Another study's folder sweeps them as well; the same folder is free at once.
    again = cli("study", "run", study, "--results", tmp_path / "a", "--json")
    assert again.returncode == 0, again.stderr
    assert [path.name for path in folder.iterdir()] == ["perdure-mine.pool"]


def test_a_folder_stays_locked_while_a_process_of_a_killed_campaign_lives(
    cli: Cli, study: Path, tmp_path: Path
) -> None:
    shared_pools(study, tmp_path)
    results = tmp_path / "r"
    results.mkdir()
    # As a process that could not be killed holds it: the campaign of that number is gone.
    (results / "lock").write_text("999999999\n")
    hold = (
        "import fcntl, sys, time; fcntl.flock(0, fcntl.LOCK_EX); print(1, flush=True); "
        "time.sleep(2)"
    )
    with (results / "lock").open() as lock:
        holder = subprocess.Popen(
            [sys.executable, "-c", hold], stdin=lock, stdout=subprocess.PIPE, text=True
        )
    assert holder.stdout is not None and holder.stdout.readline()
    began = time.monotonic()
    done = cli("study", "run", study, "--results", results)
    assert done.returncode == 0, done.stderr
    assert holder.poll() is not None or time.monotonic() - began > 2
    holder.communicate(timeout=30)


@pytest.fixture
def within(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The stand-in for this process as well, which remembers its programs otherwise."""

    def forget() -> None:
        for cached in (native.program, native.build_id, native.indexes, native.host_fingerprint):
            cached.cache_clear()

    monkeypatch.setenv("PERDURE_NATIVE", str(stand_in))
    forget()
    yield
    forget()


@pytest.mark.usefixtures("within")
def test_a_cell_that_cannot_be_kept_is_printed(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(path: Path, _text: str) -> bool:
        raise PerdureError("No space left on device", where=str(path))

    monkeypatch.setattr(outputs, "write_new", full)
    shared_pools(study, tmp_path)
    run = campaign.Campaign(studies.load(study), tmp_path / "r")
    with pytest.raises(PerdureError, match="No space left"):
        run.run(Progress(Console(stderr=True), quiet=True))
    kept = json.loads(capsys.readouterr().out)
    assert kept["record"]["repetitions"] and kept["command"].startswith("./perdure bench ")


def test_the_medium_tmpfs_leaves_nothing_behind(cli: Cli, study: Path, tmp_path: Path) -> None:
    study.write_text(study.read_text().replace('medium = ["file"]', 'medium = ["tmpfs"]'))
    done = cli("study", "run", study, "--results", tmp_path / "r", "--json")
    assert json.loads(done.stdout)["finished"] == CELLS
    keys = [cell.stem for cell in cells(tmp_path / "r")]
    assert not [left for key in keys for left in Path("/dev/shm").glob(f"*{key}*")]


def test_a_name_that_leads_elsewhere_is_refused_with_its_line(cli: Cli, study: Path) -> None:
    study.write_text(study.read_text().replace('"small"', '"../../x"'))
    done = cli("study", "run", study)
    assert done.returncode == 2
    assert f"{study}:2: the name '../../x' has a slash" in done.stderr
    assert done.stderr.count("\n") == 1
