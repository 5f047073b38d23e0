"""A stage of `./perdure test`: commands with a log, builds, and samples of their tests.

Which tests a sample holds follows from a seed and their names alone, so a seed names a run.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
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
        elif self.seed is not None and self.passed and sampled:
            options = (*options, "-I", str(self.sample(folder, options, self.seed, sampled)))
        self.run(
            "ctest",
            "--test-dir",
            folder,
            "--output-on-failure",
            "--no-tests=error",
            "--parallel",
            "2",
            *options,
            environment=environment,
        )

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


def is_drawn(seed: str, name: str, share: float = 1 / 2) -> bool:
    return uniform(seed, name) < share


def uniform(seed: str, name: str) -> float:
    """A number in [0, 1) that follows from both."""
    return zlib.crc32(f"{seed} {name}".encode()) / 2**32


def say(text: str) -> None:
    print(f"perdure: {text}", file=sys.stderr, flush=True)
