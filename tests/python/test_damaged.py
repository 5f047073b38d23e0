"""Documents that somebody edited, cut off or overwrote: one line, never a traceback."""

from __future__ import annotations

import copy
import json
import math
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import vl_convert

import fake_native
import test_simulated_report
from conftest import Cli
from perdure.cli import tables
from perdure.errors import InputError
from perdure.report import memories_section, page
from perdure.results import compare, metrics, record, schemas
from perdure.study import reader as study_module

Document = dict[str, Any]
REMOVED = object()
NUMBERS: tuple[Any, ...] = (-1, 1.5, float("nan"), 10**30, 1e300, 2**63)
OTHERS: dict[type, tuple[Any, ...]] = {
    str: ("", "x", 1, None), int: ("x", None, *NUMBERS), float: ("x", None, *NUMBERS),
    bool: ("x", None), list: ([], [None], {}, None), dict: ({}, {"x": None}, [], None),
    type(None): ("x", 1, {}, []),
}  # fmt: skip
FILES = {
    "empty": b"", "blank": b"\n\n", "null": b"null", "a number": b"7", "a text": b'"x"',
    "a list": b"[]", "a list of null": b"[null]", "a table": b"{}", "half": b'{"schema": "perd',
    "UTF-16": '{"schema": 1}'.encode("utf-16"), "binary": bytes(range(256)), "zeros": b"\0" * 64,
    "deep": b"[" * 100_000, "not a number": b'{"x": NaN}', "huge": b'{"x": 1e999}',
    "long": b'{"x": ' + b"9" * 10_000 + b"}",
}  # fmt: skip


def changed(document: Any) -> Iterator[tuple[str, Any]]:
    """(where and what, the document with one place changed), for every place in it.

    With PERDURE_TEST_SEED for a quarter of the places, which follows from it.
    """
    places = list(_places(document))
    if seed := os.environ.get("PERDURE_TEST_SEED"):
        places = random.Random(seed).sample(places, math.ceil(len(places) / 4))
    for path in places:
        found = document
        for step in path:
            found = found[step]
        for other in (REMOVED, *OTHERS[type(found)]):
            copied = copy.deepcopy(document)
            place = copied
            for step in path[:-1]:
                place = place[step]
            if other is REMOVED:
                del place[path[-1]]
            else:
                place[path[-1]] = other
            yield f"{path}: {'removed' if other is REMOVED else other}", copied


def _places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    entries = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in entries:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from _places(value, (*path, key))


@pytest.fixture(autouse=True)
def no_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every figure is described; only its drawing, which takes long, is left out."""
    monkeypatch.setattr(vl_convert, "vegalite_to_svg", lambda _: '<svg width="1" height="1"/>')


def native_cell() -> Document:
    made = fake_native.record({"index": "fptree", "repetitions": "1"})
    return {
        "key": "a",
        "labels": {"index": "fptree", "workload": "lookup"},
        "repetition": 0,
        "command": "./perdure bench",
        "record": made,
    }


def simulated_cell() -> Document:
    return test_simulated_report.run("fptree", 2, 1e6)


def read_all(folder: Path) -> None:
    """What `report` and `compare` do with a folder of results."""
    runs = record.load(folder)
    page.write(folder, runs, folder / "report.html")
    for run in runs:
        for name in metrics.METRICS:
            metrics.value(name, [run])
    result = compare.compare(runs, runs, threshold=0.05, confidence=0.95)
    tables.comparison(result), tables.runs("title", runs)


def refused(read: Callable[[], object], what: str) -> bool:
    """Whether reading ends in one line; it may also go well, and do nothing else."""
    try:
        read()
    except InputError as error:
        assert "\n" not in str(error), what
        return True
    except Exception as error:
        raise AssertionError(f"{what}: {error!r}") from error
    return False


@pytest.mark.parametrize("make", [native_cell, simulated_cell])
@pytest.mark.slow
def test_no_change_of_a_cell_is_a_traceback(make: Callable[[], Document], tmp_path: Path) -> None:
    whole = make()
    for repetition in whole["record"]["repetitions"]:
        del repetition["timeline"][1:]
        repetition["operations"] = {"lookup": next(iter(repetition["operations"].values()))}
    file = tmp_path / f"{whole['key']}.json"
    file.write_text(json.dumps(whole))
    assert record.is_cell(file)
    read_all(tmp_path)
    answers = []
    for what, document in changed(whole):
        file.write_text(json.dumps(document))
        answers.append(not record.is_cell(file))
        if answers[-1]:
            assert refused(lambda: record.load(tmp_path), what), what
        else:
            assert not refused(lambda: read_all(tmp_path), what), f"{what}: counts as finished"
    assert sum(answers) > 0.6 * len(answers), "almost any change is noticed"


def manifest() -> Document:
    claim = {
        **test_simulated_report.CLAIM,
        "within": 1.5,
        "note": "",
        "metric": "p99",
        "of": {"index": ["fptree"]},
        "over": {"index": "fptree"},
        "figure": "f1",
    }
    side = {"number": 3.0, "command": "./perdure probe"}
    entry = {
        "what": "w",
        "direction": "above",
        "than": 2.0,
        "source": "s",
        "metric": "latency",
        "figure": "f1",
        "inputs": {},
        "of": {},
        "over": {},
    }
    return {
        "study": "s", "file": "s.toml", "title": "t", "description": "d", "repetitions": 1,
        "cells": ["a"], "left_out": ["hot"], "published": [claim],
        "figures": [{"name": "f1", "title": "t", "note": "n", "cells": {"index": ["fptree"]},
                     "metric": "throughput", "drawing": "percentiles"}],
        "memories": {"targets": ["native"], "rules": [
            {"name": "R7", "of": {"index": "fptree"}, "over": {"index": "fptree"}, "note": "n"}],
            "notes": [{"name": "R7", "memory": "native", "why": "w"}]},
        "probes": [{"target": "native", "entry": entry, "of": side, "over": side}],
    }  # fmt: skip


def test_no_change_of_a_manifest_is_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "a.json").write_text(json.dumps(native_cell()))
    file = tmp_path / "manifest.json"
    file.write_text(json.dumps(manifest()))
    read_all(tmp_path)
    for what, document in changed(manifest()):
        file.write_text(json.dumps(document))
        refused(lambda: read_all(tmp_path), what)


@pytest.mark.slow
def test_no_change_of_what_else_a_report_shows_is_a_traceback(sim_cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "cells").mkdir()
    (tmp_path / "failed").mkdir()
    (tmp_path / "cells" / "a.json").write_text(json.dumps(native_cell()))
    failure = {n: v for n, v in native_cell().items() if n != "record"}
    failure |= {"reason": "exit code 1", "exit_code": 1, "stderr": "no room"}
    (tmp_path / "failed" / "b.json").write_text(json.dumps(failure))
    for command in (["fidelity", "--experiments", "i7"], ["classify", "--target", "sim:x"]):
        done = sim_cli(*command, "--quick", "-q", "--results", tmp_path)
        assert done.returncode == 0, done.stderr
    for name in ("failed/b.json", "fidelity-quick.json", "classes-quick.json"):
        file = tmp_path / name
        whole = json.loads(file.read_text())
        for what, document in changed(whole):
            file.write_text(json.dumps(document))
            refused(lambda: read_all(tmp_path), f"{name} {what}")
        file.write_text(json.dumps(whole))


@pytest.mark.slow
def test_no_change_of_a_memory_is_a_traceback(sim_cli: Cli, tmp_path: Path) -> None:
    done = sim_cli("classify", "--target", "sim:x", "--quick", "-q", "--results", tmp_path)
    assert done.returncode == 0, done.stderr
    classes = json.loads((tmp_path / "classes-quick.json").read_text())
    asked, runs = manifest() | {"quick": False}, [record.Run({}, native_cell()["record"])]
    for what, document in changed({"memories": [classes]}):
        (tmp_path / "memories.json").write_text(json.dumps(document))
        refused(lambda: memories_section.section(tmp_path, asked, runs), what)


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_what_is_no_document_is_one_line_and_an_unfinished_cell(
    content: bytes, tmp_path: Path
) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(content)
    assert not record.is_cell(file)
    with pytest.raises(InputError):
        record.load(file)
    with pytest.raises(InputError):
        record.load(tmp_path)
    file.rename(tmp_path / "manifest.json")
    with pytest.raises(InputError, match=r"manifest\.json"):
        record.load(tmp_path)


def test_a_damaged_cell_is_run_again_and_said(cli: Cli, study: Path, tmp_path: Path) -> None:
    study.write_text(study.read_text().replace("[1, 2]", "[1]").replace("ions = 2", "ions = 1"))
    results = tmp_path / "r"
    arguments = ("study", "run", study, "--results", results, "--json", "-q")
    assert json.loads(cli(*arguments).stdout)["failed"] == 0
    files = sorted((results / "cells").iterdir())
    files[0].write_text("")
    files[1].write_bytes(files[1].read_bytes()[:500])
    planned = cli("study", "run", study, "--results", results, "--dry-run").stdout.splitlines()
    assert sum(not line.startswith("# finished") for line in planned) == 2
    done = cli(*arguments)
    assert json.loads(done.stdout)["finished"] == 2
    for file in files[:2]:
        assert f"{file} is damaged: its cell is run again\n" in done.stderr
        assert record.is_cell(file)


def test_the_names_in_the_schemas_are_those_of_the_code() -> None:
    file = schemas.FOLDER / "results.schema.json"
    schema = json.loads(file.read_text())["$defs"]
    assert schema["metric"]["enum"] == list(metrics.METRICS)
    assert schema["figure"]["properties"]["drawing"]["enum"] == [*metrics.DRAWINGS, "none"]


@pytest.mark.parametrize("device", ["/dev/null", "/dev/full", "/dev/zero"])
@pytest.mark.parametrize(
    "command",
    [["report"], ["compare", "/dev/null"], ["study", "run"], ["flamegraph"],
     ["fidelity", "--dry-run", "--reference"]],
)  # fmt: skip
def test_a_device_is_no_file_to_read(cli: Cli, command: list[str], device: str) -> None:
    done = cli(*command, device)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is a device, and no file" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["report", "study run"])
def test_a_name_that_is_too_long_is_one_line(cli: Cli, command: str) -> None:
    done = cli(*command.split(), "x" * 300)
    assert done.returncode == 2
    assert "ile name too long" in done.stderr and done.stderr.count("\n") == 1


def test_a_share_that_is_no_number_is_refused(cli: Cli) -> None:
    done = cli("advise", "--records", "1", "--mix", "lookup=nan")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--mix: the shares of mix must be numbers from 0 to 1" in done.stderr


STUDY = """
name = "s"
title = "t"
repetitions = 1
[flags]
records = "10K"
seconds = 0.5
no_pin = true
[media]
pm = "/tmp"
[axes]
index = ["fptree"]
threads = [1]
workload = ["lookup"]
medium = ["pm"]
[workloads.lookup]
mix = { lookup = 1.0 }
[[include]]
index = ["null"]
[[exclude]]
index = ["stdmap"]
[[override]]
when = { index = ["null"] }
set = { seconds = 1.0 }
[[published]]
what = "w"
of = { index = "fptree" }
over = { index = "null" }
value = 2.0
source = "s"
[[figure]]
name = "f"
title = "t"
cells = { index = ["fptree"] }
"""
VALUES = (
    "1",
    "-1",
    '"x"',
    '""',
    "[]",
    "[1]",
    "{}",
    "{ x = 1 }",
    "true",
    "nan",
    "inf",
    "[[]]",
    "9" * 30,
    "2020-01-01",
    '["x"]',
)


def test_no_value_of_a_study_is_a_traceback(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(STUDY)
    assert len(study_module.load(file).cells) == 2
    lines = STUDY.splitlines()
    for number, line in enumerate(lines):
        name, equals, _ = line.partition(" = ")
        changes = [f"{name} = {value}" for value in VALUES] if equals else ["[x]", "[[axes]]", ""]
        for change in (*changes, ""):
            file.write_text("\n".join([*lines[:number], change, *lines[number + 1 :]]))
            refused(lambda: study_module.load(file), f"line {number + 1}: {change}")
