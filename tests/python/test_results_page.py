"""docs/results.md is what its records give, and tools/results.py notices where it is not."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT

PAGE = ROOT / "docs" / "results.md"


def run(page: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "tools/results.py", "--page", page, *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The page with its records, to be changed."""
    shutil.copytree(PAGE.with_suffix(""), tmp_path / "results")
    return Path(shutil.copy(PAGE, tmp_path))


def test_the_page_is_what_the_records_give() -> None:
    done = run(PAGE, "--check")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_altered_record_is_noticed(copied: Path) -> None:
    records = copied.with_suffix("") / "simulated.jsonl"
    text = records.read_text()
    changed = re.sub(r'"throughput_ops_s": \d', '"throughput_ops_s": 9', text)
    assert changed != text
    records.write_text(changed)
    done = run(copied, "--check")
    assert done.returncode == 1
    assert "results.md is not what its records give" in done.stderr
    assert "scaling.svg was drawn from other records" in done.stderr
    assert run(copied).returncode == 0
    assert run(copied, "--check").returncode == 0
    assert copied.read_text() != PAGE.read_text()


def test_an_altered_page_is_noticed(copied: Path) -> None:
    copied.write_text(copied.read_text().replace("Simulated", "Measured", 1))
    assert run(copied, "--check").returncode == 1


def test_records_tell_no_path_and_no_machine() -> None:
    for file in PAGE.with_suffix("").glob("*.json*"):
        text = file.read_text()
        assert not re.search(r'[" ]/(?!s\b)\w', text), file.name
        assert set(re.findall(r'"host_fingerprint": "(\w*)"', text)) <= {"", "0" * 16}


def test_every_section_has_its_label() -> None:
    sections = PAGE.read_text().split("\n## ")[1:]
    assert sections
    for section in sections:
        assert re.match(r"[^\n]+\n\*\*(Measured|Simulated)", section), section[:80]
