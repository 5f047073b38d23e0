"""The command `advise`: which index for a case, with the evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from perdure.cli import output
from perdure.cli.output import AsJson, DryRun, Quiet, TinyCells, print_json
from perdure.errors import ExitCode, InputError
from perdure.format import rate
from perdure.programs.target import check_target
from perdure.results import metrics, record
from perdure.study import advise as advising
from perdure.study.campaign import Campaign
from perdure.study.flags import COUNT, count_of
from perdure.types import Json

DEFAULT_TARGETS = ("sim:optane100-6242r-2s", "native")


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command(short_help="Rank the indexes for your case by what they do with it.")(advise)


def advise(
    records: Annotated[str, typer.Option(help="How many records it will hold: 10M.")],
    mix: Annotated[str, typer.Option(help="Shares of operations: lookup=0.9,insert=0.1.")],
    key_bytes: Annotated[int, typer.Option(min=8, max=2048)] = 8,
    value_bytes: Annotated[int, typer.Option(min=8, max=65536)] = 8,
    threads: Annotated[int, typer.Option(min=1, max=256)] = 1,
    needs: Annotated[
        str, typer.Option(help="What it must have, separated by commas: durability, scan.")
    ] = "",
    distribution: Annotated[str, typer.Option(help="As of bench: uniform, zipfian.")] = "uniform",
    scan_count: Annotated[str, typer.Option(help="Records a scan: 100 or 1-100.")] = "100",
    target: Annotated[
        list[str], typer.Option(help="native or sim:PLATFORM; may be given again.")
    ] = list(DEFAULT_TARGETS),  # noqa: B006 (typer copies it)
    most_records: Annotated[str, typer.Option(help="Records a cell has at most.")] = "1M",
    results: Annotated[Path, typer.Option(help="Where results go.")] = Path("results/advise"),
    engine: Annotated[
        bool,
        typer.Option(
            "--engine", help="Rank where a document store's records and index may live, instead."
        ),
    ] = False,
    near: Annotated[
        str, typer.Option(help="With --engine: pm, or dram beside a pool on CXL memory.")
    ] = "pm",
    quick: TinyCells = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Rank the indexes for your case by what they do with it, simulated and on this machine."""
    case = advising.Case(
        records=_count(records, "--records"),
        mix=_mix(mix),
        key_bytes=key_bytes,
        value_bytes=value_bytes,
        threads=threads,
        scan_count=scan_count,
        distribution=distribution,
        needs=tuple(n.strip() for n in needs.split(",") if n.strip()),
    )
    for one in target:
        check_target(one)
    most = _count(most_records, "--most-records")
    if engine:
        plan = advising.plan_engine(case, target, most, near=_near(near), quick=quick)
    else:
        plan = advising.plan(case, target, most, quick=quick)
    campaign = Campaign(plan.study, results)
    if dry_run:
        for task in campaign.tasks:
            print(task.shell())
        return
    outcome = campaign.run(output.progress(quiet))
    places = []
    if outcome.total > outcome.failed:
        places = advising.rank(record.load(campaign.results, quick=quick))
    if as_json:
        document = _document(case, plan, places, outcome.failures)
        print_json(document | {"quick": quick})
    else:
        if quick:
            print(record.QUICK_BANNER)
        _show(case, plan, places)
        for failure in outcome.failures:
            print(f"{failure['labels']['index']} failed: {failure['reason']}: {failure['command']}")
    if outcome.failed:
        raise typer.Exit(ExitCode.CELL_FAILED)


def _document(
    case: advising.Case, plan: advising.Plan, places: list[advising.Place], failures: list[Json]
) -> Json:
    return {
        "case": case.describe(),
        "records_measured": plan.records,
        "ranks": [place.document() for place in places],
        "left_out": plan.left_out,
        "notes": plan.notes,
        "failures": failures,
    }


def _show(case: advising.Case, plan: advising.Plan, places: list[advising.Place]) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    print(case.describe())
    for target in dict.fromkeys(place.target for place in places):
        chosen = [place for place in places if place.target == target]
        console.print(_table(target, chosen))
        print(f"the first again: {chosen[0].command}\n")
    for name, reason in plan.left_out.items():
        print(f"left out: {name}: {reason}")
    for note in dict.fromkeys(plan.notes):
        print(f"note: {note}")


def _table(target: str, places: list[advising.Place]) -> Table:
    measured = "simulated" if target.startswith("sim:") else "measured"
    evidence = [n for n in advising.EVIDENCE if any(p.numbers[n] is not None for p in places)]
    table = Table(
        title=f"{target} ({measured})", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
    )
    table.add_column("rank", justify="right")
    table.add_column("index")
    titles = [
        metrics.METRICS[name]
        .title.replace(" per operation", "/op")
        .replace(" per record", "/record")
        for name in evidence
    ]
    for column in ("op/s", "of best", *titles):
        table.add_column(column, justify="right")
    for place in places:
        shown = ((name, place.numbers[name]) for name in evidence)
        table.add_row(
            "-" if place.rank is None else str(place.rank),
            place.index,
            rate(place.throughput.value),
            f"{place.of_best:.2f}",
            *("-" if number is None else metrics.text(name, number) for name, number in shown),
        )
    return table


def _count(text: str, flag: str) -> int:
    if COUNT.match(text) and count_of(text) > 0:
        return count_of(text)
    raise InputError(f"not a count: '{text}'", where=flag, remedy="write 500K or 10M")


def _near(text: str) -> str:
    if text in ("pm", "dram"):
        return text
    raise InputError(f"unknown memory '{text}'", where="--near", remedy="use pm or dram")


def _mix(text: str) -> dict[str, float]:
    """lookup=0.9,insert=0.1"""
    mix: dict[str, float] = {}
    for part in text.split(","):
        name, _, share = part.partition("=")
        try:
            mix[name.strip()] = float(share)
        except ValueError:
            raise InputError(
                f"'{part}' is no share", where="--mix", remedy="write lookup=0.9,insert=0.1"
            ) from None
    return mix
