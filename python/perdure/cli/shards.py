"""Campaigns on many machines: study status and study array."""

from __future__ import annotations

import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from perdure.cli.output import AsJson, QuickOnes, TinyCells, print_json
from perdure.cli.study_flags import Keys, Lease, Scale, Target, pairs
from perdure.errors import InputError
from perdure.programs import native
from perdure.progress import duration
from perdure.study import job_array, leases, reader
from perdure.study import status as statuses
from perdure.study.model import Choices
from perdure.study.status import Work


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
        f"{len(found.running)} running, "
        + (f"{len(found.lost)} lost, " if found.lost else "")
        + f"{len(found.failed)} failed, {found.waiting} waiting"
        + (f", about {duration(left)} left" if left else "")
    )
    for one in found.running:
        former = one.taken_over_from
        print(
            f"running: {_who(one)}, since {_time(one.owner.since_unix)}"
            + (f", taken over from {former.host}" if former else "")
        )
    for one in found.lost:
        print(
            f"lost: {_who(one)}, silent since {_time(one.silent_since_unix)}, "
            f"free to be taken over since {_time(one.free_since_unix)}"
        )
    for cell in found.failed:
        what = " ".join(value for value in cell.labels.values() if value != "none")
        print(f"failed: {what}: {cell.reason}; run it alone: {cell.command}")


def array(
    file: Annotated[Path, typer.Argument(help="The study, such as studies/ep2.toml.")],
    slurm: Annotated[bool, typer.Option("--slurm", help="A script for sbatch.")] = False,
    pbs: Annotated[bool, typer.Option("--pbs", help="A script for qsub of OpenPBS.")] = False,
    shards: Annotated[int, typer.Option(min=2, help="Jobs, one a shard.")] = 4,
    results: Annotated[
        Path | None, typer.Option(help="A folder all machines see; default results/<name>.")
    ] = None,
    quick: TinyCells = False,
    scale: Scale = 1.0,
    target: Target = "",
    keys: Keys = [],  # noqa: B006 (typer copies it)
    lease: Lease = leases.SECONDS,
) -> None:
    """Print the job script that runs a study as a job array, one shard a job."""
    if slurm == pbs:
        what = "name one batch system" if slurm else "does not say for which batch system"
        raise InputError(what, where="study array", remedy="give --slurm or --pbs")
    choices = Choices(quick, scale, target or None, pairs(keys, "--keys"))
    study = reader.load(file, choices, indexes=native.measurable)
    place = results or Path("results") / study.name
    command = [sys.executable, "-m", "perdure", "study", "run", str(file.resolve())]
    command += ["--results", str(place.resolve())]
    command += ["--quick"] if quick else []
    command += ["--scale", f"{scale:g}"] if scale != 1.0 else []
    command += ["--target", target] if target else []
    command += [part for one in keys for part in ("--keys", one)]  # files as seen from here
    command += ["--lease", f"{lease:g}"] if lease != leases.SECONDS else []
    print(
        job_array.script(
            job_array.SLURM if slurm else job_array.PBS,
            study.name,
            command,
            shards=shards,
            folder=Path.cwd(),
            native=any(native.kind_of(cell.target) == "native" for cell in study.cells),
            environment=os.environ,
        ),
        end="",
    )


def _who(one: Work) -> str:
    return f"{one.owner.what} on {one.owner.host}, process {one.owner.pid}"


def _time(unix: float | None) -> str:
    """By another machine's clock, which may differ from ours."""
    try:
        return f"{datetime.fromtimestamp(unix or 0):%Y-%m-%d %H:%M:%S}"
    except (OSError, OverflowError, ValueError):
        return "a time that there is not"
