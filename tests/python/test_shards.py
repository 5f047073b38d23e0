"""Shards: many processes, on several machines, work on one results folder, and some of them die."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import fake_native
from conftest import Cli, wait_for
from perdure.programs import host, native
from perdure.progress import Progress
from perdure.results import record
from perdure.study import campaign, leases, sharing
from perdure.study import reader as studies

# Cheaper than the stand-ins in Python: one that prints a record made before, which says what a
# simulation was called with. It writes down when it began and ended on which machine: seconds since
# the boot, in hundredths.
BENCH = """#!/bin/sh
case $1 in bench) ;; *) exec {python} {other} "$@" ;; esac
case "$*" in *sim:*) name=simulated ;; *) name=native ;; esac
read -r began _ </proc/uptime
sleep {seconds}
case "$*" in *{failing}*) echo "no luck" >&2; exit 1 ;; esac
sed "s/@ARGUMENTS@/$*/" <{folder}/$name.json
read -r ended _ </proc/uptime
echo "$PERDURE_HOST $name $began $ended" >>{folder}/log
"""
STUDY = """
name = "shards"
title = "Shared by machines"
repetitions = 2
[flags]
records = "10K"
seconds = 0.1
[axes]
target = ["sim:x"]
index = ["fptree", "lbtree"]
threads = [1, 2, 3, 4, 5, 6, 7, 8]
medium = ["none"]
workload = ["a", "b", "c", "d", "e"]
[[include]]
target = ["native"]
index = ["null"]
threads = [1, 2, 4, 8]
[workloads]
a.mix = { lookup = 1.0 }
b.mix = { insert = 1.0 }
c.mix = { lookup = 0.5, insert = 0.5 }
d.mix = { update = 1.0 }
e.mix = { lookup = 0.5, update = 0.5 }
"""
CELLS = 2 * (2 * 8 * 5 + 4 * 5)


@dataclass
class Site:
    """A shared folder, and the machines that work on it: processes with another PERDURE_HOST and
    another lock of the machine."""

    folder: Path
    environment: dict[str, str]
    study: Path
    running: dict[tuple[str, str], subprocess.Popen[str]] = field(default_factory=dict)

    @property
    def results(self) -> Path:
        return self.folder / "results"

    def start(self, machine: str, shard: str, *flags: str, before: str = "") -> None:
        """Starts a shard on a machine; `before` is a line of shell."""
        locks = self.folder / machine
        locks.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "perdure", "study", "run", str(self.study)]
        command += ["--results", str(self.results), "--shard", shard, "--json", "-q", *flags]
        if before:
            command = ["/bin/sh", "-c", f'{before}; exec "$@"', "sh", *command]
        self.running[machine, shard] = subprocess.Popen(
            command,
            env={**self.environment, "PERDURE_HOST": machine, "PERDURE_LOCKS": str(locks)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def kill(self, machine: str, shard: str) -> bool:
        """Kills a shard; whether it still ran."""
        victim = self.running.pop((machine, shard))
        victim.kill()
        victim.communicate(timeout=60)
        return victim.returncode == -signal.SIGKILL

    def end(self) -> list[dict[str, Any]]:
        """What each shard that still runs says in the end."""
        ended = [process.communicate(timeout=120) for process in self.running.values()]
        assert all(p.returncode == 0 for p in self.running.values()), [e for _, e in ended]
        return [json.loads(out) for out, _ in ended]

    def valid(self) -> dict[str, tuple[int, int]]:
        """The files of finished cells: which, and of when."""
        found = {}
        for file in (self.results / "cells").glob("*.json"):
            if file.read_text().endswith("}\n"):
                found[file.stem] = (file.stat().st_ino, file.stat().st_mtime_ns)
        return found

    def log(self) -> list[tuple[str, str, float, float]]:
        """(machine, native or simulated, began, ended) of each process that ran to its end."""
        lines = (self.folder / "log").read_text().splitlines()
        return [(m, k, float(b), float(e)) for m, k, b, e in map(str.split, lines)]


def made(
    folder: Path,
    environment: dict[str, str],
    *,
    seconds: float | str = 0.03,
    failing: str = "--nothing",
) -> Site:
    """A site whose programs are shell scripts; `seconds` may go on with lines of shell."""
    names = {"native": ("fake_native.py", "native"), "sim": ("fake_sim.py", "sim")}
    variables = {**environment, "PERDURE_HOST": "here"}
    flags = {"index": "fptree", "repetitions": "1"}
    plain = fake_native.record(flags)
    documents = {"native": plain, "simulated": fake_native.simulated(plain, "sim:x")}
    for name, document in documents.items():
        (folder / f"{name}.json").write_text(
            json.dumps(document | {"warnings": ["@ARGUMENTS@"] if name == "simulated" else []})
        )
    for kind, (script, _) in names.items():
        program = folder / f"perdure-{kind}"
        program.write_text(
            BENCH.format(
                python=sys.executable,
                other=Path(__file__).with_name(script),
                folder=folder,
                seconds=seconds,
                failing=failing,
            )
        )
        program.chmod(0o755)
        variables[f"PERDURE_{kind.upper()}"] = str(program)
    study = folder / "shards.toml"
    study.write_text(STUDY)
    return Site(folder, variables, study)


@pytest.fixture
def site(tmp_path: Path, environment: dict[str, str]) -> Site:
    return made(tmp_path, environment)


def smaller(site: Site) -> int:
    """Leaves a few cells; returns how many."""
    text = STUDY.replace("[1, 2, 3, 4, 5, 6, 7, 8]", "[1, 2]").replace(
        '["fptree", "lbtree"]', '["fptree"]'
    )
    text = text.replace("[1, 2, 4, 8]", "[1]").replace('"b", "c", "d", "e"', '"b"')
    text = text.replace("repetitions = 2", "repetitions = 1")
    site.study.write_text(text)
    return 6


def assert_native_cells_ran_alone(site: Site) -> None:
    """By what the programs wrote down, and by the intervals in the records."""
    by_machine: dict[str, list[tuple[float, float, str]]] = {}
    for machine, kind, began, ended in site.log():
        by_machine.setdefault(machine, []).append((began, ended, kind))
    for file in (site.results / "cells").glob("*.json"):
        document = json.loads(file.read_text())
        of, kind = document["interval"], document["record"]["target"]
        assert of["boot_id"] == host.boot_id()
        by_machine.setdefault(of["machine"], []).append((of["start_s"], of["end_s"], kind))
    for intervals in by_machine.values():
        alone = [(b, e) for b, e, kind in intervals if kind == "native"]
        assert alone
        for began, ended in alone:
            beside = [i for i in intervals if i[0] < ended and began < i[1]]
            assert len(beside) == 1, beside


def test_two_shards_started_at_once_do_every_cell_once(site: Site, cli: Cli) -> None:
    cells = smaller(site)
    site.start("a", "1/2")
    site.start("a", "2/2")
    said = site.end()
    assert sum(one["finished"] for one in said) == cells
    assert all(one["finished"] + one["elsewhere"] + one["reused"] == cells for one in said)
    assert len(site.log()) == len(site.valid()) == cells
    assert_native_cells_ran_alone(site)
    assert not (site.results / leases.FOLDER).exists(), "the last one tidies"
    # A local run finds all of it, under the same keys, and writes the same manifest.
    manifest = (site.results / "manifest.json").read_bytes()
    again = cli("study", "run", site.study, "--results", site.results, "--json", **site.environment)
    assert json.loads(again.stdout)["reused"] == cells
    assert (site.results / "manifest.json").read_bytes() == manifest


def test_two_studies_on_one_machine_never_measure_beside_each_other(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    site = made(tmp_path, environment, seconds=0.3)
    smaller(site)
    text = site.study.read_text().replace('"sim:x"', '"native"').replace('"fptree"', '"null"')
    both = []
    for name in "ab":
        file = tmp_path / f"{name}.toml"
        file.write_text(text.replace('"shards"', f'"{name}"'))
        both.append(Site(tmp_path, site.environment, file))
        both[-1].start("m", "1/1", "--results", str(tmp_path / f"results-{name}"))
    for one in both:
        one.end()
    began = sorted((began, ended) for _, _, began, ended in site.log())
    assert len(began) == 8
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(began)), began
    assert len({(tmp_path / f"results-{name}" / "lock").read_text() for name in "ab"}) == 2


def test_a_cell_that_was_finished_meanwhile_is_not_run(
    site: Site, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    smaller(site)
    whole = ("study", "run", site.study, "--results", site.results, "--json")
    assert cli(*whole, **site.environment).returncode == 0
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    known = (native.program, native.build_id, native.indexes, native.host_fingerprint, host.token)
    for cached in known:
        cached.cache_clear()
    run = campaign.Campaign(studies.load(site.study), site.results)
    ran = len(site.log())
    # As if another shard had run all of it between the look for what is pending and the claims.
    monkeypatch.setattr(run, "pending", lambda: run.tasks)
    outcome = run.run(Progress(Console(stderr=True), quiet=True))
    assert outcome.elsewhere == len(run.tasks) and len(site.log()) == ran
    for cached in known:
        cached.cache_clear()


def test_shards_of_another_study_and_whole_campaigns_are_refused(site: Site, cli: Cli) -> None:
    smaller(site)
    slow = made(site.folder, site.environment, seconds=5)
    smaller(slow)
    slow.start("a", "1/2")
    wait_for(lambda: list((site.results / leases.FOLDER).glob("*.0")))
    same = ("study", "run", site.study, "--results", site.results)
    whole = cli(*same, **site.environment)
    assert whole.returncode == 2 and "another campaign writes here" in whole.stderr
    site.study.write_text(site.study.read_text().replace("[1, 2]", "[1, 3]"))
    other = cli(*same, "--shard", "2/2", **site.environment)
    assert other.returncode == 2
    assert "shards of another study, build or kind of machine work here; wait" in other.stderr
    (process,) = slow.running.values()
    process.terminate()
    process.communicate(timeout=60)


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/", "/2", "a/b", "-1/2", "1/2/3"])
def test_a_shard_that_is_no_part_is_refused(site: Site, cli: Cli, text: str) -> None:
    done = cli("study", "run", site.study, f"--shard={text}", **site.environment)
    assert done.returncode == 2
    assert done.stderr == f"perdure: --shard: '{text}' is no part of a whole; write 1/4 to 4/4\n"


def test_what_failed_is_tried_once_by_all_shards_and_again_next_time(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    gate = tmp_path / "go"
    site = made(
        tmp_path,
        environment,
        seconds=f"0; until [ -e {gate} ]; do sleep 0.02; done",
        failing="lookup=1",
    )
    cells = smaller(site)
    site.start("a", "1/2")
    wait_for(lambda: list((site.results / leases.FOLDER).glob("*.0")))
    said = []
    # The campaign goes on until both have ended, as with a third shard, however late b comes.
    with (site.results / sharing.LOCK).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        site.start("b", "2/2")
        gate.touch()
        for process in site.running.values():
            out, _ = process.communicate(timeout=120)
            said.append(json.loads(out))
    assert sum(one["failed"] for one in said) == 3, "two simulated, one native"
    assert len(list((site.results / "failed").glob("*.json"))) == 3
    assert sum(one["finished"] for one in said) == cells - 3
    mended = made(tmp_path, environment)
    smaller(mended)
    mended.start("a", "1/2")
    (after,) = mended.end()
    # Another program is another key.
    assert after["finished"] == cells


def test_when_the_disk_is_full_for_one_another_finishes(site: Site) -> None:
    cells = smaller(site)
    # As of a full disk: claims and the manifest fit, records do not.
    size = (site.folder / "simulated.json").stat().st_size
    limit = size // 2 // 512
    site.start("a", "1/2", "--lease", "3", before=f"ulimit -f {limit}")
    failed = site.running.pop(("a", "1/2"))
    out, err = failed.communicate(timeout=60)
    assert failed.returncode == 1
    assert err.count("\n") == 1 and "cannot be written: File too large; give another" in err
    assert json.loads(out.splitlines()[0])["record"], "the result is not lost"
    assert not list((site.results / "cells").iterdir()), "nothing is half-written"
    site.start("b", "2/2", "--lease", "3")
    (said,) = site.end()
    assert said["finished"] == cells and len(site.valid()) == cells


@pytest.mark.slow
def test_whoever_dies_every_cell_is_there_once(site: Site, cli: Cli) -> None:
    chance = random.Random(7)
    plan = ("study", "run", site.study, "--results", site.results)
    dry = json.loads(cli(*plan, "--dry-run", "--json", **site.environment).stdout)
    keys = [task["key"] for task in dry]
    assert len(keys) == CELLS
    # One record was half-written, as by a machine that lost its power.
    damaged = site.results / "cells" / f"{keys[20]}.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text((site.folder / "native.json").read_text()[:500])
    shards = [("a", "1/4"), ("a", "2/4"), ("b", "3/4"), ("b", "4/4")]
    for machine, shard in shards:
        site.start(machine, shard, "--lease", "4")
    first: dict[str, tuple[int, int]] = {}
    killed = kills = 0
    while any(process.poll() is None for process in site.running.values()):
        for key, file in site.valid().items():
            assert first.setdefault(key, file) == file, "a finished cell was written again"
        # By what is done, not by time: a fast machine would be through before the last one.
        if kills < 4 and len(first) > CELLS * (kills + 1) // 6:
            kills += 1
            # At last all of machine b die for ever: machine a waits for the end of their leases.
            victims = shards[2:] if kills == 4 else [chance.choice(shards)]
            for each in victims:
                killed += site.kill(*each)
                if len(victims) == 1:
                    site.start(*each, "--lease", "4")
        time.sleep(0.05)
    said = site.end()
    assert killed == 5 and len(said) == 2
    assert {file.stem for file in (site.results / "cells").glob("*.json")} == set(keys)
    for path in (site.results / "cells").glob("*.json"):
        assert record.is_cell(path), path
    # A process that was killed may have run cells to their end without keeping them: one for each
    # core, at the most. Nothing else ran twice.
    lost = len(site.log()) - CELLS
    assert 0 <= lost <= killed * len(os.sched_getaffinity(0)), lost
    assert sum(one["failed"] for one in said) == 0
    assert_native_cells_ran_alone(site)
    alone = site.folder / "alone"
    site.study.write_text(STUDY[: STUDY.index("[[include]]")] + STUDY[STUDY.index("[workloads]") :])
    local = cli("study", "run", site.study, "--results", alone, "--json", **site.environment)
    assert json.loads(local.stdout)["finished"] == CELLS - 40
    for path in (alone / "cells").iterdir():
        results = (site.results, alone)
        ours, theirs = (json.loads((f / "cells" / path.name).read_text()) for f in results)
        assert json.dumps(ours["record"]) == json.dumps(theirs["record"])
