#!/usr/bin/env python3
"""YCSB over the official Java driver against `perdure serve`, with every read verified.

    python3 tests/ycsb/run.py
    python3 tests/ycsb/run.py --driver 3.8.0 --workloads a,e,paper-a --records 100000
    python3 tests/ycsb/run.py --program build/debug/src/cli/perdure-native --json

Needs java and mvn (Debian packages default-jdk-headless, maven) and, at the first run, Maven
Central: YCSB's core is site.ycsb:core:0.17.0, the driver mongodb-driver-sync:5.1.0 or
mongo-java-driver:3.8.0. The bindings that YCSB publishes are not there, so DocumentDb.java is ours.

Workloads: a to f are YCSB's own; paper-a, paper-b and paper-c are those of `pmidio`, section 5: 50,
95 and 100 % reads, the rest inserts, fields of 400 B; projection is ours: reads and scans of one
field, updates of all. Each gets a server and a pool of its own in /dev/shm, is loaded and run; then
the server is stopped and the pool checked (`engine check`).
YCSB's `dataintegrity=true` makes each value a function of its key and field, and its reads verify
it. DocumentDb.java verifies the keys, fields and order of scans, and whose values they have.

One line per workload, over load and run: operations; errors, which are return codes other than OK
and operations that are missing; wrong reads, which YCSB counts apart; findings of the check.
Exit codes: 0 all as expected, 1 anything else, 2 usage, or something is missing. Server and pool
are gone in every case. No figure here is a measure of speed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

from ycsb_client import LOAD, NO_OPERATIONS, RUN, Client, Export, YcsbError, build

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/release/src/cli/perdure-native"
MEMORY = Path("/dev/shm")
DRIVERS = ("5.1.0", "3.8.0")
PATIENCE = 60  # seconds that the stop of the server may take
URL_OPTIONS = "socketTimeoutMS=60000&serverSelectionTimeoutMS=5000"  # then the client ends

ZIPFIAN = {"requestdistribution": "zipfian"}
PAPER = {**ZIPFIAN, "fieldlength": "400"}
WORKLOADS: dict[str, dict[str, str]] = {
    "a": {"readproportion": "0.5", "updateproportion": "0.5", **ZIPFIAN},
    "b": {"readproportion": "0.95", "updateproportion": "0.05", **ZIPFIAN},
    "c": {"readproportion": "1", **ZIPFIAN},
    "d": {
        "readproportion": "0.95",
        "insertproportion": "0.05",
        "requestdistribution": "latest",
    },
    "e": {"scanproportion": "0.95", "insertproportion": "0.05", "maxscanlength": "100", **ZIPFIAN},
    "f": {"readproportion": "0.5", "readmodifywriteproportion": "0.5", **ZIPFIAN},
    "paper-a": {"readproportion": "0.5", "insertproportion": "0.5", **PAPER},
    "paper-b": {"readproportion": "0.95", "insertproportion": "0.05", **PAPER},
    "paper-c": {"readproportion": "1", **PAPER},
    "projection": {
        "readproportion": "0.5",
        "scanproportion": "0.1",
        "updateproportion": "0.4",
        "readallfields": "false",
        "writeallfields": "true",
        **ZIPFIAN,
    },
}
FIELDS = 10
FIELD_BYTES = 100
OPERATIONS = ("INSERT", "READ", "UPDATE", "SCAN", "DELETE")  # as YCSB names them


@dataclass
class Outcome:
    """What one workload did, load and run together."""

    workload: str
    operations: int = 0
    errors: int = 0
    data_integrity_errors: int = 0
    verified_reads: int = 0
    check_findings: int = 0

    def failed(self) -> bool:
        return self.errors + self.data_integrity_errors + self.check_findings > 0


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end_by_signal)  # so that the server and the pool go, too
    flags = parse()
    try:
        classpath = build(f"driver-{flags.driver}")
        if not flags.program.is_file():
            raise YcsbError(
                f"{flags.program}: no such program; build it (./perdure demo) or give --program",
                exit_code=2,
            )
        outcomes = []
        for name in flags.workloads:
            outcomes.append(run_workload(name, classpath, flags))
            if not flags.json:
                print(line(outcomes[-1], flags.driver), flush=True)
    except YcsbError as error:
        print(f"ycsb: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    if flags.json:
        rows = [asdict(outcome) for outcome in outcomes]
        print(json.dumps({"driver": flags.driver, "workloads": rows}, indent=2))
    return 1 if any(outcome.failed() for outcome in outcomes) else 0


def end_by_signal(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--program", type=Path, default=PROGRAM, help="perdure-native")
    parser.add_argument("--records", type=positive, default=10_000, help="loaded (10000)")
    parser.add_argument("--operations", type=positive, default=10_000, help="run (10000)")
    parser.add_argument("--threads", type=positive, default=4, help="of the client (4)")
    parser.add_argument(
        "--workloads", type=workloads, default=list(WORKLOADS), metavar="A,B", help="default: all"
    )
    parser.add_argument("--driver", choices=DRIVERS, default=DRIVERS[0])
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no positive number")
    return int(text)


def workloads(text: str) -> list[str]:
    names = text.lower().split(",")
    for name in names:
        if name not in WORKLOADS:
            raise argparse.ArgumentTypeError(f"no workload '{name}'; use {', '.join(WORKLOADS)}")
    return names


def line(outcome: Outcome, driver: str) -> str:
    return (
        f"{outcome.workload:10} driver {driver}: {outcome.operations} operations, "
        f"{outcome.errors} errors, {outcome.data_integrity_errors} data-integrity errors "
        f"in {outcome.verified_reads} verified reads, {outcome.check_findings} findings"
    )


def run_workload(name: str, classpath: str, flags: argparse.Namespace) -> Outcome:
    outcome = Outcome(name)
    properties = {
        "workload": "site.ycsb.workloads.CoreWorkload",
        "dataintegrity": "true",
        "recordcount": str(flags.records),
        "operationcount": str(flags.operations),
        "fieldcount": str(FIELDS),
        "fieldlength": str(FIELD_BYTES),
        **NO_OPERATIONS,
        **WORKLOADS[name],
    }
    with tempfile.TemporaryDirectory(prefix="perdure-ycsb-", dir=MEMORY) as text:
        folder = Path(text)
        pool = folder / "pool"
        size = pool_bytes(flags.records + flags.operations, int(properties["fieldlength"]))
        with served(flags.program, pool, size) as port:
            properties["perdure.url"] = f"mongodb://127.0.0.1:{port}/ycsb?{URL_OPTIONS}"
            client = Client(classpath, "perdure.ycsb.DocumentDb", flags.threads, folder)
            for phase, wanted in ((LOAD, flags.records), (RUN, flags.operations)):
                before = outcome.errors
                export = client.run(phase, properties, name)
                add_export(export, wanted, outcome)
                if outcome.errors > before:
                    what = f"{name} {phase}: the end of YCSB's log"
                    print(f"{what}:\n{export.tail}", file=sys.stderr)
        outcome.check_findings = check_pool(flags.program, pool)
    return outcome


def pool_bytes(documents: int, field_bytes: int) -> int:
    """Room for four times what the documents take, and for a small pool's own needs."""
    return (256 << 20) + 4 * documents * FIELDS * (field_bytes + 50)


def environment() -> dict[str, str]:
    # libpmemobj refuses to treat tmpfs as persistent memory unless told to.
    return {"PMEM_IS_PMEM_FORCE": "1", **os.environ}


@contextmanager
def served(program: Path, pool: Path, size: int) -> Iterator[int]:
    """A server for MongoDB clients on a new pool; its port. It must also stop cleanly."""
    errors = pool.with_suffix(".err")
    with errors.open("w") as said:
        process = subprocess.Popen(
            [program, "serve", pool, "--create", str(size), "--mongo", "0", "--json"],
            env=environment(), stdout=subprocess.PIPE, stderr=said, text=True,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        listening = process.stdout.readline()
        if listening:
            yield int(json.loads(listening)["listening"][0]["port"])
            process.terminate()
        if process.wait(PATIENCE) != 0:
            raise YcsbError("the server failed")
    except subprocess.TimeoutExpired:
        raise YcsbError(f"the server did not stop within {PATIENCE} s of SIGTERM") from None
    finally:
        # It may have ended while clients used it; then this is the cause of their error.
        if process.poll():
            said_last = errors.read_text().strip()
            print(f"ycsb: the server ended with {process.returncode}: {said_last}", file=sys.stderr)
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def add_export(export: Export, wanted: int, outcome: Outcome) -> None:
    """Adds YCSB's counts; an operation of the phase that was not done is an error, too."""
    returned = export.returned()
    done = sum(count for (metric, _), count in returned.items() if metric in OPERATIONS)
    # A read-modify-write is counted as a read, as an update, and once more as itself.
    both = sum(
        int(row["value"])
        for row in export.rows
        if row["metric"].startswith("READ-MODIFY-WRITE") and row["measurement"] == "Operations"
    )
    outcome.operations += done
    for (metric, code), count in returned.items():
        if metric == "VERIFY":
            outcome.verified_reads += count
            outcome.data_integrity_errors += 0 if code == "OK" else count
        elif code != "OK":
            outcome.errors += count
    outcome.errors += abs(wanted - (done - both))


def check_pool(program: Path, pool: Path) -> int:
    """How many findings `engine check` has."""
    done = subprocess.run(
        [program, "engine", "check", pool], env=environment(), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode == 0:
        return 0
    print(f"{done.stdout.strip()}\n{done.stderr.strip()}", file=sys.stderr)
    if done.returncode != 5:
        raise YcsbError(f"engine check: exit code {done.returncode}")
    return max(1, len(done.stdout.splitlines()))


if __name__ == "__main__":
    sys.exit(main())
