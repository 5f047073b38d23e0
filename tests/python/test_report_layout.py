"""The report in a browser: nothing is wider than the page, and no word of a drawing is cut."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import test_explorations
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
for (const svg of document.querySelectorAll(".drawing svg")) {
  const box = svg.getBoundingClientRect(), drawn = svg.viewBox.baseVal;
  if (box.width && drawn.width && box.width < 0.6 * drawn.width) say("too small to read", svg, box);
}
const scroll = document.documentElement.scrollWidth;
parent.postMessage(JSON.stringify({width: innerWidth, scroll, found}), "*");
</script></body>"""
# A window cannot be as narrow as a telephone; a frame can.
FRAME = """<!doctype html><body><script>
addEventListener("message", (e) => { document.documentElement.dataset.found = e.data; });
</script><iframe src="page.html" style="border:0;height:3000px;width:%dpx"></iframe></body>"""

pytestmark = pytest.mark.skipif(not BROWSER, reason="needs chromium")


@pytest.fixture(scope="module", params=["measured", "simulated", "findings"])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of kept results, or of findings with their reasons."""
    folder = tmp_path_factory.mktemp("report")
    source = ROOT / "docs" / "results" / f"{request.param}.jsonl"
    if request.param == "findings":
        source = folder / "results"
        reason = "the caches of this server hold a larger part of it than those of the other; " * 3
        claims = [CLAIM, CLAIM | {"value": 20.0, "differs": reason}]
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


def seen(text: str, width: int, folder: Path) -> dict[str, Any]:
    (folder / "page.html").write_text(
        text.replace("</body>", LOOK).replace("<details", "<details open")
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
    return dict(json.loads(html.unescape(told.group(1))))


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_page(report: Path, width: int, tmp_path: Path) -> None:
    look = seen(report.read_text(), width, tmp_path)
    assert look["width"] == width
    assert look["found"] == []
    assert look["scroll"] <= look["width"]


def test_what_is_too_wide_is_noticed(tmp_path: Path) -> None:
    wide = '<body><div class="drawing"><svg viewBox="0 0 900 20" width="100"><text x="890" '
    wide += 'y="9">a long word</text></svg></div><p style="width:2000px">x</p></body>'
    look = seen(f"<!doctype html><html>{wide}</html>", 390, tmp_path)
    for what in ("cut", "too wide", "too small to read"):
        assert any(line.startswith(what) for line in look["found"]), what
