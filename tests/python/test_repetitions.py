"""repetitions = "auto": a cell runs until its median is known, or the budget ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fake_native
import repetitions_coverage
from conftest import Cli
from perdure.errors import InputError
from perdure.results import schemas
from perdure.results.record import Run
from perdure.study import reader as studies
from perdure.study import repetitions
from perdure.study.repetitions import Auto


def runs(*rates: float, target: str = "native") -> list[Run]:
    found = []
    for rate in rates:
        record = fake_native.record({"index": "fptree", "repetitions": "1"})
        record["repetitions"][0]["throughput_ops_s"] = rate
        found.append(Run({"index": "fptree"}, record | {"target": target}))
    return found


def test_what_ends_the_repetitions_of_a_cell() -> None:
    auto, narrow, wide = Auto(0.05, 8), [100.0, 101, 100, 101, 100, 101], [50.0, 150] * 4
    assert auto.end(runs(*narrow), 6) == repetitions.NARROW
    assert auto.end(runs(*wide[:6]), 6) == repetitions.UNDECIDED
    assert auto.end(runs(*wide), 8) == repetitions.BUDGET
    assert auto.end(runs(*narrow[:5]), 5) == repetitions.UNDECIDED, "a range is no interval"
    assert auto.end(runs(*narrow[:5]), 6) == repetitions.FAILED
    assert auto.end(runs(100, target="sim:x"), 1) == repetitions.EXACT

    for kept, failed, ended in ((3, False, None), (3, True, "failed"), (6, False, "interval")):
        told = auto.cell({"index": "fptree"}, runs(*narrow[:kept]), 6, failed=failed)
        assert (told["ended_by"], told["repetitions"]) == (ended, 6)


def test_an_interval_that_ends_the_repetitions_holds_the_median_less_often() -> None:
    drawn = repetitions_coverage.lognormal(0.05)
    by_rule, as_many, most = repetitions_coverage.counted(Auto(), *drawn, trials=60, seed=1)
    assert 6 * 60 < by_rule.samples < 20 * 60 == most.samples
    assert abs(as_many.samples - by_rule.samples) <= 30, "as many, chosen before"
    assert 0.88 * 60 < by_rule.held < as_many.held


def auto_study(study: Path, width: float, most: int) -> Path:
    text = study.read_text().replace("threads = [1, 2]", "threads = [1]")
    wanted = f'repetitions = "auto"\ninterval_width = {width}\nmost_repetitions = {most}'
    study.write_text(text.replace("repetitions = 2", wanted))
    return study


@pytest.mark.slow
def test_cells_are_repeated_until_the_width_or_the_budget(
    cli: Cli, study: Path, tmp_path: Path
) -> None:
    results, log = tmp_path / "r", tmp_path / "log"
    # Noise is 2 % to either side, of medians of three: narrower than 50 %, never 0.01 %.
    for width, count, ended in ((0.5, 6, "interval"), (0.0001, 8, "budget")):
        auto_study(study, width, 8)
        done = cli("study", "run", study, "--results", results, "--json", FAKE_LOG=str(log))
        assert done.returncode == 0, done.stderr
        study.write_text(study.read_text().replace(f"interval_width = {width}", "W").replace(
            'repetitions = "auto"\nW\nmost_repetitions = 8', "repetitions = 2"))  # fmt: skip
        manifest = json.loads((results / "manifest.json").read_text())
        assert schemas.problem("manifest", manifest) == ""
        assert [(one["repetitions"], one["ended_by"]) for one in manifest["auto"]["cells"]] == [
            (count, ended)
        ] * 6
        assert len(manifest["cells"]) == 6 * count and manifest["repetitions"] == count
        outcome = json.loads(done.stdout)
        assert outcome["total"] == 6 * count == outcome["finished"] + outcome["reused"]
        assert len(log.read_text().splitlines()) == 6 * count, "finished runs are not run again"
    assert cli("report", results).returncode == 0
    text = (results / "report.html").read_text()
    assert "reached by 0 cells; 6 ended after 8 repetitions with a wider one: fptree" in text


def test_a_cell_of_which_a_run_failed_gets_no_more(cli: Cli, study: Path, tmp_path: Path) -> None:
    auto_study(study, 0.0001, 7)
    done = cli("study", "run", study, "--results", tmp_path / "r", FAKE_FAIL="lbtree")
    assert done.returncode == 1
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())
    ends = {one["labels"]["index"]: one["ended_by"] for one in manifest["auto"]["cells"]}
    assert ends == {"fptree": "budget", "lbtree": "failed", "null": "budget"}


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ('repetitions = "often"', "'repetitions' must be a whole number"),
        ("repetitions = 3\ninterval_width = 0.1", "'interval_width' goes with automatic"),
        ('repetitions = "auto"\nmost_repetitions = 5', "`most_repetitions` is at least 6"),
        ('repetitions = "auto"\ninterval_width = 5', "`interval_width` is a share"),
        ('repetitions = "auto"\ninterval_width = "x"', "'interval_width' must be a number"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_line(study: Path, lines: str, what: str) -> None:
    study.write_text(study.read_text().replace("repetitions = 2", lines))
    with pytest.raises(InputError) as caught:
        studies.load(study)
    line = 4 + lines.count("\n")
    assert what in str(caught.value) and str(caught.value).startswith(f"{study}:{line}:")


def test_a_quick_run_is_never_repeated(study: Path) -> None:
    from perdure.study.model import Choices

    auto_study(study, 0.05, 8)
    assert studies.load(study).auto == Auto(0.05, 8)
    quick = studies.load(study, Choices(quick=True))
    assert (quick.auto, quick.repetitions) == (None, 1)
