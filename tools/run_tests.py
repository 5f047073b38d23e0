"""Every build and test of the project, in stages: what `./perdure test` runs after its set-up.

    ./perdure test                       all stages
    ./perdure test --list                the stages and what they do
    ./perdure test --only unit,python    some of them
    ./perdure test --only unit -k lbtree only tests whose name matches (ctest -R, pytest -k)
    ./perdure test --thorough            no samples (below)

The suites do one thing for every index, kind of key and heap. What takes longest of them runs for a
part of these, and so does what explores crash states. Under AddressSanitizer half of the suites, of
the structures and of the indexes' own test programs are not even built. Which part follows from
--seed, by default from the commit. -k asks for what it names, all of it.

Output of the tools goes to build/log/test-<stage>.log; the closing lines of each are repeated here,
and on a failure the end of the log. Exit codes: 0 all passed, 1 a stage failed, 2 usage.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
PYTHON = sys.executable
FUZZ_SECONDS = 60
CRASH_SECONDS = 3  # per index, kind of key, domain and number of threads
CXX = (".cpp", ".h")
# The programs whose tests run many threads; the rest would only be slower under ThreadSanitizer.
THREADED_PROGRAMS = ("suite_concurrency", "suite_conformance", "test_pool", "test_index_inner_tree")
# The share of a program's tests that runs, and what it is in sanitized builds.
SAMPLED = {
    "suite_large": 1 / 3,
    "suite_recovery": 1 / 3,
    "suite_space": 1 / 3,
    "suite_concurrency": 1 / 2,
}
SAMPLED_SANITIZED = {**SAMPLED, "suite_conformance": 1 / 2, "suite_corruption": 1 / 2}
SUITES = (
    "suite_checkers", "suite_concurrency", "suite_conformance", "suite_corruption",
    "suite_library", "suite_recovery", "suite_space",
)  # fmt: skip
# Only these tests need one of the structures by name.
STRUCTURES = ("arraylist", "bplustree", "graph", "hashtable", "linkedlist", "skiplist")
TESTS_OF_ALL_STRUCTURES = ("test_index_base", "test_index_memory", "test_index_tree")
# ctest's and pytest's verdicts, ninja's last word, libFuzzer's count of executions.
CLOSING = re.compile(
    r"tests passed|tests failed|\d+ passed|\d+ failed|Total Test time|^Ran \d+ tests|^tidy: |"
    r"no violation|^violation|"
    r"^Success: no issues|^All checks passed|files already formatted|^Done \d+ runs|^Found \d+ err"
)
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": f"halt_on_error=1:second_deadlock_stack=1:suppressions={ROOT}/tests/tsan.supp",
}
# A sanitized program does less of everything, so that a suite still ends in minutes.
SANITIZED = {"PERDURE_TEST_FACTOR": "0.05"}


def variables() -> dict[str, str]:
    return {"PMEM_IS_PMEM_FORCE": "1", **os.environ, **SANITIZER_OPTIONS}


@dataclass
class Stage:
    """One run of a stage: its log, whether all commands succeeded so far, and how long it built."""

    name: str
    pattern: str | None = None
    seed: str | None = None  # of samples; None: everything runs
    passed: bool = True
    seconds: float = 0
    building_seconds: float = 0
    closing: list[str] = field(default_factory=list)

    @property
    def log(self) -> Path:
        return BUILD / "log" / f"test-{self.name}.log"

    def run(self, *command: str | Path, environment: dict[str, str] | None = None) -> bool:
        """Runs one command after the others that succeeded; a failure ends the stage's work."""
        if not self.passed:
            return False
        arguments = [str(part) for part in command]
        with self.log.open("a") as log:
            log.write(f"$ {shlex.join(arguments)}\n")
            log.flush()
            start = log.tell()
            done = subprocess.run(
                arguments,
                cwd=ROOT,
                env={**variables(), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
        with self.log.open(errors="replace") as log:
            log.seek(start)
            output = log.read().splitlines()
        self.judge(arguments, done.returncode, output)
        return self.passed

    def run_at_once(
        self,
        commands: Iterable[Sequence[str | Path]],
        directory: Path = ROOT,
        at_a_time: int | None = None,
    ) -> None:
        """Runs independent commands, as many at a time as there are cores, to the end of all."""

        def start(command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [str(part) for part in command],
                cwd=directory,
                env=variables(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                check=False,
            )

        if not self.passed:
            return
        workers = at_a_time or os.cpu_count()
        with ThreadPoolExecutor(workers) as pool, self.log.open("a") as log:
            for done in pool.map(start, commands):
                log.write(f"$ {shlex.join(done.args)}\n{done.stdout}")
                log.flush()
                self.judge(done.args, done.returncode, done.stdout.splitlines())

    def judge(self, arguments: Sequence[str], code: int, output: Sequence[str]) -> None:
        self.closing += [line for line in output[-30:] if CLOSING.search(line)]
        if code != 0:
            self.passed = False
            command = textwrap.shorten(shlex.join(arguments), 300, placeholder=" ...")
            say(f"{self.name}: exit code {code} from: {command}")
            print("\n".join(output[-60:]), file=sys.stderr)

    def fail(self, what: str) -> None:
        self.passed = False
        say(f"{self.name}: {what}")

    def build(self, folder: str, *options: str, targets: Sequence[str] = ()) -> Path:
        """Configures and builds below build/; returns the folder."""
        path = BUILD / folder
        began = time.monotonic()
        launcher = "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"
        self.run("cmake", "-S", ROOT, "-B", path, "-G", "Ninja", launcher, *options)
        chosen = ("--target", *targets) if targets else ()
        self.run("cmake", "--build", path, *chosen)
        self.building_seconds += time.monotonic() - began
        return path

    def without(self, *kinds: Sequence[str], always: Sequence[str] = ()) -> str:
        """A build's option that leaves out half of the structures and programs of these kinds."""
        left = []
        if self.seed is not None and not self.pattern:
            left = [name for kind in kinds for name in kind if not is_drawn(self.seed, name)]
        if set(left) & set(STRUCTURES):
            left += [name for name in TESTS_OF_ALL_STRUCTURES if name not in left]
        if left:
            say(
                f"{self.name}: built without {', '.join(left)}, by --seed {self.seed}; --thorough "
                "builds all"
            )
        return f"-DPERDURE_LEAVE_OUT={';'.join([*always, *left])}"

    def ctest(
        self,
        folder: Path,
        *options: str,
        sampled: Mapping[str, float],
        environment: dict[str, str] | None = None,
    ) -> None:
        """Runs the tests of a build; of the `sampled` programs a part."""
        if self.pattern:
            options = (*options, "-R", self.pattern)
        elif self.seed is not None and self.passed:
            options = (*options, "-I", str(self.sample(folder, options, self.seed, sampled)))
        self.run(
            "ctest", "--test-dir", folder, "--output-on-failure", "--no-tests=error",
            "--parallel", "2", *options, environment=environment,
        )  # fmt: skip

    def sample(
        self, folder: Path, options: Sequence[str], seed: str, shares: Mapping[str, float]
    ) -> Path:
        """A file with the numbers of the tests that ctest is to run, and a line for the user."""

        def listing(form: str) -> str:
            command = ["ctest", "--test-dir", str(folder), *options, form]
            return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout

        program_of = {
            test["name"]: Path(test.get("command", [""])[0]).name
            for test in json.loads(listing("--show-only=json-v1"))["tests"]
        }
        # Numbers are those after the other options have chosen: only ctest knows them.
        numbered = re.findall(r"^ +Test +#(\d+): (.*)$", listing("--show-only"), re.MULTILINE)
        drawn = [
            number
            for number, name in numbered
            if is_drawn(seed, name, shares.get(program_of[name], 1))
        ]
        say(
            f"{self.name}: {len(numbered) - len(drawn)} tests of {', '.join(shares)} are not in "
            f"the sample of --seed {seed}; --thorough runs all"
        )
        file = BUILD / "log" / f"test-{self.name}.sample"
        file.write_text(f"0,0,0,{','.join(drawn)}\n", encoding="utf-8")
        return file


def index_tests() -> list[str]:
    """The indexes' own test programs."""
    tests = [
        test for kind in ("index", "structure") for test in ROOT.glob(f"src/{kind}/*/*_test.cpp")
    ]
    return sorted({f"test_index_{test.parent.name}" for test in tests})


def is_drawn(seed: str, name: str, share: float = 1 / 2) -> bool:
    return zlib.crc32(f"{seed} {name}".encode()) < share * 2**32


# Builds with assertions and tests. -g1 (lines, no variables) compiles in three quarters of the time
# of -g, -O1 in four fifths of that of -O2, and sanitized in less than half.
CHECKED = (
    "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
    "-DPERDURE_CHECKED=ON",
    "-DPERDURE_TESTS=ON",
    "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1 -DNDEBUG",
)
# A folder is one unit in every build but this, which thereby sees that each file but the tests
# includes what it needs.
FUZZ = (
    *CHECKED,
    "-DCMAKE_UNITY_BUILD=OFF",
    "-DCMAKE_CXX_COMPILER=clang++-16",
    "-DPERDURE_FUZZ=ON",
    "-DPERDURE_BENCH=ON",
)


def release(stage: Stage) -> None:
    """the Release build"""
    stage.build("release", "-DCMAKE_BUILD_TYPE=Release")


def unit(stage: Stage) -> None:
    """every test with assertions on; also the installed package and the quoted code of the docs"""
    folder = stage.build("checked", *CHECKED, "-DPERDURE_BENCH=ON")
    stage.ctest(folder, "-LE", "nightly", sampled=SAMPLED)


def address(stage: Stage) -> None:
    """the suite under AddressSanitizer and UndefinedBehaviorSanitizer"""
    # Mutants go wrong on purpose, and the large suite is slow.
    left_out = stage.without(
        STRUCTURES, SUITES, index_tests(), always=["suite_mutants", "suite_large"]
    )
    folder = stage.build("asan", *CHECKED, "-DPERDURE_SANITIZE=address", left_out)
    # The README's example kills itself. The rest is slow here, and its code runs in other tests:
    # power cuts by hand, millions of checked answers, pools filled with strings or through
    # libpmemobj, or to the last record by many threads, all pairs of trie bits; and libpmemobj,
    # which is not instrumented, behind indexes that run on the other heap, too, and killed by
    # damage in a child.
    others = (
        r"^readme|Crash\.|^Verifier\.|OutOfSpace.*_(pmdk|bytes)|/Refilled|/NearlyFull|"
        r"/NodeTest|/(Conformance|Concurrency|SuddenEnd).*_pmdk_|^PmdkTrial|/BadP.*/pmdk"
    )
    stage.ctest(
        folder, "-LE", "nightly|slow", "-E", others,
        sampled=SAMPLED_SANITIZED, environment=SANITIZED,
    )  # fmt: skip


def thread(stage: Stage) -> None:
    """the programs with many threads under ThreadSanitizer"""
    folder = stage.build(
        "tsan",
        *CHECKED,
        "-DPERDURE_SANITIZE=thread",
        stage.without(STRUCTURES),
        targets=THREADED_PROGRAMS,
    )
    # ctest knows the test programs that were not built by this ending; what follows is not
    # threaded, bad pools and children that die neither; what an index does alone runs on one heap
    # here; and Debian's RocksDB is not instrumented, so that each of its hand-overs between
    # threads, in memory that std::string and malloc show to the sanitizer, would pass for a race.
    others = (
        "_NOT_BUILT$|^readme|^docs|^tidy|^package|^pibench_host|/Bad|^PmdkTrial|"
        "/Conformance.*_pmdk_|rocksdb"
    )
    stage.ctest(
        folder, "-LE", "nightly|slow", "-E", others,
        sampled=SAMPLED_SANITIZED, environment=SANITIZED,
    )  # fmt: skip


def clang(stage: Stage) -> None:
    """clang++-16's opinion of half of the sources, warnings as errors; no code is made of it"""
    folder = stage.build("fuzz", *FUZZ, targets=["perdure_build_info"])
    if not stage.passed:
        return
    compiled = json.loads((folder / "compile_commands.json").read_text())
    if stage.seed is not None:
        compiled = [each for each in compiled if is_drawn(stage.seed, source_of(each))]
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
        commands.append([
            folder / "fuzz" / name, f"-max_total_time={FUZZ_SECONDS}", "-seed=1",
            "-timeout=20", "-rss_limit_mb=2048", f"-artifact_prefix={BUILD}/log/{name}-",
            grown, *known,
        ])  # fmt: skip
    stage.run_at_once(commands, at_a_time=len(commands))  # each ends by the clock


def python(stage: Stage) -> None:
    """pytest, ruff and mypy --strict, with the Release build's program"""
    stage.build("release", "-DCMAKE_BUILD_TYPE=Release")
    stage.run(PYTHON, "-m", "ruff", "check", "python", "tests/python", "tools")
    stage.run(PYTHON, "-m", "ruff", "format", "--check", "python", "tests/python", "tools")
    stage.run(PYTHON, "-m", "mypy")
    chosen = ("-k", stage.pattern) if stage.pattern else ()
    seed = {"PERDURE_TEST_SEED": stage.seed} if stage.seed and not stage.pattern else {}
    stage.run(
        PYTHON, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal",
        "--durations", "15", *chosen, environment=seed,
    )  # fmt: skip


def tidy(stage: Stage) -> None:
    """the rules of tools/tidy.py, among them that no test is disabled; the format of C++"""
    stage.run(PYTHON, "tools/tidy.py")
    folders = ("src", "bench", "fuzz", "tests", "examples")
    sources = [p for folder in folders for p in (ROOT / folder).rglob("*") if p.suffix in CXX]
    stage.run("clang-format-16", "--dry-run", "-Werror", *sorted(sources))


def crash(stage: Stage) -> None:
    """crash states of every registered index: adr and eadr, 1 and 2 threads"""
    folder = stage.build("release", "-DCMAKE_BUILD_TYPE=Release", targets=["perdure-sim"])
    program = folder / "src" / "cli" / "perdure-sim"
    listing = subprocess.run(
        [str(program), "list", "indexes", "--json"], capture_output=True, text=True, check=False
    )
    if listing.returncode != 0:
        stage.fail("perdure-sim list indexes --json failed")
        return
    commands: list[list[str | Path]] = []
    for index in json.loads(listing.stdout):
        name = index["name"]
        if index["index_class"] != "persistent" or not index["recovers"]:
            continue
        if stage.pattern and not re.search(stage.pattern, name):
            continue
        # A structure has one lock, under which nothing happens at once.
        counts = ("1",) if index["key_kinds"] == ["slots"] else ("1", "2")
        for kind, domain, threads in product(index["key_kinds"], ("adr", "eadr"), counts):
            found = BUILD / "log" / f"crash-{name}-{kind}-{domain}-{threads}.json"
            commands.append([
                program, "crash", "--index", name, "--key-kind", kind, "--domain", domain,
                "--threads", threads, "--quiet", "--budget", str(CRASH_SECONDS), "--out", found,
            ])  # fmt: skip
        if index["heaps"] and "slab" not in index["heaps"]:
            continue
        for kind in index["key_kinds"]:  # one thread, two, and six in a large pool
            found = BUILD / "log" / f"crash-{name}-{kind}-ways.json"
            commands.append([
                program, "crash", "--index", name, "--key-kind", kind,
                "--quiet", "--budget", str(2 * CRASH_SECONDS), "--out", found,
            ])  # fmt: skip
        for kind, room in product(index["key_kinds"], ("0", "3")):  # in pools that run full
            found = BUILD / "log" / f"crash-{name}-{kind}-room-{room}.json"
            commands.append([
                program, "crash", "--index", name, "--key-kind", kind, "--room", room,
                "--keys", "3000", "--preload", "3000", "--ops", "60",
                "--quiet", "--budget", str(CRASH_SECONDS), "--out", found,
            ])  # fmt: skip
    if stage.seed is not None and not stage.pattern:
        drawn = [each for each in commands if is_drawn(stage.seed, Path(str(each[-1])).stem)]
        say(
            f"crash: {len(drawn)} of {len(commands)} explorations, by --seed {stage.seed}; "
            "--thorough runs all"
        )
        commands = drawn
    stage.run_at_once(commands)


STAGES: dict[str, Callable[[Stage], None]] = {
    "tidy": tidy,
    "release": release,
    "crash": crash,
    "python": python,
    "unit": unit,
    "asan": address,
    "tsan": thread,
    "clang": clang,
    "fuzz": fuzz,
}


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if options.list:
        for name, function in STAGES.items():
            print(f"{name:8} {describe(function)}")
        return 0
    names = chosen_stages(options.only)
    (BUILD / "log").mkdir(parents=True, exist_ok=True)
    seed = None if options.thorough else options.seed or commit()
    stages = [run_stage(Stage(name, options.pattern, seed)) for name in names]
    print(f"\n{'stage':8} {'result':7} {'building':>10} {'testing':>10}  closing lines")
    for stage in stages:
        verdict = "passed" if stage.passed else "FAILED"
        last = stage.closing[-1].strip() if stage.closing else ""
        print(f"{stage.name:8} {verdict:7} {times(stage.building_seconds, stage.seconds)}  {last}")
    building = sum(stage.building_seconds for stage in stages)
    print(f"{'all':16} {times(building, sum(stage.seconds for stage in stages))}")
    failed = [stage.name for stage in stages if not stage.passed]
    print(f"{len(stages) - len(failed)} stages passed, {len(failed)} failed", end="")
    print(f": {', '.join(failed)}" if failed else "")
    return 1 if failed else 0


def times(building: float, both: float) -> str:
    return f"{building / 60:>6.1f} min {(both - building) / 60:>6.1f} min"


def commit() -> str:
    """What names this version, so that another takes another sample."""
    done = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "--short=8", "HEAD"],
        capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    return done.stdout.strip() or "0"


def run_stage(stage: Stage) -> Stage:
    name = stage.name
    stage.log.unlink(missing_ok=True)
    say(f"{name}: {describe(STAGES[name])} ...")
    began = time.monotonic()
    STAGES[name](stage)
    stage.seconds = time.monotonic() - began
    for line in stage.closing:
        print(f"  {name}: {line.strip()}", flush=True)
    say(f"{name}: {'passed' if stage.passed else 'FAILED'} in {stage.seconds:.0f} s")
    return stage


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(prog="./perdure test", description="Every build and test, in stages.")
    parser.add_argument("--list", action="store_true", help="print the stages and what they do")
    parser.add_argument("--only", metavar="A,B", help="run these stages")
    parser.add_argument("-k", dest="pattern", help="only tests whose name matches")
    samples = parser.add_mutually_exclusive_group()
    samples.add_argument("--seed", metavar="TEXT", help="of the samples; default: the commit")
    samples.add_argument("--thorough", action="store_true", help="all tests instead of samples")
    return parser.parse_args(arguments)


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        say(f"{self.prog}: {message}; --help lists the flags")
        sys.exit(2)


def chosen_stages(only: str | None) -> list[str]:
    names = only.split(",") if only else list(STAGES)
    for name in names:
        if name not in STAGES:
            near = difflib.get_close_matches(name, STAGES, n=1)
            remedy = f"did you mean '{near[0]}'?" if near else f"use {', '.join(STAGES)}"
            say(f"./perdure test --only: unknown stage '{name}'; {remedy}")
            sys.exit(2)
    return names


def describe(function: Callable[[Stage], None]) -> str:
    return (function.__doc__ or "").strip()


def say(text: str) -> None:
    print(f"perdure: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
