"""The report: one HTML file that needs no network: every figure's drawing, data and command."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from perdure import __version__
from perdure.errors import InputError
from perdure.format import rate
from perdure.programs import outputs
from perdure.report import (
    counters_section,
    crash_section,
    history_section,
    looks,
    measured_section,
    memories_section,
    quality,
    simulated_section,
    study_section,
    verdict_matrix,
)
from perdure.results import naming, query, record
from perdure.results.query import Results
from perdure.results.record import Run
from perdure.types import Json


def write(source: Path, runs: list[Run], path: Path, baselines: Path | None = None) -> None:
    """Draws the report of `runs`, which were read from the results directory or file `source`;
    with the history of its cells in the folder `baselines`."""
    template = _environment().get_template("report.html.j2")
    try:
        page = template.render(content(source, runs, baselines))
    except jinja2.UndefinedError as error:  # only documents without a schema raise it
        raise InputError(
            f"a document there is damaged, or of another version ({error})",
            where=str(source),
            remedy=simulated_section.AGAIN,
        ) from error
    outputs.write(path, page)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("perdure.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["rate"] = rate
    environment.filters["code"] = code
    environment.globals["dark_rules"] = Markup(looks.dark_rules())
    environment.filters["percent"] = lambda share: quality.percent(share, 1)
    return environment


def code(text: str) -> Markup:
    """Text of a study in which `--flags` stand between backticks, as in its file."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )


def content(source: Path, runs: list[Run], baselines: Path | None = None) -> Json:
    """The context of the page. Measured and simulated figures never share a table or an axis."""
    measured = [run for run in runs if not run.simulated]
    simulated = [run for run in runs if run.simulated]
    quick = any(run.quick for run in runs)
    own = (source if source.is_dir() else source.parent) / simulated_section.FOLDER
    if source.is_dir() and record.read_manifest(own) and record.cell_files(own, quick=quick):
        there = record.manifest_file(own, quick=quick)
        wanted = there is not None and there.name == record.QUICK_MANIFEST
        simulated += record.load(own, quick=wanted)
    manifest = record.read_manifest(source, quick=quick) or record.read_manifest(own, quick=quick)
    folder = source if record.read_manifest(source, quick=quick) else own
    any_quick = any(run.quick for run in (*runs, *simulated))
    parts: Json = {
        "verdicts": verdict_matrix.section([*measured, *simulated], quick=any_quick),
        "memories": memories_section.section(folder, manifest, [*measured, *simulated]),
        "study": study_section.section(manifest, [*measured, *simulated]),
        "history": []
        if any_quick or baselines is None
        else history_section.section([*measured, *simulated], baselines),
        "simulated": simulated_section.section(source, simulated, quick=quick),
        "crash": crash_section.section(source, quick=any_quick),
        "quick": record.QUICK_BANNER if any_quick else "",
    }
    study = parts["study"]
    parts["flames"] = study["flames"] if study else {}
    parts["answers"] = parts["verdicts"] or study and study["answered"]
    if measured:
        return _context(source, query.read(measured), quick) | parts
    return _head(source, simulated, quick) | {"cells": [], "numbers": {}} | parts


def _head(source: Path, runs: list[Run], quick: bool) -> Json:
    manifest = record.read_manifest(source, quick=quick)
    return {
        "title": manifest.get("title") or f"{runs[0].record['index']} and others",
        "description": manifest.get("description", ""),
        "version": __version__,
        "command": study_section.command(manifest),
        "targets": sorted({run.record["target"] for run in runs}),
        "process_count": len(runs),
        "cell_count": len({json.dumps(run.labels, sort_keys=True) for run in runs}),
        "medium": naming.common_medium([run.labels for run in runs]),
        "record_counts": [f"{n:,}" for n in sorted({int(r.record["records"]) for r in runs})],
        "environments": [],
        "memory": None,
        "glossary": GLOSSARY,
    }


def _context(source: Path, data: Results, quick: bool) -> Json:
    own_figures = bool(record.read_manifest(source, quick=quick).get("figures"))
    return {
        **_head(source, data.runs, quick),
        **measured_section.section(data, quick=quick, with_figures=not own_figures),
        "environments": quality.environments(data),
        "cells": data.cells,
        "numbers": {cell.variant: cell.number for cell in data.cells},
        "cell_rows": [quality.cell_row(cell) for cell in data.cells],
        "counters": counters_section.section(data),
        "quality": quality.quality(source, data),
    }


GLOSSARY = [
    ("cell", "One configuration of a study, measured by a process of its own."),
    ("repetition", "One measurement of a cell. Repetitions of all cells are shuffled together."),
    ("95 %", "An interval of the median: resampling moves the median within it, and it holds "
     "the true one 95 times in 100."),
    ("range of 3", "From the smallest to the largest of so many samples, too few for 95 %. It "
     "holds the true median 50 times in 100 with 2 samples, 75 with 3, 88 with 4, 94 with 5."),
    ("fastest, bold", "The largest median, and all that `perdure compare` does not call slower: "
     "they share the place."),
    ("dispersion", "(largest - smallest) / median over a cell's samples."),
    ("outlier", "A sample more than 3.5 scaled median absolute deviations off. Kept, and counted."),
    ("measured, native", "Timed on the machine named above, not simulated."),
    ("simulated, sim:…", "Counted in the virtual time of a model of that server."),
    ("measured by others", "Published figures of real servers; the source stands beside them."),
    ("aim", "What an index should reach: a demand, which nobody has measured."),
    ("persistent", "An index that lives in a pool and recovers from it."),
    ("in memory", "A reference in DRAM. It keeps nothing over a restart."),
    ("on disk", "A storage engine with files of its own and durable commits."),
    ("tmpfs, file", "Where the pool lies: in memory (/dev/shm), or in a file on a disk. A mapped "
     "file is cached by the kernel: flushes reach memory and not the disk."),
    ("adr, eadr", "What survives a power cut: what was flushed (adr), or all that is visible "
     "(eadr)."),
    ("crash point", "A moment before a fence that makes something durable, or at the return of an "
     "operation: a power cut at any other leaves nothing else."),
    ("state", "What a power cut may leave on the memory: of each cache line, an older content or "
     "the newest."),
    ("violation", "A state that recovery refuses, answers wrongly from, or loses room in; or a "
     "run that is wrong by itself."),
    ("p50 … p99.99", "Half, …, 99.99 % of the operations were at most that slow. Measured ones "
     "rest on those that were timed, by default one in 256, drawn at random; what too few of them "
     "tell is left out."),
    ("hardware counters", "Of the processor (perf_event_open): user mode of the worker threads, "
     "without the making of operations. Threads of an index are not counted."),
    ("PM, DRAM", "Bytes in the pool, and bytes allocated beside it."),
]  # fmt: skip
