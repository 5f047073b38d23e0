"""The report's section about simulated servers: what is simulated, measured and published."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fake_native
from perdure.errors import InputError
from perdure.results.record import Run
from perdure.study import claims, entry
from perdure.study import reader as studies
from perdure.study.claims import Claim

Cli = Callable[..., subprocess.CompletedProcess[str]]
PARTS = (
    "compute",
    "l1",
    "l2",
    "llc",
    "memory_queueing",
    "media",
    "flush_fence",
    "lock_wait",
    "aborted_transactions",
)
CLAIM = {
    "what": "inserts: lbtree over fptree",
    "of": {"index": "lbtree", "threads": 28},
    "over": {"index": "fptree", "threads": 28},
    "value": 2.09,
    "source": "a paper",
}


def run(index: str, threads: int, throughput: float, target: str = "sim:optane") -> dict[str, Any]:
    """A kept cell with a made-up simulation."""
    record = fake_native.simulated(
        fake_native.record({"index": index, "threads": str(threads), "mix": "insert=1"}), target
    )
    repetition = record["repetitions"][0]
    simulation = repetition["simulation"]
    simulation["per_operation"] |= {
        "time_ns": {part: 10.0 * (i + 1) for i, part in enumerate(PARTS)} | {"total": 450.0},
        "flushes": 2.5,
        "fences": 2.0,
        "llc_misses": 3.25,
        "transaction_aborts": 0.125,
        "pm_controller_read_bytes": 256.0,
        "pm_controller_write_bytes": 128.0,
        "pm_media_read_bytes": 512.0,
        "pm_media_write_bytes": 1024.0,
    }
    simulation["ratios"] |= {"ewr": 0.4375, "rwr": 0.5}
    record["repetitions"] = [repetition | {"throughput_ops_s": throughput}]
    labels = {"index": index, "threads": str(threads), "workload": "insert"}
    return {
        "key": f"{index}{threads}",
        "labels": labels,
        "command": f"./perdure bench {index}",
        "record": record,
    }


def fill(folder: Path, runs: list[dict[str, Any]], **manifest: Any) -> None:
    (folder / "cells").mkdir(parents=True)
    for one in runs:
        (folder / "cells" / f"{one['key']}.json").write_text(json.dumps(one))
    head = {
        "study": "s",
        "file": "studies/s.toml",
        "title": "Simulated",
        "description": "",
        "repetitions": 1,
        "cells": [r["key"] for r in runs],
    }
    (folder / "manifest.json").write_text(json.dumps(head | manifest))


RATES = {("fptree", 1): 1e6, ("fptree", 28): 9e6, ("lbtree", 1): 1.5e6, ("lbtree", 28): 22.5e6}


@pytest.fixture
def simulated(tmp_path: Path) -> Path:
    folder = tmp_path / "simulated-only"
    fill(folder, [run(i, t, rate) for (i, t), rate in RATES.items()], published=[CLAIM])
    return folder


def test_a_simulated_study_is_labelled_throughout(cli: Cli, simulated: Path) -> None:
    done = cli("report", simulated)
    assert done.returncode == 0, done.stderr
    text = (simulated / "report.html").read_text()
    assert "An imagined server" in text
    assert "measured, native" not in text.split('<section id="glossary">')[0]
    assert text.count("simulated, sim:optane") >= 4
    figures = dict(re.findall(r'<figure id="([^"]+)">(.*?)</figure>', text, re.S))
    assert set(figures) == {"simulated-scaling-optane", "simulated-time-optane"}
    for body in figures.values():
        assert "simulated, sim:optane" in body and "./perdure study run studies/s.toml" in body
    assert "0.438" in text and "1,024" in text and "3.25" in text  # EWR, media bytes, LLC misses


def test_the_prediction_stands_beside_the_publication(cli: Cli, simulated: Path) -> None:
    assert cli("report", simulated).returncode == 0
    text = (simulated / "report.html").read_text()
    (row,) = re.findall(r'<tr id="finding-0-1">.*?</tr>', text, re.S)
    for part in (">inserts: lbtree over fptree<", "2.50", "2.09x", "agrees", "a paper"):
        assert part in row
    assert "measured by others" in row
    assert 'id="study"' not in text, "there is no figure to stand there"


@pytest.mark.parametrize(
    ("kinds", "heading", "said"),
    [
        (["aim"], "Aims", ["an aim"]),
        (["measurement"], "Findings", ["a measurement"]),
        (["aim", "publication"], "Findings and aims", ["an aim", "measured by others"]),
    ],
)
def test_an_aim_is_not_called_measured(
    cli: Cli, tmp_path: Path, kinds: list[str], heading: str, said: list[str]
) -> None:
    folder = tmp_path / "r"
    claims = [CLAIM | {"kind": kind} for kind in kinds]
    fill(folder, [run(i, t, rate) for (i, t), rate in RATES.items()], published=claims)
    assert cli("report", folder).returncode == 0
    text = (folder / "report.html").read_text()
    assert f'<h3 class="part">{heading} <span' in text
    rows = re.findall(r'<tr id="finding-0-\d">.*?</tr>', text, re.S)
    tags = [re.findall(r'<span class="tag [^"]*">([^<]*)</span>', row) for row in rows]
    assert tags == [[tag] for tag in said]


@pytest.mark.slow
def test_measured_and_simulated_cells_share_no_figure(
    cli: Cli, study: Path, simulated: Path, tmp_path: Path
) -> None:
    results = tmp_path / "both"
    assert cli("study", "run", study, "--results", results).returncode == 0
    simulated.rename(results / "simulated")
    assert cli("report", results).returncode == 0
    text = (results / "report.html").read_text()
    figures = dict(re.findall(r'<figure id="([^"]+)">(.*?)</figure>', text, re.S))
    assert "throughput-integer" in figures and "simulated-scaling-optane" in figures
    for name, body in figures.items():
        tag = "simulated, sim:optane" if name.startswith("simulated") else "measured, native"
        other = "measured, native" if name.startswith("simulated") else "simulated, sim:optane"
        assert tag in body and other not in body
    assert "./perdure bench lbtree" in text.split('<section id="simulated">')[1]


@pytest.mark.slow
def test_fidelity_and_classes_are_drawn_where_they_are(
    sim_cli: Cli, simulated: Path, tmp_path: Path
) -> None:
    done = sim_cli("fidelity", "--quick", "--experiments", "i2,i4-local,i4-remote,u-write-buffer",
                   "--results", simulated / "fidelity", "-q")  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = sim_cli("classify", "--target", "sim:optane", "--results", simulated, "-q")
    assert done.returncode == 0, done.stderr
    assert sim_cli("report", simulated, "-o", tmp_path / "r.html").returncode == 0
    text = (tmp_path / "r.html").read_text()
    figures = dict(re.findall(r'<figure id="([^"]+)">(.*?)</figure>', text, re.S))
    drawn = {name for name in figures if name.startswith("fidelity-")}
    assert drawn >= {"fidelity-errors", "fidelity-i2", "fidelity-i4-remote"}
    assert all("simulated beside measured by others" in figures[name] for name in drawn)
    assert "Gugnani" in figures["fidelity-i2"]
    assert 'id="classes"' in text and "avoid p-stores" in text
    assert not re.search(r'(?:src|href)="https?:', text)


@pytest.mark.parametrize(
    ("rates", "claim", "predicted", "verdict"),
    [
        ((10.0, 5.0), {"value": 2.09}, 2.0, "agrees"),
        ((7.5, 5.0), {"value": 2.09}, 1.5, "same side, size differs"),
        ((7.5, 5.0), {"value": 2.09, "within": 1.5}, 1.5, "agrees"),
        ((4.0, 5.0), {"value": 2.09}, 0.8, "differs"),
        ((4.5, 5.0), {"value": 1}, 0.9, "agrees"),
        ((3.0, 5.0), {"value": 1}, 0.6, "differs"),
        ((4.0, 5.0), {"direction": "below"}, 0.8, "agrees"),
        ((6.0, 5.0), {"direction": "below"}, 1.2, "differs"),
    ],
)
def test_a_claim_is_a_ratio_of_two_cells(
    rates: tuple[float, float], claim: dict[str, Any], predicted: float, verdict: str
) -> None:
    kept = [run("lbtree", 28, rates[0]), run("fptree", 28, rates[1]), run("fptree", 1, 77.0)]
    runs = [Run(k["labels"], k["record"]) for k in kept]
    base = {k: v for k, v in CLAIM.items() if k != "value"}
    (found,) = claims.judge([entry.read(Claim, base | claim)], runs)
    assert found.ours == pytest.approx(predicted)
    assert found.verdict == verdict


def test_a_claim_without_its_cell_is_said_to_be_not_measured() -> None:
    kept = run("fptree", 28, 5.0)
    (found,) = claims.judge([entry.read(Claim, CLAIM)], [Run(kept["labels"], kept["record"])])
    assert (found.ours, found.verdict, found.missing) == (None, "not measured", ("lbtree",))


STUDY = """name = "s"
[axes]
index = ["fptree", "lbtree"]
threads = [1, 28]
workload = ["insert"]
[workloads.insert]
mix = { insert = 1.0 }
[[published]]
what = "w"
source = "s"
of = { index = "lbtree", threads = 28 }
over = { index = "fptree", threads = 28 }
value = 2.0
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ('what = "w"\n', "", 8, "does not say its what"),
        ("value = 2.0\n", "", 8, "needs a value above 0, or a direction"),
        ("value = 2.0", 'value = 2.0\ndirection = "above"', 8, "and not both"),
        ('"lbtree", threads = 28 }', '"lbtree" }', 11, "`of` names 2 cells"),
        ('"fptree", threads = 28 }', '"fptree", threads = 9 }', 12, "`over` names 0 cells"),
        ("value", "valeu", 13, "unknown key 'valeu'"),
        ("value", 'kind = "guess"\nvalue', 8, "unknown kind 'guess'; use one of publication,"),
    ],
)
def test_a_bad_claim_names_its_line(
    tmp_path: Path, old: str, new: str, line: int, what: str
) -> None:
    file = tmp_path / "s.toml"
    file.write_text(STUDY)
    assert len(studies.load(file).published) == 1
    file.write_text(STUDY.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        studies.load(file)
    assert str(caught.value).startswith(f"{file}:{line}: ") and what in str(caught.value)


LARGE = """name = "large"
optional = ["hot"]
[flags]
target = "sim:optane"
[axes]
index = ["fptree", "hot"]
threads = [1, 20]
workload = ["lookup"]
[workloads.lookup]
mix = { lookup = 1.0 }
[[figure]]
name = "fig4"
title = "Uniform lookups"
cells = { workload = ["lookup"] }
drawing = "threads"
[[figure]]
name = "fig3"
title = "Misses"
cells = { threads = [20] }
metric = "llc_misses"
[[figure]]
name = "fig6"
title = "Tails"
cells = { workload = ["lookup"] }
drawing = "percentiles"
[[published]]
what = "lookups scale"
source = "a paper"
figure = "fig4"
of = { index = "fptree", threads = 20 }
over = { index = "fptree", threads = 1 }
direction = "above"
[[published]]
what = "lookups do not scale"
source = "a paper"
figure = "fig4"
of = { index = "fptree", threads = 20 }
over = { index = "fptree", threads = 1 }
value = 1000.0
differs = "it is an `--example` & more"
[[published]]
what = "hot is faster"
source = "a paper"
of = { index = "hot", threads = 20 }
over = { index = "fptree", threads = 20 }
value = 1.5
"""


def test_a_study_with_figures_is_one_command(sim_cli: Cli, tmp_path: Path) -> None:
    file, results = tmp_path / "large.toml", tmp_path / "results"
    file.write_text(LARGE)
    done = sim_cli("study", "run", file, "--results", results, "--report")
    assert done.returncode == 0, done.stderr
    assert "left out: hot (not in this build)" in done.stderr
    assert re.search(r"lookups scale .* above 1x .*agrees", done.stdout)
    assert re.search(r"hot is faster .* 1\.5x .*not measured \(without hot\)", done.stdout)
    assert f"report: {results / 'report.html'}" in done.stdout
    text = (results / "report.html").read_text()
    figures = dict(re.findall(r'<figure id="([^"]+)">(.*?)</figure>', text, re.S))
    assert set(figures) == {f"{name}-simulated-optane" for name in ("fig4", "fig3", "fig6")}
    assert all("simulated, sim:optane" in body for body in figures.values())
    assert "Left out: hot (not in this build)" in text
    # First the answer, in which each finding stands once; then links to it below its figure.
    answer, text = text.split('<section id="study">')
    rows = re.findall(r'<tr id="finding-0-\d">.*?</tr>', answer, re.S)
    assert len(rows) == 3
    scale, not_scale, hot = rows
    assert '<a href="#fig4-simulated-optane">lookups scale</a>' in scale and "above 1x" in scale
    assert "<i>✓</i> agrees" in scale and '<td class="why"></td>' in scale
    assert '<a href="#fig4-simulated-optane">lookups do not scale</a>' in not_scale
    assert (
        re.search(r"<i>(✗|~)</i> ", not_scale)
        and "it is an <code>--example</code> &amp; more" in not_scale
    )
    assert "<td>hot is faster</td>" in hot and "not measured <small>hot</small>" in hot
    assert all(f">{what}<" not in text for what in ("lookups scale", "hot is faster"))
    links = re.compile(r'<p class="refs">Findings: (.*?)</p>', re.S).search(text)
    assert links and text.index('id="fig4-simulated-optane"') < links.start()
    assert links.end() < text.index('id="fig3-simulated-optane"')
    assert re.findall(r'href="#([^"]*)"', links.group()) == ["finding-0-1", "finding-0-2"]


def test_a_simulated_study_can_be_run_natively(sim_cli: Cli, tmp_path: Path) -> None:
    file, results = tmp_path / "large.toml", tmp_path / "results"
    file.write_text(LARGE)
    done = sim_cli("study", "run", file, "--target", "native", "--results", results, "--report")
    assert done.returncode == 0, done.stderr
    text = (results / "report.html").read_text()
    assert set(re.findall(r'<figure id="([^"]+)">', text)) == {"fig4-native", "fig6-native"}
    assert 'id="fig3-native"' not in text, "no machine counts the misses of an operation"
    kept = [json.loads(f.read_text()) for f in (results / "cells").glob("*.json")]
    assert {k["record"]["target"] for k in kept} == {"native"}
    assert all("--pool" in k["command"] for k in kept if k["labels"]["index"] == "fptree")
