"""Typos in a study and in its flags: found before any cell runs, with file, line and remedy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from conftest import Cli
from perdure.errors import InputError
from perdure.programs import native
from perdure.programs import target as targets
from perdure.study.flags import ABLATIONS
from perdure.study.model import Choices
from perdure.study.reader import load

LISTED: dict[str, dict[str, Any]] = {
    "fptree": {
        "name": "fptree",
        "index_class": "persistent",
        "options": [{"name": "leaf_entries"}],
    },
    "btree:dram": {"name": "btree:dram", "index_class": "in_memory", "options": []},
}
TEXT = """name = "s"
[flags]
records = "10K"  # fptre
[axes]
index = ["fptree",
         "btree"]
workload = ["lookup"]
[workloads.lookup]
mix = { lookup = 1.0 }
[[override]]
when = { index = ["fptree"] }
set = { option = { leaf_entries = 8 } }
"""


def write(folder: Path, old: str = "", new: str = "") -> Path:
    file = folder / "s.toml"
    assert old in TEXT
    file.write_text(TEXT.replace(old, new, 1) if old else TEXT)
    return file


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"btree"]', '"btre"]', ":6: unknown index 'btre'; did you mean 'btree'?"),
        ('index = ["fptree",\n         "btree"]', "threads = [1]",
         ':4: a cell has no index; add index = ["fptree"] to [axes]'),
        ("leaf_entries", "leaf_entris", ":12: fptree has no option 'leaf_entris'; did you mean 'l"),
        ('["lookup"]', '["lokup"]', ":7: unknown workload 'lokup'; did you mean 'lookup'?"),
        ('records = "10K"', 'target = "optane100-8280l-2s"',
         ":3: unknown target 'optane100-8280l-2s'; did you mean 'sim:optane100-8280l-2s'?"),
        ('records = "10K"', 'target = "sim:nowhere"', ":3: target 'sim:nowhere'; no such server"),
        ('records = "10K"', 'ablate = "no-directry"',
         ":3: unknown mechanism 'no-directry'; did you mean 'no-directory'?"),
        ('records = "10K"', 'workload = "ycsb-x"',
         ":3: unknown workload 'ycsb-x'; did you mean 'ycsb-"),
    ],
)  # fmt: skip
def test_a_typo_is_found_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, words: str
) -> None:
    def describe(_platform: str) -> dict[str, str]:
        raise InputError("no such server")

    monkeypatch.setattr(targets, "describe", describe)
    monkeypatch.setattr(native, "is_built", lambda _kind: False)  # the workloads of the catalogue
    text = write(tmp_path, old, new)
    if 'workload = "' in new:
        text.write_text(text.read_text().replace('workload = ["lookup"]\n', ""))
    with pytest.raises(InputError) as caught:
        load(text, indexes=lambda _kind: LISTED)
    assert words in str(caught.value)


def test_a_study_without_a_typo_is_loaded(tmp_path: Path) -> None:
    assert len(load(write(tmp_path), indexes=lambda _kind: LISTED).cells) == 2


def test_a_target_of_the_command_line_is_checked(sim_cli: Cli, study: Path) -> None:
    for command in (["study", "run", study], ["bench"], ["probe"]):
        done = sim_cli(*command, "--target", "optane100-8280l-2s")
        assert done.returncode == 2
        assert done.stderr.endswith(
            "unknown target 'optane100-8280l-2s'; did you mean 'sim:optane100-8280l-2s'?\n"
        )
    done = sim_cli("study", "run", study, "--target", "sim:nowhere", "--dry-run")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--target sim:nowhere: nowhere: unknown platform; did you mean 'dram'?" in done.stderr


def test_an_ablation_of_nothing_is_refused_before_the_plan(sim_cli: Cli) -> None:
    done = sim_cli("fidelity", "--ablate", "no-directry", "--dry-run")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--ablate: unknown mechanism 'no-directry'; did you mean 'no-directory'?" in done.stderr


@pytest.mark.skipif(not native.is_built("sim"), reason="needs the Release build")
def test_the_ablations_are_those_of_the_program() -> None:
    command = ["probe", "I1", "--target", "sim:dram", "--ablate", "typo", "--dry-run"]
    with pytest.raises(Exception, match="give one of " + ", ".join(ABLATIONS) + "$"):
        native.query(*command, kind="sim")


@pytest.mark.parametrize(
    ("what", "words"),
    [("absent", "No such file"), ("empty", "is empty"), ("folder", "is no regular file"),
     ("pipe", "is no regular file")],
)  # fmt: skip
def test_a_file_of_keys_is_tried_before_the_first_cell(
    tmp_path: Path, what: str, words: str
) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "good").write_text("a\nb\n")
    text = write(tmp_path, "[axes]", '[keys]\nnames = "random:8"\n[axes]')
    for prefix in ("", "file:"):
        with pytest.raises(InputError, match=f"--keys names=.*: {words}"):
            load(text, Choices(keys={"names": f"{prefix}{tmp_path / what}"}))
    load(text, Choices(keys={"names": str(tmp_path / "good")}))
    load(text, Choices(keys={"names": "random:8-25"}))
