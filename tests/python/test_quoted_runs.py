"""Runs quoted in README.md and docs/ print what the pages say.

`<!-- run: near -->` before a fenced block: each `$ command` in it prints the lines that follow, and
each figure within a third of the page's: a simulated run repeats byte for byte, but another build
of the program has its globals in other places of their cache lines and pages.
`<!-- run: figures -->`: the same lines, with other numbers and units: what this machine measures.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import ROOT

MARK = re.compile(r"<!-- run: (near|figures) -->")
FIGURE = re.compile(r"(?<![A-Za-z+\d.])\d[\d.,]*[kMG]?(?: (?:ns|us|ms|s|B|KiB|MiB|GiB)\b)?")
CLOSE = 1 / 3  # the slowest of 90,000 lookups differs so much between builds
POOL = "/dev/shm/p.pool"
PROGRAMS = ROOT / "build" / "release" / "src" / "cli"


@dataclass(frozen=True)
class Block:
    where: str
    kind: str
    commands: tuple[tuple[str, tuple[str, ...]], ...]


def blocks_of(page: Path) -> list[Block]:
    """The marked blocks of a page: each command with the lines that it prints."""
    found = []
    lines = iter(enumerate(page.read_text().splitlines(), start=1))
    for number, line in lines:
        mark = MARK.fullmatch(line.strip())
        if mark is None:
            continue
        where = f"{page.relative_to(ROOT)}:{number}"
        assert next(lines)[1].startswith("```"), f"{where}: no fenced block after the mark"
        commands: list[tuple[str, list[str]]] = []
        for _, body in lines:
            if body.startswith("```"):
                break
            if body.startswith("$ "):
                commands.append((body[2:], []))
            else:
                commands[-1][1].append(body)
        told = tuple((command, trimmed(output)) for command, output in commands)
        found.append(Block(where, mark.group(1), told))
    return found


def trimmed(lines: list[str]) -> tuple[str, ...]:
    text = "\n".join(line.rstrip() for line in lines).strip("\n")
    return tuple(text.split("\n"))


def shape(line: str) -> str:
    """The line without its numbers, their units, and the padding that follows from their width."""
    return re.sub(r"\s+", " ", FIGURE.sub("#", line)).strip()


def figures(line: str) -> list[float]:
    """Its numbers; times in ns, sizes in bytes."""
    units = {
        "us": 1e3,
        "ms": 1e6,
        "s": 1e9,
        "KiB": 2**10,
        "MiB": 2**20,
        "GiB": 2**30,
        "k": 1e3,
        "M": 1e6,
        "G": 1e9,
    }
    found = []
    for text in FIGURE.findall(line):
        number = re.match(r"[\d.,]*\d", text)
        assert number is not None
        unit = text[number.end() :].strip(" .,")
        found.append(float(number.group().replace(",", "")) * units.get(unit, 1))
    return found


def run(command: str, pool: str) -> subprocess.CompletedProcess[str]:
    words = [word.replace(POOL, pool) for word in shlex.split(command)]
    # What the launcher does once everything is built.
    words[:1] = [sys.executable, "-m", "perdure"] if words[0] == "./perdure" else words[:1]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "NO_COLOR": "1"}
    environment.pop("PERDURE_NATIVE", None)
    return subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300, env=environment
    )


BLOCKS = [
    block
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for block in blocks_of(page)
]


def test_the_readme_quotes_runs_of_both_kinds() -> None:
    quoted = {block.kind for block in BLOCKS if block.where.startswith("README.md")}
    assert quoted == {"near", "figures"}


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.where)
def test_a_quoted_run_prints_what_the_page_says(block: Block) -> None:
    pool = f"/dev/shm/perdure-quoted-{os.getpid()}.pool"
    try:
        for command, expected in block.commands:
            done = run(command, pool)
            assert done.returncode == 0, f"{block.where}: {command}\n{done.stderr}"
            printed = trimmed(done.stdout.splitlines())
            where = f"{block.where}: {command}"
            assert list(map(shape, printed)) == list(map(shape, expected)), where
            if block.kind == "near":
                for line, told in zip(printed, expected, strict=True):
                    assert figures(line) == pytest.approx(figures(told), rel=CLOSE), where
    finally:
        Path(pool).unlink(missing_ok=True)


def test_a_shape_keeps_all_but_figures() -> None:
    row = "lookup         2700000     2700000    0    0.996    240 ns   1.43 us   32.03 ms"
    assert shape(row) == shape("lookup  1  1  0  12.5  3 ns  643 ns  1.00 s")
    assert shape(row) != shape(row.replace("lookup", "insert"))
    assert shape(row) != shape(row + "   5 ns")
    assert shape("lbtree, 1.00M records, p99.9") != shape("lbtree, 1.00M records, p50")
    assert shape("pool 24.9 MiB (26.1 B/record)") == shape("pool 1.50 GiB (7 B/record)")


def test_figures_have_units() -> None:
    assert figures("lookup  90000  186.095  81 ns  2.73 us") == [90000, 186.095, 81, 2730]
    assert figures("pool 22.5 MiB (23.4 B/record), 1.00M records, p99.9") == [
        22.5 * 2**20,
        23.4,
        1e6,
    ]
    assert figures("all 100000 206.9") != pytest.approx(figures("all 100000 140.1"), rel=CLOSE)
