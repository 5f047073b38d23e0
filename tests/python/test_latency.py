"""A percentile is shown where enough operations were timed to tell it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Cli
from perdure.results import metrics, query, record

FOUND = {"p50": 200, "p90": 300, "p99": 500, "p999": 900, "p9999": 2000, "max": 9000, "mean": 210.0}


def document(cli: Cli, folder: Path, latency: dict[str, Any], attempted: int) -> Path:
    """A run record whose every operation has these latencies."""
    done = cli("bench", "--index", "stdmap", "--json")
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    for repetition in run["repetitions"]:
        for operation in repetition["operations"].values():
            operation |= {"latency_ns": latency, "attempted": attempted}
    file = folder / "run.json"
    file.write_text(json.dumps(run))
    return file


@pytest.mark.parametrize(
    ("samples", "attempted", "told"),
    [
        (None, 50, ["p50", "p90", "p99", "p999", "p9999", "max"]),  # simulated: exact
        (50_000, 50_000, ["p50", "p90", "p99", "p999", "p9999", "max"]),
        (50_000, 12_800_000, ["p50", "p90", "p99", "p999", "p9999"]),
        (1_000, 256_000, ["p50", "p90", "p99", "p999"]),
        (999, 256_000, ["p50", "p90", "p99"]),
        (5, 1_280, ["p50"]),
    ],
)
def test_only_what_the_samples_tell_is_shown(
    cli: Cli, tmp_path: Path, samples: int | None, attempted: int, told: list[str]
) -> None:
    latency = FOUND if samples is None else {**FOUND, "samples": samples}
    runs = record.load(document(cli, tmp_path, latency, attempted))
    for name in query.PERCENTILES:
        assert metrics.value(name, runs) == (FOUND[name] if name in told else None), name
    rows = query.latencies(query.read(runs))
    assert rows
    for row in rows:
        assert [name for name in query.PERCENTILES if row[name] is not None] == told
