"""Durable SET of `perdure serve` beside redis-server, by redis-benchmark, in one run.

    python3 bench/server.py [--folder /tmp] [--rounds 5] [--requests 100000] [--json]

Three servers: ours, on a pool in --memory; redis-server with `appendonly yes` and `appendfsync
always`, whose file lies in --folder on a real disk; redis-server without persistence. Four cases:
50 connections, pipeline 1 and 16, values of 3 B and 4 KiB, random keys. In each case all three are
started anew, warmed up by one run, and then measured in turn, --rounds times, beginning with
another each time. Printed are the medians of the requests per second, and of the ratios of a
round, ours to the other, with the least and the most, beside their targets.

redis-benchmark has one thread, and the servers share the machine with it: on few cores the client
is part of every figure. The program must be a Release build without checks. Exit codes: 0 printed,
whatever the ratios, 1 a server or a client failed, 2 usage, or something is missing. Nothing is
left running or on disk.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CONNECTIONS = 50
PIPELINES = (1, 16)
VALUE_BYTES = (3, 4096)
OURS = "perdure"
ALWAYS = "redis, appendfsync always"
VOLATILE = "redis, no persistence"
TARGETS = {ALWAYS: 5.0, VOLATILE: 0.9}  # at least so many times as fast
PATIENCE = 60  # seconds that a start or a stop may take


class BenchError(Exception):
    """Ends the run with one line on stderr."""

    def __init__(self, what: str, *, exit_code: int = 1) -> None:
        super().__init__(what)
        self.exit_code = exit_code


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
    rows: list[dict[str, Any]] = []
    try:
        require(flags)
        for case in (Case(p, v) for v in VALUE_BYTES for p in PIPELINES):
            rows += measure(case, flags)
    except BenchError as error:
        print(f"bench/server.py: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    if flags.json:
        print(json.dumps(rows, indent=2))
    else:
        print_table(rows)
    return 0


def end_by_signal(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    program = ROOT / "build/release/src/cli/perdure-native"
    parser.add_argument("--program", type=Path, default=program, help="perdure-native")
    parser.add_argument("--folder", type=Path, default=Path("/tmp"), help="on a disk, for redis")
    parser.add_argument("--memory", type=Path, default=Path("/dev/shm"), help="for our pool")
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--requests", type=positive, default=100_000, help="of one measurement")
    parser.add_argument("--keys", type=positive, default=100_000, help="different keys")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no positive number")
    return int(text)


def require(flags: argparse.Namespace) -> None:
    missing = [name for name in ("redis-server", "redis-benchmark") if shutil.which(name) is None]
    if missing:
        what = f"{', '.join(missing)} not found; apt-get install redis-server redis-tools"
        raise BenchError(what, exit_code=2)
    if not flags.program.is_file():
        what = f"{flags.program}: no such program; build it (./perdure demo) or give --program"
        raise BenchError(what, exit_code=2)
    for folder in (flags.folder, flags.memory):
        if not folder.is_dir():
            raise BenchError(f"{folder}: no such folder", exit_code=2)
    kind = output("stat", "--file-system", "--format=%T", flags.folder).strip()
    if kind in ("tmpfs", "ramfs"):
        what = f"{flags.folder} lies on {kind}, where fsync costs nothing; give --folder on a disk"
        raise BenchError(what, exit_code=2)


def measure(case: Case, flags: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of one case: ours to each of the others."""
    with ExitStack() as stack:
        ports = {
            OURS: stack.enter_context(perdure(case, flags)),
            ALWAYS: stack.enter_context(
                redis(flags.folder, "--appendonly", "yes", "--appendfsync", "always",
                      # A rewrite of the log would run during some measurements and not others.
                      "--auto-aof-rewrite-percentage", "0")
            ),
            VOLATILE: stack.enter_context(redis(flags.folder, "--appendonly", "no")),
        }  # fmt: skip
        for port in ports.values():
            requests_per_second(port, case, flags)
        rates: dict[str, list[float]] = {name: [] for name in ports}
        order = list(ports)
        for _ in range(flags.rounds):
            for name in order:
                rates[name].append(requests_per_second(ports[name], case, flags))
            order = order[1:] + order[:1]
    return [row(case, other, rates) for other in TARGETS]


def row(case: Case, other: str, rates: dict[str, list[float]]) -> dict[str, Any]:
    ratios = [ours / its for ours, its in zip(rates[OURS], rates[other], strict=True)]
    return {
        "connections": CONNECTIONS,
        "pipeline": case.pipeline,
        "value_bytes": case.value_bytes,
        "other": other,
        "requests_per_second": statistics.median(rates[OURS]),
        "other_requests_per_second": statistics.median(rates[other]),
        "ratio": statistics.median(ratios),
        "ratio_least": min(ratios),
        "ratio_most": max(ratios),
        "target": TARGETS[other],
    }


def print_table(rows: list[dict[str, Any]]) -> None:
    print(f"durable SET, {CONNECTIONS} connections; requests/s and ratios are medians of rounds")
    print(f"{'case':20} {OURS + '/s':>12} {'other/s':>12}  {'ratio (least to most)':27} target")
    for each in rows:
        case = str(Case(each["pipeline"], each["value_bytes"]))
        spread = f"{each['ratio']:.2f} ({each['ratio_least']:.2f} to {each['ratio_most']:.2f})"
        print(
            f"{case:20} {each['requests_per_second']:12.0f} "
            f"{each['other_requests_per_second']:12.0f}  {spread:27} "
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


@contextmanager
def perdure(case: Case, flags: argparse.Namespace) -> Iterator[int]:
    """Our server on a new pool; its port."""
    size = (1 << 30) + 4 * flags.keys * (case.value_bytes + 128)
    # libpmemobj refuses to treat tmpfs as persistent memory unless told to.
    environment = {"PMEM_IS_PMEM_FORCE": "1", **os.environ}
    with tempfile.TemporaryDirectory(prefix="perdure-bench-", dir=flags.memory) as folder:
        pool = Path(folder) / "pool"
        command = [flags.program, "serve", pool, "--create", str(size), "--redis", "0", "--json"]
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, text=True
        ) as process, ending(process):  # fmt: skip
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise BenchError(f"{flags.program} did not start")
            yield int(json.loads(line)["listening"][0]["port"])


@contextmanager
def redis(parent: Path, *options: str) -> Iterator[int]:
    """redis-server without snapshots; its port."""
    with tempfile.TemporaryDirectory(prefix="perdure-bench-", dir=parent) as folder:
        port = free_port()
        with subprocess.Popen(
            ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", folder,
             "--save", "", "--daemonize", "no", *options],
            stdout=subprocess.DEVNULL,
        ) as process, ending(process):  # fmt: skip
            wait_until(lambda: answers(port), process)
            yield port


@contextmanager
def ending(process: subprocess.Popen[Any]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise BenchError(f"redis-server did not start (exit code {process.poll()})")
        time.sleep(0.05)


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False


def free_port() -> int:
    # Another program may take it before redis-server does, which then does not start.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def output(*command: str | Path) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
