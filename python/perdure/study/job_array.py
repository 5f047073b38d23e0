"""Job scripts: a study as a job array of a batch system, one shard a job.

The jobs need nothing of each other, so they may start at any time, and any of them may be killed
and submitted again.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Which programs run, where their locks are, and where this package is. Not PERDURE_HOST: each
# machine has its own.
HANDED_ON = ("PERDURE_NATIVE", "PERDURE_SIM", "PERDURE_LOCKS", "PYTHONPATH")


@dataclass(frozen=True)
class System:
    """A batch system's way of saying things."""

    name: str
    head: str
    whole_machine: str
    index: str


SLURM = System(
    "slurm",
    "#SBATCH --job-name={name}\n#SBATCH --array=1-{shards}\n#SBATCH --nodes=1\n"
    "#SBATCH --ntasks=1\n",
    "#SBATCH --exclusive\n",
    "SLURM_ARRAY_TASK_ID",
)
PBS = System(
    "pbs",
    "#PBS -N {name}\n#PBS -J 1-{shards}\n#PBS -r y\n",
    "#PBS -l place=excl\n",
    "PBS_ARRAY_INDEX",
)


def script(
    system: System,
    study: str,
    command: Sequence[str],
    *,
    shards: int,
    folder: Path,
    native: bool,
    environment: Mapping[str, str],
) -> str:
    """A job script for `shards` jobs that run `command` in `folder`, each with its own --shard.
    A study with native cells gets machines whole. Jobs see those of our variables that they need
    (`environment`), also where the batch system hands on none."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", f"perdure-{study}")
    return (
        "#!/bin/sh\n"
        + system.head.format(name=name, shards=shards)
        + (system.whole_machine if native else "")
        + "# Add what your site asks for: time, partition or queue, account. Simulations run one\n"
        "# a core: ask for as many as a job shall use. A job that is ended by its time limit\n"
        "# loses only the cells that it was running; submit the script again.\n"
        + "".join(
            f"export {name}={shlex.quote(environment[name])}\n"
            for name in HANDED_ON
            if environment.get(name)
        )
        + f"cd {shlex.quote(str(folder))} || exit\n"
        f'exec {shlex.join(command)} --shard "${system.index}/{shards}"\n'
    )
