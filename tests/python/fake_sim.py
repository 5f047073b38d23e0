#!/usr/bin/env python3
"""Stands in for perdure-sim: describes platforms and answers probes by simple formulas.

Its benches are those of the stand-in for perdure-native.

Environment: FAKE_SIM_FACTOR=1.1 scales every answer; FAKE_SIM_FAIL=ntstore fails probes of that
operation; FAKE_SIM_SKIP=remote skips points of that node; FAKE_SIM_DRAM=1 makes PM behave as DRAM;
FAKE_SIM_LOG=FILE appends a line per call of probe; FAKE_SIM_FOUND=fptree makes crash find something
in that index, as it always does in toys; FAKE_PIDS and FAKE_SLEEP_SECONDS are the other's.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

Json = dict[str, Any]
FACTOR = float(os.environ.get("FAKE_SIM_FACTOR", "1"))
PEAK = {"load": 30.0, "store": 2.5, "store+clwb": 8.0, "ntstore": 8.0}


def main() -> int:
    command, arguments = sys.argv[1], sys.argv[2:]
    if command == "describe":
        if "nowhere" in arguments[1]:
            print("nowhere: unknown platform; did you mean 'dram'?", file=sys.stderr)
            return 2
        values = [{"key": "cores_per_socket", "value": 28}]
        print(json.dumps({"name": arguments[1], "fingerprint": "f1", "values": values}))
        return 0
    if command == "bench":
        program = os.environ["PERDURE_NATIVE"]
        os.execv(program, [program, *sys.argv[1:]])
    if command == "list":
        index = {
            "name": "fptree",
            "index_class": "persistent",
            "recovers": True,
            "ordered": True,
            "key_kinds": ["integer", "bytes"],
            "heaps": [],
            "tearing": "nothing",
        }
        # To be simulated in a study; nothing that `crash` or `advise` would choose by itself.
        second = index | {"name": "lbtree", "recovers": False, "key_kinds": ["slots"]}
        print(
            json.dumps(
                [index, second, {"name": "null", "index_class": "harness", "recovers": False}]
            )
        )
        return 0
    if command in ("crash", "probe") and not arguments:
        print(f"perdure: {command} needs flags", file=sys.stderr)
        return 2
    if pids := os.environ.get("FAKE_PIDS"):
        with Path(pids).open("a") as handle:
            handle.write(f"{os.getpid()}\n")
        time.sleep(float(os.environ.get("FAKE_SLEEP_SECONDS", "0")))
    if command == "crash":
        return crash(flags_of([a for a in arguments if a not in ("--quiet", "--json")]))
    return probe(arguments[0], flags_of(arguments[1:]))


def flags_of(arguments: list[str]) -> dict[str, str]:
    pairs = zip(arguments, [*arguments[1:], "--"], strict=True)
    return {n.removeprefix("--"): v for n, v in pairs if n.startswith("--")}


def crash(flags: dict[str, str]) -> int:
    found = flags["index"].startswith("toy:") or flags["index"] == os.environ.get("FAKE_SIM_FOUND")
    violation = {
        "oracle": "recovery", "what": "a record is gone",
        "text": f"violation: of {flags['index']}", "replay": flags["out"],
    }  # fmt: skip
    if flags["index"] == "nowhere":
        print("perdure-sim: --index nowhere: unknown index; see `list indexes`", file=sys.stderr)
        return 2
    if found:
        Path(flags["out"]).write_text("{}")
    print(json.dumps({
        "index": flags["index"], "domain": flags.get("domain", "adr"), "key_kind": "integer",
        "heap": "slab", "transactions": False, "threads": int(flags.get("threads", "1")),
        "thread_counts": [int(flags["threads"])] if "threads" in flags else [1, 2, 6],
        "seed": 1, "programs": 3, "runs": 4, "seconds": float(flags["budget"]),
        "coverage": {"crash_points": 10, "exhausted_points": 8, "sampled_points": 2,
                     "states": 90, "recovery_cuts": 10},
        "violation": violation if found else None,
    }))  # fmt: skip
    return 5 if found else 0


def probe(name: str, flags: dict[str, str]) -> int:
    if log := os.environ.get("FAKE_SIM_LOG"):
        with Path(log).open("a") as handle:
            handle.write(f"{name} {json.dumps(flags)}\n")
    if flags.get("op", "") == os.environ.get("FAKE_SIM_FAIL"):
        print(f"probe: {flags['op']} broke", file=sys.stderr)
        return 1
    lists: list[list[tuple[str, float]]] = [
        [("access_size", int(s)) for s in flags.get("sizes", "64").split(",")],
        [("threads", int(t)) for t in flags.get("threads", "1").split(",")],
    ]
    if "regions" in flags:
        lists.append([("region_bytes", int(r)) for r in flags["regions"].split(",")])
    if "hit-ratios" in flags:
        lists.append([("hit_ratio", float(h)) for h in flags["hit-ratios"].split(",")])
    fixed = {"memory": "pm", "op": "load", "pattern": "seq", "node": "local"} | {
        key: flags[key] for key in ("memory", "op", "pattern", "node") if key in flags
    }
    points = [answer(name, fixed | dict(c), flags) for c in itertools.product(*lists)]
    text = json.dumps(
        {"schema": "perdure-probe/1", "probe": name, "target": flags["target"], "points": points}
    )
    if "output" in flags:
        Path(flags["output"]).write_text(text)
    print(text if "json" in flags else f"table of {name}")
    return 0


def answer(probe_name: str, inputs: Json, flags: dict[str, str]) -> Json:
    point: Json = {
        "inputs": inputs,
        "skipped": None,
        "bandwidth_gib_s": None,
        "ewr": None,
        "rwr": None,
        "latency_ns": None,
    }
    if inputs["node"] == os.environ.get("FAKE_SIM_SKIP"):
        return point | {"skipped": "no second node"}
    dram = inputs["memory"] == "dram" or "FAKE_SIM_DRAM" in os.environ
    if probe_name == "I7":
        return point | ({"ewr": 1.0, "rwr": 0.0} if dram else {"ewr": 0.95, "rwr": 0.8})
    if probe_name == "I1":
        cached = 100.0 if inputs["op"] == "load" else 700.0
        return point | {"latency_ns": {"mean": cached * FACTOR, "p50": cached, "p99": cached}}
    if probe_name != "bandwidth":
        return point | {"latency_ns": {"mean": 300.0 * FACTOR, "p50": 300, "p99": 300}}
    return point | {"bandwidth_gib_s": FACTOR * bandwidth(inputs, dram, flags), "ewr": 0.9}


def bandwidth(inputs: Json, dram: bool, flags: dict[str, str]) -> float:
    op: str = inputs["op"]
    size, threads = int(inputs["access_size"]), int(inputs["threads"])
    if dram:
        return min(80.0, threads * 4.0) * (1.0 if op == "load" else 0.8)
    off = flags.get("ablate", "")
    top = PEAK[op] if off != "in-order-arrival" or op != "store" else 7.9
    value = min(top, threads * 2.0)
    if op.startswith(("store", "nt")) and threads > 8:
        value *= 8 / threads
    if inputs["pattern"] != "seq" and size < 256 and off != "no-read-modify-write":
        value *= size / 256
    return value * (0.2 if inputs["node"] == "remote" else 1.0)


if __name__ == "__main__":
    sys.exit(main())
