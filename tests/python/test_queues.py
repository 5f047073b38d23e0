"""Queues through the real programs of the Release build, and through all that reads run records."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from conftest import ROOT
from perdure.programs import native
from perdure.results import record as records

SCHEMA = json.loads((ROOT / "schema" / "run-record.schema.json").read_text())
PLATFORM = "sim:optane100-8280l-2s"
SMALL = ["--producers", "2", "--consumers", "2", "--payload", "300", "--prefill", "20",
         "--operations", "2000", "--repetitions", "2", "--verify", "--check"]  # fmt: skip
VARIABLES = {
    **{name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")},
    "PMEM_IS_PMEM_FORCE": "1",
    "PYTHONPATH": str(ROOT / "python"),
    "NO_COLOR": "1",
    "COLUMNS": "200",
}


def said(*command: str | Path, code: int = 0) -> str:
    done = subprocess.run(
        list(map(str, command)), env=VARIABLES, capture_output=True, text=True, check=False,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout


def perdure(*arguments: str | Path, code: int = 0) -> str:
    return said(sys.executable, "-m", "perdure", *arguments, code=code)


@pytest.fixture
def programs(real_programs: Callable[[str], Path]) -> dict[str, Path]:
    return {kind: real_programs(kind) for kind in native.VARIABLES}


def bench(program: Path, *arguments: str) -> Any:
    record = json.loads(said(program, "bench", *arguments, "--json", "--quiet"))
    jsonschema.validate(record, SCHEMA)
    return record


def queues(program: Path) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(said(program, "list", "queues", "--json"))
    assert "queue:mutex" in [each["name"] for each in listed]
    return listed


def pool_of(queue: dict[str, Any], folder: Path) -> list[str]:
    kept = queue["index_class"] == "persistent"
    return ["--pool", str(folder / queue["name"].replace(":", "-"))] if kept else []


def check(record: Any) -> None:
    assert record["verification"]["wrong"] == 0, record["verification"]["examples"]
    for repetition in record["repetitions"]:
        assert set(repetition["operations"]) == {"push", "pop"}
        for operation in repetition["operations"].values():
            assert (operation["succeeded"], operation["failed"]) == (2000, 0)
            assert operation["retries"] >= 0


def test_every_queue_prints_a_record_of_the_schema(
    programs: dict[str, Path], tmp_path: Path
) -> None:
    for queue in queues(programs["native"]):
        arguments = ["--index", queue["name"], *SMALL, *pool_of(queue, tmp_path)]
        record = bench(programs["native"], *arguments)
        check(record)
        assert record["configuration"]["queue"]["progress"] == queue["progress"]
        if queue["recovers"]:
            again = bench(programs["native"], *arguments, "--reuse")
            check(again)
            assert again["recovery"]["records"] == 20


@pytest.mark.slow
def test_every_queue_is_simulated_to_the_last_bit(programs: dict[str, Path]) -> None:
    for queue in queues(programs["sim"]):
        arguments = ["--index", queue["name"], "--target", PLATFORM, *SMALL]
        text = said(programs["sim"], "bench", *arguments, "--json", "--quiet")
        record = json.loads(text)
        jsonschema.validate(record, SCHEMA)
        check(record)
        for repetition in record["repetitions"]:
            counters = repetition["simulation"]["counters"]
            assert repetition["seconds"] > 0 and counters["stores"] > 0
            split = repetition["simulation"]["time_ns"]
            threads = record["threads"] * repetition["seconds"] * 1e9
            assert split["total"] == pytest.approx(threads, rel=1e-3)
        assert said(programs["sim"], "bench", *arguments, "--json", "--quiet") == text


def test_threads_of_a_queue_think_between_operations(programs: dict[str, Path]) -> None:
    for kind, target in (("native", "native"), ("sim", PLATFORM)):
        arguments = ["--index", "queue:mutex", "--target", target, "--operations", "500",
                     "--think-ns", "20000", "--repetitions", "1"]  # fmt: skip
        record = bench(programs[kind], *arguments)
        (repetition,) = record["repetitions"]
        assert repetition["seconds"] >= 499 * 20000e-9
        assert record["configuration"]["queue"]["think_ns"] == 20000
        workload = "1 producer, 1 consumer, 8 B, 20000 ns between operations"
        assert records.labels_of(record)["workload"] == workload
        if kind == "sim":
            latencies = repetition["operations"].values()
            assert all(each["latency_ns"]["p50"] < 20000 for each in latencies)
            assert bench(programs[kind], *arguments) == record


def test_a_ring_writes_its_payloads_back_or_keeps_them(programs: dict[str, Path]) -> None:
    flushes = {}
    arguments = ["--producers", "2", "--consumers", "2", "--payload", "4KiB", "--operations",
                 "500", "--repetitions", "1"]  # fmt: skip
    for ring in ("ring:txfree", "ring:tx"):
        for payload in (0, 1, 2):
            of_ring = ["--index", ring, "--option", f"payload={payload}", *arguments]
            record = bench(programs["sim"], *of_ring, "--target", f"{PLATFORM}-eadr")
            (repetition,) = record["repetitions"]
            flushes[payload] = repetition["simulation"]["counters"]["flushes"]
        assert flushes == {0: 0, 1: 500 * 64, 2: 0}
    done = subprocess.run(
        [programs["sim"], "bench", "--index", "ring:txfree", "--option", "payload=2",
         "--target", PLATFORM, *arguments],
        env=VARIABLES, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode != 0 and done.stdout == ""
    assert "payload=2 keeps no payload under adr" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_simulated_queue_that_is_empty_lets_time_pass(programs: dict[str, Path]) -> None:
    arguments = ["--index", "queue:mutex", "--target", PLATFORM, "--producers", "1",
                 "--consumers", "6", "--operations", "600"]  # fmt: skip
    record = bench(programs["sim"], *arguments)
    pop = record["repetitions"][0]["operations"]["pop"]
    assert pop["retries"] > 0
    assert pop["attempted"] == pop["succeeded"] == 600


def test_the_schema_knows_a_queue_from_an_index(programs: dict[str, Path]) -> None:
    queue = bench(programs["native"], "--index", "queue:mutex", *SMALL)
    index = bench(programs["native"], "--index", "null", "--records", "10", "--operations", "10")
    for record, path, value in (
        (queue, "key_kind", "integer"),
        (index, "key_kind", None),
        (queue, "configuration", {**queue["configuration"], "queue": {}}),
        (queue, "configuration", {**queue["configuration"],
                                  "workload": index["configuration"]["workload"]}),
        (index, "configuration", {**index["configuration"], "workload": None}),
    ):  # fmt: skip
        broken = copy.deepcopy(record) | {path: value}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, SCHEMA)


def test_runs_of_queues_are_labelled_compared_and_reported(
    programs: dict[str, Path], tmp_path: Path
) -> None:
    files = []
    for payload in ("8", "4KiB"):
        record = bench(
            programs["native"], "--index", "queue:mutex", "--payload", payload, "--operations",
            "20K", "--repetitions", "3",
        )  # fmt: skip
        files.append(tmp_path / f"{payload}.json")
        files[-1].write_text(json.dumps(record))
    labels = records.labels_of(json.loads(files[1].read_text()))
    assert labels["workload"] == "1 producer, 1 consumer, 4096 B"
    assert "key_kind" not in labels
    compared = json.loads(perdure("compare", *files, "--json", "--threshold", "0.99"))
    (pair,) = compared["comparisons"]
    sides = [f"1 producer, 1 consumer, {size} B" for size in (8, 4096)]
    assert pair["labels"]["workload"] == " / ".join(sides)
    both = tmp_path / "both.json"
    both.write_text("\n".join(json.dumps(json.loads(f.read_text())) for f in files))
    index = bench(
        programs["native"], "--index", "stdmap", "--records", "1000", "--operations", "1000"
    )
    with both.open("a") as file:
        file.write("\n" + json.dumps(index))
    page = Path(perdure("report", both, "-o", tmp_path / "page.html", "--quiet").strip())
    text = page.read_text()
    assert "Queues" in text and "queue:mutex" in text and "1 producer, 1 consumer, 4096 B" in text


def test_a_simulated_run_of_a_queue_is_reported(programs: dict[str, Path], tmp_path: Path) -> None:
    record = bench(
        programs["sim"], "--index", "queue:mutex", "--target", PLATFORM, "--operations", "500"
    )
    file = tmp_path / "sim.json"
    file.write_text(json.dumps(record))
    page = Path(perdure("report", file, "-o", tmp_path / "page.html", "--quiet").strip())
    assert "queue:mutex" in page.read_text()
    same = json.loads(perdure("compare", file, file, "--json"))
    assert same["comparisons"][0]["verdict"] == "same"


def test_the_table_and_the_list_show_queues(programs: dict[str, Path]) -> None:
    assert programs
    table = perdure("bench", "--index", "queue:mutex", "--operations", "1000", "--quiet")
    assert "push" in table and "full or empty" in table
    assert "queue:mutex" in perdure("list", "queues")
    assert "perdure list queues" in perdure("list")
    assert "blocking" in perdure("list", "queue:mutex")
