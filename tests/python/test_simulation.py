"""perdure-sim itself: records that repeat byte for byte, right answers, laws that hold.

Small sizes: what is tested is that nothing of the host shows, not how fast the model is.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "release" / "src" / "cli"
SIM = Path(os.environ.get("PERDURE_SIM") or FOLDER / "perdure-sim")
NATIVE = FOLDER / "perdure-native"
PLATFORM = "optane100-8280l-2s"
THREADS = (1, 7, 40)
MIX = "lookup=0.4,insert=0.2,update=0.15,remove=0.1,lookup_negative=0.05,scan=0.1"
SMALL = ("--records", "2000", "--operations", "1400", "--scan-count", "20", "--json", "--quiet")


def sim(*arguments: str, prefix: tuple[str, ...] = (), **changed: Any) -> Any:
    changed.setdefault("cwd", ROOT)
    environment = {"PMEM_IS_PMEM_FORCE": "1", **os.environ, **changed.pop("env", {})}
    return subprocess.run(
        [*prefix, str(SIM), *arguments],
        capture_output=True, text=True, check=False, timeout=120, env=environment, **changed,
    )  # fmt: skip


def bench(index: str, threads: int, *more: str, **changed: Any) -> str:
    flags = ("--index", index, "--threads", str(threads), *SMALL, *more)
    mix = () if "--mix" in more else ("--mix", MIX)
    target = () if "--target" in more else ("--target", f"sim:{PLATFORM}")
    done = sim("bench", *flags, *mix, *target, **changed)
    assert done.returncode == 0, f"{index}, {threads} threads: {done.stderr}"
    return str(done.stdout)


def indexes() -> list[dict[str, Any]]:
    listed = subprocess.run(
        [str(SIM), "list", "indexes", "--json"], capture_output=True, text=True, check=True
    )
    return [index for index in json.loads(listed.stdout) if "sim" in index["targets"]]


@pytest.fixture(scope="module")
def simulated() -> list[str]:
    names = [index["name"] for index in indexes()]
    assert {"fptree", "lbtree", "stdmap", "abslbtree", "null"} <= set(names)
    return names


@pytest.fixture(scope="module")
def busy() -> Iterator[None]:
    """Load on every core while the second halves of the pairs run."""
    spin = [
        subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count() or 1)
    ]
    yield
    for process in spin:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("busy")
def test_every_index_repeats_byte_for_byte(simulated: list[str], tmp_path: Path) -> None:
    def pair(case: tuple[str, int]) -> str | None:
        index, threads = case
        # Another environment, other addresses, another folder: nothing of it may show.
        first = bench(index, threads, prefix=("setarch", "-R"))
        second = bench(index, threads, cwd=tmp_path, env={"PADDING": "x" * 5000})
        return None if first == second else f"{index} at {threads} threads"

    cases = list(itertools.product(simulated, THREADS))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        assert [different for different in pool.map(pair, cases) if different] == []


def test_every_answer_is_right_with_the_guard_on(simulated: list[str]) -> None:
    kinds = {index["name"]: index["key_kinds"] for index in indexes()}
    for index, kind in ((i, k) for i in simulated for k in kinds[i]):
        if index == "null":  # keeps nothing that could be checked
            continue
        flags = ("--key-kind", kind, "--verify", "--check", "--guard")
        document = json.loads(bench(index, 5, *flags))
        assert document["verification"]["wrong"] == 0, (index, kind, document["verification"])
        assert document["verification"]["checked"] >= 1400
        assert document["platform"]["guard"] is True


def test_a_simulated_record_keeps_the_schema_and_its_laws() -> None:
    schema = json.loads((ROOT / "schema" / "run-record.schema.json").read_text())
    threads = 4
    document = json.loads(bench("lbtree", threads))
    jsonschema.Draft202012Validator(schema).validate(document)
    assert document["target"] == f"sim:{PLATFORM}" and document["environment"] is None
    assert document["platform"]["cpus"] == [0, 1, 2, 3]
    (repetition,) = document["repetitions"]
    simulation = repetition["simulation"]
    time = simulation["time_ns"]
    parts = sum(value for name, value in time.items() if name != "total")
    assert parts == pytest.approx(time["total"], rel=1e-9)
    assert time["total"] == pytest.approx(threads * repetition["seconds"] * 1e9, rel=1e-3)
    assert simulation["counters"]["flushes"] > 0 and simulation["counters"]["fences"] > 0
    pm = simulation["counters"]["pm"]
    assert pm["media_read_bytes"] % 256 == 0 and pm["media_write_bytes"] % 256 == 0


def test_threads_run_where_they_are_told() -> None:
    placed = json.loads(bench("lbtree", 2, "--cpus", "node1,0", "--pool-node", "1"))["platform"]
    assert placed["cpus"] == [28, 29]
    assert (placed["pool_node"], placed["dram_node"]) == (1, 1)
    remote = json.loads(bench("lbtree", 2, "--cpus", "node1"))
    assert remote["repetitions"][0]["simulation"]["counters"]["upi_bytes"] > 0


def test_open_loop_and_seconds_count_virtual_time() -> None:
    timed = json.loads(bench("null", 2, "--mix", "lookup=1", "--rate", "1M"))
    assert timed["repetitions"][0]["seconds"] == pytest.approx(1400 / 1e6, rel=0.02)
    flags = tuple(flag for flag in SMALL if flag not in ("--operations", "1400"))
    done = sim("bench", "--index", "null", "--target", f"sim:{PLATFORM}", "--mix", "lookup=1",
               "--seconds", "0.0005", *flags)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["repetitions"][0]["seconds"] == pytest.approx(5e-4, rel=0.02)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--target", "sim:optane100-8280"), "did you mean 'optane100-8280l-2s'?"),
        (("--target", "sim:"), "is no target"),
        (("--target", "native"), "only simulates"),
        ((), "a platform is missing"),
        (("--target", f"sim:{PLATFORM}", "--threads", "1000"), "--threads 1000"),
        (("--target", f"sim:{PLATFORM}", "--threads", "57"), "has 56"),
        (("--target", f"sim:{PLATFORM}", "--cpus", "node2"), "there is no node2"),
        (("--target", f"sim:{PLATFORM}", "--cpus", "0-3", "--threads", "5"), "names 4"),
        (("--target", f"sim:{PLATFORM}", "--pool-node", "2"), "--pool-node 2"),
        (("--target", f"sim:{PLATFORM}", "--carrier", "fibres"), "did you mean 'fibers'?"),
        (("--target", f"sim:{PLATFORM}", "--ablate", "no-directry"), "mean 'no-directory'?"),
        (("--target", f"sim:{PLATFORM}", "--flamegraph", "a.svg"), "ends in .folded"),
    ],
)  # fmt: skip
def test_what_cannot_be_simulated_is_one_line(flags: tuple[str, ...], says: str) -> None:
    done = sim("bench", "--index", "lbtree", *flags)
    assert done.returncode == 2 and done.stdout == ""
    assert says in done.stderr and done.stderr.count("\n") == 1


def test_foreign_libraries_are_native_only() -> None:
    listed = subprocess.run(
        [str(NATIVE), "list", "indexes", "--json"], capture_output=True, text=True, check=True
    )
    targets = {index["name"]: index["targets"] for index in json.loads(listed.stdout)}
    for index in ("lmdb", "rocksdb", "tbbmap"):
        assert targets[index] == ["native"]
        done = sim("bench", "--index", index, "--target", f"sim:{PLATFORM}", "--pool", "x")
        assert done.returncode == 2 and done.stderr.count("\n") == 1


def test_a_platform_of_ones_own_is_a_path(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    slow = '[pm]\nread_miss_latency_ns = { value = 2000, source = "a guess" }\n'
    mine.write_text(f'base = "{PLATFORM}"\n{slow}')
    document = json.loads(bench("lbtree", 1, "--target", f"sim:{mine}"))
    assert document["target"] == "sim:mine"
    assert (
        document["platform"]["fingerprint"]
        != json.loads(bench("lbtree", 1))["platform"]["fingerprint"]
    )
    mine.write_text(f'base = "{PLATFORM}"\n{slow.replace("2000", "20000")}')
    done = sim("bench", "--index", "lbtree", "--target", f"sim:{mine}")
    assert done.returncode == 2
    assert f"{mine}:3: pm.read_miss_latency_ns is out of range" in done.stderr
