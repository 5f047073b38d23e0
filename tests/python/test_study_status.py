"""study status and study array: what others see of a campaign, and how a batch system starts it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from conftest import Cli, wait_for
from perdure.programs import host
from perdure.study import leases
from perdure.study import status as statuses
from test_shards import Site, made, smaller


def status(site: Site, cli: Cli) -> dict[str, Any]:
    done = cli("study", "status", site.results, "--json", **site.environment)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_it_tells_what_is_done_runs_failed_and_waits(
    tmp_path: Path, environment: dict[str, str], cli: Cli
) -> None:
    site = made(tmp_path, environment, failing="lookup=1")
    cells = smaller(site)
    site.start("a", "1/1")
    site.running["a", "1/1"].communicate(timeout=60)
    ended = status(site, cli)
    failed = ended.pop("failed")
    assert len(failed) == 3 and all("no luck" in one["reason"] for one in failed)
    assert ended == {
        "study": "shards",
        "results": str(site.results),
        "quick": False,
        "total": cells,
        "done": cells - 3,
        "running": [],
        "lost": [],
        "waiting": 0,
        "seconds_left": 0.0,
    }
    said = cli("study", "status", site.results, **site.environment).stdout.splitlines()
    assert said[0].endswith(f"{cells - 3} of {cells} cells done, 0 running, 3 failed, 0 waiting")
    assert len(said) == 4 and "no luck; run it alone: ./perdure bench " in said[1]
    # They are tried again, on a machine of which we know only that it has not ended.
    slow = made(tmp_path, environment, seconds=8)
    smaller(slow)
    slow.start("far", "1/1")
    wait_for(lambda: list((site.results / leases.FOLDER).glob("*[0-9a-f].0")))
    wait_for(lambda: len(status(site, cli)["running"]) == 1)
    now = status(site, cli)
    (running,) = now["running"]
    process = slow.running["far", "1/1"]
    assert (running["host"], running["pid"]) == ("far", process.pid)
    assert running["taken_over_from"] is None
    assert running["what"].startswith("native null 1 ")
    assert (now["done"], now["waiting"], now["seconds_left"]) == (0, cells - 1, None)
    line = cli("study", "status", site.results, **site.environment).stdout.splitlines()[1]
    # Of any cell: it may have taken the next one meanwhile.
    assert line.startswith("running: native null 1 ")
    assert f" on far, process {process.pid}, since 20" in line
    process.terminate()
    process.communicate(timeout=60)
    assert status(site, cli)["waiting"] == cells


KEY = "0123456789abcdef" * 2


def claimed_elsewhere(results: Path, seconds: float) -> Path:
    """A lease that runs, written by another machine."""
    held = leases.Leases(results, "one", seconds)
    held.folder.mkdir(parents=True)
    (results / "manifest.json").write_text(json.dumps({"study": "s", "cells": [KEY, "1" * 32]}))
    assert held.take(KEY, "hot 4 a")
    file = held.folder / f"{KEY}.0"
    file.write_text(file.read_text().replace(host.token(), "f" * 16).replace(host.name(), "far"))
    return file


def test_a_lease_of_another_machine_is_lost_when_its_time_is_over(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = claimed_elsewhere(tmp_path, seconds=100)
    written = file.stat().st_mtime
    # This machine's clock may say anything.
    monkeypatch.setattr(time, "time", lambda: written + 1e6)
    os.utime(file, (written, written - 90))
    now = statuses.read(tmp_path)
    assert [one.key for one in now.running] == [KEY] and not now.lost
    os.utime(file, (written, written - 110))
    now = statuses.read(tmp_path)
    (lost,) = now.lost
    assert not now.running and (now.total, now.waiting) == (2, 1)
    assert lost.silent_since_unix == pytest.approx(written - 110, abs=0.01)
    assert lost.free_since_unix == pytest.approx(written - 10, abs=0.01)
    said = cli("study", "status", tmp_path).stdout.splitlines()
    assert said[0].endswith("0 of 2 cells done, 0 running, 1 lost, 0 failed, 1 waiting")
    assert said[1].startswith("lost: hot 4 a on far, process ")
    over = f"{datetime.fromtimestamp(written - 10):%Y-%m-%d %H:%M:%S}"
    assert said[1].endswith(f", free to be taken over since {over}")
    assert not list(file.parent.glob("tmp*")), "looking leaves nothing there"


def test_who_took_a_cell_over_says_from_whom(tmp_path: Path, cli: Cli) -> None:
    file = claimed_elsewhere(tmp_path, seconds=0.0)
    held = leases.Leases(tmp_path, "one", 100)
    assert held.take(KEY) is None, "seen for the first time"
    assert wait_for(lambda: held.take(KEY, "hot 4 a"))
    assert file.exists()
    (now,) = statuses.read(tmp_path).running
    assert now.taken_over_from and now.taken_over_from.host == "far"
    said = cli("study", "status", tmp_path).stdout.splitlines()
    # The one that runs it is this process, which the program that looks can ask for.
    assert f"process {os.getpid()}, since " in said[1] and said[1].endswith("taken over from far")


def test_a_folder_without_a_campaign_has_no_status(cli: Cli, tmp_path: Path) -> None:
    done = cli("study", "status", tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "holds no campaign; give the --results of a study run" in done.stderr


@pytest.mark.parametrize(
    ("flag", "index"), [("--slurm", "SLURM_ARRAY_TASK_ID"), ("--pbs", "PBS_ARRAY_INDEX")]
)
def test_the_jobs_of_an_array_run_the_study(
    tmp_path: Path, environment: dict[str, str], cli: Cli, flag: str, index: str
) -> None:
    site = made(tmp_path, environment)
    cells = smaller(site)
    results = tmp_path / "two words"
    told = cli("study", "array", site.study, flag, "--shards", "2", "--results", results,
               **site.environment)  # fmt: skip
    assert told.returncode == 0 and told.stderr == ""
    head = [line for line in told.stdout.splitlines() if line.startswith("#")]
    assert head[0] == "#!/bin/sh"
    assert any("1-2" in line for line in head) and any("excl" in line for line in head)
    jobs = [
        subprocess.Popen(
            ["/bin/sh", "-c", told.stdout],
            # Not even the variables that say which programs are meant.
            env={"PATH": os.environ["PATH"], "PERDURE_HOST": "a", index: number},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in "12"
    ]
    for job in jobs:
        job.communicate(timeout=60)
        assert job.returncode == 0
    assert len(list((results / "cells").iterdir())) == cells == len(site.log())


def test_an_array_of_simulations_leaves_machines_to_others(
    site_of_simulations: Site, cli: Cli
) -> None:
    told = cli("study", "array", site_of_simulations.study, "--slurm", "--quick",
               **site_of_simulations.environment)  # fmt: skip
    assert "excl" not in told.stdout and " --quick --shard " in told.stdout


def test_an_array_hands_on_every_flag_of_a_shard(cli: Cli, study: Path, tmp_path: Path) -> None:
    names = tmp_path / "two names"
    names.write_text("a\nb\n")
    study.write_text(study.read_text() + '[keys]\nnames = "random:8"\n')
    flags = ("--keys", f"names={names}", "--lease", "45.5", "--scale", "2", "--target", "native")
    told = cli("study", "array", study, "--slurm", *flags)
    assert told.returncode == 0, told.stderr
    words = shlex.split(told.stdout.splitlines()[-1])
    assert words[words.index("run") :] == [
        "run", str(study), "--results", str(Path.cwd() / "results" / "small"), "--scale", "2",
        "--target", "native", "--keys", f"names={names}", "--lease", "45.5", "--shard",
        "$SLURM_ARRAY_TASK_ID/4",
    ]  # fmt: skip
    wrong = cli("study", "array", study, "--slurm", "--keys", "names=/nowhere")
    assert wrong.returncode == 2 and "--keys names=/nowhere" in wrong.stderr
    assert wrong.stdout == "" and wrong.stderr.count("\n") == 1


@pytest.fixture
def site_of_simulations(tmp_path: Path, environment: dict[str, str]) -> Site:
    site = made(tmp_path, environment)
    smaller(site)
    site.study.write_text(site.study.read_text().replace('["native"]', '["sim:y"]'))
    return site


@pytest.mark.parametrize("flags", [(), ("--slurm", "--pbs")])
def test_an_array_is_for_one_batch_system(cli: Cli, study: Path, flags: tuple[str, ...]) -> None:
    done = cli("study", "array", study, *flags)
    assert done.returncode == 2 and done.stderr.endswith("; give --slurm or --pbs\n")
