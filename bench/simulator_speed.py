"""How fast perdure-sim simulates on this machine: one process, one core.

    python3 bench/simulator_speed.py [--folder build/release/src/cli] [--operations 300000] [--json]

Three figures, each beside its target:
- hooked accesses and operations per second of a full simulation: fptree, look-ups on a million
  records, 28 threads of one socket;
- the same with 40 threads on two sockets;
- loading a million records with the model off, as a multiple of perdure-native's time.
Times are CPU seconds of the process, which other work on the machine affects less; they come from
--host-times, and are no part of a run record.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ONE_SOCKET = ("--target", "sim:optane100-8280l-2s", "--threads", "28")
TWO_SOCKETS = ("--target", "sim:optane100-6242r-2s", "--threads", "40")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "build/release/src/cli")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--operations", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=1, help="the median of so many is taken")
    parser.add_argument("--json", action="store_true")
    flags = parser.parse_args()
    rows = []
    for name, target, accesses, operations in (
        ("28 threads, one socket", ONE_SOCKET, 10e6, 100e3),
        ("40 threads, two sockets", TWO_SOCKETS, 6e6, None),
    ):
        found = [simulate(flags, target) for _ in range(flags.rounds)]
        rows.append(row(name, "M accesses/s", [f["accesses"] for f in found], accesses, 1e6))
        rows.append(row(name, "k operations/s", [f["operations"] for f in found], operations, 1e3))
    loads = [load_simulated(flags) / load_native(flags) for _ in range(flags.rounds)]
    rows.append(row("model off", "x native load time", loads, 3.0, 1, most=True))
    if flags.json:
        print(json.dumps(rows, indent=2))
    else:
        for one in rows:
            wanted = "" if one["target"] is None else f"{one['bound']} {one['target']:g}"
            print(f"{one['case']:24} {one['value']:10.2f} {one['unit']:20} {wanted}")
    return 0


def row(
    case: str, unit: str, values: list[float], target: float | None, scale: float,
    *, most: bool = False,
) -> dict[str, Any]:  # fmt: skip
    return {
        "case": case,
        "unit": unit,
        "value": statistics.median(values) / scale,
        "bound": "at most" if most else "at least",
        "target": None if target is None else target / scale,
    }


def simulate(flags: argparse.Namespace, target: tuple[str, ...]) -> dict[str, float]:
    """Accesses and operations per CPU second of the measured part."""
    phases = run_simulated(flags, *target, "--operations", str(flags.operations), "--no-warm")
    measured = phases["repetition 1 of 1"]
    seconds = measured["cpu_seconds"]
    return {name: measured[name] / seconds for name in ("accesses", "operations")}


def load_simulated(flags: argparse.Namespace) -> float:
    target = ("--target", "sim:optane100-8280l-2s", "--threads", "1")
    phases = run_simulated(flags, *target, "--operations", "1000", "--no-warm")
    return float(phases["load"]["cpu_seconds"])


def load_native(flags: argparse.Namespace) -> float:
    pool = Path(f"/dev/shm/perdure-speed-{os.getpid()}.pool")
    try:
        done = run(
            flags.folder / "perdure-native", "bench", *workload(flags), "--operations", "1000",
            "--repetitions", "1", "--pool", str(pool), "--json", "--quiet",
        )  # fmt: skip
    finally:
        pool.unlink(missing_ok=True)
    return float(json.loads(done)["load"]["seconds"])


def run_simulated(flags: argparse.Namespace, *more: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="perdure-") as folder:
        times = Path(folder) / "times.json"
        run(flags.folder / "perdure-sim", "bench", *workload(flags), *more,
            "--host-times", str(times), "--quiet")  # fmt: skip
        return {phase["phase"]: phase for phase in json.loads(times.read_text())}


def workload(flags: argparse.Namespace) -> tuple[str, ...]:
    return ("--index", "fptree", "--records", str(flags.records), "--mix", "lookup=1")


def run(*command: str | Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"simulator_speed: exit code {done.returncode} from {command[0]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
