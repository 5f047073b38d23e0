"""What each stage of `./perdure test` builds and runs; `STAGES` is their order."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

from stage import BUILD, ROOT, STRUCTURES, Stage, is_drawn, say

PYTHON = sys.executable
PYTHON_FOLDERS = ("python", "tests/python", "tests/ycsb", "bench", "tools")
FUZZ_SECONDS = 60
CRASH_SECONDS = 3  # per index, kind of key, domain and number of threads
CXX = (".cpp", ".h")
# The programs whose tests run many threads; the rest would only be slower under ThreadSanitizer.
THREADED_PROGRAMS = ("suite_concurrency", "suite_conformance", "test_pool", "test_index_inner_tree")
# The share of a program's tests that runs, and what it is in sanitized builds.
SAMPLED = {
    "suite_conformance": 1 / 3,
    "suite_corruption": 1 / 3,
    "suite_large": 1 / 6,
    "suite_queues": 1 / 3,
    "suite_recovery": 1 / 8,
    "suite_space": 1 / 8,
    "suite_concurrency": 1 / 4,
}
SUITES = (
    "suite_checkers",
    "suite_concurrency",
    "suite_conformance",
    "suite_corruption",
    "suite_library",
    "suite_queues",
    "suite_recovery",
    "suite_space",
)
# A sanitized suite does a part of the work, so that it ends in minutes.
SANITIZED = {"PERDURE_TEST_FACTOR": "0.05"}


RELEASE = ("-DCMAKE_BUILD_TYPE=Release",)
# Builds with assertions and tests. -g1 (lines, no variables) compiles in three quarters of the time
# of -g, -O1 in four fifths of that of -O2, and sanitized in less than half.
CHECKED = (
    "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
    "-DPERDURE_CHECKED=ON",
    "-DPERDURE_TESTS=ON",
    "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1 -DNDEBUG",
)
# Every other build compiles a folder as one unit; this one compiles file by file, and so shows that
# each source includes what it needs.
FUZZ = (
    *CHECKED,
    "-DCMAKE_UNITY_BUILD=OFF",
    "-DCMAKE_CXX_COMPILER=clang++-16",
    "-DPERDURE_FUZZ=ON",
    "-DPERDURE_BENCH=ON",
)


def release(stage: Stage) -> None:
    """the Release build"""
    stage.build("release", *RELEASE)


def sim(stage: Stage) -> None:
    """the tests of the simulator and of the crash explorer; the installed package"""
    # In the Release build, because the simulator is most of a build.
    folder = stage.build("release", *RELEASE, "-DPERDURE_SIM_TESTS=ON")
    stage.ctest(folder, sampled={})


def unit(stage: Stage) -> None:
    """every other test with assertions on; also the quoted code of the docs"""
    simulator = "OFF" if stage.seed is not None and not stage.pattern else "ON"
    folder = stage.build("checked", *CHECKED, "-DPERDURE_BENCH=ON", f"-DPERDURE_SIM={simulator}")
    stage.ctest(folder, "-LE", "nightly", sampled=SAMPLED)


def sanitized_tests(stage: Stage, folder: Path, others: str) -> None:
    """A sample of a sanitized build's tests, without those that `others` names."""
    marks = ("-LE", "nightly|slow", "-E", others)
    stage.ctest(folder, *marks, sampled=SAMPLED, environment=SANITIZED)


def address(stage: Stage) -> None:
    """the suite under AddressSanitizer and UndefinedBehaviorSanitizer"""
    # Mutants go wrong on purpose, and the large suite is slow.
    left_out = stage.without(
        STRUCTURES, SUITES, index_tests(), always=["suite_mutants", "suite_large"]
    )
    folder = stage.build("asan", *CHECKED, "-DPERDURE_SANITIZE=address", left_out)
    # The examples kill themselves. The other tests are slow here, and their code runs in other
    # tests: power cuts by hand, millions of checked answers, pools filled with strings, through
    # libpmemobj, or to the last record by many threads, all pairs of trie bits; and libpmemobj,
    # which is not instrumented, under indexes that also run on the other heap, or ended by damage
    # in a child.
    others = (
        r"^readme|^example|Crash\.|^Verifier\.|OutOfSpace.*_(pmdk|bytes)|/Refilled|/NearlyFull|"
        r"/NodeTest|/(Conformance|Concurrency|SuddenEnd).*_pmdk_|^PmdkTrial|/BadP.*/pmdk"
    )
    sanitized_tests(stage, folder, others)


def thread(stage: Stage) -> None:
    """the programs with many threads under ThreadSanitizer"""
    folder = stage.build(
        "tsan",
        *CHECKED,
        "-DPERDURE_SANITIZE=thread",
        stage.without(STRUCTURES),
        targets=THREADED_PROGRAMS,
    )
    # ctest gives test programs that were not built this ending. The names that follow, and the
    # tests of bad pools and dying children, have one thread. Conformance needs one heap only.
    # Debian's RocksDB is not instrumented, so the sanitizer would call its hand-overs races.
    others = (
        "_NOT_BUILT$|^readme|^example|^docs|^tidy|^package|^pibench_host|/Bad|^PmdkTrial|"
        "/Conformance.*_pmdk_|rocksdb"
    )
    sanitized_tests(stage, folder, others)


def clang(stage: Stage) -> None:
    """clang++-16's warnings as errors for a quarter of the sources, without making code"""
    folder = stage.build("fuzz", *FUZZ, targets=["perdure_build_info"])
    if not stage.passed:
        return
    compiled = json.loads((folder / "compile_commands.json").read_text())
    if stage.seed is not None:
        compiled = [each for each in compiled if is_drawn(stage.seed, source_of(each), 1 / 4)]
    calls = (shlex.split(entry["command"]) for entry in compiled)
    unlaunched = (call[1:] if Path(call[0]).name == "ccache" else call for call in calls)
    stage.run_at_once(([*call, "-fsyntax-only"] for call in unlaunched), directory=folder)
    whole = "" if stage.seed is None else f", by --seed {stage.seed}; --thorough takes all"
    say(f"clang: {len(compiled)} sources{whole}")


def source_of(entry: dict[str, str]) -> str:
    return os.path.relpath(entry["file"], ROOT)


def fuzz(stage: Stage) -> None:
    """each fuzz target for a minute, from the same seed every time"""
    folder = stage.build("fuzz", *FUZZ, targets=["fuzz"])
    programs = sorted(source.stem for source in (ROOT / "fuzz").glob("*_fuzz.cpp"))
    if not programs:
        stage.fail("no fuzz targets found")
    commands: list[list[str | Path]] = []
    for name in programs:
        grown, seeds = BUILD / "fuzz-corpus" / name, ROOT / "fuzz" / "corpus" / name
        grown.mkdir(parents=True, exist_ok=True)
        known = [seeds] if seeds.is_dir() else []
        commands.append(
            [
                folder / "fuzz" / name,
                f"-max_total_time={FUZZ_SECONDS}",
                "-seed=1",
                "-timeout=20",
                "-rss_limit_mb=2048",
                f"-artifact_prefix={BUILD}/log/{name}-",
                grown,
                *known,
            ]
        )
    stage.run_at_once(commands, at_a_time=len(commands))  # each ends by the clock


def python(stage: Stage) -> None:
    """pytest, ruff and mypy --strict, with the Release build's program"""
    stage.build("release", *RELEASE)
    stage.run(PYTHON, "-m", "ruff", "check", *PYTHON_FOLDERS)
    stage.run(PYTHON, "-m", "ruff", "format", "--check", *PYTHON_FOLDERS)
    stage.run(PYTHON, "-m", "mypy")
    chosen = ("-k", stage.pattern) if stage.pattern else ()
    seed = {"PERDURE_TEST_SEED": stage.seed} if stage.seed and not stage.pattern else {}
    stage.run(
        PYTHON,
        "-m",
        "pytest",
        "-q",
        "-n",
        "auto",
        "--dist",
        "worksteal",
        "--durations",
        "15",
        *chosen,
        environment=seed,
    )


def tidy(stage: Stage) -> None:
    """the rules of tools/tidy.py, among them that no test is disabled; the format of C++"""
    stage.run(PYTHON, "tools/tidy.py")
    folders = ("src", "bench", "fuzz", "tests", "examples")
    sources = [p for folder in folders for p in (ROOT / folder).rglob("*") if p.suffix in CXX]
    stage.run("clang-format-16", "--dry-run", "-Werror", *sorted(sources))


def crash(stage: Stage) -> None:
    """crash states of every registered index: adr and eadr, 1 and 2 threads"""
    folder = stage.build("release", *RELEASE, targets=["perdure-sim"])
    program = folder / "src" / "cli" / "perdure-sim"
    commands = []
    for what, commands_of in (("indexes", explorations), ("queues", queue_explorations)):
        listing = subprocess.run(
            [str(program), "list", what, "--json"], capture_output=True, text=True, check=False
        )
        if listing.returncode != 0:
            stage.fail(f"perdure-sim list {what} --json failed")
            return
        commands += [
            command
            for each in json.loads(listing.stdout)
            if each["index_class"] == "persistent" and each["recovers"]
            if not stage.pattern or re.search(stage.pattern, each["name"])
            for command in commands_of(program, each)
        ]
    if stage.seed is not None and not stage.pattern:
        drawn = [each for each in commands if is_drawn(stage.seed, Path(each[-1]).stem, 1 / 3)]
        say(
            f"crash: {len(drawn)} of {len(commands)} explorations, by --seed {stage.seed}; "
            "--thorough runs all"
        )
        commands = drawn
    stage.run_at_once(commands)


def explorations(program: Path, index: dict[str, Any]) -> Iterator[list[str]]:
    """The commands that explore one index; the last word of each names it in samples."""
    name = index["name"]

    def command(kind: str, what: str, *options: str, seconds: int = CRASH_SECONDS) -> list[str]:
        return [
            *(str(program), "crash", "--index", name, "--key-kind", kind, *options, "--quiet"),
            *("--budget", str(seconds)),
            *("--out", str(BUILD / "log" / f"crash-{name}-{kind}-{what}.json")),
        ]

    # A structure has one lock, under which nothing happens at once.
    counts = ("1",) if index["key_kinds"] == ["slots"] else ("1", "2")
    domains = ("eadr",) if index["needs_eadr"] else ("adr", "eadr")
    for kind, domain, threads in product(index["key_kinds"], domains, counts):
        yield command(kind, f"{domain}-{threads}", "--domain", domain, "--threads", threads)
    if index["heaps"] and "slab" not in index["heaps"]:
        return
    durability = ("--domain", domains[0])
    for kind in index["key_kinds"]:  # one thread, two, and six in a large pool
        yield command(kind, "ways", *durability, seconds=2 * CRASH_SECONDS)
    if any(option["name"] == "nodes" for option in index["options"]):
        return  # a slab of its own, whatever room the pool has
    for kind, room in product(index["key_kinds"], ("0", "3")):  # in pools that run full
        sizes = ("--keys", "3000", "--preload", "3000", "--ops", "60")
        yield command(kind, f"room-{room}", *durability, "--room", room, *sizes)


def queue_explorations(program: Path, queue: dict[str, Any]) -> Iterator[list[str]]:
    """The same of a queue, with a producer and a consumer at least."""
    name = queue["name"]
    if queue["progress"] != "lock-free":
        return  # kept to show what the published design breaks
    if queue["heaps"] and "slab" not in queue["heaps"]:
        return
    for domain, threads in product(("adr", "eadr"), ("2", "3")):
        yield [
            *(str(program), "crash", "--index", name, "--domain", domain, "--threads", threads),
            *("--quiet", "--budget", str(CRASH_SECONDS)),
            *("--out", str(BUILD / "log" / f"crash-{name}-{domain}-{threads}.json")),
        ]


def index_tests() -> list[str]:
    """The indexes' own test programs."""
    kinds = {"index": "index", "structure": "index", "lockfree": "lockfree"}
    return sorted(
        f"test_{kind}_{folder}"
        for layer, kind in kinds.items()
        for folder in {test.parent.name for test in ROOT.glob(f"src/{layer}/*/*_test.cpp")}
    )


STAGES: dict[str, Callable[[Stage], None]] = {
    "tidy": tidy,
    "release": release,
    "crash": crash,
    "sim": sim,
    "python": python,
    "unit": unit,
    "asan": address,
    "tsan": thread,
    "clang": clang,
    "fuzz": fuzz,
}
