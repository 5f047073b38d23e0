"""A study's probes: what others found of the memory itself, beside the cells."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.errors import InputError
from perdure.study import memory_claims
from perdure.study import reader as studies

Cli = Callable[..., subprocess.CompletedProcess[str]]

# With the stand-in for perdure-sim one thread moves 4 GiB/s of DRAM and 2 of PM.
STUDY = """name = "s"
repetitions = 1
[flags]
target = "sim:optane"
operations = 100
[axes]
index = ["fptree"]
workload = ["lookup"]
[workloads.lookup]
mix = { lookup = 1.0 }
[[figure]]
name = "fig4"
title = "The memory itself"
[[probe]]
what = "bandwidth of reads"
figure = "fig4"
inputs = { probe = "bandwidth", op = "load", pattern = "rand", access_size = 256 }
of = { memory = "dram" }
over = { memory = "pm" }
metric = "bandwidth"
value = 2.0
source = "a paper"
[[probe]]
what = "latency of stores"
inputs = { probe = "latency", op = "store", threads = 1 }
of = { memory = "pm" }
over = { memory = "dram" }
metric = "latency"
direction = "above"
source = "a paper"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "s.toml"
    path.write_text(STUDY)
    return path


def test_probes_are_asked_before_the_cells_and_judged_beside_them(
    sim_cli: Cli, file: Path, tmp_path: Path
) -> None:
    results = tmp_path / "r"
    done = sim_cli("study", "run", file, "--results", results, "--report", "--json")
    assert done.returncode == 0, done.stderr
    found = {f["what"]: f for f in json.loads(done.stdout)["findings"]}
    bandwidth, latency = found["bandwidth of reads"], found["latency of stores"]
    assert (bandwidth["ours"], bandwidth["verdict"]) == (2.0, "agrees")
    assert bandwidth["pair"] == "4 over 2 GiB/s"
    assert (latency["ours"], latency["verdict"]) == (1.0, "no difference")
    text = (results / "report.html").read_text()
    (row,) = re.findall(r'<tr id="finding-0-1">.*?</tr>', text, re.S)
    assert "bandwidth of reads" in row and "4 over 2 GiB/s" in row and "2.00x" in row
    below = text[text.index("<h3>The memory itself</h3>") :]
    assert re.search(r'<a href="#finding-0-1" title="bandwidth of reads">✓ 1 agrees</a>', below)
    assert "#finding-0-2" not in below, "it is about no figure"


def test_simulated_answers_are_kept(sim_cli: Cli, file: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    for _ in range(2):
        done = sim_cli("study", "run", file, "--results", tmp_path / "r", FAKE_SIM_LOG=str(log))
        assert done.returncode == 0, done.stderr
        assert "bandwidth of reads" in done.stdout
    assert len(log.read_text().splitlines()) == 4


def test_a_probe_that_breaks_fails_the_run_and_is_no_number(
    sim_cli: Cli, file: Path, tmp_path: Path
) -> None:
    done = sim_cli(
        "study", "run", file, "--results", tmp_path / "r", "--json", FAKE_SIM_FAIL="store"
    )
    assert done.returncode == 1
    document = json.loads(done.stdout)
    found = {f["what"]: f["verdict"] for f in document["findings"]}
    assert found == {"bandwidth of reads": "agrees", "latency of stores": "not measured"}
    assert all("store broke" in f["reason"] for f in document["failures"])
    assert document["failed"] == 2 and document["finished"] == 1
    assert "probe latency" in done.stderr


def test_a_dry_run_names_them(sim_cli: Cli, file: Path, tmp_path: Path) -> None:
    done = sim_cli("study", "run", file, "--results", tmp_path / "r", "--dry-run")
    lines = done.stdout.splitlines()
    assert [line.split()[1] for line in lines] == ["probe"] * 4 + ["bench"]
    assert not (tmp_path / "r").exists()


WRONG = [
    ('metric = "bandwidth"', 'metric = "throughput"', 14, "does not say its metric"),
    ('probe = "latency"', 'probe = "latancy"', 23, "unknown probe 'latancy'; did you mean"),
    ("threads = 1 }", "thread = 1 }", 23, "latency has no input 'thread'; did you mean 'threads'"),
    ('of = { memory = "dram" }\n', "", 14, "needs the table `of`"),
    ("value = 2.0\n", "", 14, "needs a value above 0, or a direction"),
    ('metric = "latency"', 'metric = "latency"\nfigure = "fig5"', 29, "unknown figure 'fig5'"),
    ('figure = "fig4"\n', "", 11, "`cells` names no cell"),
]


@pytest.mark.parametrize(("old", "new", "line", "words"), WRONG)
def test_a_wrong_probe_is_refused_with_its_line(
    file: Path, old: str, new: str, line: int, words: str
) -> None:
    assert old in STUDY
    file.write_text(STUDY.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        studies.load(file)
    assert str(caught.value).startswith(f"{file}:{line}: ") and words in str(caught.value)


def test_natively_threads_are_cut_and_equal_sides_compare_nothing() -> None:
    claim = {"what": "w", "source": "s", "metric": "bandwidth", "direction": "above"}
    many = 1_000_000  # more than any machine has
    inputs = {"probe": "bandwidth", "op": "load", "access_size": 64}
    sides = {"of": {"threads": 2 * many}, "over": {"threads": many}}
    one = memory_claims.MemoryClaim.read({**claim, **sides, "inputs": inputs})
    assert one.on("sim:x") is one and one.compares
    cores = len(os.sched_getaffinity(0))
    assert one.on("native").inputs_of("of")["threads"] == cores
    assert not one.on("native").compares
    assert not memory_claims.tasks([one], "native", quick=True)
