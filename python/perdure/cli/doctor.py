"""What this machine offers, what makes its figures doubtful, and the commands that remedy it.

It only reads: nothing here changes a setting.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

import typer
from rich import box
from rich.table import Table

from perdure.cli.output import AsJson, print_json, print_table
from perdure.format import size
from perdure.programs import child, native
from perdure.tree import ROOT
from perdure.types import Json

LEAST_MEMORY, LEAST_DISK = 4 * 2**30, 4 * 2**30  # of a build


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command(short_help="Examine this machine, with a remedy for each finding.")(doctor)


def doctor(as_json: AsJson = False) -> None:
    """Examine this machine: what it offers, and the remedy for each finding. Changes nothing."""
    built = native.is_built("native")
    facts = native.query("environment") if built else facts_without_program()
    findings = examine(facts)
    if not built:
        findings = [*build_findings(), *findings]
    if as_json:
        print_json({"environment": facts, "findings": [f.document() for f in findings]})
        return
    styles = {"good": "green", "note": "yellow", "mend": "red"}
    table = Table(title="this machine", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("", "subject", "finding"):
        table.add_column(column)
    for finding in findings:
        remedy = f"\n[dim]-> {finding.remedy}[/dim]" if finding.remedy else ""
        mark = f"[{styles[finding.level]}]{finding.level}[/]"
        table.add_row(mark, finding.subject, finding.what + remedy)
    print_table(table)


class Level(StrEnum):
    GOOD = "good"
    NOTE = "note"  # a fact to know; nothing needs mending
    MEND = "mend"  # figures are worse or noisier than they need be


@dataclass(frozen=True)
class Finding:
    level: Level
    subject: str
    what: str
    remedy: str = ""

    def document(self) -> dict[str, str]:
        return {name: str(value) for name, value in asdict(self).items()}


def examine(facts: Json, root: Path = Path("/")) -> list[Finding]:
    """All findings. `facts`: `perdure-native environment --json`; `root`: for tests."""
    checks = (
        _processor,
        _transactions,
        _devices,
        _numa,
        _governor,
        _turbo,
        _huge_pages,
        _perf,
        _shared_memory,
        _memory,
        _quota,
    )
    return [finding for check in checks for finding in check(facts, root)]


def facts_without_program(root: Path = Path("/")) -> Json:
    """The part of `perdure-native environment` that Python finds without the program."""
    flags = set(_cpu_flags(root))
    model = re.search(r"^model name\s*:\s*(.+)$", _read(root / "proc/cpuinfo"), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+) kB", _read(root / "proc/meminfo"), re.MULTILINE)
    nodes = len(list((root / "sys/devices/system/node").glob("node[0-9]*")))
    governor = _read(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return {
        "cpu": model.group(1) if model else "unknown",
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": int(memory.group(1)) * 1024 if memory else 0,
        "numa_nodes": max(1, nodes),
        "flush": next((f for f in ("clwb", "clflushopt", "clflush") if f in flags), "unknown"),
        "simd": next(
            (name for flag, name in (("avx512bw", "avx512"), ("avx2", "avx2")) if flag in flags),
            "sse2",
        ),
        "governor": governor or "unknown",
        "cpu_features": sorted(flags),
        "pm_devices": [],
        "cxl_devices": [],
    }


def build_findings(root: Path = Path("/"), tree: Path = ROOT) -> list[Finding]:
    """Findings where nothing is built yet: whether a build would succeed."""
    checks = (_memory_to_build(root), _compilers(), _packages(tree), _disk(tree))
    nothing = Finding(
        Level.MEND,
        "build",
        "perdure-native is not built yet",
        "./perdure demo builds it (or any other command that needs it)",
    )
    return [nothing, *(finding for check in checks for finding in check)]


def _memory_to_build(root: Path) -> Iterator[Finding]:
    found = re.search(r"^MemTotal:\s*(\d+) kB", _read(root / "proc/meminfo"), re.MULTILINE)
    total = int(found.group(1)) * 1024 if found else 0
    limits = [
        _read(root / "sys/fs/cgroup" / name)
        for name in ("memory.max", "memory/memory.limit_in_bytes")
    ]
    limit = min((int(text) for text in limits if text.isdigit()), default=0)
    limited = 0 < limit < total or (limit > 0 and total == 0)
    usable = limit if limited else total
    what = f"{size(total)}" + (f", limited to {size(limit)} by the cgroup" if limited else "")
    if usable >= LEAST_MEMORY:
        yield Finding(Level.GOOD, "memory", what)
    else:
        yield Finding(
            Level.MEND,
            "memory",
            f"{what}: the compiler may need more",
            f"give at least {size(LEAST_MEMORY)}, or build with fewer jobs",
        )


def _compilers() -> Iterator[Finding]:
    for name in ("g++", "cmake", "ninja"):
        found = shutil.which(name)
        if found:
            yield Finding(Level.GOOD, name, found)
        else:
            yield Finding(Level.MEND, name, "not found", "see the packages below, or your system's")


def _packages(tree: Path) -> Iterator[Finding]:
    """Names the packages that the build needs and the system lacks."""
    lines = _read(tree / "tools/debian-packages.txt").splitlines()
    parts = [line.split() for line in lines if line and not line.startswith("#")]
    wanted = [part[0] for part in parts if part[1:] == ["build"]]
    query = shutil.which("dpkg-query")
    if not query or not wanted:
        yield Finding(
            Level.NOTE,
            "packages",
            "not a Debian system: install the counterparts of tools/debian-packages.txt",
        )
        return
    form = "-f=${Package} ${db:Status-Status}\n"
    said = child.run([query, "-W", form, *wanted], os.environ).stdout.splitlines()
    missing = [name for name in wanted if f"{name} installed" not in said]
    if missing:
        yield Finding(
            Level.MEND,
            "packages",
            f"{len(missing)} of {len(wanted)} are missing",
            f"sudo apt-get update && sudo apt-get install {' '.join(missing)}",
        )
    else:
        yield Finding(Level.GOOD, "packages", f"all {len(wanted)} of the build are installed")


def _disk(tree: Path) -> Iterator[Finding]:
    free = shutil.disk_usage(tree).free
    if free >= LEAST_DISK:
        yield Finding(Level.GOOD, "disk", f"{size(free)} free")
    else:
        yield Finding(
            Level.MEND,
            "disk",
            f"only {size(free)} free",
            f"make room: a build takes up to {size(LEAST_DISK)}",
        )


def _processor(facts: Json, root: Path) -> Iterator[Finding]:
    features = set(facts.get("cpu_features") or _cpu_flags(root))
    yield Finding(
        Level.GOOD, "processor", f"{facts.get('cpu', 'unknown')}, {facts.get('cores', '?')} cores"
    )
    flush = str(facts.get("flush", "unknown"))
    if flush == "clwb":
        yield Finding(Level.GOOD, "flush", "clwb: writes a line back and keeps it cached")
    else:
        yield Finding(
            Level.NOTE,
            "flush",
            f"{flush}: every flush also evicts the line, so rereads miss",
            "use a processor with clwb for figures that resemble a server with PM",
        )
    yield Finding(Level.GOOD, "SIMD", str(facts.get("simd", "unknown")))
    if "hypervisor" in features:
        yield Finding(
            Level.NOTE,
            "virtual machine",
            "neighbours and page-table tracking add noise",
            "use a machine of your own, or more repetitions",
        )


def _transactions(facts: Json, root: Path) -> Iterator[Finding]:
    features = set(facts.get("cpu_features") or _cpu_flags(root))
    if facts.get("transactions") == "rtm":
        yield Finding(Level.GOOD, "RTM", "they work; bench --transactions on uses them")
    elif "rtm" in features or (facts.get("rtm") or {}).get("reported"):
        yield Finding(
            Level.NOTE,
            "RTM",
            "the processor has it, but it is off or always aborts",
            "boot with tsx=on (a security trade-off; see the kernel's tsx_async_abort page)",
        )
    else:
        yield Finding(Level.NOTE, "RTM", "absent: optimistic versions take its place")


def _devices(facts: Json, root: Path) -> Iterator[Finding]:
    entries = [*(facts.get("pm_devices") or []), *(facts.get("cxl_devices") or [])]
    found = [str(entry.get("path", entry)) for entry in entries if isinstance(entry, dict)]
    found = found or [
        f"/dev/{p.name}"
        for pattern in ("pmem*", "dax*")
        for p in sorted((root / "dev").glob(pattern))
    ]
    found = found or [p.name for p in sorted((root / "sys/bus/cxl/devices").glob("mem*"))]
    if not found:
        yield Finding(
            Level.NOTE,
            "PM and CXL",
            "no device: tmpfs stands in, so media costs are DRAM's",
            "emulate one with the kernel parameter memmap=4G!12G, then ndctl create-namespace",
        )
    for device in found:
        yield Finding(Level.GOOD, "PM and CXL", device)
        node = root / device.lstrip("/")
        if device.startswith("/dev/") and node.exists() and not os.access(node, os.R_OK | os.W_OK):
            yield Finding(
                Level.MEND,
                "PM and CXL",
                f"{device} may not be opened by this user",
                f"sudo setfacl -m u:{os.environ.get('USER', '$USER')}:rw {device}",
            )


def _numa(facts: Json, root: Path) -> Iterator[Finding]:
    for node in facts.get("memory_nodes", []):
        size = f"{int(node['bytes']) / 2**30:.0f} GiB"
        yield Finding(
            Level.NOTE,
            "NUMA",
            f"node {node['node']}: memory only, {size}, as CXL memory is shown",
            "./perdure bench --parallel numa ... or ./perdure probe --memory dram --node remote",
        )
    nodes = int(facts.get("numa_nodes", 1))
    if nodes <= 1:
        yield Finding(Level.GOOD, "NUMA", "one node")
        return
    yield Finding(
        Level.NOTE,
        "NUMA",
        f"{nodes} nodes: remote accesses mix into the figures",
        "numactl --cpunodebind=0 --membind=0 ./perdure bench ...",
    )
    if _read(root / "proc/sys/kernel/numa_balancing") not in ("", "0"):
        yield Finding(
            Level.MEND,
            "NUMA",
            "automatic balancing migrates pages during a run",
            "sudo sysctl kernel.numa_balancing=0",
        )


def _governor(facts: Json, _root: Path) -> Iterator[Finding]:
    governor = str(facts.get("governor", "unknown"))
    if governor == "performance":
        yield Finding(Level.GOOD, "frequency", "governor performance")
    elif governor in ("unknown", ""):
        yield Finding(Level.NOTE, "frequency", "the governor is not visible (a virtual machine?)")
    else:
        yield Finding(
            Level.MEND,
            "frequency",
            f"governor {governor}: the clock follows the load",
            "sudo cpupower frequency-set --governor performance",
        )


def _turbo(_facts: Json, root: Path) -> Iterator[Finding]:
    base = root / "sys/devices/system/cpu"
    intel, others = base / "intel_pstate/no_turbo", base / "cpufreq/boost"
    if _read(intel) == "0":
        switch = f"echo 1 | sudo tee /{intel.relative_to(root)}"
    elif _read(others) == "1":
        switch = f"echo 0 | sudo tee /{others.relative_to(root)}"
    else:
        return
    yield Finding(Level.NOTE, "turbo", "on: the clock depends on temperature and load", switch)


def _huge_pages(_facts: Json, root: Path) -> Iterator[Finding]:
    folder = root / "sys/kernel/mm/transparent_hugepage"
    for name, subject, wanted in (
        ("enabled", "huge pages (DRAM)", "madvise"),
        ("shmem_enabled", "huge pages (tmpfs pools)", "advise"),
    ):
        chosen = _chosen(_read(folder / name))
        if chosen in ("always", "madvise", "advise", "within_size", "force"):
            yield Finding(Level.GOOD, subject, chosen)
        elif not chosen:
            yield Finding(Level.NOTE, subject, "the kernel does not offer them")
        else:
            yield Finding(
                Level.MEND,
                subject,
                f"{chosen}: dependent misses cost 15 to 35 % more",
                f"echo {wanted} | sudo tee /sys/kernel/mm/transparent_hugepage/{name}",
            )


def _perf(_facts: Json, root: Path) -> Iterator[Finding]:
    level = _read(root / "proc/sys/kernel/perf_event_paranoid")
    # 2 lets a process count and sample itself in user mode, which is all that is asked for.
    if level.lstrip("-").isdigit() and (int(level) <= 2 or os.geteuid() == 0):
        yield Finding(Level.GOOD, "perf access", f"perf_event_paranoid {level}")
    else:
        yield Finding(
            Level.MEND,
            "perf access",
            f"perf_event_paranoid {level or 'unknown'}: no counters",
            "sudo sysctl kernel.perf_event_paranoid=2",
        )


def _shared_memory(_facts: Json, root: Path) -> Iterator[Finding]:
    place = root / "dev/shm"
    if not place.is_dir():
        yield Finding(Level.MEND, "/dev/shm", "absent", "sudo mount -t tmpfs tmpfs /dev/shm")
        return
    room = os.statvfs(place)
    free = room.f_bavail * room.f_frsize
    if free >= 2 * 2**30:
        yield Finding(Level.GOOD, "/dev/shm", f"{size(free)} free")
    else:
        yield Finding(
            Level.MEND,
            "/dev/shm",
            f"only {size(free)} free: pools of 10 M records do not fit",
            "sudo mount -o remount,size=8G /dev/shm, docker run --shm-size=8g, or --pool elsewhere",
        )


def _memory(facts: Json, _root: Path) -> Iterator[Finding]:
    room = facts.get("memory_room") or {}
    if "control group" not in str(room.get("bound", "")):
        return
    yield Finding(
        Level.NOTE,
        "memory",
        f"{size(int(room['bytes']))} left within {room['bound']}",
        "raise the container's limit (docker run --memory), or give fewer --records",
    )


def _quota(facts: Json, _root: Path) -> Iterator[Finding]:
    quota = facts.get("cpu_quota")
    if not quota:
        return
    cores, logical = float(quota["cores"]), int(facts.get("logical_cores", 0))
    if logical and cores >= logical:
        return
    yield Finding(
        Level.MEND,
        "CPU quota",
        f"{cores:g} of {logical or '?'} logical cores ({quota['group']}): threads are held back "
        "for parts of each period, which latencies show",
        "limit the CPUs, not their time: docker run --cpuset-cpus in place of --cpus",
    )


def _cpu_flags(root: Path) -> list[str]:
    for line in _read(root / "proc/cpuinfo").splitlines():
        if line.startswith("flags"):
            return line.split(":", 1)[1].split()
    return []


def _chosen(text: str) -> str:
    """`always [madvise] never` -> `madvise`."""
    return text.split("[", 1)[1].split("]", 1)[0] if "[" in text else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
