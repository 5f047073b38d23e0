"""The command line: `perdure COMMAND`. stdout carries results, stderr everything else."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from perdure import __version__
from perdure.cli import advise, listing, memory, tables
from perdure.cli import doctor as doctoring
from perdure.errors import ExitCode, InputError, PerdureError, did_you_mean
from perdure.programs import child, native, outputs, profile
from perdure.programs import crash as crashing
from perdure.programs.target import check_target
from perdure.progress import Progress, duration
from perdure.results import compare as comparing
from perdure.results import record
from perdure.results.stats import Verdict
from perdure.study import claims, memory_claims
from perdure.study import reader as studies
from perdure.study.campaign import Campaign, Outcome
from perdure.study.model import Choices
from perdure.tree import ROOT

EPILOG = (
    "Exit codes: 0 ok, 1 a cell failed, 2 usage or bad input, 3 regression, 4 inconclusive "
    "(with --strict), 5 crash-consistency violation, 130 interrupted with everything finished "
    "saved."
)

# By use: first what a newcomer runs, last what the others build on.
ORDER = (
    "demo", "bench", "compare", "study", "report", "advise", "list", "doctor", "crash", "probe",
    "classify", "fidelity", "describe", "flamegraph", "test",
)  # fmt: skip


class _ByUse(typer.core.TyperGroup):
    """The commands in `ORDER`, each with its whole line."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=ORDER.index)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, self.commands[name].get_short_help_str(limit=200))
                    for name in self.list_commands(ctx)
                ]
            )


app = typer.Typer(
    name="perdure",
    cls=_ByUse,
    help="Measure, compare and report indexes on persistent memory.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
study_app = typer.Typer(
    help="Run a study: a matrix of cells.",
    short_help="Run a study, a matrix of cells: study run FILE.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(study_app, name="study")
memory.register(app)
advise.register(app)
listing.register(app)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]
QuickOnes = Annotated[bool, typer.Option(help="Of a quick run, where there is a full one, too.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the commands; run nothing.")]


def main() -> None:
    """Runs the command line and exits; every error becomes one line on stderr."""
    try:
        code = app(standalone_mode=False, prog_name="perdure")
        sys.stdout.flush()
        if code == ExitCode.INTERRUPTED:  # typer's answer to KeyboardInterrupt
            raise KeyboardInterrupt
        sys.exit(int(code or 0))
    except PerdureError as error:
        _complain(str(error))
        sys.exit(error.exit_code)
    except typer.TyperException as error:
        # A command group without its command: what it offers is the best answer.
        is_help = type(error).__name__ == "NoArgsIsHelpError"
        print(error, file=sys.stderr) if is_help else _complain(_usage_line(error))
        sys.exit(ExitCode.USAGE)
    except BrokenPipeError:
        # The reader of stdout went away, as `| head` does; Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except OSError as error:
        # A file or directory that nobody expected to fail: which one, and why, is all to be said.
        parts = (str(error.filename or ""), error.strerror or str(error))
        _complain(": ".join(filter(None, parts)))
        sys.exit(ExitCode.CELL_FAILED)
    except (KeyboardInterrupt, typer.Abort):
        _complain("interrupted; what was finished is saved, run the same command to go on")
        sys.exit(ExitCode.INTERRUPTED)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(f"perdure {__version__}")
        raise typer.Exit


@app.command(
    short_help="Measure one index once, on this machine or simulated.",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    add_help_option=False,
)
def bench(context: typer.Context) -> None:
    """Measure one index once; --target sim:PLATFORM simulates it, --flamegraph FILE draws why."""
    arguments = list(context.args)
    target = profile.value_of(arguments, "--target") or "native"
    check_target(target)
    if "--help" in arguments or "-h" in arguments:
        _bench_help(target)
        return
    command = [str(native.program(native.kind_of(target))), "bench", *arguments]
    if profile.value_of(arguments, profile.FLAG) is None:
        child.become(command, native.environment(), "perdure bench")
    with profile.recorded(command, target) as wrapped:
        code = child.attend(wrapped, native.environment())
    raise typer.Exit(child.exit_code(code, command, "perdure bench"))


@app.command(
    short_help="Explore what a power cut may leave of an index.",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    add_help_option=False,
)
def crash(context: typer.Context) -> None:
    """Explore what a power cut may leave: --index NAME, --replay FILE, --mutate NAME."""
    command = [str(native.program("sim")), "crash", *context.args]
    child.become(command, native.environment(), "perdure crash")


@app.command(short_help="Examine this machine, with a remedy for each finding.")
def doctor(as_json: AsJson = False) -> None:
    """Examine this machine: what it offers, and the remedy for each finding. Changes nothing."""
    built = native.is_built("native")
    facts = native.query("environment") if built else doctoring.facts_without_program()
    findings = doctoring.examine(facts)
    if not built:
        findings = [*doctoring.build_findings(), *findings]
    if as_json:
        _print_json({"environment": facts, "findings": [f.document() for f in findings]})
        return
    styles = {"good": "green", "note": "yellow", "mend": "red"}
    table = Table(title="this machine", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("", "subject", "finding"):
        table.add_column(column)
    for finding in findings:
        remedy = f"\n[dim]-> {finding.remedy}[/dim]" if finding.remedy else ""
        mark = f"[{styles[finding.level]}]{finding.level}[/]"
        table.add_row(mark, finding.subject, finding.what + remedy)
    _print_table(table)


@study_app.command("run")
def study_run(
    file: Annotated[Path, typer.Argument(help="The study, such as studies/demo.toml.")],
    results: Annotated[
        Path | None, typer.Option(help="Where results go; default results/<name>.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="Tiny cells: does it all run?")] = False,
    scale: Annotated[
        float, typer.Option(min=1e-6, help="Multiplies records and operations of every cell.")
    ] = 1.0,
    target: Annotated[
        str, typer.Option(help="Instead of the study's: native (up to all cores), sim:PLATFORM.")
    ] = "",
    keys: Annotated[
        list[str], typer.Option(help="NAME=FILE (a key a line) for a name in the study's [keys].")
    ] = [],  # noqa: B006 (typer copies it)
    with_report: Annotated[bool, typer.Option("--report", help="Then write the report.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a study's cells, one process each. Finished cells are not run again."""
    choices = Choices(quick, scale, target or None, _pairs(keys, "--keys"))
    study = studies.load(file, choices, indexes=native.indexes)
    campaign = Campaign(study, results or Path("results") / study.name)
    progress = Progress(_stderr(), quiet=quiet)
    if study.left_out:
        progress.say(f"left out: {', '.join(study.left_out)}")
    if dry_run:
        _print_plan([campaign], as_json)
        return
    if with_report:
        _report_place(outputs.folder(campaign.results, "--results"), None, quick=quick)
    outcome = campaign.run(progress)
    if not as_json:
        _print_outcome(outcome, campaign)
    page, failure = None, None
    if with_report and outcome.has_results:
        page, failure = _try_report(campaign.results, progress, quick=quick)
    if as_json:
        more: dict[str, Any] = {"report": str(page) if page else None, "findings": []}
        if outcome.has_results:
            found = _findings(campaign, record.load(campaign.results, quick=quick))
            more["findings"] = [finding.document() for finding in found]
        _print_json(_outcome_document(outcome, campaign) | more)
    elif page:
        print(f"report: {page}")
    if failure:
        raise failure
    _exit_if_failed(outcome, campaign)


@app.command(short_help="Write one HTML file of results: figures, tables, commands.")
def report(
    directory: Annotated[Path, typer.Argument(help="A results directory, or a file of records.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Default: report.html beside the results.")
    ] = None,
    quick: QuickOnes = False,
    quiet: Quiet = False,
) -> None:
    """Write one self-contained HTML file: figures, environment, and how to run each again."""
    print(_write_report(directory, output, Progress(_stderr(), quiet=quiet), quick=quick))


@app.command(short_help="Compare results B with A: faster, slower, same.")
def compare(
    a: Annotated[Path, typer.Argument(help="Before: a results directory or a file of records.")],
    b: Annotated[Path, typer.Argument(help="After, or the other index.")],
    threshold: Annotated[
        float, typer.Option(min=0.0, help="Smaller relative differences do not count.")
    ] = 0.05,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.999)] = 0.95,
    strict: Annotated[bool, typer.Option(help="Exit 4 when a verdict is inconclusive.")] = False,
    quick: QuickOnes = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare B with A: faster, slower, same or inconclusive. Exits 3 when B is slower."""
    runs_a, runs_b = record.load(a, quick=quick), record.load(b, quick=quick)
    is_quick = any(run.quick for run in (*runs_a, *runs_b))
    result = comparing.compare(runs_a, runs_b, threshold=threshold, confidence=confidence)
    if as_json:
        _print_json(
            {
                "quick": is_quick,
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
        _print_table(tables.comparison(result))
    unpaired = len(result.only_a) + len(result.only_b)
    if unpaired and not quiet:
        _complain(f"{unpaired} cells are on one side only and were not compared")
    if result.count(Verdict.SLOWER):
        raise typer.Exit(ExitCode.REGRESSION)
    if strict and result.count(Verdict.INCONCLUSIVE):
        raise typer.Exit(ExitCode.INCONCLUSIVE)


@app.command(
    short_help="Run every build and test; ./perdure test --list shows them.",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    add_help_option=False,
)
def test() -> None:
    """For the launcher of a source tree, which takes this command before we see it."""
    raise InputError(
        "is a command of ./perdure in a source tree", where="perdure test",
        remedy="run ./perdure test --list there",
    )  # fmt: skip


@app.command(short_help="A first result in three minutes: every index, a report.")
def demo(
    results: Annotated[Path, typer.Option(help="Where results go.")] = Path("results/demo"),
    quick: Annotated[bool, typer.Option(help="Tiny cells: does it all run?")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """A first result in three minutes: every index, a simulated server, power cuts, a report."""
    progress = Progress(_stderr(), quiet=quiet)
    plan = {"demo.toml": results}
    if native.is_built("sim"):
        plan["demo-simulated.toml"] = results / "simulated"
    else:
        progress.say("perdure-sim is not built: the simulated server is left out")
    campaigns = [
        Campaign(studies.load(_demo_file(name), Choices(quick)), place)
        for name, place in plan.items()
    ]
    if dry_run:
        _print_plan(campaigns, as_json)
        return
    _report_place(outputs.folder(results, "--results"), None, quick=quick)
    outcomes = [campaign.run(progress) for campaign in campaigns]
    if len(campaigns) > 1:
        progress.say("comparing probes of the simulated server with measurements ...")
        memory.compare_for_demo(results / "fidelity", progress, quick=quick)
    cut = None
    if len(campaigns) > 1:
        cut = crashing.explore_for_demo(results / "crash", progress, quick=quick)
    if not as_json:
        for outcome, campaign in zip(outcomes, campaigns, strict=True):
            _print_outcome(outcome, campaign)
    measured = outcomes[0].total > outcomes[0].failed
    page, failure = _try_report(results, progress, quick=quick) if measured else (None, None)
    documents = [_outcome_document(o, c) for o, c in zip(outcomes, campaigns, strict=True)]
    if as_json:
        simulated = documents[1] if len(documents) > 1 else None
        parts = {"simulated": simulated, "crash": cut, "report": str(page) if page else None}
        _print_json(documents[0] | parts)
    else:
        if page:
            print(f"report: {page}")
        if cut:
            print(crashing.show(cut))
    if failure:
        raise failure
    for outcome, campaign in zip(outcomes, campaigns, strict=True):
        _exit_if_failed(outcome, campaign)
    if cut and crashing.violations(cut):
        raise typer.Exit(ExitCode.VIOLATION)


def _pairs(arguments: list[str], flag: str) -> dict[str, str]:
    pairs = dict(argument.partition("=")[::2] for argument in arguments)
    for name, value in pairs.items():
        if not name or not value:
            raise InputError(f"'{name}' names no value", where=flag, remedy="write NAME=VALUE")
    return pairs


def _demo_file(name: str) -> Path:
    file = ROOT / "studies" / name
    if not file.is_file():
        raise InputError("not found", where=str(file), remedy="run demo from a source tree")
    return file


def _write_report(directory: Path, output: Path | None, progress: Progress, *, quick: bool) -> Path:
    try:
        from perdure.report import page as reporting
    except ImportError as error:
        raise InputError(
            f"the report needs the package {error.name}", where="perdure report",
            remedy="pip install 'perdure[report]'",
        ) from error  # fmt: skip
    runs = record.load(directory, quick=quick)
    path = _report_place(directory, output, quick=any(run.quick for run in runs))
    progress.say("drawing the report ...")
    reporting.write(directory, runs, path)
    return path


def _report_place(directory: Path, output: Path | None, *, quick: bool) -> Path:
    """Where the report goes. Errors: InputError, before the work, where it cannot be written."""
    folder = directory if directory.is_dir() else directory.parent
    path = output or folder / ("report-quick.html" if quick else "report.html")
    outputs.folder(path.parent, "--output" if output else "")
    outputs.check(path, "--output" if output else "")
    return path


def _try_report(
    directory: Path, progress: Progress, *, quick: bool
) -> tuple[Path | None, PerdureError | None]:
    """The page, or why there is none: for commands that have more to say than that."""
    try:
        return _write_report(directory, None, progress, quick=quick), None
    except PerdureError as error:
        return None, error


def _bench_help(target: str) -> None:
    print(
        "Usage: perdure bench FLAGS [--json] [--dry-run]\n\n"
        "Measures one index once and prints a table; --json prints the run record instead.\n"
        "Example: perdure bench --index fptree --records 1M --mix lookup=0.9,insert=0.1 "
        "--threads 2 --seconds 2 --pool /dev/shm/p.pool\n\n"
        "--target sim:PLATFORM simulates the run; --flamegraph FILE draws where its time went "
        "(.svg, or .folded stacks).\n"
        "Every other flag goes to the program, which says of them:\n"
    )
    program = native.program(native.kind_of(target))
    child.become([str(program), "bench", "--help"], native.environment(), "perdure bench")


def _print_plan(campaigns: list[Campaign], as_json: bool) -> None:
    tasks = [task for campaign in campaigns for task in campaign.tasks]
    probed = [task for campaign in campaigns for task in campaign.probe_tasks()]
    pending = {task.key for campaign in campaigns for task in campaign.pending()}
    if as_json:
        _print_json(
            [
                {"key": p.key, "labels": {"probe": p.arguments[1]}, "repetition": 0,
                 "command": p.shell(), "finished": False}
                for p in probed
            ] + [
                {"key": t.key, "labels": t.cell.labels, "repetition": t.repetition,
                 "command": t.shell(), "finished": t.key not in pending}
                for t in tasks
            ]
        )  # fmt: skip
        return
    for probe in probed:
        print(probe.shell())
    for task in tasks:
        print(("" if task.key in pending else "# finished: ") + task.shell())


def _print_outcome(outcome: Outcome, campaign: Campaign) -> None:
    if outcome.quick:
        print(record.QUICK_BANNER)
    if outcome.has_results:
        runs = record.load(campaign.results, quick=outcome.quick)
        if not campaign.study.figures:
            _print_table(tables.runs(campaign.study.title, runs))
        found = _findings(campaign, runs)
        if found:
            _print_table(tables.findings([finding.document() for finding in found]))
    print(
        f"{outcome.finished} cells run in {duration(outcome.seconds)}, {outcome.reused} reused, "
        f"{outcome.failed} failed"
    )


def _findings(campaign: Campaign, runs: list[record.Run]) -> list[claims.Finding]:
    """Of the runs on each target."""
    manifest = record.read_manifest(campaign.results, quick=campaign.study.quick)
    targets = dict.fromkeys(run.record["target"] for run in runs)
    by_target = ([r for r in runs if r.record["target"] == target] for target in targets)
    return [finding for some in by_target for finding in memory_claims.findings(manifest, some)]


def _outcome_document(outcome: Outcome, campaign: Campaign) -> dict[str, Any]:
    return {
        "study": campaign.study.name,
        "results": str(campaign.results),
        "quick": outcome.quick,
        "total": outcome.total,
        "finished": outcome.finished,
        "reused": outcome.reused,
        "failed": outcome.failed,
        "seconds": round(outcome.seconds, 3),
        "failures": outcome.failures,
    }


def _exit_if_failed(outcome: Outcome, campaign: Campaign) -> None:
    if outcome.failed:
        first = outcome.failures[0]
        _complain(
            f"{outcome.failed} cells failed, the first with {first['reason']}; run it alone: "
            f"{first['command']} (all of them: {campaign.results / 'failed'})"
        )
        raise typer.Exit(ExitCode.CELL_FAILED)


def _usage_line(error: typer.TyperException) -> str:
    """One line for a flag or command that does not exist: what, where, remedy."""
    context: Any = getattr(error, "ctx", None)
    format_message: Any = getattr(error, "format_message", None)
    where = context.command_path if context is not None else "perdure"
    option = getattr(error, "option_name", None)
    remedy = f"{where} --help lists what there is"
    if option and hasattr(error, "possibilities"):
        known = [name for p in context.command.params for name in p.opts] if context else []
        return f"{where}: unknown flag '{option}'; {did_you_mean(option, known, remedy)}"
    message = str(format_message() if format_message else error).strip().rstrip(".")
    if message.startswith("No such command"):
        given = message.split("'")[1]
        known = list(context.command.commands) if context else []
        return f"{where}: unknown command '{given}'; {did_you_mean(given, known, remedy)}"
    return f"{where}: {message[:1].lower()}{message[1:]}; {remedy}".replace("\n", " ")


def _complain(line: str) -> None:
    print(f"perdure: {line}" if not line.startswith("perdure") else line, file=sys.stderr)


def _stderr() -> Console:
    return Console(stderr=True)


def _print_table(table: Table) -> None:
    tables.console().print(table)


def _print_json(document: Any) -> None:
    print(json.dumps(document, indent=2))
