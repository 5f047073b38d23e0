"""The real perdure-sim of the Release build answers what the Python side asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT
from perdure.memory import reference
from perdure.programs import target as targets


@pytest.fixture
def program(real_programs: Callable[[str], Path]) -> Path:
    return real_programs("sim")


def perdure(*arguments: str | Path) -> Any:
    variables = {k: v for k, v in os.environ.items() if not k.startswith("PERDURE_")}
    done = subprocess.run(
        [sys.executable, "-m", "perdure", *map(str, arguments), "--json", "-q"],
        env={**variables, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_table_is_of_a_platform_that_exists(program: Path) -> None:
    assert program.name == "perdure-sim"
    for platform in {table.platform for table in reference.load_all()}:
        assert targets.describe(platform)["name"] == platform
        assert targets.cores_per_socket(f"sim:{platform}") >= 24


def test_each_kind_of_probe_answers_every_point(program: Path, tmp_path: Path) -> None:
    tables = ",".join(("i7", "i1", "i3", "u-latency", "u-fence", "u-write-buffer", "u-chase"))
    document = perdure("fidelity", "--quick", "--experiments", tables, "--results", tmp_path)
    assert program.is_file()
    for experiment in document["experiments"]:
        assert experiment["skipped"] == [], experiment["name"]
        assert experiment["points"] == len(experiment["values"]) > 0
        assert all(value["simulated"] > 0 for value in experiment["values"])
