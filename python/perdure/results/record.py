"""Run records: what the programs print, and what campaigns keep of it.

A finished cell is one line of JSON in `cells/<key>.json`: the study's labels for it, the command,
and the run record (schema/run-record.schema.json) under "record". Everything that reads results
goes through `load`, which also accepts bare run records, one per line or one per file.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from perdure.errors import InputError
from perdure.programs import inputs
from perdure.results import schemas
from perdure.types import Json

SCHEMA = "perdure-run/1"
# What a study run wrote about itself. A quick run has a manifest of its own, so that it never
# replaces a full one; readers take the full one unless --quick is given.
MANIFEST, QUICK_MANIFEST = "manifest.json", "manifest-quick.json"
QUICK_BANNER = (
    "quick run: tiny cells, run once, to see that it all works; figures say nothing of how fast "
    "anything is, so there are no verdicts"
)
GIVE = "give what `perdure bench --json` printed, or a results directory"
# Of indexes, which mixes are made of; and of queues.
OPERATIONS = ("lookup", "lookup_negative", "insert", "upsert", "update", "remove", "scan")
QUEUE_OPERATIONS = ("push", "pop")

# How many timed operations a percentile needs; with fewer it would just be the largest of them.
SAMPLES_NEEDED = {"p50": 1, "p90": 10, "p99": 100, "p999": 1_000, "p9999": 10_000}


def latency(operation: Json, name: str) -> float | None:
    """A percentile or the maximum of an operation; None if too few were timed.

    The largest of a sample is not the largest of all. A simulation does not say how many samples
    there are: it times every operation, exactly.
    """
    found: Json = operation["latency_ns"] or {}
    number, samples = found.get(name), found.get("samples")
    needed = operation["attempted"] if name == "max" else SAMPLES_NEEDED.get(name, 1)
    return None if number is None or (samples is not None and samples < needed) else float(number)


@dataclass(frozen=True)
class Run:
    """One process's run record with the labels that tell cells apart."""

    labels: dict[str, str]
    record: Json
    command: str = ""
    key: str = ""
    quick: bool = False  # of a run with --quick, which decides nothing
    profile: str = ""  # folded stacks: virtual picoseconds of a simulation, else samples
    started_unix: float = 0.0  # 0: unknown
    samples: tuple[float, ...] = field(init=False)

    def __post_init__(self) -> None:
        throughputs = (float(r["throughput_ops_s"]) for r in self.record["repetitions"])
        object.__setattr__(self, "samples", tuple(throughputs))

    @property
    def simulated(self) -> bool:
        return bool(self.record["target"] != "native")


def load(path: Path, *, quick: bool = False) -> list[Run]:
    """Reads a results directory, a JSON Lines file or a single record. Errors: InputError.

    `quick` chooses a directory's quick run; without it that is read only if there is no full one.
    """
    try:
        path.stat()
    except OSError as error:
        what = error.strerror or "cannot be read"
        raise InputError(what[:1].lower() + what[1:], where=str(path)) from error
    manifest = manifest_file(path, quick=quick)
    if quick and (manifest is None or manifest.name != QUICK_MANIFEST):
        raise InputError(
            "holds no quick run", where=str(path), remedy="leave --quick out, or run one"
        )
    is_quick = manifest is not None and manifest.name == QUICK_MANIFEST
    runs = [_run(document, file, is_quick) for file, document in documents(path, quick=quick)]
    if not runs:
        raise InputError(
            "holds no finished cells", where=str(path), remedy="run `perdure study run` first"
        )
    return runs


def manifest_file(folder: Path, *, quick: bool = False) -> Path | None:
    """The manifest that speaks for a results directory; None where no study ran."""
    names = (QUICK_MANIFEST, MANIFEST) if quick else (MANIFEST, QUICK_MANIFEST)
    return next((folder / name for name in names if (folder / name).is_file()), None)


def read_manifest(folder: Path, *, quick: bool = False) -> Json:
    """What a study run wrote about itself; empty where none did. Errors: InputError."""
    file = manifest_file(folder, quick=quick)
    if file is None:
        return {}
    manifest = schemas.read(file, "manifest", "run the study again")
    return manifest | {"quick": file.name == QUICK_MANIFEST}


def documents(path: Path, *, quick: bool = False) -> Iterator[tuple[Path, Json]]:
    """The parsed cells or run records below `path` with their files, in a stable order."""
    for file in cell_files(path, quick=quick) if path.is_dir() else [path]:
        for document in _parse(file):
            yield file, document


def cell_files(directory: Path, *, quick: bool = False) -> list[Path]:
    """The finished cells of the directory's latest study run; all JSON files without a manifest."""
    manifest = read_manifest(directory, quick=quick)
    if manifest:
        files = [directory / "cells" / f"{key}.json" for key in manifest["cells"]]
        return [file for file in files if file.is_file()]
    places = [directory / "cells", directory]
    return sorted(file for place in places for file in place.glob("*.json*") if file.is_file())


def is_cell(file: Path, *, profiled: bool = False) -> bool:
    """Whether a finished cell is there, and not an empty, half or foreign file in its place; and
    with a profile, if that is asked for."""
    try:
        document = schemas.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    found = document.get("record") if isinstance(document, dict) else None
    if profiled and isinstance(found, dict) and not document.get("profile"):
        return False
    return isinstance(found, dict) and not (
        schemas.problem("cell", document) or schemas.problem("run record", found)
    )


def labels_of(record: Json) -> dict[str, str]:
    """The labels of a bare run record: everything that may differ between two runs of a table."""
    configuration = record["configuration"]
    workload = configuration.get("workload") or {}
    queue = configuration.get("queue")
    labels = {
        "index": record["index"],
        "key_kind": record["key_kind"],  # none of a queue
        "threads": str(record["threads"]),
        "heap": configuration.get("heap"),
        "target": record["target"] if record["target"] != "native" else None,
        "medium": (record["environment"] or {}).get("medium"),
        "workload": queue_text(queue)
        if queue
        else workload.get("name") or mix_text(workload.get("mix", {})),
    }
    return {name: str(value) for name, value in labels.items() if value}


def mix_text(mix: dict[str, float]) -> str:
    """`lookup 90 %, insert 10 %`."""
    shares = [(name, share) for name, share in mix.items() if share]
    if len(shares) == 1:
        return shares[0][0]
    return ", ".join(f"{name} {share * 100:g} %" for name, share in shares)


def queue_text(queue: Json) -> str:
    """`14 producers, 14 consumers, 4096 B`: what a queue's run does, as its workload."""
    sides = [
        f"{queue[side]} {side[:-1] if queue[side] == 1 else side}"
        for side in ("producers", "consumers")
    ]
    prefill = [f"{queue['prefill']} prefilled"] if queue["prefill"] else []
    thinking = [f"{queue['think_ns']} ns between operations"] if queue.get("think_ns") else []
    return ", ".join([*sides, f"{queue['payload_bytes']} B", *prefill, *thinking])


def group(runs: Iterable[Run]) -> dict[tuple[tuple[str, str], ...], list[Run]]:
    """Runs with the same labels, that is the repetitions of one cell, in first-seen order."""
    groups: dict[tuple[tuple[str, str], ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(tuple(sorted(run.labels.items())), []).append(run)
    return groups


def with_targets(runs: Iterable[Run]) -> list[Run]:
    """The runs, each with its target among the labels: figures may show several."""
    return [replace(run, labels=run.labels | {"target": run.record["target"]}) for run in runs]


def samples_of(runs: Iterable[Run]) -> list[float]:
    """The throughput samples of one cell's runs, in operations per second.

    Repetitions inside one process share its memory layout, so with three processes or more each
    process counts once, with its median; with fewer, every repetition counts.
    """
    per_process = [list(run.samples) for run in runs]
    if len(per_process) >= 3:
        return [statistics.median(samples) for samples in per_process]
    return [sample for samples in per_process for sample in samples]


def _parse(file: Path) -> Iterator[Json]:
    text = inputs.text(file, GIVE)
    try:
        whole = schemas.loads(text)
    except ValueError as error:
        lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
        if len(lines) < 2:
            raise InputError(f"not JSON ({error})", where=str(file), remedy=GIVE) from error
        for number, line in lines:
            yield schemas.parse(line, f"{file}:{number}", GIVE)
        return
    yield from whole if isinstance(whole, list) else [whole]


def _run(document: Json, source: Path, quick: bool) -> Run:
    is_cell = isinstance(document, dict) and "record" in document
    record = document["record"] if is_cell else document
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        raise InputError(
            f"not a run record (schema {SCHEMA!r} missing)", where=str(source), remedy=GIVE
        )
    found = schemas.problem("cell", document) if is_cell else ""
    if found := found or schemas.problem("run record", record):
        raise InputError(f"not a whole run record: {found}", where=str(source), remedy=GIVE)
    if not is_cell:
        return Run(labels_of(record), record, quick=quick)
    return Run(
        dict(document["labels"]),
        record,
        document["command"],
        document["key"],
        quick,
        document.get("profile", ""),
        document.get("started_unix", 0.0),
    )
