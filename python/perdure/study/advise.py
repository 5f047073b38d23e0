"""Which index for a case: every index that can serve it is run on it, then they are ranked.

A case is a number of records, their sizes, a mix of operations, threads, and needs. What cannot
serve it is left out, with the reason. The others run as cells of a study, on each target, with as
many records as the case has, or `most_records` where that is fewer; finished cells are kept as any
campaign's are. Indexes are ranked for each target by itself, because what is measured and what is
simulated say nothing about each other's seconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from perdure.errors import InputError, did_you_mean, one_of
from perdure.programs import native
from perdure.results import metrics, stats, verdicts
from perdure.results.record import Run, group, mix_text, samples_of
from perdure.results.verdicts import Side
from perdure.study.flags import check_flag
from perdure.study.model import Cell, Flags, Labels, Study
from perdure.types import Json

INTEGER_BYTES = 8
SLOT_BYTES = 120  # the longest value of a record of kind `slots`
SIMULATED_OPERATIONS, SIMULATED_SCANS = 20_000, 2_000
# Shown beside throughput: what explains it, and what the index costs in memory.
EVIDENCE = (
    "p99",
    "llc_misses",
    "flushes",
    "fences",
    "pm_media_write_bytes",
    "pm_bytes_per_record",
    "dram_bytes_per_record",
)


# Name of a need -> its meaning, and a function that gives the reason against an entry, or "".
# Records that a list is advised for, which is searched from its beginning.
LONGEST_LIST = 5_000
NEEDS: dict[str, tuple[str, Callable[[Json], str]]] = {
    "durability": (
        "every operation survives a power cut, whole",
        lambda entry: (
            ("" if entry["tearing"] == "nothing" else f"a power cut may tear {entry['tearing']}")
            if entry.get("recovers")
            else "a power cut may take operations back"
        ),
    ),
    "scan": (
        "ascending scans",
        lambda entry: "" if entry.get("ordered") else "has no order to scan in",
    ),
}


@dataclass(frozen=True)
class Case:
    """What somebody needs an index for. Sizes in bytes."""

    records: int
    mix: dict[str, float]
    key_bytes: int = INTEGER_BYTES
    value_bytes: int = INTEGER_BYTES
    threads: int = 1
    scan_count: str = "100"
    distribution: str = "uniform"
    needs: tuple[str, ...] = ()

    def check(self) -> None:
        """Errors: InputError."""
        for need in self.needs:
            if need not in NEEDS:
                remedy = did_you_mean(need, NEEDS, one_of(NEEDS))
                raise InputError(f"unknown need '{need}'", where="--needs", remedy=remedy)
        if problem := check_flag("mix", self.mix):
            raise InputError(problem.what, where="--mix", remedy=problem.remedy)

    @property
    def all_needs(self) -> tuple[str, ...]:
        """The needs given, and an order if the case scans."""
        scans = ("scan",) if self.mix.get("scan") else ()
        return tuple(dict.fromkeys((*self.needs, *scans)))

    def describe(self) -> str:
        needs = f"; needs {', '.join(self.all_needs)}" if self.all_needs else ""
        return (
            f"{self.records:,} records of {self.key_bytes} + {self.value_bytes} bytes, "
            f"{mix_text(self.mix)}, {self.distribution}, "
            f"{self.threads} thread{'' if self.threads == 1 else 's'}{needs}"
        )

    def kind(self, offered: Sequence[str]) -> str | None:
        """The first kind of key that holds such records, of those an index offers."""
        holds = {
            "integer": self.key_bytes == self.value_bytes == INTEGER_BYTES,
            "slots": self.key_bytes == INTEGER_BYTES and self.value_bytes <= SLOT_BYTES,
            "bytes": True,
        }
        return next((kind for kind, fits in holds.items() if fits and kind in offered), None)


@dataclass(frozen=True)
class Place:
    """One index on one target."""

    index: str
    target: str
    rank: int | None  # none in a quick run
    throughput: stats.Interval
    of_best: float
    numbers: dict[str, float | None]  # of EVIDENCE
    command: str
    simulated: bool

    def document(self) -> Json:
        return {
            "index": self.index,
            "target": self.target,
            "rank": self.rank,
            "throughput_ops_s": self.throughput.value,
            "interval_ops_s": [self.throughput.low, self.throughput.high],
            "interval": "exact" if self.simulated else self.throughput.name,
            "of_best": self.of_best,
            **self.numbers,
            "command": self.command,
        }


@dataclass
class Plan:
    """What is to run for a case."""

    study: Study
    records: int  # of a cell
    left_out: dict[str, str] = field(default_factory=dict)  # index -> reason
    notes: list[str] = field(default_factory=list)


def plan(case: Case, targets: Sequence[str], most_records: int, *, quick: bool = False) -> Plan:
    """Chooses the indexes and makes their cells. Errors: InputError."""
    case.check()
    records = min(case.records, 10_000 if quick else most_records)
    made = Plan(Study("advise", "", "", "", 7, 1, 7200, {}, [], quick=quick), records)
    if records < case.records:
        made.notes.append(
            f"measured with {records:,} of {case.records:,} records: caches hold a larger part, "
            "which favours deep structures; --most-records raises it"
        )
    for target in targets:
        for name, entry in native.indexes(native.kind_of(target)).items():
            if entry["index_class"] == "harness":
                continue
            reason = _reason_against(case, entry)
            kind = case.kind(entry.get("key_kinds", []))
            if reason or kind is None:
                made.left_out[name] = reason or "offers no keys and values of these sizes"
            elif native.kind_of(target) not in entry.get("targets", ["native", "sim"]):
                made.notes.append(f"{name} runs only natively")
            else:
                made.study.cells.append(_cell(case, entry, kind, target, records, quick=quick))
    if not made.study.cells:
        raise InputError(
            "no index can serve this case",
            where="perdure advise",
            remedy="drop a need: " + "; ".join(f"{n}: {r}" for n, r in made.left_out.items()),
        )
    cores = len(os.sched_getaffinity(0))
    if case.threads > cores and "native" in targets:
        made.notes.append(f"native cells have {cores} threads, the cores of this machine")
    return made


PLACEMENTS = {
    "both": "record store and index near",
    "record-store": "record store near, index far",
    "index": "index near, record store far",
    "none": "record store and index far",
}
# Of documents in a simulated cell, several times the largest last-level cache.
MOST_DOCUMENT_BYTES = 400_000_000


def plan_engine(
    case: Case, targets: Sequence[str], most_records: int, *, near: str, quick: bool = False
) -> Plan:
    """The same for the placements of the engine's parts. Errors: InputError."""
    case.check()
    fitting = max(1000, MOST_DOCUMENT_BYTES // (case.key_bytes + case.value_bytes))
    records = min(case.records, 10_000 if quick else most_records, fitting)
    made = Plan(Study("advise", "", "", "", 7, 1, 7200, {}, [], quick=quick), records)
    if records < case.records:
        made.notes.append(
            f"measured with {records:,} of {case.records:,} documents: caches hold a larger part"
        )
    entry = native.indexes("sim")["engine"]
    for target in targets:
        if native.kind_of(target) == "native":
            made.left_out["native"] = (
                "needs a second node with memory; there, `perdure bench --placement` measures it"
            )
            continue
        for placement, name in PLACEMENTS.items():
            cell = _cell(case, entry, "bytes", target, records, quick=quick)
            where: Flags = {"placement": placement}
            if near != "pm":
                where["near"] = near
            labels = {**cell.labels, "index": name}
            made.study.cells.append(Cell(labels, {**cell.flags, **where}, cell.medium))
    if not made.study.cells:
        raise InputError(
            "placements of the engine are simulated",
            where="perdure advise --engine",
            remedy="give --target sim:optane100-8280l-2s, or another platform",
        )
    return made


def rank(runs: Sequence[Run]) -> list[Place]:
    """Best first, target by target. An index that `compare` does not call slower than the
    first of a rank shares the rank; a quick run has no ranks."""
    places: list[Place] = []
    for target in dict.fromkeys(run.labels["target"] for run in runs):
        cells = list(group(r for r in runs if r.labels["target"] == target).values())
        sides = [Side.of(cell) for cell in cells]
        best = max(side.median for side in sides)
        for position, number in verdicts.ranks(sides):
            cell = cells[position]
            places.append(_place(cell, target, None if cell[0].quick else number, best))
    return places


def _place(cell: list[Run], target: str, number: int | None, best: float) -> Place:
    numbers = {name: metrics.value(name, cell) for name in EVIDENCE}
    throughput = stats.median_interval(samples_of(cell))
    return Place(
        cell[0].labels["index"],
        target,
        number,
        throughput,
        throughput.value / best if best else 0.0,
        numbers,
        cell[0].command,
        cell[0].simulated,
    )


def _reason_against(case: Case, entry: Json) -> str:
    if not entry.get("replaces", True) and (case.mix.get("update") or case.mix.get("upsert")):
        return "replaces no values"
    if entry.get("is_linear") and case.records > LONGEST_LIST:
        return f"searches record by record: for at most {LONGEST_LIST:,} records"
    if entry.get("needs_eadr"):
        return "needs a server whose caches survive a power cut (eADR)"
    return next((why for need in case.all_needs if (why := NEEDS[need][1](entry))), "")


def _cell(case: Case, entry: Json, kind: str, target: str, records: int, *, quick: bool) -> Cell:
    name, index_class = entry["name"], entry["index_class"]
    simulated = native.kind_of(target) == "sim"
    flags: Flags = {
        "index": name,
        "target": target,
        "records": records,
        "mix": case.mix,
        "distribution": case.distribution,
        "key_kind": kind,
        "bulk_load": True,
        "threads": case.threads,
    }
    if kind == "bytes":
        flags["keys"] = f"random:{case.key_bytes}"
    if kind != "integer":
        flags["value_bytes"] = case.value_bytes
    if case.mix.get("scan"):
        flags["scan_count"] = case.scan_count
    if index_class in ("persistent", "volatile_pm"):
        flags["heap"] = entry["heaps"][0] if entry["heaps"] else "slab"
    medium = "none"
    if simulated:
        operations = SIMULATED_SCANS if case.mix.get("scan") else SIMULATED_OPERATIONS
        flags |= {"operations": operations // (10 if quick else 1), "repetitions": 1}
    else:
        cores = len(os.sched_getaffinity(0))
        flags |= {
            "threads": min(case.threads, cores),
            "seconds": 0.02 if quick else 0.5,
            "warmup_seconds": 0.01 if quick else 0.1,
            "repetitions": 3 if quick else 5,
        }
        # What is made durable through a file system is judged on a file.
        medium = {"on_disk": "file"}.get(index_class, "tmpfs" if "heap" in flags else "none")
    labels: Labels = {"index": name, "target": target, "threads": str(flags["threads"])}
    return Cell({**labels, "workload": mix_text(case.mix)}, flags, medium)
