"""Latencies as files of HdrHistogram, read back by its own library."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fake_native
from conftest import Cli
from perdure.results import histograms
from perdure.results.record import Run

pytest.importorskip("hdrh")
BUCKETS = [[100, 50], [1024, 30], [4096, 15], [1 << 20, 5]]


def run(index: str = "lbtree", repetitions: int = 2, **more: Any) -> Run:
    record = fake_native.record({"index": index, "mix": "lookup=0.5,insert=0.5"})
    one = record["repetitions"][0]
    lookup = one["operations"]["lookup"] | {"histogram": BUCKETS}
    lookup["latency_ns"] = lookup["latency_ns"] | {"max": 1_050_000}
    one["operations"]["lookup"] = lookup
    record["repetitions"] = [one | {"seconds": 0.5}] * repetitions
    return Run({"index": index, "workload": "half a/half b", **more}, record)


def test_a_distribution_has_all_repetitions_and_the_exact_maximum(tmp_path: Path) -> None:
    (file,) = histograms.write([run()], hgrm=tmp_path / "new")
    assert file == tmp_path / "new" / "lbtree-lookup.hgrm"
    text = file.read_text()
    assert text.splitlines()[0].split() == ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]
    lines = [line.split() for line in text.splitlines()[2:] if not line.startswith("#")]
    assert float(lines[0][0]) == 100, "below 128 values are exact"
    assert (float(lines[-1][1]), int(lines[-1][2])) == (1.0, 200)
    assert float(lines[-1][0]) == pytest.approx(1_050_000, rel=1e-3)
    # Half of them are at most 100 ns, and 95 of 100 at most the middle of 4096 to 4159.
    assert max(float(line[0]) for line in lines if float(line[1]) <= 0.5) == 100
    below = max(float(line[0]) for line in lines if float(line[1]) <= 0.95)
    assert below == pytest.approx(4127, abs=4)
    assert "lookup of index lbtree, workload half a/half b, measured, ns" in text


def test_a_log_has_an_interval_for_each_repetition(tmp_path: Path) -> None:
    from hdrh.histogram import HdrHistogram
    from hdrh.log import HistogramLogReader

    (file,) = histograms.write([run(repetitions=3)], hlog=tmp_path)
    assert file.name == "lbtree-lookup.hlog"
    reader = HistogramLogReader(str(file), HdrHistogram(1, 1 << 62, 3))
    seen = []
    while (interval := reader.get_next_interval_histogram()) is not None:
        assert interval.get_total_count() == 100
        assert interval.get_value_at_percentile(60) == pytest.approx(1031, abs=4)
        assert interval.get_max_value() == pytest.approx(1_050_000, rel=1e-3)
        seen.append((interval.get_start_time_stamp(), interval.get_end_time_stamp()))
    assert seen == [(0, 500), (500, 1000), (1000, 1500)]


def test_cells_have_files_of_their_own(tmp_path: Path) -> None:
    runs = [run(threads="1"), run(threads="2"), run("hot", threads="1"), run(threads="1/")]
    names = [file.name for file in histograms.write(runs, hgrm=tmp_path)]
    assert names == [
        "lbtree-1-lookup.hgrm", "lbtree-2-lookup.hgrm", "hot-1-lookup.hgrm",
        "lbtree-1-lookup-2.hgrm",
    ]  # fmt: skip


def test_no_cell_takes_the_file_of_another(tmp_path: Path) -> None:
    # As names go into files: two are equal, one is what the second of them is called, and letters
    # that are none of ours leave nothing.
    keys = ["a b", "a-b", "a-b-2", "größe", "测试", "x" * 300, "x" * 301]
    runs = [Run({"keys": key, "index": "hot"}, run().record) for key in keys]
    runs = [replace(one, labels={**one.labels, "workload": "w"}) for one in runs]
    files = histograms.write(runs, hgrm=tmp_path)
    assert len(set(files)) == len(keys) == len(list(tmp_path.iterdir()))
    assert not [file.name for file in files if file.name.startswith(("-", "."))]
    for key, file in zip(keys, files, strict=True):
        assert f"keys {key}, index hot" in file.read_text()


def test_records_without_histograms_are_refused_with_a_remedy(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    file.write_text(json.dumps(fake_native.record({"index": "lbtree"})))
    done = cli("export", file, "--hgrm", tmp_path / "d")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no run kept its histograms" in done.stderr and "--export-histograms" in done.stderr
    assert not (tmp_path / "d").exists()
    assert "write nothing" in cli("export", file).stderr
    file.write_text(json.dumps(run().record))
    done = cli("export", file, "--hgrm", tmp_path / "d", "--hlog", tmp_path / "d")
    assert done.returncode == 0, done.stderr
    assert {Path(line).name for line in done.stdout.split()} == {
        "lbtree-lookup.hgrm", "lbtree-lookup.hlog",
    }  # fmt: skip
