"""Every build and test of the project, in stages: what `./perdure test` runs after its set-up.

    ./perdure test                       all stages
    ./perdure test --list                the stages and what they do
    ./perdure test --only unit,python    some of them
    ./perdure test --only unit -k lbtree only tests whose name matches (ctest -R, pytest -k)
    ./perdure test --thorough            no samples (below)

The suites repeat their tests for every index, kind of key and heap. The slowest suites and the
crash explorations run for a sample of these, and so do the slow Python tests. Beside the Release
build a version makes one build with assertions: that of `unit`, that of `asan` (AddressSanitizer,
where half of the suites, of the structures and of the indexes' own test programs are not even
built), or that of `tsan`, with `clang` and `fuzz`. The sample and the build follow from --seed, by
default from the commit. With -k everything that matches runs, and --only runs the stages that it
names, whichever are drawn.

Output of the tools goes to build/log/test-<stage>.log; the closing lines of each are repeated here,
and on a failure the end of the log. Exit codes: 0 all passed, 1 a stage failed, 2 usage.
"""

from __future__ import annotations

import argparse
import difflib
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from stage import BUILD, ROOT, Stage, say, uniform
from stages import STAGES

# A version runs one of these groups of stages, each of which makes builds of its own.
ONE_OF = (("unit",), ("asan",), ("tsan", "clang", "fuzz"))


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if options.list:
        for name, function in STAGES.items():
            print(f"{name:8} {describe(function)}")
        return 0
    names = chosen_stages(options.only)
    (BUILD / "log").mkdir(parents=True, exist_ok=True)
    seed = None if options.thorough else options.seed or commit()
    if not options.only and seed is not None:
        names = drawn_stages(names, seed)
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


def drawn_stages(names: list[str], seed: str) -> list[str]:
    """All builds would take three times as long as a run with an empty compiler cache may."""
    drawn = ONE_OF[int(uniform(seed, "build") * len(ONE_OF))]
    left_out = [name for group in ONE_OF if group != drawn for name in group]
    listed = ", ".join(left_out)
    say(f"left out by --seed {seed}: {listed}; --thorough, or --only with their names, runs them")
    return [name for name in names if name not in left_out]


def times(building: float, both: float) -> str:
    return f"{building / 60:>6.1f} min {(both - building) / 60:>6.1f} min"


def commit() -> str:
    """What names this version, so that another takes another sample."""
    done = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "--short=8", "HEAD"],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
