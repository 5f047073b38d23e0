"""The report in a browser: nothing is wider than the page, no word of a drawing is cut, and none
lies on another."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import test_explorations
import test_sharing_figures
from conftest import ROOT
from perdure.report import page
from perdure.results import record
from test_simulated_report import CLAIM, RATES, fill, run

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
WIDTHS = (390, 1280, 1920)
# What is too wide or cut, told to the frame around the page.
LOOK = """<script>
const found = [];
const say = (what, e, box) => found.push(
  `${what}: ${e.tagName} ${e.id} ${e.textContent.slice(0, 40)} ${box.left} ${box.right}`);
for (const e of document.querySelectorAll("body *")) {
  const box = e.getBoundingClientRect(), drawing = e.closest(".drawing svg");
  if (!box.width || e.closest(".scroll") && !e.matches(".scroll")) continue;
  if (drawing && e.tagName === "text") {
    const whole = drawing.getBoundingClientRect();
    if (box.left < whole.left - 1 || box.right > whole.right + 1) say("cut", e, box);
  } else if (!drawing && (box.right > innerWidth + 1 || box.left < -1)) say("too wide", e, box);
}
// The corners of a text as it stands, also of one that is slanted; letters fill the middle of it.
const corners = (text) => {
  const box = text.getBBox(), matrix = text.getScreenCTM();
  const top = box.y + 0.2 * box.height, height = 0.6 * box.height;
  return [[0, 0], [1, 0], [1, 1], [0, 1]].map(([x, y]) => {
    const point = new DOMPoint(box.x + x * box.width, top + y * height).matrixTransform(matrix);
    return [point.x, point.y];
  });
};
// Two rectangles are apart if they are along a side of either.
const apart = (one, other) => [one, other].some((shape) => [0, 1].some((side) => {
  const along = [0, 1].map((axis) => shape[side + 1][axis] - shape[side][axis]);
  const [a, b] = [one, other].map((points) => points.map((p) => p[0] * along[0] + p[1] * along[1]));
  const slack = 0.5 * Math.hypot(...along);
  return Math.max(...a) <= Math.min(...b) + slack || Math.max(...b) <= Math.min(...a) + slack;
}));
for (const svg of document.querySelectorAll(".drawing svg")) {
  const texts = [...svg.querySelectorAll("text")].map((text) => [text, corners(text)]);
  texts.forEach(([text, box], i) => texts.slice(i + 1).forEach(([other, there]) => {
    if (!apart(box, there)) found.push(`overlap: ${text.textContent} and ${other.textContent}`);
  }));
  const box = svg.getBoundingClientRect(), drawn = svg.viewBox.baseVal;
  if (box.width && drawn.width && box.width < 0.6 * drawn.width) say("too small to read", svg, box);
}
for (const box of document.querySelectorAll(".scroll")) {
  const wide = box.scrollWidth > box.clientWidth + 1;
  const hint = getComputedStyle(box, "::before").content.includes("scroll sideways");
  const whole = innerWidth >= 1280 && box.querySelector(".verdicts, .answers");
  const here = box.getBoundingClientRect();
  if (wide !== hint || wide && box.tabIndex !== 0) say("scrolls without a hint", box, here);
  if (wide && whole) say("a matrix or the findings scroll", box, here);
}
const scroll = document.documentElement.scrollWidth;
parent.postMessage(JSON.stringify({width: innerWidth, scroll, found}), "*");
</script></body>"""
# A window cannot be as narrow as a telephone; a frame can.
FRAME = """<!doctype html><body><script>
addEventListener("message", (e) => { document.documentElement.dataset.found = e.data; });
</script><iframe src="page.html" style="border:0;height:3000px;width:%dpx"></iframe></body>"""

pytestmark = pytest.mark.skipif(not BROWSER, reason="needs chromium")


NAMES = ("linetree", "fptree", "lbtree", "utree", "dptree", "pactree", "roart", "abslbtree",
         "btreeolc", "masstree")  # fmt: skip
DRAWINGS = ("threads", "workloads", "percentiles", "none", "flame")


def drawings(folder: Path) -> None:
    """A study with every kind of drawing, whose ten lines end close to each other."""
    runs = []
    for number, name in enumerate(NAMES):
        for threads in (1, 2, 4, 8, 16, 28, 56):
            for workload in ("lookup", "a workload with a long name", "a third one, 50 %"):
                made = run(name, threads, threads * 1e6 * (1 + number / 200))
                made["key"] += str(len(workload))
                made["labels"]["workload"] = workload
                made["profile"] = f"main;worker;{name} 900\nmain;flush 90\n"
                (repetition,) = made["record"]["repetitions"]
                repetition["timeline"] = [
                    {"second": i / 1000, "operations": 900 + number + i % 3} for i in range(1, 20)
                ]
                runs.append(made)
    figures = [
        {"name": kind, "title": f"Drawn over {kind}", "drawing": kind, "metric": "throughput",
         "cells": {"index": list(NAMES)} if kind == "threads" else {"threads": [56]}}
        for kind in DRAWINGS
    ]  # fmt: skip
    fill(folder, runs, figures=figures)


SOURCES = ("measured", "simulated", "findings", "drawings", "servers")


@pytest.fixture(scope="module", params=SOURCES)
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of kept results, of findings with their reasons, of all kinds of drawings, or of
    several servers and sizes of values."""
    folder = tmp_path_factory.mktemp("report")
    source = ROOT / "docs" / "results" / f"{request.param}.jsonl"
    if request.param == "drawings":
        source = folder / "results"
        drawings(source)
    if request.param == "servers":
        source = folder / "results"
        fill(source, test_sharing_figures.cells(), figures=test_sharing_figures.FIGURES)
    if request.param == "findings":
        source = folder / "results"
        reason = "the caches of this server hold a larger part of it than those of the other; " * 3
        remark = "in all but two of the fourteen cases, by a small margin"
        claims = [CLAIM, CLAIM | {"value": 20.0, "differs": reason, "note": remark}]
        fill(source, [run(*key, rate) for key, rate in RATES.items()], published=claims)
        test_explorations.put(source, "a", violation=test_explorations.VIOLATION)
        test_explorations.put(source, "b", index="toy:torn", key_kind=None, heap="pmdk")
    saved = folder / "baselines"
    if request.param == "measured":  # with a history
        saved.mkdir()
        text = source.read_text().replace('"key": "', '"key": "0')
        (saved / "a-name-that-is-long.jsonl").write_text(text)
    path = folder / f"{request.param}.html"
    page.write(source, record.load(source), path, saved)
    assert ('id="history"' in path.read_text()) == saved.exists()
    return path


def seen(text: str, width: int, folder: Path, look: str = LOOK) -> Any:
    (folder / "page.html").write_text(
        text.replace("</body>", look).replace("<details", "<details open")
    )
    file = folder / "frame.html"
    file.write_text(FRAME % width)
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=2000,3000",
         "--virtual-time-budget=20000",
         f"--user-data-dir={folder / 'profile'}", "--dump-dom", file.as_uri()],
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    told = re.search(r'data-found="([^"]*)"', done.stdout)
    assert told, done.stderr[-2000:]
    return json.loads(html.unescape(told.group(1)))


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_page(report: Path, width: int, tmp_path: Path) -> None:
    look = seen(report.read_text(), width, tmp_path)
    assert look["width"] == width
    assert look["found"] == []
    assert look["scroll"] <= look["width"]


@pytest.mark.parametrize("count", [6, 8, 11, 14, 17, 20])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_matrix_of_many_indexes_fits_a_desktop(width: int, count: int, tmp_path: Path) -> None:
    runs = []
    for number in range(count):
        made = run("fptree", 4, 1e6 * (1 + number / 3))
        made["labels"]["index"] = f"{NAMES[number % 10]}:pmem-{number:02}"
        made["key"] += str(number)
        runs.append(made)
    fill(tmp_path / "r", runs)
    page.write(tmp_path / "r", record.load(tmp_path / "r"), tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert text.count('<th scope="row">') == count
    assert seen(text, width, tmp_path)["found"] == []


# What the page's script makes of a figure: its table and its file.
MADE = """<script>
setTimeout(() => parent.postMessage(JSON.stringify(
  [...document.querySelectorAll("figure")].map((figure) => ({
    head: [...figure.querySelectorAll(".numbers th")].map((cell) => cell.textContent),
    rows: [...figure.querySelectorAll(".numbers tbody tr")].map(
      (row) => [...row.cells].map((cell) => cell.textContent)),
    links: figure.querySelectorAll('.numbers td a[href^="#cell-"]').length,
    file: picture(figure),
  }))), "*"), 100);
</script></body>"""


def test_the_data_and_the_file_of_a_figure_are_made_when_wanted(tmp_path: Path) -> None:
    source = ROOT / "docs" / "results" / "measured.jsonl"
    runs = record.load(source)
    page.write(source, runs, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    figure = page.content(source, runs)["sections"][0][1][0]
    made = seen(text, 1280, tmp_path, MADE)[0]
    assert made["head"] == [name.replace("_", " ") for name in figure.columns]
    assert made["rows"] == figure.rows
    assert made["links"] == len(figure.rows)
    drawing = ElementTree.fromstring(made["file"])
    inside = [one.tag.rpartition("}")[2] for one in drawing]
    pieces = len(figure.drawing.keys) + len(figure.drawing.panels)
    assert inside == ["title", "desc", *["svg"] * pieces]
    assert "measured, native" in made["file"] and "currentColor" not in made["file"]


def test_what_is_too_wide_is_noticed(tmp_path: Path) -> None:
    wide = '<body><div class="drawing"><svg viewBox="0 0 900 20" width="100"><text x="890" '
    wide += 'y="9">a long word</text><text y="9">one</text><text x="12" y="9">other</text>'
    wide += '<text x="400" y="9" transform="rotate(30)">far</text></svg></div>'
    wide += '<p style="width:2000px">x</p></body>'
    look = seen(f"<!doctype html><html>{wide}</html>", 390, tmp_path)
    for what in ("cut", "too wide", "too small to read", "overlap: one and other"):
        assert any(line.startswith(what) for line in look["found"]), what
    assert not any("far" in line for line in look["found"] if "overlap" in line)
