"""The commands that run cells: study run and demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perdure.cli import memory, output, shards, tables
from perdure.cli.output import AsJson, DryRun, Quiet, TinyCells, complain, print_json, print_table
from perdure.cli.results import report_place, try_report
from perdure.cli.study_flags import Keys, Lease, Scale, Target, pairs
from perdure.errors import ExitCode, InputError
from perdure.programs import native, outputs
from perdure.progress import duration
from perdure.results import explorations, record
from perdure.study import claims, exploring, leases, memory_claims
from perdure.study import reader as studies
from perdure.study.campaign import Campaign, Outcome
from perdure.study.dask_engine import Dask
from perdure.study.engines import HERE, Engine, Here
from perdure.study.model import Choices
from perdure.tree import ROOT
from perdure.types import Json


def register(app: typer.Typer) -> None:
    """Adds the commands to the command line."""
    group = typer.Typer(
        help="Run a study, a matrix of cells, here or on many machines.",
        short_help="Run a study, a matrix of cells: study run FILE.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command("run")(run)
    group.command("status")(shards.status)
    group.command("array")(shards.array)
    app.add_typer(group, name="study")
    app.command(short_help="A first result in three minutes: every index, a report.")(demo)


def run(
    file: Annotated[Path, typer.Argument(help="The study, such as studies/demo.toml.")],
    results: Annotated[
        Path | None, typer.Option(help="Where results go; default results/<name>.")
    ] = None,
    quick: TinyCells = False,
    scale: Scale = 1.0,
    target: Target = "",
    keys: Keys = [],  # noqa: B006 (typer copies it)
    with_report: Annotated[bool, typer.Option("--report", help="Then write the report.")] = False,
    shard: Annotated[
        str,
        typer.Option(
            metavar="I/N",
            help="Share --results with others: begin with part I of N, help with the rest.",
        ),
    ] = "",
    lease: Lease = leases.SECONDS,
    dask: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Run on the workers of this Dask scheduler, or on local:N; all see --results.",
        ),
    ] = "",
    dry_run: DryRun = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a study's cells, one process each. Finished cells are not run again."""
    engine = _engine(shard, dask)
    choices = Choices(quick, scale, target or None, pairs(keys, "--keys"))
    study = studies.load(file, choices, indexes=native.measurable)
    campaign = Campaign(study, results or Path("results") / study.name)
    progress = output.progress(quiet)
    if study.left_out:
        progress.say(f"left out: {', '.join(study.left_out)}")
    if dry_run:
        _print_plan([campaign], as_json)
        return
    if with_report:
        report_place(outputs.folder(campaign.results, "--results"), None, quick=quick)
    outcome = campaign.run(progress, engine, shared=engine is not HERE, lease_seconds=lease)
    if not as_json:
        _print_outcome(outcome, campaign)
    page, failure = None, None
    if with_report and outcome.has_results:
        page, failure = try_report(campaign.results, progress, quick=quick)
    if as_json:
        more: Json = {"report": str(page) if page else None, "findings": []}
        if outcome.has_results:
            found = _findings(campaign, record.load(campaign.results, quick=quick))
            more["findings"] = [finding.document() for finding in found]
        print_json(_outcome_document(outcome, campaign) | more)
    elif page:
        print(f"report: {page}")
    if failure:
        raise failure
    _exit_if_failed(outcome, campaign)


def demo(
    results: Annotated[Path, typer.Option(help="Where results go.")] = Path("results/demo"),
    quick: TinyCells = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """A first result in three minutes: every index, a simulated server, power cuts, a report."""
    progress = output.progress(quiet)
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
    report_place(outputs.folder(results, "--results"), None, quick=quick)
    outcomes = [campaign.run(progress) for campaign in campaigns]
    if len(campaigns) > 1:
        progress.say("comparing probes of the simulated server with measurements ...")
        memory.compare_for_demo(results / "fidelity", progress, quick=quick)
    cut = None
    if len(campaigns) > 1:
        cut = exploring.explore_for_demo(
            explorations.folder_of(results, quick=quick), progress, quick=quick
        )
    if not as_json:
        for outcome, campaign in zip(outcomes, campaigns, strict=True):
            _print_outcome(outcome, campaign)
    measured = outcomes[0].total > outcomes[0].failed
    page, failure = try_report(results, progress, quick=quick) if measured else (None, None)
    documents = [_outcome_document(o, c) for o, c in zip(outcomes, campaigns, strict=True)]
    if as_json:
        simulated = documents[1] if len(documents) > 1 else None
        parts = {"simulated": simulated, "crash": cut, "report": str(page) if page else None}
        print_json(documents[0] | parts)
    else:
        if page:
            print(f"report: {page}")
        if cut:
            print(exploring.show(cut))
    if failure:
        raise failure
    for outcome, campaign in zip(outcomes, campaigns, strict=True):
        _exit_if_failed(outcome, campaign)
    if cut and exploring.violations(cut):
        raise typer.Exit(ExitCode.VIOLATION)


def _engine(shard: str, dask: str) -> Engine:
    if shard and dask:
        raise InputError("goes without --dask", where="--shard", remedy="leave one of them out")
    if dask:
        return Dask.at(dask)
    return _shard(shard) if shard else HERE


def _shard(text: str) -> Here:
    """I/N as the command line has it."""
    number, _, shards = text.partition("/")
    if not (number.isdecimal() and shards.isdecimal() and 1 <= int(number) <= int(shards)):
        raise InputError(
            f"'{text}' is no part of a whole", where="--shard", remedy="write 1/4 to 4/4"
        )
    return Here(int(number) - 1, int(shards))


def _demo_file(name: str) -> Path:
    file = ROOT / "studies" / name
    if not file.is_file():
        raise InputError("not found", where=str(file), remedy="run demo from a source tree")
    return file


def _print_plan(campaigns: list[Campaign], as_json: bool) -> None:
    tasks = [task for campaign in campaigns for task in campaign.tasks]
    probed = [task for campaign in campaigns for task in campaign.probe_tasks()]
    pending = {task.key for campaign in campaigns for task in campaign.pending()}
    if as_json:
        print_json(
            [
                {
                    "key": p.key,
                    "labels": {"probe": p.probe},
                    "repetition": 0,
                    "command": p.shell(),
                    "finished": False,
                }
                for p in probed
            ]
            + [
                {
                    "key": t.key,
                    "labels": t.cell.labels,
                    "repetition": t.repetition,
                    "command": t.shell(),
                    "finished": t.key not in pending,
                }
                for t in tasks
            ]
        )
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
            print_table(tables.runs(campaign.study.title, runs))
        found = _findings(campaign, runs)
        if found:
            print_table(tables.findings([finding.document() for finding in found]))
    print(
        f"{outcome.finished} cells run in {duration(outcome.seconds)}, {outcome.reused} reused, "
        f"{outcome.failed} failed"
        + (f", {outcome.elsewhere} by other shards" if outcome.elsewhere else "")
    )


def _findings(campaign: Campaign, runs: list[record.Run]) -> list[claims.Finding]:
    """What the runs say of the published findings, target by target."""
    manifest = record.read_manifest(campaign.results, quick=campaign.study.quick)
    return [one for some in memory_claims.findings(manifest, runs).values() for one in some]


def _outcome_document(outcome: Outcome, campaign: Campaign) -> Json:
    return {
        "study": campaign.study.name,
        "results": str(campaign.results),
        "quick": outcome.quick,
        "total": outcome.total,
        "finished": outcome.finished,
        "reused": outcome.reused,
        "failed": outcome.failed,
        "elsewhere": outcome.elsewhere,
        "seconds": round(outcome.seconds, 3),
        "failures": outcome.failures,
    }


def _exit_if_failed(outcome: Outcome, campaign: Campaign) -> None:
    if outcome.failed:
        first = outcome.failures[0]
        complain(
            f"{outcome.failed} cells failed, the first with {first['reason']}; run it alone: "
            f"{first['command']} (all of them: {campaign.results / 'failed'})"
        )
        raise typer.Exit(ExitCode.CELL_FAILED)
