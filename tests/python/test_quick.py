"""--quick: what is to show that it works decides nothing, and leaves what a full run kept alone."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import test_histograms
from conftest import Cli
from perdure.errors import InputError
from perdure.results import histograms, record

CLAIM = """
[[published]]
what = "lookups: lbtree over fptree"
source = "a paper"
of = { index = "lbtree", threads = 1, workload = "lookup" }
over = { index = "fptree", threads = 1, workload = "lookup" }
direction = "above"
"""
BANNER = "quick run: tiny cells"
VERDICTS = re.compile(r"agrees|differs|no difference|not measured")


@pytest.fixture
def claiming(study: Path) -> Path:
    """A study of a few cells with a finding, whose quick cells are others than its full ones."""
    text = study.read_text().replace("threads = [1, 2]", "threads = [1]")
    study.write_text(text.replace('records = "10K"', 'records = "1M"') + CLAIM)
    return study


def test_findings_of_a_quick_run_have_numbers_and_no_verdict(
    cli: Cli, claiming: Path, tmp_path: Path
) -> None:
    arguments = ("study", "run", claiming, "--results", tmp_path / "r", "--quick", "-q")
    said = cli(*arguments)
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith(BANNER)
    assert "lookups: lbtree over fptree" in said.stdout and "above 1x" in said.stdout
    assert re.search(r"1\.[5-9]\d?x", said.stdout), "ours is shown"
    assert not VERDICTS.search(said.stdout)
    document = json.loads(cli(*arguments, "--json").stdout)
    assert document["quick"] is True
    (finding,) = document["findings"]
    assert finding["verdict"] is None and finding["ours"] > 1.5


@pytest.mark.slow
def test_a_quick_run_leaves_the_full_one_alone(cli: Cli, claiming: Path, tmp_path: Path) -> None:
    results = tmp_path / "r"
    run = ("study", "run", claiming, "--results", results, "--report", "-q")
    assert cli(*run).returncode == 0
    kept = {name: (results / name).read_text() for name in ("manifest.json", "report.html")}
    assert "agrees" in kept["report.html"] and BANNER.capitalize() not in kept["report.html"]
    quick = cli(*run, "--quick", FAKE_FAIL="lbtree")
    assert quick.returncode == 1
    assert f"report: {results}/report-quick.html" in quick.stdout
    assert cli("report", results).stdout.strip() == str(results / "report.html")
    assert {name: (results / name).read_text() for name in kept} == kept, "no failures of the other"
    page = (results / "report-quick.html").read_text()
    assert BANNER.capitalize() in page and "2 runs failed" in page
    assert not VERDICTS.search(page.split('<section id="study">')[1].split("</section>")[0])
    assert "fastest recoverable" not in page and 'class="bar best"' not in page
    assert 'id="verdicts"' in kept["report.html"] and 'id="verdicts"' not in page
    figures = cli("figures", results, "--quick")
    assert figures.returncode == 0 and BANNER in figures.stderr
    files = [Path(line) for line in figures.stdout.splitlines()]
    assert {file.parent.name for file in files} == {"figures-quick"}
    assert all(BANNER in file.read_text() for file in files if file.suffix == ".svg")
    assert f"study run {claiming} --quick" in page


def test_report_and_compare_know_both(cli: Cli, claiming: Path, tmp_path: Path) -> None:
    both, only = tmp_path / "both", tmp_path / "only"
    run = ("study", "run", claiming, "-q", "--results")
    assert cli(*run, both).returncode == 0
    for place in (both, only):
        assert cli(*run, place, "--quick").returncode == 0
    full, quick = record.load(both), record.load(both, quick=True)
    assert len(full) == 2 * len(quick) and not full[0].quick and quick[0].quick
    assert cli("report", only).stdout.strip() == str(only / "report-quick.html")
    done = cli("compare", both, only, "--json")
    assert json.loads(done.stdout)["quick"] is True
    compared = json.loads(done.stdout)["comparisons"]
    assert {one["verdict"] for one in compared} == {"inconclusive"}
    assert all("a quick run decides nothing" in one["remark"] for one in compared)
    assert cli("compare", both, both, "--quick").stdout.startswith(BANNER)
    assert json.loads(cli("compare", both, both, "--json").stdout)["quick"] is False
    with pytest.raises(InputError, match="holds no quick run; leave --quick out"):
        record.load(tmp_path, quick=True)


def test_exported_latencies_of_a_quick_run_say_so(tmp_path: Path) -> None:
    pytest.importorskip("hdrh")
    run = test_histograms.run()
    (full,) = histograms.write([run], hgrm=tmp_path / "full")
    (quick,) = histograms.write([replace(run, quick=True)], hgrm=tmp_path / "quick")
    assert BANNER in quick.read_text() and BANNER not in full.read_text()


def test_probes_compared_quickly_reach_no_goal(sim_cli: Cli, tmp_path: Path) -> None:
    table = tmp_path / "mine.csv"
    table.write_text(
        "# paper: somebody\n# platform: p\n# goal_median: 0.30\n# op: ntstore\n# memory: pm\n"
        "access_size,threads,metric,unit,value\n256,2,bandwidth,GiB/s,4\n"
    )
    arguments = ("fidelity", "--reference", table, "--results", tmp_path / "r", "-q")
    full = sim_cli(*arguments, COLUMNS="300")
    assert full.returncode == 0 and "median 30% reached" in full.stdout
    kept = (tmp_path / "r" / "fidelity.json").read_text()
    quick = sim_cli(*arguments, "--quick", COLUMNS="300")
    assert quick.stdout.startswith("quick: ") and "reached" not in quick.stdout
    assert (tmp_path / "r" / "fidelity.json").read_text() == kept
    document = json.loads((tmp_path / "r" / "fidelity-quick.json").read_text())
    assert document["quick"] is True and document["experiments"][0]["reached"] is None


@pytest.mark.slow
def test_a_memory_classified_quickly_has_factors_and_no_class(sim_cli: Cli, tmp_path: Path) -> None:
    arguments = ("classify", "--target", "sim:x", "--results", tmp_path, "-q", "--quick")
    done = sim_cli(*arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("quick: ") and "sim:x: factors" in done.stdout
    document = json.loads((tmp_path / "classes-quick.json").read_text())
    assert document["classes"]["names"] == []
    assert all(one["shown"] is None and one["factor"] for one in document["idiosyncrasies"])
    assert not (tmp_path / "classes.json").exists()
