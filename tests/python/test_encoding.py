"""Text is UTF-8, whatever the locale says."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT, Cli
from perdure.programs import child, outputs

OTHER_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
UTF8 = {"LC_ALL": "C.UTF-8"}


def umlauts(study: Path) -> Path:
    """The study in a folder with a space and umlauts, under such a name."""
    folder = study.parent / "größere Läufe"
    folder.mkdir()
    text = study.read_text("utf-8").replace('"small"', '"Bäume"').replace("A small", "Eine große")
    file = folder / "fünf Bäume.toml"
    file.write_text(text.replace("[1, 2]", "[1]"), "utf-8")
    return file


@pytest.mark.slow
def test_a_study_and_its_report_do_not_depend_on_the_locale(cli: Cli, study: Path) -> None:
    file = umlauts(study)
    results = file.parent / "Ergebnisse"
    done = cli("study", "run", file, "--results", results, **OTHER_LOCALE)
    assert done.returncode == 0, done.stderr
    assert "Eine große" in done.stdout
    again = cli("study", "run", file, "--results", results, "--json", **UTF8)
    assert json.loads(again.stdout)["study"] == "Bäume"
    assert json.loads(again.stdout)["finished"] == 0, "the keys of cells are the same"
    pages = []
    for name, variables in (("C", OTHER_LOCALE), ("UTF-8", UTF8)):
        page = file.parent / f"{name}.html"
        done = cli("report", results, "--output", page, **variables)
        assert done.returncode == 0, done.stderr
        pages.append(page.read_bytes())
    assert pages[0] == pages[1]
    assert "Eine große".encode() in pages[0] and "fünf Bäume.toml".encode() in pages[0]


def test_a_report_that_fails_in_the_middle_leaves_the_older_one_whole(
    cli: Cli, study: Path, environment: dict[str, str]
) -> None:
    file = umlauts(study)
    results = file.parent / "Ergebnisse"
    cli("study", "run", file, "--results", results, "--report")
    before = (results / "report.html").read_bytes()
    names = sorted(p.name for p in results.iterdir())
    done = subprocess.run(
        [sys.executable, "-m", "perdure", "report", results],
        env=environment,
        capture_output=True,
        check=False,
        **child.TEXT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2,) * 2),
    )
    assert done.returncode == 1
    assert "report.html: cannot be written: File too large" in done.stderr
    assert (results / "report.html").read_bytes() == before
    assert sorted(p.name for p in results.iterdir()) == names


def test_a_name_that_is_no_text_is_shown_by_its_bytes(tmp_path: Path) -> None:
    outputs.write(tmp_path / "one", os.fsdecode(b"gr\xf6\xdfer"))
    assert (tmp_path / "one").read_text("utf-8") == r"gr\udcf6\udcdfer"


def test_no_file_is_opened_without_an_encoding() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--preview", "--select", "PLW1514",
         "python/perdure", "tools", "bench"],
        cwd=ROOT, capture_output=True, check=False, **child.TEXT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
