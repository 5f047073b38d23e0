"""Latencies of cells as files of HdrHistogram, which its own tools and others draw.

NAME.hgrm is the percentile distribution over all repetitions; NAME.hlog is a log with an interval
for each repetition. A run record has histograms where the run was told to keep them
(`--export-histograms`, or `export_histograms = true` in a study). Their buckets are at most 1/64
wide: a count goes to the middle of its bucket, the largest value is exact.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.errors import InputError
from perdure.programs import outputs
from perdure.results.record import QUICK_BANNER, Run, group
from perdure.types import Json

if TYPE_CHECKING:
    from hdrh.histogram import HdrHistogram

LARGEST_NS = 1 << 62
DIGITS = 3  # significant ones: finer than the buckets of a run record
EXACT_BELOW, BUCKET_BITS = 128, 6  # of a run record: src/core/histogram.h
KEEP = "measure with --export-histograms, or with export_histograms = true in the study"


@dataclass(frozen=True)
class Timed:
    """The repetitions of one operation of a cell, as histograms of ns."""

    name: str  # of its files
    about: list[str]  # lines for a reader
    repetitions: list[tuple[float, HdrHistogram]]  # (seconds, latencies)


def write(runs: Sequence[Run], *, hgrm: Path | None = None, hlog: Path | None = None) -> list[Path]:
    """Writes a file for every operation of every cell into either folder, in place of those of the
    same names. Errors: InputError where no run kept histograms."""
    timed = list(read(runs))
    if not timed:
        raise InputError("no run kept its histograms", where="perdure export", remedy=KEEP)
    written = []
    for folder, flag, suffix, text in (
        (hgrm, "--hgrm", "hgrm", distribution),
        (hlog, "--hlog", "hlog", log),
    ):
        if folder:
            outputs.folder(folder, flag)
            for one in timed:
                written.append(folder / f"{one.name}.{suffix}")
                outputs.write(written[-1], text(one))
    return written


def read(runs: Sequence[Run]) -> Iterator[Timed]:
    """The operations whose histograms were kept, cell by cell."""
    cells = list(group(runs).values())
    varying = _varying([cell[0].labels for cell in cells])
    taken = set[str]()
    for cell in cells:
        repetitions = [one for run in cell for one in run.record["repetitions"]]
        for operation in dict.fromkeys(name for one in repetitions for name in one["operations"]):
            found = [
                (float(one["seconds"]), _histogram(part))
                for one in repetitions
                if (part := one["operations"].get(operation)) and part.get("histogram")
            ]
            if found:
                values = [cell[0].labels[a] for a in varying if a in cell[0].labels]
                name = _untaken(_file_name([*values, operation]), taken)
                taken.add(name)
                yield Timed(name, _about(cell[0], operation), found)


def distribution(timed: Timed) -> str:
    """The text of a .hgrm file, in ns."""
    whole = _empty()
    for _, one in timed.repetitions:
        whole.add(one)
    text = io.BytesIO()
    whole.output_percentile_distribution(text, 1.0)
    return text.getvalue().decode() + "".join(f"#[{line}]\n" for line in timed.about)


def log(timed: Timed) -> str:
    """The text of a .hlog file: repetitions one after the other, from time 0."""
    from hdrh.log import HistogramLogWriter

    text = io.StringIO()
    writer = HistogramLogWriter(text)
    writer.output_log_format_version()
    for line in [*timed.about, "Interval_Max in ns"]:
        writer.output_comment(f"[{line}]")
    writer.output_legend()
    began = 0.0
    for seconds, histogram in timed.repetitions:
        histogram.set_start_time_stamp(began * 1000)
        histogram.set_end_time_stamp((began + seconds) * 1000)
        writer.output_interval_histogram(histogram, max_value_unit_ratio=1.0)
        began += seconds
    return text.getvalue()


def _empty() -> HdrHistogram:
    try:
        from hdrh.histogram import HdrHistogram
    except ImportError as error:
        raise InputError(
            "needs the package hdrhistogram",
            where="perdure export",
            remedy="pip install 'perdure[report]'",
        ) from error
    return HdrHistogram(1, LARGEST_NS, DIGITS)


def _histogram(operation: Json) -> HdrHistogram:
    """From pairs of a bucket's lower bound and its count."""
    buckets = operation["histogram"]
    found = _empty()
    largest = int(operation["latency_ns"]["max"])
    for lower, count in buckets[:-1]:
        found.record_value(_middle(lower), count)
    lower, count = buckets[-1]  # of this one a value is known
    found.record_value(largest)
    if count > 1:
        found.record_value(min(_middle(lower), largest), count - 1)
    return found


def _middle(lower: int) -> int:
    if lower < EXACT_BELOW:
        return int(lower)
    width = 1 << (int(lower).bit_length() - 1 - BUCKET_BITS)
    return int(lower) + (width - 1) // 2


def _about(run: Run, operation: str) -> list[str]:
    labels = ", ".join(f"{axis} {value}" for axis, value in run.labels.items())
    origin = f"simulated, {run.record['target']}" if run.simulated else "measured"
    latency = run.record["configuration"].get("latency") or {}
    lines = [f"{operation} of {labels}, {origin}, ns"]
    if latency.get("method") == "sampled":
        lines.append(f"one operation in {latency['interval']} was timed, drawn at random")
    return [*lines, QUICK_BANNER] if run.quick else lines


def _varying(labels: Sequence[dict[str, str]]) -> list[str]:
    """Labels that tell cells apart, and the index."""
    axes = dict.fromkeys(axis for one in labels for axis in one)
    return [axis for axis in axes if axis == "index" or len({one.get(axis) for one in labels}) > 1]


def _file_name(parts: Iterable[str]) -> str:
    """Without what has no letter of ours; `_about` says in the file what it is of."""
    texts = (re.sub(r"[^0-9A-Za-z_.]+", "-", part).strip("-.") for part in parts)
    return "-".join(filter(None, texts))[: outputs.LONGEST_NAME]


def _untaken(name: str, taken: Container[str]) -> str:
    """`name`, or the first of name-2, name-3, ... that no other cell has."""
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    return next(one for one in itertools.chain([name], numbered) if one not in taken)
