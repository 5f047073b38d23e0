"""YCSB A through the Redis front end: our store and RocksDB in turn (bench/server.py).

Three servers, all with the event loops and the Redis sessions of `perdure serve`, and a loop for
each client thread, so that a write that waits for its sync holds up no other: our store on a pool
in --memory; RocksDB (bench/rocksdb_server.cpp) with its folder in the same memory; RocksDB with its
folder in --folder on a real disk. Every write is durable before its reply: RocksDB's writes are
synchronous.

The client is YCSB's core 0.17.0 over Jedis (tests/ycsb/): half reads, half updates, zipfian,
records of 10 fields of 400 B. A record is one value, so a read is a GET, and an update is a SET of
all fields (writeallfields=true). Load and warm-up run with dataintegrity=true, which verifies what
is read; the measured runs do not, because making the expected values would cost the client more
than a request. Each run is a new Java process, whose start is part of its time, so a second or two
say little (--seconds). After it the servers' background work is waited for, and not timed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from server_programs import BenchError, Running, perdure, require_program, rocksdb
from server_rounds import figures, measure_in_turn, spread
from ycsb_client import LOAD, NO_OPERATIONS, RUN, Client, Export, build

OURS = "perdure"
IN_MEMORY = "RocksDB in the same memory"
ON_DISK = "RocksDB on a disk"
TARGET = 1.0  # at least so many times as fast
FIELDS = 10
FIELD_BYTES = 400
WARM_UP_SECONDS = 5
UNLIMITED = str(2**31 - 1)  # operations, so that the time ends the run; 0 would mean no threads
BUILD = "cmake -S . -B build/release -DPERDURE_BENCH=ON && ninja -C build/release rocksdb_server"
PROPERTIES = {
    "workload": "site.ycsb.workloads.CoreWorkload",
    **NO_OPERATIONS,
    "readproportion": "0.5",
    "updateproportion": "0.5",
    "requestdistribution": "zipfian",
    "fieldcount": str(FIELDS),
    "fieldlength": str(FIELD_BYTES),
    "writeallfields": "true",
}


def require(flags: argparse.Namespace) -> str:
    """The client's class path. Errors: BenchError, YcsbError, with exit code 2 where a part is
    missing."""
    require_program(flags.rocksdb_server, f"{BUILD}, or give --rocksdb-server")
    return build("jedis")


def measure(classpath: str, flags: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows: ours to each of the others."""
    room = flags.records * (FIELDS * (FIELD_BYTES + 16) + 128)
    loops = ("--threads", str(flags.threads))
    with ExitStack() as stack:
        files = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="perdure-bench-")))
        client = Client(classpath, "perdure.ycsb.ValueDb", flags.threads, files)
        servers = {
            OURS: stack.enter_context(perdure(flags.program, flags.memory, room, *loops)),
            IN_MEMORY: stack.enter_context(rocksdb(flags.rocksdb_server, flags.memory, *loops)),
            ON_DISK: stack.enter_context(rocksdb(flags.rocksdb_server, flags.folder, *loops)),
        }
        for name, server in servers.items():
            load_and_verify(client, name, server, flags)

        def rate(name: str) -> float:
            return operations_per_second(client, name, servers[name], flags)

        rates = measure_in_turn(servers, flags.rounds, rate)
    return [
        {
            "threads": flags.threads,
            "records": flags.records,
            "seconds": flags.seconds,
            "other": other,
            **figures("operations_per_second", rates[OURS], rates[other], TARGET),
        }
        for other in (IN_MEMORY, ON_DISK)
    ]


def load_and_verify(client: Client, name: str, server: Running, flags: argparse.Namespace) -> None:
    properties = properties_of(server, flags) | {"dataintegrity": "true"}
    loaded = client.run(LOAD, properties, name)
    check(name, loaded, ("INSERT",))
    inserted = loaded.returned()["INSERT", "OK"]
    if inserted != flags.records:
        raise BenchError(f"{name}: {inserted} of {flags.records} records loaded")
    warm_up = properties | {"maxexecutiontime": str(WARM_UP_SECONDS)}
    check(name, client.run(RUN, warm_up, name), ("READ", "UPDATE", "VERIFY"))
    server.wait_until_quiet()


def operations_per_second(
    client: Client, name: str, server: Running, flags: argparse.Namespace
) -> float:
    limit = {"maxexecutiontime": str(flags.seconds)}
    export = client.run(RUN, properties_of(server, flags) | limit, name)
    check(name, export, ("READ", "UPDATE"))
    server.wait_until_quiet()
    return throughput(export)


def properties_of(server: Running, flags: argparse.Namespace) -> dict[str, str]:
    return PROPERTIES | {
        "recordcount": str(flags.records),
        "operationcount": UNLIMITED,
        "perdure.port": str(server.port),
    }


def check(name: str, export: Export, wanted: Iterable[str]) -> None:
    """Every kind of operation was done, and none ended otherwise than well."""
    returned = export.returned()
    wrong = {f"{kind} {code}": n for (kind, code), n in returned.items() if code != "OK"}
    wrong |= {f"{kind} OK": 0 for kind in wanted if not returned.get((kind, "OK"))}
    if wrong:
        raise BenchError(f"{name}: YCSB counted {wrong}; the end of its log:\n{export.tail}")


def throughput(export: Export) -> float:
    return export.value("OVERALL", "Throughput(ops/sec)")


def print_table(rows: list[dict[str, Any]]) -> None:
    first = rows[0]
    print(
        f"YCSB A, {first['threads']} threads, {first['records']} records of {FIELDS} x "
        f"{FIELD_BYTES} B, {first['seconds']} s; operations/s and ratios are medians of rounds"
    )
    print(f"{OURS + '/s':>12} {'other/s':>12}  {'ratio (least to most)':27} target")
    for each in rows:
        print(
            f"{each['operations_per_second']:12.0f} {each['other_operations_per_second']:12.0f}  "
            f"{spread(each):27} at least {each['target']:g} x {each['other']}"
        )
