"""The real perdure-native of the Release build prints what the Python side expects."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from conftest import ROOT
from perdure.study import flags

SCHEMA = json.loads((ROOT / "schema" / "run-record.schema.json").read_text())
# Small and short: these tests look at what is said, not at how fast it was.
SMALL = ["--records", "2000", "--seconds", "0.02", "--warmup-seconds", "0", "--repetitions", "2"]
MIX = "lookup=0.4,lookup_negative=0.1,insert=0.1,upsert=0.1,update=0.1,remove=0.1,scan=0.1"


@pytest.fixture
def program(real_programs: Callable[[str], Path]) -> Path:
    return real_programs("native")


def bench(program: Path, *arguments: str) -> Any:
    done = subprocess.run(
        [program, "bench", *arguments, "--json", "--quiet"],
        env={**os.environ, "PMEM_IS_PMEM_FORCE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def listed(program: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [program, "list", "indexes", "--json"], capture_output=True, text=True, check=True
    )
    indexes: list[dict[str, Any]] = json.loads(done.stdout)
    return indexes


@pytest.mark.slow
@pytest.mark.parametrize("key_kind", ["integer", "bytes", "slots"])
def test_every_index_prints_a_record_of_the_schema(
    program: Path, tmp_path: Path, key_kind: str
) -> None:
    indexes = [each for each in listed(program) if key_kind in each["key_kinds"]]
    assert indexes
    for index in indexes:
        name = index["name"]
        keeps = index["index_class"] in ("persistent", "volatile_pm", "on_disk")
        mix = (
            MIX
            if index["ordered"]
            else MIX.replace(",scan=0.1", "").replace("lookup=0.4", "lookup=0.5")
        )
        if not index["replaces"]:
            mix = mix.replace(",upsert=0.1,update=0.1", "").replace("insert=0.1", "insert=0.3")
        pool = ["--pool", str(tmp_path / name)] if keeps else []
        if index["needs_eadr"]:
            pool += ["--durability", "eadr"]
        record = bench(
            program, "--index", name, "--key-kind", key_kind, "--mix", mix, *SMALL, *pool
        )
        jsonschema.validate(record, SCHEMA)
        assert record["key_kind"] == key_kind
        assert set(record["repetitions"][0]["operations"]) == {
            p.split("=")[0] for p in mix.split(",")
        }


def test_the_demo_runs_every_index(program: Path) -> None:
    study = tomllib.loads((ROOT / "studies" / "demo.toml").read_text())
    shown = [*study["axes"]["index"], *study["include"][0]["index"]]
    # Structures, sets and storage engines are shown by studies of their own.
    indexes = [
        each for each in listed(program) if "integer" in each["key_kinds"] and each["replaces"]
    ]
    assert sorted(shown) == sorted(each["name"] for each in indexes)


def test_an_open_loop_and_histograms_follow_the_schema(program: Path) -> None:
    arguments = ["--index", "stdmap", "--rate", "20000", "--export-histograms", "--verify"]
    record = bench(program, *arguments, *SMALL)
    jsonschema.validate(record, SCHEMA)
    lookup = record["repetitions"][0]["operations"]["lookup"]
    assert lookup["service_ns"] is not None
    assert sum(count for _, count in lookup["histogram"]) == lookup["succeeded"] + lookup["failed"]
    assert record["verification"]["wrong"] == 0


def test_a_recovery_follows_the_schema(program: Path, tmp_path: Path) -> None:
    pool = ["--pool", str(tmp_path / "p")]
    bench(program, "--index", "fptree", *SMALL, *pool)
    record = bench(program, "--index", "fptree", "--reuse", *SMALL, *pool)
    jsonschema.validate(record, SCHEMA)
    assert record["recovery"]["records"] == 2000


def test_the_schema_refuses_a_record_that_lacks_something(program: Path) -> None:
    record = bench(program, "--index", "null", *SMALL)
    for name in ("schema", "repetitions", "environment", "memory"):
        broken = {key: value for key, value in record.items() if key != name}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, SCHEMA)


def test_every_flag_that_a_study_may_set_exists(program: Path) -> None:
    done = subprocess.run([program, "bench", "--help"], capture_output=True, text=True, check=True)
    for name in flags.FLAGS:
        assert f"--{name.replace('_', '-')}" in done.stdout, name


def test_the_stand_in_speaks_like_the_real_program(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [environment["PERDURE_NATIVE"], "bench", "--index", "fptree", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    record = json.loads(done.stdout)
    real = SCHEMA["required"]
    assert set(real) <= set(record)
