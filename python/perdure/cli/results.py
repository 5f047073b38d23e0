"""The commands that read finished results: report, figures, compare and export."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from perdure.cli import output as printing
from perdure.cli import tables
from perdure.cli.baseline import Folder
from perdure.cli.output import AsJson, QuickOnes, Quiet, complain, print_json, print_table
from perdure.errors import ExitCode, InputError, PerdureError
from perdure.programs import outputs
from perdure.progress import Progress
from perdure.results import baselines, histograms, record, verdicts
from perdure.results import compare as comparing
from perdure.results.verdicts import Verdict


def register(app: typer.Typer) -> None:
    """Adds the commands to the command line."""
    app.command(short_help="Write one HTML file of results: figures, tables, commands.")(report)
    app.command(short_help="Compare results B with A: faster, slower, same.")(compare)
    app.command(short_help="Write a report's figures as SVG and PDF, with their data.")(figures)
    app.command(short_help="Write latencies as files of HdrHistogram: .hgrm, .hlog.")(export)


def report(
    directory: Annotated[Path, typer.Argument(help="A results directory, or a file of records.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Default: report.html beside the results.")
    ] = None,
    folder: Folder = baselines.FOLDER,
    quick: QuickOnes = False,
    quiet: Quiet = False,
) -> None:
    """Write one self-contained HTML file: figures, environment, and how to run each again.

    Baselines of the same cells are its history."""
    print(write_report(directory, output, printing.progress(quiet), quick=quick, folder=folder))


def compare(
    a: Annotated[Path, typer.Argument(help="Before: a results directory or a file of records.")],
    b: Annotated[
        Path | None, typer.Argument(help="After, or the other index; not with --baseline.")
    ] = None,
    baseline: Annotated[
        str, typer.Option(metavar="NAME", help="Compare with what `baseline save NAME` kept.")
    ] = "",
    folder: Folder = baselines.FOLDER,
    threshold: Annotated[
        float, typer.Option(min=0.0, max=0.99, help="Smaller relative differences do not count.")
    ] = verdicts.MARGIN,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.999)] = 0.95,
    strict: Annotated[
        bool,
        typer.Option(
            help="Exit 4 when a verdict is inconclusive, or a baseline's cell is missing."
        ),
    ] = False,
    quick: QuickOnes = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare B with A: faster, slower, same or inconclusive. Exits 3 when B is slower.

    With --baseline NAME, A is the results, and they are compared with the baseline."""
    before, after = _sides(a, b, baseline, folder)
    runs_a = record.load(before, quick=quick and not baseline)
    runs_b = record.load(after, quick=quick)
    is_quick = any(run.quick for run in (*runs_a, *runs_b))
    result = comparing.compare(
        runs_a,
        runs_b,
        threshold=threshold,
        confidence=confidence,
        same_cells=bool(baseline),
    )
    if as_json:
        print_json(
            {
                "quick": is_quick,
                "baseline": baseline or None,
                "threshold": threshold,
                "confidence": confidence,
                "comparisons": [c.document() for c in result.comparisons],
                "only_a": result.only_a,
                "only_b": result.only_b,
            }
        )
    else:
        if is_quick:
            print(record.QUICK_BANNER)
        print_table(tables.comparison(result))
    unpaired = len(result.only_a) + len(result.only_b)
    if unpaired and not quiet:
        complain(f"{unpaired} cells are on one side only and were not compared")
    if result.count(Verdict.SLOWER):
        raise typer.Exit(ExitCode.REGRESSION)
    missing = baseline and result.only_a
    if strict and (result.count(Verdict.INCONCLUSIVE) or missing):
        raise typer.Exit(ExitCode.INCONCLUSIVE)


def _sides(a: Path, b: Path | None, baseline: str, folder: Path) -> tuple[Path, Path]:
    """(before, after). Errors: InputError."""
    if baseline and b is None:
        return baselines.find(baseline, folder), a
    if baseline or b is None:
        raise InputError(
            "compares two results, or one with --baseline",
            where="perdure compare",
            remedy="write compare A B, or compare --baseline NAME RESULTS",
        )
    return a, b


def figures(
    directory: Annotated[Path, typer.Argument(help="A results directory, or a file of records.")],
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Default: figures/ beside the results, figures-quick/ of a quick run.",
        ),
    ] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="PDFs as well.")] = False,
    width: Annotated[
        str, typer.Option(metavar="LENGTH", help="Of each figure: 84mm, 3.3in; else as drawn.")
    ] = "",
    quick: QuickOnes = False,
    quiet: Quiet = False,
) -> None:
    """Write the figures of the report as files: SVG, the data as CSV, and PDF if asked."""
    drawing = _report_module("perdure.report.figure_files", "perdure figures")
    asked = drawing.width_mm(width)
    runs = record.load(directory, quick=quick)
    folder = directory if directory.is_dir() else directory.parent
    is_quick = any(run.quick for run in runs)
    progress = printing.progress(quiet)
    progress.say(f"{record.QUICK_BANNER}; drawing ..." if is_quick else "drawing the figures ...")
    place = to or folder / ("figures-quick" if is_quick else "figures")
    for file in drawing.write(directory, runs, place, pdf=pdf, width=asked):
        print(file)


def export(
    directory: Annotated[Path, typer.Argument(help="A results directory, or a file of records.")],
    hgrm: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Percentile distributions, over repetitions.")
    ] = None,
    hlog: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Logs, an interval for each repetition.")
    ] = None,
    quick: QuickOnes = False,
) -> None:
    """Write the latencies of every cell and operation as files of HdrHistogram, in ns.

    Runs keep them with `--export-histograms`; studies with `export_histograms = true`."""
    if not hgrm and not hlog:
        raise InputError(
            "is told to write nothing",
            where="perdure export",
            remedy="give --hgrm DIR or --hlog DIR",
        )
    for file in histograms.write(record.load(directory, quick=quick), hgrm=hgrm, hlog=hlog):
        print(file)


def write_report(
    directory: Path,
    output: Path | None,
    progress: Progress,
    *,
    quick: bool,
    folder: Path = baselines.FOLDER,
) -> Path:
    reporting = _report_module("perdure.report.page", "perdure report")
    runs = record.load(directory, quick=quick)
    path = report_place(directory, output, quick=any(run.quick for run in runs))
    progress.say("drawing the report ...")
    reporting.write(directory, runs, path, folder)
    return path


def _report_module(name: str, command: str) -> ModuleType:
    """Imported before the work, because its packages may be missing. Errors: InputError."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(
            f"the report needs the package {error.name}",
            where=command,
            remedy="pip install 'perdure[report]'",
        ) from error


def report_place(directory: Path, output: Path | None, *, quick: bool) -> Path:
    """The path of the report, checked before the work. Errors: InputError if it is not writable."""
    folder = directory if directory.is_dir() else directory.parent
    path = output or folder / ("report-quick.html" if quick else "report.html")
    outputs.folder(path.parent, "--output" if output else "")
    outputs.check(path, "--output" if output else "")
    return path


def try_report(
    directory: Path, progress: Progress, *, quick: bool
) -> tuple[Path | None, PerdureError | None]:
    """(the page, None) or (None, the error): for commands that print their results first."""
    try:
        return write_report(directory, None, progress, quick=quick), None
    except PerdureError as error:
        return None, error
