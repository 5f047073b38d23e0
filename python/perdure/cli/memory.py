"""The commands about memories: probe, describe, fidelity, classify, flamegraph."""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from perdure.cli import output
from perdure.cli.output import PASSING, AsJson, Quiet, print_json, print_table
from perdure.errors import InputError, PerdureError
from perdure.memory import classify as classifying
from perdure.memory import fidelity as comparing
from perdure.memory import reference
from perdure.memory import tables as memory_tables
from perdure.programs import child, flame_graph, inputs, native, outputs, profile
from perdure.programs import target as targets
from perdure.programs.target import check_target
from perdure.progress import Progress
from perdure.study.flags import check_flag
from perdure.types import Json

QUICK_BANNER = (
    "quick: fewer points, each with fewer accesses, to see that it all works; numbers are rough, "
    "so there are no verdicts"
)
# With --quick the names end in -quick: what is kept of a full run stays.
FIDELITY, CLASSES = "fidelity", "classes"
# What the demo compares: a few dozen points.
DEMO_TABLES = ("i7", "i2", "i3", "i4-local", "i4-remote", "i6")

Quick = Annotated[bool, typer.Option(help="Fewer points, each with fewer accesses.")]
Jobs = Annotated[int, typer.Option(min=0, help="Simulations at once; 0: one per core.")]
Ablate = Annotated[
    str,
    typer.Option(help="Switch these mechanisms off, separated by commas: what do they explain?"),
]


def register(app: typer.Typer) -> None:
    """Adds the commands to the command line."""
    probing = "Measure a memory: bandwidth, latency, I1 to I7 and more."
    app.command(short_help=probing, context_settings=PASSING, add_help_option=False)(probe)
    describing = "Show every number of a platform with unit and source."
    app.command(short_help=describing, context_settings=PASSING, add_help_option=False)(describe)
    app.command(short_help="Compare simulated probes with measurements of real memory.")(fidelity)
    app.command(short_help="Say which idiosyncrasies I1-I7 a memory shows, and why.")(classify)
    app.command(short_help="Draw folded stacks or a recording of perf as an SVG.")(flamegraph)


def describe(context: typer.Context) -> None:
    """Show every number of a platform with unit and source: describe platform NAME."""
    command = [str(native.program()), "describe", *context.args]
    child.become(command, native.environment(), "perdure describe")


def probe(context: typer.Context) -> None:
    """Measure a memory, native or simulated: probe I1 ... I7, bandwidth, latency, chase, ..."""
    arguments = list(context.args)
    target = profile.value_of(arguments, "--target") or "native"
    check_target(target)
    command = [str(targets.program_for(target)), "probe"]
    path = None if "--help" in arguments else profile.output_of(arguments, "--plot")
    if path is None:
        child.become([*command, *arguments], native.environment(), "perdure probe")
    drawing = _drawing()
    plain = profile.without(arguments, "--plot")
    # The program prints its result itself, so that a failed figure does not lose it.
    with tempfile.TemporaryDirectory(prefix="perdure-") as folder:
        answers = profile.value_of(plain, "--output")
        if answers is None:
            answers = str(Path(folder) / "answers.json")
            plain += ["--output", answers]
        code = child.attend([*command, *plain], native.environment())
        if code != 0 or not Path(answers).is_file():  # such as after --dry-run
            raise typer.Exit(child.exit_code(code, command, "perdure probe"))
        document = native.parse_json(Path(answers).read_text(encoding="utf-8"), "perdure probe")
    try:
        picture = drawing.probe_file(document)
    except ValueError as error:
        raise PerdureError(str(error), where=str(path), remedy="see --json") from error
    outputs.write(path, picture)
    if "--json" not in arguments:
        print(path)


def fidelity(
    experiments: Annotated[
        str, typer.Option(help="Names or sets of tables, separated by commas; default: all.")
    ] = "",
    tables: Annotated[
        list[Path] | None,
        typer.Option("--reference", help="A table of measurements, or a folder of them."),
    ] = None,
    ablate: Ablate = "",
    quick: Quick = False,
    jobs: Jobs = 0,
    results: Annotated[Path, typer.Option(help="Where answers are kept.")] = Path(
        "results/fidelity"
    ),
    plot: Annotated[Path | None, typer.Option(help="Draw an SVG per experiment there.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the commands only.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare simulated probes with measurements of real memory, point by point."""
    loaded = reference.load_all(tables)
    chosen = comparing.choose(loaded, _names(experiments))
    if problem := check_flag("ablate", ablate) if ablate else None:
        raise InputError(problem.what, where="--ablate", remedy=problem.remedy)
    if dry_run:
        for table in chosen:
            points = comparing.thinned(table.points) if quick else table.points
            for task, _ in comparing.grouped(table, points, quick, _names(ablate)):
                print(task.shell())
        return
    outputs.folder(results, "--results")
    drawing = _drawing() if plot else None
    if plot:
        outputs.folder(plot, "--plot")
    found = comparing.compare(
        chosen,
        results / "probes",
        output.progress(quiet),
        quick=quick,
        jobs=jobs,
        ablate=_names(ablate),
    )
    document = comparing.document(found, quick=quick) | {"ablate": _names(ablate)}
    if as_json:
        print_json(document)
    else:
        if quick:
            print(QUICK_BANNER)
        for table_ in memory_tables.fidelity(document):
            print_table(table_)
        for line in memory_tables.fidelity_notes(document):
            print(line)
    sys.stdout.flush()
    _write(results, FIDELITY, document)
    if plot and drawing:
        _draw(document, drawing, plot)
    failed = sum(
        p.simulated is None and p.why_not.startswith(("exit code", "killed by"))
        for e in found
        for p in e.pairs
    )
    if failed:
        raise PerdureError(
            f"{failed} points have no answer, because their probe failed",
            remedy="run one of the commands of --dry-run",
        )


def classify(
    target: Annotated[str, typer.Option(help="native, or sim:PLATFORM.")],
    quick: Quick = False,
    jobs: Jobs = 0,
    results: Annotated[Path, typer.Option(help="Where answers are kept.")] = Path(
        "results/classify"
    ),
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say which idiosyncrasies I1-I7 a memory shows, why, and which design rules pay there."""
    check_target(target)
    outputs.folder(results, "--results")
    document = classifying.classify(
        target, results / "probes", output.progress(quiet), quick=quick, jobs=jobs
    )
    if as_json:
        print_json(document)
    else:
        if quick:
            print(QUICK_BANNER)
        for table in memory_tables.classes(document):
            print_table(table)
        for line in document["notes"]:
            print(line)
    sys.stdout.flush()
    _write(results, CLASSES, document)


def flamegraph(
    source: Annotated[Path, typer.Argument(help="Folded stacks, or a perf.data file.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Default: beside the source.")
    ] = None,
    title: Annotated[str, typer.Option(help="Above the graph.")] = "",
) -> None:
    """Draw folded stacks ("a;b;c 123" lines) or a recording of perf as an SVG."""
    recorded = source.suffix == ".data"
    if recorded:
        folded = flame_graph.fold_perf(source)
    else:
        folded = inputs.text(source, "give folded stacks")
    path = output or source.with_suffix(".svg")
    outputs.check(path, "--output" if output else "")
    unit = "samples" if recorded else "ps"
    outputs.write(
        path, flame_graph.render(folded, title or source.stem, unit=unit, where=str(source))
    )
    print(path)


def compare_for_demo(results: Path, progress: Progress, *, quick: bool) -> None:
    """A thinned comparison of the probes that the study `pmidio` is known for."""
    tables = comparing.choose(reference.load_all(), DEMO_TABLES[:1] if quick else DEMO_TABLES)
    outputs.folder(results)
    found = comparing.compare(tables, results / "probes", progress, quick=True)
    _write(results, FIDELITY, comparing.document(found, quick=True) | {"ablate": []})


def _drawing() -> ModuleType:
    """The module that draws. Imported before the work, because its packages may be missing."""
    try:
        with child.signals_held():
            return importlib.import_module("perdure.report.probe_plots")
    except ImportError as error:
        raise InputError(
            f"figures need the package {error.name}",
            where="--plot",
            remedy="pip install 'perdure[report]'",
        ) from error


def _draw(document: Json, drawing: ModuleType, folder: Path) -> None:
    for experiment in document["experiments"]:
        for name, picture in drawing.experiment_files(experiment):
            outputs.write(folder / f"{name}.svg", picture)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _write(results: Path, name: str, document: Json) -> None:
    file = f"{name}-quick.json" if document["quick"] else f"{name}.json"
    outputs.write(results / file, json.dumps(document, indent=1))
