#!/usr/bin/env python3
"""Stands in for perdure-native: prints run records with made-up figures that vary by 2 %.

Without --json a bench prints a table of its own, which nobody else could have printed.

Environment: FAKE_SLEEP_SECONDS delays every bench, its pool made; FAKE_FAIL=fptree fails that
index; FAKE_PIDS=FILE appends the number of every process that begins a bench; FAKE_LOG=FILE appends
the index of every bench that ran to its end; FAKE_SPEED=0.5 scales figures.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

CLASSES = {
    "fptree": "persistent", "lbtree": "persistent", "stdmap": "in_memory",
    "abslbtree": "in_memory", "tbbmap": "in_memory", "lmdb": "on_disk", "rocksdb": "on_disk",
    "null": "harness", "artolc": "in_memory", "masstree": "in_memory",
    "btreeolc": "in_memory", "utree": "persistent", "pactree": "persistent",
    "roart": "persistent", "hot": "in_memory", "dptree": "persistent",
    "linetree": "persistent",
}  # fmt: skip
SPEED = {"fptree": 1.1, "lbtree": 2.0, "stdmap": 0.6, "abslbtree": 1.5, "tbbmap": 0.5,
         "lmdb": 0.4, "rocksdb": 0.02, "null": 60.0, "artolc": 1.2, "masstree": 1.0,
         "btreeolc": 1.3, "utree": 0.8, "pactree": 1.4, "roart": 0.7, "hot": 1.5,
         "dptree": 0.9, "linetree": 1.2}  # fmt: skip
ENVIRONMENT: dict[str, Any] = {
    "cpu": "Imaginary CPU 9000", "cores": 2, "memory_bytes": 24 * 2**30, "kernel": "6.1.0",
    "numa_nodes": 1, "flush": "clwb", "simd": "avx512", "transactions": "unavailable",
    "medium": "tmpfs", "huge_pages": "anonymous madvise, shared memory never",
    "governor": "unknown", "host_fingerprint": "00112233aabbccdd",
}  # fmt: skip
# The names of a simulation's counters.
TIMES = (
    "compute",
    "l1",
    "l2",
    "llc",
    "memory_queueing",
    "media",
    "flush_fence",
    "lock_wait",
    "aborted_transactions",
    "total",
)
RATIOS = (
    "ewr",
    "err",
    "ebr_read",
    "ebr_write",
    "rwr",
    "buffer_read_hit_ratio",
    "buffer_write_hit_ratio",
    "buffer_hit_ratio",
)
COUNTED = ("loads", "stores", "atomics", "l1_hits", "l1_misses", "l2_hits", "l2_misses", "llc_hits",
           "llc_misses", "tlb_misses", "flushes", "fences", "streaming_stores", "upi_bytes",
           "transaction_commits")  # fmt: skip
OF_MEMORY = ("controller_read_bytes", "controller_write_bytes", "media_read_bytes",
             "media_write_bytes", "buffer_read_hits", "buffer_read_misses", "buffer_write_hits",
             "buffer_write_misses", "read_modify_writes", "wear_levelling_stalls",
             "directory_writes")  # fmt: skip
PER_OPERATION = ("loads", "stores", "atomics", "flushes", "fences", "streaming_stores",
                 "llc_misses", "upi_bytes", "transaction_commits", "transaction_aborts",
                 "pm_controller_read_bytes", "pm_controller_write_bytes", "pm_media_read_bytes",
                 "pm_media_write_bytes", "dram_read_bytes", "dram_write_bytes")  # fmt: skip


def main() -> int:
    command, arguments = sys.argv[1], sys.argv[2:]
    if command == "environment":
        print(
            json.dumps(
                ENVIRONMENT
                | {"cpu_features": ["avx2", "clwb"], "pm_devices": [], "cxl_devices": []}
            )
        )
    elif command == "list":
        facts = {"key_kinds": ["integer", "bytes"], "ordered": True}
        facts |= {"heaps": [], "tearing": "nothing"}
        keep = {"persistent": True, "on_disk": True}
        entries = [
            {"name": n, "index_class": c, "recovers": keep.get(c, False), **facts}
            for n, c in CLASSES.items()
        ]
        print(json.dumps(entries))
    elif not arguments:
        print(f"perdure: {command} needs flags", file=sys.stderr)
        return 2
    elif command == "bench":
        return bench(arguments)
    return 0


def bench(arguments: list[str]) -> int:
    if "--help" in arguments:
        print("--index NAME  the index")
        return 0
    flags = parse(arguments)
    index = flags["index"]
    if index not in CLASSES:
        print(f"--index {index}: unknown index; did you mean 'fptree'?", file=sys.stderr)
        return 2
    if pids := os.environ.get("FAKE_PIDS"):
        with Path(pids).open("a") as handle:
            handle.write(f"{os.getpid()}\n")
    if "pool" in flags:
        Path(flags["pool"]).write_text("a pool")
        Path(flags["pool"] + ".1").write_text("its second part")
    time.sleep(float(os.environ.get("FAKE_SLEEP_SECONDS", "0")))
    if "pool" in flags and not Path(flags["pool"]).exists():
        print("--pool: somebody took it away", file=sys.stderr)
        return 1
    if os.environ.get("FAKE_FAIL") == index:
        print(f"--pool: {index} ran out of space", file=sys.stderr)
        return 1
    document = record(flags)
    if flags.get("target", "native") != "native":
        document = simulated(document, flags["target"])
    if "flamegraph" in flags:
        # 30 ns of each lookup in `search`.
        done = sum(r["operations"]["lookup"]["attempted"] for r in document["repetitions"])
        spent = done * 30_000
        stack = f"main;bool ns::Tree<int, {index}>::lookup;bool ns::search<ns::Links<int> >"
        Path(flags["flamegraph"]).write_text(f"{stack} {spent}\nmain {spent // 3}\n")
    print(json.dumps(document) if "json" in flags else f"table of {index}, open loop, not timed")
    if log := os.environ.get("FAKE_LOG"):
        with Path(log).open("a") as handle:
            handle.write(f"{index}\n")
    return 0


def parse(arguments: list[str]) -> dict[str, str]:
    flags = {}
    for name, value in zip(arguments, [*arguments[1:], "--"], strict=True):
        if name.startswith("--"):
            flags[name[2:]] = "" if value.startswith("--") else value
    return flags


def record(flags: dict[str, str]) -> dict[str, Any]:
    index, threads = flags["index"], int(flags.get("threads", 1))
    noise = random.Random(os.getpid())  # as between two runs of one configuration
    records = 100_000
    shares = [part.split("=") for part in flags.get("mix", "lookup=1").split(",")]
    mix = {name: float(share) for name, share in shares}
    key_kind = flags.get("key-kind", "integer")
    slow = 0.45 if key_kind == "bytes" else 1.0
    base = SPEED[index] * 1e6 * slow * threads**0.85 * float(os.environ.get("FAKE_SPEED", "1"))
    repetitions = [
        repetition(mix, base * noise.uniform(0.98, 1.02), noise)
        for _ in range(int(flags.get("repetitions", 3)))
    ]
    persistent = CLASSES[index] == "persistent"
    return {
        "schema": "perdure-run/1",
        "index": index,
        "index_class": CLASSES[index],
        "target": "native",
        "platform": None,
        "threads": threads,
        "records": records,
        "key_kind": key_kind,
        "seed": int(flags.get("seed", 7)),
        "configuration": {
            "index": index,
            "options": {},
            "plugin": None, "pool": None, "pool_bytes": 2**30, "reuse": False, "bulk_load": False,
            "heap": flags.get("heap", "slab"),
            "durability": "adr",
            "huge_pages": True, "threads": threads, "parallel": "shared", "lock": None,
            "pinned": True, "loop": "closed", "rate_ops_s": None, "arrivals": None,
            "seconds": 0.3, "operations": None, "warmup_seconds": 0.0, "repetitions": 3,
            "verify": False, "check": False, "histograms": False,
            "workload": {
                "name": "custom", "records": records, "seed": 7, "mix": mix,
                "distribution": "uniform", "keys": {"kind": "integer", "form": "mixed"},
                "value_bytes": 8, "load_order": "random",
            },
        },
        "build": {"version": "0.1.0", "commit": "unknown", "dirty": False, "compiler": "GNU 12.2.0",
                  "flags": "-O3 -DNDEBUG", "type": "Release", "kind": "native"},
        "load": {"seconds": 0.1, "throughput_ops_s": base, "records": records, "failed": 0},
        "recovery": None,
        "memory": {
            "pm_bytes": 2_700_000 if persistent else 0,
            "dram_bytes": 150_000 if persistent else 4_100_000,
            "pm_bytes_per_record": 27.0 if persistent else 0.0,
            "dram_bytes_per_record": 1.5 if persistent else 41.0,
            "pool_huge_page_bytes": 0,
        },
        "repetitions": repetitions,
        "verification": None,
        "environment": ENVIRONMENT,
        "warnings": ["pages of 4 KiB: shared memory huge pages are off"] if persistent else [],
    }  # fmt: skip


def simulated(document: dict[str, Any], target: str) -> dict[str, Any]:
    """As perdure-sim would say it: no host, and why each operation took its time."""
    split = dict.fromkeys(TIMES, 0.0) | {"compute": 100.0, "media": 200.0, "total": 300.0}
    aborts = dict.fromkeys(("conflict", "capacity", "explicit", "flush", "other"), 0.0)
    per_operation = dict.fromkeys(PER_OPERATION, 0.0) | {
        "time_ns": split,
        "flushes": 2.0,
        "fences": 1.0,
        "llc_misses": 3.0,
        "aborts": aborts,
    }
    memory = dict.fromkeys(OF_MEMORY, 0)
    counters = {**dict.fromkeys(COUNTED, 0), "aborts": aborts, "dram": memory, "pm": memory}
    for one in document["repetitions"]:
        one["simulation"] = {
            "counters": counters,
            "per_operation": per_operation,
            "ratios": dict.fromkeys(RATIOS, 0.5),
            "time_ns": split,
        }
    platform = {
        "name": target, "title": "An imagined server", "fingerprint": "0123456789abcdef",
        "persistence_domain": "adr", "clock_ghz": 2.0, "cpus": [0], "pool_node": 0, "dram_node": 0,
        "carrier": "fibers", "warm": True, "guard": False, "ablations": [],
    }  # fmt: skip
    return document | {"target": target, "environment": None, "platform": platform}


def repetition(mix: dict[str, float], throughput: float, noise: random.Random) -> dict[str, Any]:
    seconds = 0.3
    operations = {}
    for name, share in mix.items():
        succeeded = round(throughput * share * seconds)
        p50 = round(1e9 / throughput * noise.uniform(0.9, 1.1))
        operations[name] = {
            "attempted": succeeded + 3,
            "succeeded": succeeded,
            "failed": 3,
            "latency_ns": {"p50": p50, "p90": p50 * 2, "p99": p50 * 5, "p999": p50 * 12,
                           "p9999": p50 * 40, "max": p50 * 200, "mean": p50 * 1.3},
            "service_ns": None,
        }  # fmt: skip
    return {
        "seconds": seconds,
        "throughput_ops_s": throughput,
        "attempted_ops_s": throughput * 1.01,
        "failed_ops_s": throughput * 0.01,
        "operations": operations,
        "simulation": None,
        "timeline": [{"second": 0.1 * i, "operations": round(throughput / 10)} for i in (1, 2, 3)],
    }


if __name__ == "__main__":
    sys.exit(main())
