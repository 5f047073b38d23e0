"""Campaigns on many machines: study status and study array."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from perdure.cli.output import AsJson, QuickOnes, TinyCells, print_json
from perdure.errors import InputError
from perdure.programs import native
from perdure.progress import duration
from perdure.study import job_array, reader
from perdure.study import status as statuses
from perdure.study.leases import Owner
from perdure.study.model import Choices

SCALE_HELP = "Multiplies records and operations of every cell."


def status(
    results: Annotated[Path, typer.Argument(help="The results folder of a study run.")],
    quick: QuickOnes = False,
    as_json: AsJson = False,
) -> None:
    """Show which cells of a campaign are done, running (where, since when), failed and waiting."""
    found = statuses.read(results, quick=quick)
    if as_json:
        print_json(found.document())
        return
    left = found.seconds_left
    print(
        f"{found.study or 'a campaign'} in {results}: {found.done} of {found.total} cells done, "
        f"{len(found.running)} running, {len(found.failed)} failed, {found.waiting} waiting"
        + (f", about {duration(left)} left" if left else "")
    )
    for _, owner in found.running:
        print(f"running: {owner.what} on {owner.host}, process {owner.pid}, {_since(owner)}")
    for one in found.failed:
        what = " ".join(value for value in one.labels.values() if value != "none")
        print(f"failed: {what}: {one.reason}; run it alone: {one.command}")


def array(
    file: Annotated[Path, typer.Argument(help="The study, such as studies/ep2.toml.")],
    slurm: Annotated[bool, typer.Option("--slurm", help="A script for sbatch.")] = False,
    pbs: Annotated[bool, typer.Option("--pbs", help="A script for qsub of OpenPBS.")] = False,
    shards: Annotated[int, typer.Option(min=2, help="Jobs, one a shard.")] = 4,
    results: Annotated[
        Path | None, typer.Option(help="A folder all machines see; default results/<name>.")
    ] = None,
    quick: TinyCells = False,
    scale: Annotated[float, typer.Option(min=1e-6, help=SCALE_HELP)] = 1.0,
    target: Annotated[str, typer.Option(help="Instead of the study's: native, sim:PLATFORM.")] = "",
) -> None:
    """Print the job script that runs a study as a job array, one shard a job."""
    if slurm == pbs:
        what = "name one batch system" if slurm else "does not say for which batch system"
        raise InputError(what, where="study array", remedy="give --slurm or --pbs")
    study = reader.load(file, Choices(quick, scale, target or None), indexes=native.measurable)
    place = results or Path("results") / study.name
    command = [sys.executable, "-m", "perdure", "study", "run", str(file.resolve())]
    command += ["--results", str(place.resolve())]
    command += ["--quick"] if quick else []
    command += ["--scale", f"{scale:g}"] if scale != 1.0 else []
    command += ["--target", target] if target else []
    print(
        job_array.script(
            job_array.SLURM if slurm else job_array.PBS,
            study.name,
            command,
            shards=shards,
            folder=Path.cwd(),
            native=any(native.kind_of(cell.target) == "native" for cell in study.cells),
        ),
        end="",
    )


def _since(owner: Owner) -> str:
    """By that machine's clock, which may differ from ours."""
    try:
        return f"since {datetime.fromtimestamp(owner.since_unix):%Y-%m-%d %H:%M:%S}"
    except (OSError, OverflowError, ValueError):
        return "since a time that there is not"
