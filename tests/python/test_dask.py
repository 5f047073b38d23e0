"""study run --dask: workers that die, differ or lose their scheduler cost no finished cell."""

from __future__ import annotations

import builtins
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import Cli, wait_for
from perdure.errors import InputError
from perdure.study.dask_engine import Dask
from test_shards import CELLS, Site, assert_native_cells_ran_alone, made, smaller

NO_LOCAL_CELLS = {"PERDURE_HOST": "client"}


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "distributed":
            raise ImportError(name)
        return imported(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"pip install 'perdure\[cluster\]'"):
        Dask.at("local:2")


@pytest.mark.parametrize("address", ["local", "local:", "local:0", "local:x", "node1", ""])
def test_what_is_no_address_is_refused(address: str) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match="no address; give the scheduler's"):
        Dask.at(address)


def test_a_shard_is_no_engine_over_dask(cli: Cli, study: Path) -> None:
    done = cli("study", "run", study, "--dask", "local:2", "--shard", "1/2")
    assert done.returncode == 2
    assert done.stderr == "perdure: --shard: goes without --dask; leave one of them out\n"


class Cluster:
    """A scheduler and workers as users start them."""

    def __init__(self, site: Site) -> None:
        self.site, self.started = site, list[subprocess.Popen[bytes]]()

    def scheduler(self, name: str) -> subprocess.Popen[bytes]:
        self.file = self.site.folder / name
        flags = ["--port", "0", "--no-dashboard", "--scheduler-file", str(self.file)]
        return self._start("dask_scheduler", flags)

    def worker(self, *flags: str, **variables: str) -> subprocess.Popen[bytes]:
        more = ["--nthreads", "2", "--no-dashboard", "--no-nanny", "--death-timeout", "5"]
        return self._start(
            "dask_worker", ["--scheduler-file", str(self.file), *more, *flags], **variables
        )

    def address(self) -> str:
        wait_for(lambda: self.file.exists() and self.file.read_text().endswith("}"))
        return str(json.loads(self.file.read_text())["address"])

    def _start(self, program: str, flags: list[str], **variables: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{program}", *flags],
            env={**self.site.environment, **variables},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.started.append(process)
        return process

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()


@contextmanager
def cluster(site: Site) -> Iterator[Cluster]:
    pytest.importorskip("distributed")
    one = Cluster(site)
    try:
        yield one
    finally:
        one.end()


def run(site: Site, address: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "perdure", "study", "run", str(site.study), "-q", "--json"]
    return subprocess.Popen(
        [*command, "--results", str(site.results), "--dask", address, "--lease", "4"],
        env={**site.environment, **NO_LOCAL_CELLS},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def site(tmp_path: Path, environment: dict[str, str]) -> Site:
    return made(tmp_path, environment)


def test_workers_of_this_machine_run_a_study_and_end(site: Site) -> None:
    pytest.importorskip("distributed")
    cells = smaller(site)
    out, err = run(site, "local:2").communicate(timeout=120)
    assert err == "" and json.loads(out)["finished"] == cells
    assert_native_cells_ran_alone(site)
    assert sorted(path.name for path in site.results.iterdir()) == [
        "cells",
        "failed",
        "lock",
        "manifest.json",
    ]


@pytest.mark.slow
def test_scheduler_and_worker_die_and_every_cell_is_there_once(site: Site) -> None:
    with cluster(site) as one:
        scheduler = one.scheduler("first.json")
        victim = one.worker("--resources", "host=1", PERDURE_HOST="a", **locks(site, "a"))
        one.worker("--resources", "host=1", PERDURE_HOST="b", **locks(site, "b"))
        campaign = run(site, one.address())
        wait_for(lambda: len(site.valid()) > 20, 60)
        victim.kill()
        done = len(site.valid())
        wait_for(lambda: len(site.valid()) > done + 20, 60)
        scheduler.kill()
        _, err = campaign.communicate(timeout=90)
        assert campaign.returncode == 1
        assert err == (
            "perdure: --dask: the scheduler is gone; finished cells stay; run the same command "
            "again\n"
        )
        kept = site.valid()
        assert 40 < len(kept) < CELLS
        for process in one.started[1:]:
            process.wait(timeout=60)  # workers without a scheduler end
        kept = site.valid()
        one.scheduler("second.json")
        one.worker("--resources", "host=1", PERDURE_HOST="a", **locks(site, "a"))
        campaign = run(site, one.address())
        out, err = campaign.communicate(timeout=120)
        assert campaign.returncode == 0, err
        said = json.loads(out)
        assert said["finished"] == CELLS - len(kept) and said["reused"] == len(kept)
        assert kept.items() <= site.valid().items(), "a finished cell was written again"
        # Killed with its worker, before it was kept: two threads each.
        assert 0 <= len(site.log()) - CELLS <= 4
        assert_native_cells_ran_alone(site)
        assert {machine for machine, *_ in site.log()} == {"a", "b"}


def test_workers_of_another_build_or_without_the_resource_are_refused(site: Site) -> None:
    cells = smaller(site)
    other = site.folder / "other-native"
    other.write_text((site.folder / "perdure-native").read_text() + "# another build\n")
    other.chmod(0o755)
    with cluster(site) as one:
        one.scheduler("scheduler.json")
        wrong = one.worker(PERDURE_NATIVE=str(other), PERDURE_HOST="wrong", **locks(site, "a"))
        assert "has another build or platform for native" in refusal(site, one.address)
        one.worker(PERDURE_HOST="bare", **locks(site, "b"))
        wait_for(lambda: "has the resource host" in refusal(site, one.address), 60)
        one.worker("--resources", "host=1", PERDURE_HOST="right", **locks(site, "c"))

        # With the wrong one still there: nothing of it counts.
        def finished() -> str:
            out, _ = run(site, one.address()).communicate(timeout=120)
            return out

        said = json.loads(wait_for(finished, 90))
        assert said["finished"] == cells and said["failed"] == 0
        assert wrong.poll() is None
        assert {machine for machine, *_ in site.log()} <= {"bare", "right"}
        assert {machine for machine, kind, *_ in site.log() if kind == "native"} == {"right"}


def refusal(site: Site, address: Callable[[], str]) -> str:
    campaign = run(site, address())
    _, err = campaign.communicate(timeout=120)
    assert campaign.returncode == 2 and err.count("\n") == 1, err
    return err


def locks(site: Site, machine: str) -> dict[str, str]:
    place = site.folder / machine
    place.mkdir(exist_ok=True)
    return {"PERDURE_LOCKS": str(place)}
