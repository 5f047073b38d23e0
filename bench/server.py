"""`perdure serve` beside other engines in one run: durable SET beside redis-server, and YCSB A
beside RocksDB.

    python3 bench/server.py [--only redis|ycsb] [--folder /tmp] [--rounds 5] [--json]

redis: SET by redis-benchmark, --requests of them for each measurement. Three servers: ours, on a
pool in --memory; redis-server with `appendonly yes` and `appendfsync always`, whose file lies in
--folder on a real disk; redis-server without persistence. Four cases: 50 connections, pipeline 1
and 16, values of 3 B and 4 KiB, random keys. In each case all three are started anew and warmed up
by one run.
ycsb: workload A through our Redis front end, --threads clients, --seconds for each measurement,
beside RocksDB behind the same front end, with its folder in --memory and in --folder; how, and how
RocksDB is tuned, stands in bench/server_ycsb.py and bench/rocksdb_key_values.h. It needs
rocksdb_server, Java and Maven; without them it is left out, which a line on stderr says, unless
--only ycsb asked for it.

The servers of a case are measured in turn, --rounds times, beginning with another each time.
Printed are the medians of the rates, and of the ratios of a round, ours to the other, with the
least and the most, beside their targets. --json: {"redis": rows, "ycsb": rows}, those that were
measured.

redis-benchmark has one thread, and the servers share the machine with their clients: on few cores
the client is part of every figure, most of all YCSB's. The programs must be Release builds without
checks. Exit codes: 0 printed, whatever the ratios, 1 a server or a client failed, 2 usage, or
something is missing. Nothing is left running or on disk, but YCSB's classes in build/ycsb.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/ycsb"))  # YCSB's client is the tests', too

import server_ycsb  # noqa: E402
from server_programs import (  # noqa: E402
    BenchError,
    perdure,
    redis,
    require_folders,
    require_program,
)
from server_rounds import figures, measure_in_turn, spread  # noqa: E402
from ycsb_client import YcsbError  # noqa: E402

CONNECTIONS = 50
PIPELINES = (1, 16)
VALUE_BYTES = (3, 4096)
OURS = "perdure"
ALWAYS = "redis, appendfsync always"
VOLATILE = "redis, no persistence"
TARGETS = {ALWAYS: 5.0, VOLATILE: 0.9}  # at least so many times as fast
BUILD_REMEDY = "build it (./perdure demo) or give --program"


@dataclass(frozen=True)
class Case:
    pipeline: int
    value_bytes: int

    def __str__(self) -> str:
        return f"pipeline {self.pipeline}, {self.value_bytes} B"


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end_by_signal)  # so that servers and files go, too
    flags = parse()
    measured: dict[str, list[dict[str, Any]]] = {}
    try:
        # All that may be missing is looked for first: a run takes long.
        require(flags)
        classpath = None if flags.only == "redis" else ycsb_classpath(flags)
        if flags.only != "ycsb":
            cases = (Case(p, v) for v in VALUE_BYTES for p in PIPELINES)
            measured["redis"] = [row for case in cases for row in measure(case, flags)]
        if classpath is not None:
            measured["ycsb"] = server_ycsb.measure(classpath, flags)
    except (BenchError, YcsbError) as error:
        print(f"bench/server.py: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    if flags.json:
        print(json.dumps(measured, indent=2))
        return 0
    if "redis" in measured:
        print_table(measured["redis"])
    if "ycsb" in measured:
        server_ycsb.print_table(measured["ycsb"])
    return 0


def end_by_signal(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    release = ROOT / "build/release"
    parser.add_argument("--only", choices=("redis", "ycsb"), help="default: both")
    parser.add_argument(
        "--program", type=Path, default=release / "src/cli/perdure-native", help="perdure-native"
    )
    parser.add_argument("--folder", type=Path, default=Path("/tmp"), help="on a disk, for others")
    parser.add_argument("--memory", type=Path, default=Path("/dev/shm"), help="for our pool")
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--json", action="store_true")
    of_redis = parser.add_argument_group("redis")
    of_redis.add_argument(
        "--requests", type=positive, default=100_000, help="of one measurement (100000)"
    )
    of_redis.add_argument("--keys", type=positive, default=100_000, help="different keys (100000)")
    of_ycsb = parser.add_argument_group("ycsb")
    of_ycsb.add_argument(
        "--rocksdb-server", type=Path, default=release / "bench/rocksdb_server", metavar="PATH"
    )
    of_ycsb.add_argument(
        "--threads", type=positive, default=4, help="of the client, and loops of each server (4)"
    )
    of_ycsb.add_argument("--records", type=positive, default=20_000, help="loaded (20000)")
    of_ycsb.add_argument("--seconds", type=positive, default=10, help="of one measurement (10)")
    return parser.parse_args()


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no positive number")
    return int(text)


def require(flags: argparse.Namespace) -> None:
    names = () if flags.only == "ycsb" else ("redis-server", "redis-benchmark")
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        what = f"{', '.join(missing)} not found; apt-get install redis-server redis-tools"
        raise BenchError(what, exit_code=2)
    require_program(flags.program, BUILD_REMEDY)
    require_folders(flags)


def ycsb_classpath(flags: argparse.Namespace) -> str | None:
    """None: YCSB cannot run here, and need not."""
    try:
        return server_ycsb.require(flags)
    except (BenchError, YcsbError) as error:
        if flags.only == "ycsb":
            raise
        print(f"bench/server.py: YCSB is left out: {error}", file=sys.stderr)
        return None


def measure(case: Case, flags: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of one case: ours to each of the others."""
    room = flags.keys * (case.value_bytes + 128)
    with ExitStack() as stack:
        servers = {
            OURS: stack.enter_context(perdure(flags.program, flags.memory, room)),
            ALWAYS: stack.enter_context(
                redis(flags.folder, "--appendonly", "yes", "--appendfsync", "always",
                      # A rewrite of the log would run during some measurements and not others.
                      "--auto-aof-rewrite-percentage", "0")
            ),
            VOLATILE: stack.enter_context(redis(flags.folder, "--appendonly", "no")),
        }  # fmt: skip
        for server in servers.values():
            requests_per_second(server.port, case, flags)

        def rate(name: str) -> float:
            return requests_per_second(servers[name].port, case, flags)

        rates = measure_in_turn(servers, flags.rounds, rate)
    return [
        {
            "connections": CONNECTIONS,
            "pipeline": case.pipeline,
            "value_bytes": case.value_bytes,
            "other": other,
            **figures("requests_per_second", rates[OURS], rates[other], target),
        }
        for other, target in TARGETS.items()
    ]


def print_table(rows: list[dict[str, Any]]) -> None:
    print(f"durable SET, {CONNECTIONS} connections; requests/s and ratios are medians of rounds")
    print(f"{'case':20} {OURS + '/s':>12} {'other/s':>12}  {'ratio (least to most)':27} target")
    for each in rows:
        case = str(Case(each["pipeline"], each["value_bytes"]))
        print(
            f"{case:20} {each['requests_per_second']:12.0f} "
            f"{each['other_requests_per_second']:12.0f}  {spread(each):27} "
            f"at least {each['target']:g} x {each['other']}"
        )


def requests_per_second(port: int, case: Case, flags: argparse.Namespace) -> float:
    done = subprocess.run(
        ["redis-benchmark", "-h", "127.0.0.1", "-p", str(port), "-t", "set", "--csv",
         "-c", str(CONNECTIONS), "-P", str(case.pipeline), "-d", str(case.value_bytes),
         "-n", str(flags.requests), "-r", str(flags.keys)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    rates = [line[1] for line in csv.reader(done.stdout.splitlines()) if line[:1] == ["SET"]]
    # It counts a reply that is an error as a request done, and mentions it on stderr only.
    if done.returncode != 0 or len(rates) != 1 or "rror" in done.stderr + done.stdout:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise BenchError(f"redis-benchmark: exit code {done.returncode}, {case}: {said}")
    return float(rates[0])


if __name__ == "__main__":
    sys.exit(main())
