"""Figures as files for a paper."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from conftest import Cli
from perdure.errors import InputError
from perdure.report import figure_files, page, pieces
from perdure.results import record
from test_simulated_report import RATES, run


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "results" / "all.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(run(*key, rate)) + "\n" for key, rate in RATES.items()))
    return path


def test_each_figure_is_an_svg_a_csv_and_a_pdf_of_the_width(cli: Cli, source: Path) -> None:
    done = cli("figures", source, "--pdf", "--width", "84mm", "-q")
    assert done.returncode == 0, done.stderr
    files = [Path(line) for line in done.stdout.splitlines()]
    names = ("simulated-scaling-optane", "simulated-time-optane")
    assert [file.name for file in files] == [
        f"{name}.{suffix}" for name in names for suffix in ("svg", "csv", "pdf")
    ]
    assert {file.parent for file in files} == {source.parent / "figures"}
    svg, csv, pdf = files[0].read_text(), files[1].read_text(), files[2].read_bytes()
    size = re.search(r'<svg[^>]* width="84mm" height="([\d.]+)mm"', svg)
    assert size and "currentColor" not in svg
    about = "<title>Scaling with threads (simulated, sim:optane)</title><desc>Successful operations"
    assert about in svg
    assert csv.startswith("index,") and csv.count("\n") == 5
    box = re.search(rb"/MediaBox ?\[ ?0 0 ([\d.]+) ([\d.]+)", pdf)
    assert pdf.startswith(b"%PDF") and box
    assert float(box.group(1)) == pytest.approx(84 / 25.4 * 72, abs=1)
    assert float(box.group(2)) == pytest.approx(float(size.group(1)) / 25.4 * 72, abs=1)


def test_a_column_of_a_paper_has_panels_below_each_other(source: Path) -> None:
    runs = [run(*key, rate) for key, rate in RATES.items()]
    more = [one | {"labels": one["labels"] | {"workload": "scan"}} for one in runs]
    source.write_text("".join(json.dumps(one) + "\n" for one in runs + more))
    figure = next(figure_files._figures(page.content(source, record.load(source))))
    assert len(figure.drawing.panels) == 2

    def across(width: float | None) -> float:
        box = re.search(r'viewBox="0 0 ([\d.]+)', figure_files.sized(figure, width))
        return float(box[1]) if box else 0

    assert across(84) == pieces.PANEL
    assert across(170) == across(None) == 2 * pieces.PANEL + pieces.GAP
    assert 'width="170mm"' in figure_files.sized(figure, 170)
    assert 'mm"' not in figure_files.sized(figure, None)


@pytest.mark.parametrize(
    ("text", "width"),
    [("", None), ("84mm", 84), ("8.4cm", 84), ("3.5in", 88.9), ("240 pt", 84.67)],
)
def test_a_width_has_a_unit(text: str, width: float | None) -> None:
    found = figure_files.width_mm(text)
    assert found == (None if width is None else pytest.approx(width, abs=0.01))


@pytest.mark.parametrize("text", ["84", "84px", "-3mm", "5mm", "9in in", "1e9mm", "5000mm"])
def test_a_length_that_is_no_width_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"--width: .* write 84mm"):
        figure_files.width_mm(text)
