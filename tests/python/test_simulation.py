"""perdure-sim itself: records that repeat byte for byte, right answers, laws that hold.

Small sizes: what is tested is that nothing of the host shows, not how fast the model is.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

Cli = Callable[..., subprocess.CompletedProcess[str]]
ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "release" / "src" / "cli"
SIM = Path(os.environ.get("PERDURE_SIM") or FOLDER / "perdure-sim")
NATIVE = FOLDER / "perdure-native"
PLATFORM = "optane100-8280l-2s"
EADR_PLATFORM = "optane100-8280l-2s-eadr"
THREADS = (1, 7, 40)
MIX = "lookup=0.4,insert=0.2,update=0.15,remove=0.1,lookup_negative=0.05,scan=0.1"
UNORDERED_MIX = MIX.replace("lookup=0.4", "lookup=0.5").replace(",scan=0.1", "")
SMALL = ("--records", "2000", "--operations", "1400", "--scan-count", "20", "--json", "--quiet")


def sim(*arguments: str, prefix: tuple[str, ...] = (), **changed: Any) -> Any:
    changed.setdefault("cwd", ROOT)
    environment = {"PMEM_IS_PMEM_FORCE": "1", **os.environ, **changed.pop("env", {})}
    return subprocess.run(
        [*prefix, str(SIM), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=environment,
        **changed,
    )


def bench(index: str, threads: int, *more: str, **changed: Any) -> str:
    """One small benchmark's standard output; the test fails when it does not succeed."""
    own = [word for word in SMALL if word in more]  # flags that are given once only
    small = [w for before, w in zip(("", *SMALL), SMALL, strict=False) if not {before, w} & {*own}]
    flags = ("--index", index, "--threads", str(threads), *small, *more)
    mix = () if "--mix" in more else ("--mix", mix_of(index))
    target = () if "--target" in more else ("--target", f"sim:{platform_of(index)}")
    done = sim("bench", *flags, *mix, *target, **changed)
    assert done.returncode == 0, f"{index}, {threads} threads: {done.stderr}"
    return str(done.stdout)


@cache
def indexes() -> list[dict[str, Any]]:
    listed = subprocess.run(
        [str(SIM), "list", "indexes", "--json"], capture_output=True, text=True, check=True
    )
    return [index for index in json.loads(listed.stdout) if "sim" in index["targets"]]


def info_of(name: str) -> dict[str, Any]:
    (index,) = (index for index in indexes() if index["name"] == name)
    return index


def mix_of(name: str) -> str:
    mix = MIX if info_of(name)["ordered"] else UNORDERED_MIX
    if info_of(name)["replaces"]:
        return mix
    return mix.replace(",update=0.15", "").replace("insert=0.2", "insert=0.35")


def durability_of(name: str) -> tuple[str, ...]:
    """The flags of a native run."""
    return ("--durability", "eadr") if info_of(name)["needs_eadr"] else ()


def platform_of(name: str) -> str:
    return EADR_PLATFORM if info_of(name)["needs_eadr"] else PLATFORM


@pytest.fixture(scope="module")
def simulated() -> list[str]:
    names = [index["name"] for index in indexes()]
    assert {"fptree", "lbtree", "stdmap", "abslbtree", "null"} <= set(names)
    return names


@pytest.fixture
def busy() -> Iterator[None]:
    """Load on every core while the second halves of the pairs run."""
    spin = [
        subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count() or 1)
    ]
    yield
    for process in spin:
        process.kill()
        process.wait()


def test_other_files_beside_the_pool_do_not_show() -> None:
    alone = bench("lbtree", 7)
    others = [Path(f"/dev/shm/perdure-other-{os.getpid()}-{'x' * n}") for n in (1, 9, 30, 70)]
    try:
        for other in others:
            other.touch()
        assert bench("lbtree", 7) == alone
    finally:
        for other in others:
            other.unlink(missing_ok=True)


@pytest.mark.slow
@pytest.mark.usefixtures("busy")
def test_every_index_repeats_byte_for_byte(simulated: list[str], tmp_path: Path) -> None:
    def pair(case: tuple[str, int]) -> str | None:
        index, threads = case
        # Another environment, other addresses, another folder: nothing of it may show.
        kind = ("--key-kind", kinds[index])
        first = bench(index, threads, *kind, prefix=("setarch", "-R"))
        second = bench(index, threads, *kind, cwd=tmp_path, env={"PADDING": "x" * 5000})
        return None if first == second else f"{index} at {threads} threads"

    kinds = {index["name"]: index["key_kinds"][0] for index in indexes()}
    modes = [(name, 7) for name in simulated if ":" in name]  # threads tell little of a mode
    cases = [*itertools.product((name for name in simulated if ":" not in name), THREADS), *modes]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        assert [different for different in pool.map(pair, cases) if different] == []


# What the shell that a run is started from may be like.
SHELLS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "small stacks": (("bash", "-c", 'ulimit -s 512; exec "$0" "$@"'), {}),
    "large stacks": (("bash", "-c", 'ulimit -s 65536; exec "$0" "$@"'), {}),
    "endless stacks": (("bash", "-c", 'ulimit -s unlimited; exec "$0" "$@"'), {}),
    "a large environment": ((), {f"PADDING_{i}": "x" * 1000 for i in range(40)}),
    "PMDK told otherwise": (
        (),
        {"PMEM_IS_PMEM_FORCE": "0", "PMEM_NO_CLWB": "1", "PMEM_NO_MOVNT": "1",
         "PMEM_MOVNT_THRESHOLD": "0", "PMEM_AVX512F": "0", "PMEMOBJ_NLANES": "2",
         "PMEMOBJ_CONF": "heap.arenas_assignment_type=global"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "index", ["hashtable:pmem-trans", "hashtable:pmem-persist", "fptree", "rbtree:pmem-trans"]
)
def test_the_shell_shows_in_no_record(index: str) -> None:
    heap = () if ":" in index else ("--heap", "pmdk")
    threads = 4 if ":" in index else 3
    first = bench(index, threads, *heap, "--repetitions", "2")
    for shell, (prefix, variables) in SHELLS.items():
        again = bench(index, threads, *heap, "--repetitions", "2", prefix=prefix, env=variables)
        assert again == first, f"{index} from a shell with {shell}"


def test_pmdk_sees_no_variable_of_the_shell() -> None:
    first = bench("hashtable:pmem-trans", 2)
    without = {k: v for k, v in os.environ.items() if not k.startswith("PMEM")}
    done = subprocess.run(
        [str(SIM), "bench", "--index", "hashtable:pmem-trans", "--threads", "2", *SMALL,
         "--mix", mix_of("hashtable:pmem-trans"), "--target", f"sim:{PLATFORM}"],
        capture_output=True, text=True, check=True, timeout=300, cwd=ROOT, env=without,
    )  # fmt: skip
    assert done.stdout == first


@pytest.mark.slow
def test_every_answer_is_right_with_the_guard_on(simulated: list[str]) -> None:
    known = {index["name"]: index for index in indexes()}
    for index, kind in ((i, k) for i in simulated for k in known[i]["key_kinds"]):
        if index == "null" or "memkind" in known[index]["heaps"]:  # keep nothing to be checked
            continue
        flags = ("--key-kind", kind, "--verify", "--check", "--guard")
        document = json.loads(bench(index, 5, *flags))
        assert not document["verification"]["wrong"], (index, kind, document["verification"])
        assert document["verification"]["checked"] >= 1400
        assert document["platform"]["guard"] is True


# One thread's answers are the same natively and simulated, on any heap; those of several are right.
@pytest.mark.slow
@pytest.mark.parametrize("heap", ["slab", "pmdk", "memkind"])
def test_native_and_simulated_answers_agree(heap: str, tmp_path: Path) -> None:
    flags = ("--verify", "--check", "--heap", heap, *SMALL)
    guard = () if heap == "memkind" else ("--guard",)

    def check(case: tuple[str, str]) -> None:
        index, kind = case
        kept = {}
        for program, more in (
            (NATIVE, ("--repetitions", "1", "--warmup-seconds", "0", *durability_of(index))),
            (SIM, ("--target", f"sim:{platform_of(index)}", "--no-warm", *guard)),
        ):
            kept[program] = tmp_path / f"{index}-{kind}-{program.name}.txt"
            pool = tmp_path / f"{index}-{kind}-{program.name}.pool"
            done = subprocess.run(
                [str(program), "bench", "--index", index, "--key-kind", kind, *flags, *more,
                 "--mix", mix_of(index),
                 "--answers", str(kept[program]), "--pool", str(pool)],
                cwd=ROOT, env={"PMEM_IS_PMEM_FORCE": "1", **os.environ}, timeout=120,
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0, f"{case}: {done.stderr}"
        native, simulated = (kept[p].read_text().splitlines() for p in (NATIVE, SIM))
        # 1400 operations and, where they can be scanned, the records that are left.
        assert len(native) >= 1400
        if mix_of(index) == MIX:
            assert len(native) > 2800 and sum(line.startswith("record ") for line in native) > 1400
        different = [pair for pair in zip(native, simulated, strict=True) if pair[0] != pair[1]]
        assert different == [], f"{case}: {different[0]}"
        many = bench(index, 9, "--key-kind", kind, "--heap", heap, "--verify", "--check", *guard)
        assert json.loads(many)["verification"]["wrong"] == 0, case

    # What needs no pool runs once; on memkind's heap only what is made for it.
    classes = {
        "slab": ("persistent", "in_memory", "on_disk"),
        "pmdk": ("persistent",),
        "memkind": ("volatile_pm",),
    }[heap]
    cases = [
        (index["name"], kind)
        for index in indexes()
        if index["index_class"] in classes and (heap in index["heaps"] or not index["heaps"])
        for kind in index["key_kinds"]
    ]
    expected = {
        "slab": ("fptree", "bytes"),
        "pmdk": ("rbtree:pmem-trans", "slots"),
        "memkind": ("btree:pmem-volatile", "slots"),
    }
    assert expected[heap] in cases
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(check, cases))


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
    assert time["total"] == pytest.approx(threads * repetition["seconds"] * 1e9, rel=1e-9)
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
        assert "foreign library" in done.stderr and "--target native" in done.stderr


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


@pytest.fixture
def pool() -> Iterator[Path]:
    path = Path(f"/dev/shm/perdure-test-{os.getpid()}.pool")
    yield path
    path.unlink(missing_ok=True)


def test_pmdk_heaps_run_on_threads_of_the_system() -> None:
    # Of byte strings every insertion allocates.
    common = ("--key-kind", "bytes", "--verify", "--guard")
    flags = (*common, "--heap", "pmdk")
    for index, threads in itertools.product(("fptree", "lbtree"), (1, 6)):
        first = bench(index, threads, *flags)
        document = json.loads(first)
        assert document["platform"]["carrier"] == "threads"
        assert document["configuration"]["heap"] == "pmdk"
        assert document["verification"]["wrong"] == 0
        # libpmemobj's own flushes and fences are seen: an insert takes more than on a slab.
        slab = json.loads(bench(index, threads, *common))
        fences = [d["repetitions"][0]["simulation"]["counters"]["fences"] for d in (document, slab)]
        assert fences[0] > fences[1] > 0
        assert bench(index, threads, *flags) == first


@pytest.mark.parametrize("heap", ["slab", "pmdk"])
def test_an_existing_pool_is_recovered_and_used(heap: str, pool: Path) -> None:
    made = json.loads(bench("fptree", 2, "--heap", heap, "--pool", str(pool)))
    assert made["recovery"] is None and pool.is_file()
    again = bench("fptree", 3, "--reuse", "--pool", str(pool), "--verify", "--guard")
    document = json.loads(again)
    assert document["recovery"]["clean"] is True and document["configuration"]["heap"] == heap
    added = made["repetitions"][0]["operations"]["insert"]["succeeded"]
    removed = made["repetitions"][0]["operations"]["remove"]["succeeded"]
    assert document["recovery"]["records"] >= 2000 + added - removed
    # Recovery is simulated: it takes virtual time, and reads the pool.
    assert document["recovery"]["seconds"] > 0
    assert document["recovery"]["simulation"]["counters"]["pm"]["media_read_bytes"] > 0
    assert document["verification"]["wrong"] == 0


def test_a_killed_simulation_leaves_a_pool_that_recovers(pool: Path) -> None:
    process = subprocess.Popen(
        [str(SIM), "bench", "--index", "lbtree", "--target", f"sim:{PLATFORM}", "--threads", "2",
         "--records", "2000", "--operations", "1G", "--mix", "update=1",
         "--pool", str(pool), "--quiet"],
        cwd=ROOT, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    wait_for(pool.is_file)
    time.sleep(1)
    process.kill()
    assert process.wait(timeout=60) == -signal.SIGKILL
    document = json.loads(bench("lbtree", 2, "--reuse", "--pool", str(pool), "--verify"))
    assert document["recovery"]["clean"] is False
    assert document["recovery"]["records"] > 0 and document["verification"]["wrong"] == 0


def test_records_are_loaded_in_bulk_without_the_model() -> None:
    for index in ("fptree", "lbtree"):
        document = json.loads(bench(index, 2, "--bulk-load", "--verify", "--guard"))
        assert document["load"]["records"] == 2000 and document["load"]["seconds"] == 0
        assert document["verification"]["wrong"] == 0


@pytest.mark.parametrize("index", ["fptree", "roart"])
def test_blocks_lie_in_the_memory_of_their_heap(index: str) -> None:
    read = {}
    for heap in ("slab", "dram"):
        flags = ("--heap", heap, "--durability", "none", "--no-warm", "--mix", "lookup=1")
        record = json.loads(bench(index, 1, *flags))
        counters = record["repetitions"][0]["simulation"]["counters"]
        read[heap] = {kind: counters[kind]["controller_read_bytes"] for kind in ("pm", "dram")}
    assert read["slab"]["pm"] > 64 * 500
    assert read["dram"]["pm"] == 0
    assert read["dram"]["dram"] > read["slab"]["dram"] + 64 * 500


def test_warm_caches_spare_the_first_operations_their_misses() -> None:
    def misses(flag: str) -> float:
        document = json.loads(bench("fptree", 2, flag, "--mix", "lookup=1"))
        return float(document["repetitions"][0]["simulation"]["per_operation"]["llc_misses"])

    assert misses("--warm") < 0.1 < misses("--no-warm")


def perdure(*arguments: str) -> Any:
    return subprocess.run(
        [sys.executable, "-m", "perdure", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, "PERDURE_SIM": str(SIM), "PYTHONPATH": str(ROOT / "python")},
    )


def test_virtual_time_is_drawn_by_function(tmp_path: Path) -> None:
    out = tmp_path / "out.svg"
    flags = ("--index", "lbtree", "--target", f"sim:{PLATFORM}", "--mix", "insert=1", *SMALL)
    done = perdure("bench", *flags, "--flamegraph", str(out))
    assert done.returncode == 0, done.stderr
    svg = out.read_text()
    assert svg.startswith("<svg") or svg.startswith("<?xml")
    assert "LbTree" in svg and "::insert: " in svg and " ns, " in svg
    # The same run without the profile: watching costs no virtual time.
    plain = perdure("bench", *flags)
    assert json.loads(plain.stdout) == json.loads(done.stdout)


def test_a_native_run_is_drawn_or_says_why_not(tmp_path: Path, pool: Path) -> None:
    out = tmp_path / "out.svg"
    done = perdure("bench", "--index", "lbtree", "--records", "50k", "--operations", "200k",
                   "--pool", str(pool), "--json", "--quiet", "--flamegraph", str(out))  # fmt: skip
    if done.returncode == 0:
        assert "lbtree" in out.read_text()
    else:
        assert done.stderr.count("\n") == 1 and "perf" in done.stderr and not out.exists()


def test_the_guard_costs_no_virtual_time() -> None:
    watched, plain = (json.loads(bench("fptree", 5, flag)) for flag in ("--guard", "--no-guard"))
    assert watched["platform"].pop("guard") and not plain["platform"].pop("guard")
    assert watched == plain


def test_operations_that_take_no_time_are_counted() -> None:
    # The index does nothing: what is left may be less than the histogram's unit.
    document = json.loads(bench("null", 2, "--mix", "lookup=1", "--export-histograms"))
    lookups = document["repetitions"][0]["operations"]["lookup"]
    assert lookups["attempted"] == lookups["succeeded"] == 1400
    assert 0 <= lookups["latency_ns"]["p50"] <= lookups["latency_ns"]["max"] < 1000
    assert document["repetitions"][0]["throughput_ops_s"] > 1e6


def test_host_times_are_kept_apart(tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    first = bench("fptree", 2, "--host-times", str(path))
    phases = {phase["phase"]: phase for phase in json.loads(path.read_text())}
    assert phases["load"]["model"] == "off" and phases["load"]["operations"] == 2000
    repetition = phases["repetition 1 of 1"]
    assert repetition["model"] == "on" and repetition["operations"] == 1400
    counters = json.loads(first)["repetitions"][0]["simulation"]["counters"]
    seen = counters["loads"] + counters["stores"] + counters["atomics"]
    assert repetition["accesses"] == pytest.approx(seen, rel=0.01)
    assert first == bench("fptree", 2)
    done = sim("bench", "--index", "fptree", "--target", f"sim:{PLATFORM}", "--mix", "lookup=1",
               *SMALL, "--host-times", str(tmp_path / "nowhere" / "t.json"))  # fmt: skip
    assert done.returncode == 2 and done.stderr.count("\n") == 1


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def started(*flags: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(SIM), "bench", "--index", "fptree", "--target", f"sim:{PLATFORM}", *flags, "--quiet"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def pools_of(process: subprocess.Popen[str]) -> set[Path]:
    """What it has mapped of shared memory. Others may come and go there meanwhile."""
    maps = Path(f"/proc/{process.pid}/maps").read_text()
    return {Path(path) for path in re.findall(r"/dev/shm/\S+|/memfd:perdure-pool", maps)}


LONG = ("--records", "2000", "--operations", "1G", "--mix", "lookup=1", "--threads", "3")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_long_simulation(number: signal.Signals) -> None:
    process = started(*LONG)
    wait_for(lambda: pools_of(process))
    time.sleep(0.5)
    pools = pools_of(process)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and out == "" and "interrupted" in err
    assert not any(pool.exists() for pool in pools)


def test_a_signal_ends_a_simulation_that_never_looks(pool: Path) -> None:
    # Sorting and loading so many records is one operation, and takes far longer than the test.
    process = started("--records", "50M", "--bulk-load", "--pool-bytes", "32MiB",
                      "--pool", str(pool))  # fmt: skip
    wait_for(lambda: pools_of(process))
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and out == "" and "interrupted" in err
    assert not pool.exists()


def test_a_kill_leaves_nothing_in_shared_memory() -> None:
    for heap in ("slab", "pmdk"):
        process = started(*LONG, "--heap", heap)
        wait_for(lambda process=process: pools_of(process))
        time.sleep(0.5)
        pools = pools_of(process)
        process.kill()
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        assert pools == {Path("/memfd:perdure-pool")}, f"{heap}: a file that has a name"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[pm]\nread_mis_latency_ns = { value = 1, source = "x" }\n', ":3: [pm] has no"),
        ("[pm\n", ":2: "),
        ('[pm]\ndimms = { value = "six", source = "x" }\n', ":3: "),
        ("[pm]\ndimms = 6\n", ":3: "),
    ],
)
def test_a_bad_platform_file_names_its_line(tmp_path: Path, text: str, says: str) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(f'base = "{PLATFORM}"\n{text}')
    done = sim("bench", "--index", "lbtree", "--target", f"sim:{mine}")
    assert done.returncode == 2 and done.stdout == ""
    assert f"{mine}{says}" in done.stderr and done.stderr.count("\n") == 1
    assert "; " in done.stderr  # and what to do


CELLS = """name = "cells"
repetitions = 1
[flags]
target = "sim:optane100-8280l-2s"
records = 2000
operations = 1400
repetitions = 1
[axes]
index = ["fptree", "lbtree", "stdmap"]
threads = [1, 4]
workload = ["mixed", "insert"]
[workloads.mixed]
mix = { lookup = 0.6, update = 0.3, scan = 0.1 }
scan_count = 20
[workloads.insert]
mix = { insert = 1.0 }
"""


def test_cells_at_once_say_what_they_say_one_after_the_other(cli: Cli, tmp_path: Path) -> None:
    study = tmp_path / "cells.toml"
    study.write_text(CELLS)
    cores = os.sched_getaffinity(0)

    def records(name: str, on: set[int]) -> dict[str, str]:
        os.sched_setaffinity(0, on)  # a campaign runs one simulation per core that it may use
        try:
            done = cli("study", "run", study, "--results", tmp_path / name, PERDURE_SIM=str(SIM))
        finally:
            os.sched_setaffinity(0, cores)
        assert done.returncode == 0, done.stderr
        kept = sorted((tmp_path / name / "cells").iterdir())
        return {file.name: json.dumps(json.loads(file.read_text())["record"]) for file in kept}

    at_once = records("at-once", cores)
    one_by_one = records("one-by-one", {min(cores)})
    assert len(at_once) == 12
    assert at_once == one_by_one
