from __future__ import annotations

from pathlib import Path

import pytest

from perdure.cli.doctor import Finding, Level, examine


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A root folder of a machine with everything set well."""
    files = {
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
        "sys/kernel/mm/transparent_hugepage/shmem_enabled": "always within_size [advise] never",
        "proc/sys/kernel/perf_event_paranoid": "1",
        "proc/sys/kernel/numa_balancing": "0",
        "dev/pmem0": "",
    }
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (tmp_path / "dev/shm").mkdir()
    return tmp_path


FACTS = {
    "cpu": "Xeon", "cores": 8, "flush": "clwb", "simd": "avx512", "transactions": "rtm",
    "numa_nodes": 1, "governor": "performance", "cpu_features": ["clwb", "rtm"],
    "logical_cores": 8, "cpu_quota": None,
    "memory_room": {"bytes": 2**33, "bound": "this machine's memory"},
}  # fmt: skip


def level_of(findings: list[Finding], subject: str) -> Level:
    return next(f.level for f in findings if f.subject == subject)


def test_a_well_set_machine_has_nothing_to_mend(machine: Path) -> None:
    findings = examine(FACTS, machine)
    # The room in /dev/shm is the test machine's own.
    levels = {f.level for f in findings if f.subject != "/dev/shm"}
    assert levels == {Level.GOOD}


@pytest.mark.parametrize(
    ("facts", "files", "subject", "remedy"),
    [
        ({"governor": "powersave"}, {}, "frequency", "cpupower"),
        ({}, {"sys/kernel/mm/transparent_hugepage/shmem_enabled": "advise [never]"},
         "huge pages (tmpfs pools)", "shmem_enabled"),
        ({"numa_nodes": 2}, {"proc/sys/kernel/numa_balancing": "1"}, "NUMA", "numactl"),
        ({"memory_nodes": [{"node": 2, "bytes": 128 << 30}]}, {}, "NUMA", "--parallel numa"),
        ({"transactions": "unavailable"}, {}, "RTM", "tsx=on"),
        ({"flush": "clflush"}, {}, "flush", "clwb"),
        ({"cpu_features": ["clwb", "hypervisor"]}, {}, "virtual machine", "repetitions"),
        ({}, {"sys/devices/system/cpu/intel_pstate/no_turbo": "0"}, "turbo", "no_turbo"),
        ({"cpu_quota": {"cores": 1.5, "group": "/cg"}, "logical_cores": 8}, {}, "CPU quota",
         "--cpuset-cpus"),
        ({"memory_room": {"bytes": 2**27, "bound": "the control group's limit of 300 MiB"}}, {},
         "memory", "--memory"),
    ],
)  # fmt: skip
def test_each_finding_has_its_remedy(
    machine: Path, facts: dict[str, object], files: dict[str, str], subject: str, remedy: str
) -> None:
    for name, content in files.items():
        path = machine / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    found = [f for f in examine({**FACTS, **facts}, machine) if f.subject == subject]
    assert any(f.level is not Level.GOOD and remedy in f.remedy for f in found), found


def test_a_node_of_memory_alone_is_named(machine: Path) -> None:
    findings = examine({**FACTS, "memory_nodes": [{"node": 2, "bytes": 128 << 30}]}, machine)
    said = [f.what for f in findings if f.subject == "NUMA"]
    assert "node 2: memory only, 128 GiB, as CXL memory is shown" in said


def test_a_machine_without_devices_is_told_how_to_emulate_one(machine: Path) -> None:
    (machine / "dev/pmem0").unlink()
    findings = examine(FACTS, machine)
    assert level_of(findings, "PM and CXL") is Level.NOTE
