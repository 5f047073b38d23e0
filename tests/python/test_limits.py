"""What the system refuses ends in one line and a documented exit code, in both programs.

Every case is a real process under a limit of its shell; none may be ended by a signal.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from conftest import ROOT

FOLDER = ROOT / "build" / "release" / "src" / "cli"
TARGET = "sim:optane100-8280l-2s"

RUN = "--records 2k --operations 1k --repetitions 1 --quiet"
# Nothing of these is synced operation by operation, which takes minutes on a slow disk.
ON_DISK = f"--bulk-load --mix lookup=1 {RUN}"
COMMANDS = {
    "native pool": f"perdure-native bench --index fptree --pool p --force {RUN}",
    "native pmdk": f"perdure-native bench --index fptree --pool p --force --heap pmdk {RUN}",
    "native memory": f"perdure-native bench --index stdmap --threads 8 {RUN}",
    "native threads": f"perdure-native bench --index null --threads 200 {RUN}",
    "native merges": f"perdure-native bench --index dptree --pool p --force --threads 8 {RUN}",
    "native walks": f"perdure-native bench --index pactree --pool p --force {RUN}",
    "native rocksdb": f"perdure-native bench --index rocksdb --pool d --force {ON_DISK}",
    "native lmdb": f"perdure-native bench --index lmdb --pool d --force {ON_DISK}",
    "native probe": "perdure-native probe latency --quick --quiet",
    "native list": "perdure-native list indexes",
    "native environment": "perdure-native environment --json",
    "simulated pool": f"perdure-sim bench --index fptree --target {TARGET} --threads 4 {RUN}",
    "simulated pmdk": f"perdure-sim bench --index fptree --heap pmdk --target {TARGET} {RUN}",
    "simulated memory": f"perdure-sim bench --index stdmap --target {TARGET} --threads 40 {RUN}",
    "crash": "perdure-sim crash --index fptree --budget 1 --quiet --out o.json",
    "crash pmdk": "perdure-sim crash --index fptree --heap pmdk --budget 1 --quiet --out o.json",
    "simulated probe": f"perdure-sim probe latency --quick --quiet --jobs 2 --target {TARGET}",
    "describe": "perdure-sim describe platform optane100-8280l-2s",
}
LIMITS = {
    "memory, hardly any": "ulimit -v 150000",
    "memory, little": "ulimit -v 400000",
    "memory, more": "ulimit -v 5000000",
    "files, small": "ulimit -f 2000",
    "descriptors, few": "ulimit -n 6",
    "descriptors, some": "ulimit -n 12",
}
DOCUMENTED = {0, 1, 2}


@pytest.mark.parametrize("limit", LIMITS)
def test_what_the_system_refuses_is_a_line(limit: str, tmp_path: Path) -> None:
    wrong = []
    for name, command in COMMANDS.items():
        done = subprocess.run(
            ["bash", "-c", f"{LIMITS[limit]} && exec {FOLDER}/{command}"],
            env={"PMEM_IS_PMEM_FORCE": "1", "PATH": "/usr/bin:/bin"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        refused_by_the_loader = done.returncode == 127
        lines = done.stderr.splitlines()
        explained = done.returncode == 0 or (len(lines) == 1 and lines[0].startswith("perdure: "))
        if refused_by_the_loader or (done.returncode in DOCUMENTED and explained):
            continue
        wrong.append(f"{name}: {done.returncode} {done.stderr[-500:]!r}")
    assert wrong == []
