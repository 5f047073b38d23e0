"""`list`, `doctor` and `--help`: readable at any width, and there without a build."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT
from perdure.cli import doctor
from perdure.programs import catalogue, child, native

NEEDS_BUILD = pytest.mark.skipif(not native.is_built("native"), reason="needs the Release build")


@pytest.fixture(scope="module")
def unbuilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source tree without a build, in a folder with a space and an umlaut."""
    root = tmp_path_factory.mktemp("trees") / "ohne Bäume"
    shutil.copytree(ROOT / "python" / "perdure", root / "python" / "perdure")
    shutil.copytree(ROOT / "tools", root / "tools")
    return root


def run(tree: Path, *arguments: str, columns: int = 80) -> subprocess.CompletedProcess[str]:
    variables = {n: v for n, v in os.environ.items() if n not in native.VARIABLES.values()}
    variables |= {"PYTHONPATH": str(tree / "python"), "COLUMNS": str(columns), "NO_COLOR": "1"}
    return child.run([sys.executable, "-P", "-m", "perdure", *arguments], variables)


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("kind", catalogue.KINDS)
def test_a_list_is_as_wide_as_the_terminal_and_cuts_nothing(
    unbuilt: Path, kind: str, columns: int
) -> None:
    done = run(unbuilt, "list", kind, columns=columns)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    table = [line for line in lines if not line.startswith(("by mode:", "use one:"))]
    assert "…" not in done.stdout and all(len(line) <= columns for line in table)
    words = " ".join(done.stdout.split())
    for entry in json.loads(catalogue.CATALOGUE.read_text("utf-8"))[kind]:
        structure, _, mode = entry["name"].partition(":")
        shown = entry["name"] if kind == "queues" else structure
        assert re.search(rf"^ {re.escape(shown)} ", done.stdout, re.M) or kind == "options"
        if columns == 200:
            text = entry.get("title") or entry.get("description") or entry["mix"].split(",")[0]
            assert text in words or (kind == "indexes" and mode in words)
    columns_shown = {"indexes": 4, "queues": 4, "options": 4, "platforms": 4}.get(kind, 2)
    if columns >= 80:
        assert len(re.split(r"  +", lines[2].strip())) == columns_shown


def test_all_facts_of_one_are_told(unbuilt: Path) -> None:
    done = run(unbuilt, "list", "fptree")
    assert "FPTree (Oukid" in done.stdout and "option leaf_entries" in done.stdout
    (entry,) = json.loads(run(unbuilt, "list", "fptree", "--json").stdout)
    assert entry["kind"] == "indexes" and entry["options"][0]["most"] == 64
    modes = json.loads(run(unbuilt, "list", "btree", "--json").stdout)
    assert [m["name"] for m in modes][:2] == ["btree:dram", "btree:pmem-volatile"]
    done = run(unbuilt, "list", "fptre")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "perdure list: unknown list 'fptre'; did you mean 'fptree'?\n"


def test_without_a_build_the_rest_works_or_says_what_builds(unbuilt: Path) -> None:
    assert run(unbuilt, "--version").stdout.startswith("perdure ")
    done = run(unbuilt, "doctor", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    first = document["findings"][0]
    assert first["subject"] == "build" and "./perdure demo" in first["remedy"]
    subjects = {finding["subject"] for finding in document["findings"]}
    assert {"memory", "g++", "packages", "disk", "processor", "/dev/shm"} <= subjects
    assert document["environment"]["cores"] == len(os.sched_getaffinity(0))
    for command in ("bench", "probe", "crash"):
        done = run(unbuilt, command)
        assert done.returncode == 2 and done.stderr.count("\n") == 1
        assert "not found (PERDURE_" in done.stderr


def test_the_limit_of_a_cgroup_is_the_memory(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemTotal:  16777216 kB\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/memory.max").write_text(f"{2**31}\n")
    found = {f.subject: f for f in doctor.build_findings(tmp_path, ROOT)}
    assert "16.0 GiB, limited to 2.00 GiB by the cgroup" in found["memory"].what
    assert found["memory"].level == "mend"


def test_help_is_what_the_launcher_prints_and_nothing_is_cut() -> None:
    text = catalogue.help_text()
    assert text == catalogue.HELP.read_text("utf-8"), "run python -m perdure.programs.catalogue"
    assert all(len(line) <= 80 for line in text.splitlines())
    commands = re.findall(r"^  ([a-z]+) {2,}(.*)$", text, re.M)
    assert [name for name, _ in commands][:5] == ["demo", "bench", "compare", "study", "report"]
    assert "test" in dict(commands)
    assert not any(what.endswith("...") for _, what in commands)


@NEEDS_BUILD
def test_the_catalogue_is_what_the_built_program_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERDURE_NATIVE", raising=False)
    kept = json.loads(catalogue.CATALOGUE.read_text("utf-8"))
    assert kept == catalogue.current(), "run python -m perdure.programs.catalogue"
