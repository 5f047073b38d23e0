"""The engine over Dask: each repetition of a cell is a task of a cluster's workers.

Dask decides only where a task runs. A worker claims, runs and keeps it as a shard does (tasks.py),
so nothing is lost with the scheduler: what was finished is in the results folder, which all workers
must see under the same path.

A native cell needs the resource `host`, of which a worker has one, and holds its machine alone; a
simulation takes one of the worker's threads. A worker whose program or kind of machine is not the
campaign's refuses, and its tasks go to others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from perdure.errors import InputError, PerdureError
from perdure.programs import native
from perdure.programs import target as targets
from perdure.programs.processes import Children
from perdure.study import pools, sharing
from perdure.study.engines import POLL_SECONDS, Finish
from perdure.study.leases import Leases
from perdure.study.tasks import Place, Result, Runner, State, Task

if TYPE_CHECKING:
    import distributed

LOCAL = "local:"
HOST = "host"  # the resource
WORKERS_SECONDS = 60.0  # until the first worker must be there
CONNECT_SECONDS = 20.0
AGAIN = "finished cells stay; run the same command again"


@dataclass(frozen=True)
class Job:
    """What a worker must know of a campaign."""

    place: Place
    campaign: str
    lease_seconds: float


@dataclass(frozen=True)
class Worker:
    """What a worker says of itself: targets with their identity, or why it cannot run them."""

    identities: dict[str, str]
    host_fingerprint: str
    resources: dict[str, float]

    def refusal(self, task: Task) -> str:
        """Why it does not run a task; empty where it does."""
        if self.identities.get(task.cell.target) != task.build_id:
            return f"has another build or platform for {task.cell.target}"
        if not task.simulated and self.host_fingerprint != task.host_fingerprint:
            return "is another kind of machine"
        return ""


@dataclass(frozen=True)
class Dask:
    """Runs tasks on the workers of the scheduler at `address`, or on local:N processes here.

    Errors: InputError where there is no scheduler, or no worker that may run the tasks;
    PerdureError when the scheduler is gone.
    """

    address: str

    def run(
        self, tasks: Sequence[Task], runner: Runner, start: Callable[[Task], None], finish: Finish
    ) -> None:
        left = list(tasks)
        if not left:
            return
        job = Job(runner.place, runner.leases.campaign, runner.leases.seconds)
        with _client(self.address) as client:
            while left:
                before = len(left)
                try:
                    workers = _workers(client, left, runner.say)
                    left = _once(client, job, left, workers, start, finish)
                    if len(left) == before:
                        time.sleep(POLL_SECONDS)
                except (OSError, CancelledError) as error:  # of the connection
                    raise PerdureError(
                        "the scheduler is gone", where="--dask", remedy=AGAIN
                    ) from error

    @classmethod
    def at(cls, address: str) -> Dask:
        """Errors: InputError without the extra [cluster], or for no address."""
        try:
            import distributed  # noqa: F401
        except ImportError as error:
            raise InputError(
                "needs the packages of the extra [cluster]",
                where="--dask",
                remedy="pip install 'perdure[cluster]'",
            ) from error
        number = address.removeprefix(LOCAL)
        local = address.startswith(LOCAL)
        if local and not (number.isdecimal() and int(number)) or not local and ":" not in address:
            raise InputError(
                f"'{address}' is no address",
                where="--dask",
                remedy="give the scheduler's, such as tcp://node1:8786, or local:4",
            )
        return cls(address)


def run_task(job: Job, task: Task) -> Result:
    """In a worker: runs a task as a shard would, and keeps nothing open afterwards."""
    if reason := describe([task.cell.target]).refusal(task):
        return Result(State.REFUSED, {"reason": reason})
    program = str(targets.program_for(task.cell.target))
    with ExitStack() as stack:
        lock = stack.enter_context(sharing.joined(job.place.results, job.campaign))
        held = stack.enter_context(Leases(job.place.results, job.campaign, job.lease_seconds))
        directories = [task.pool_directory] if task.pool_directory else []
        owner = stack.enter_context(pools.owned(directories))
        children = stack.enter_context(Children([lock, *owner.descriptors]))
        say = logging.getLogger("distributed.worker").info
        runner = Runner(job.place, held, children, owner, say)
        return runner.run(replace(task, command=[program, *task.command[1:]]))


def describe(wanted: Sequence[str], dask_worker: Any = None) -> Worker:
    """In a worker: what it is."""
    identities = {}
    for target in wanted:
        try:
            identities[target] = targets.identity(target)
        except PerdureError as error:
            logging.getLogger("distributed.worker").warning("%s", error)
    fingerprint = ""
    if "native" in identities:
        fingerprint = native.host_fingerprint()
    resources = dict(dask_worker.state.total_resources) if dask_worker else {}
    return Worker(identities, fingerprint, resources)


def _workers(
    client: distributed.Client, tasks: Sequence[Task], say: Callable[[str], None]
) -> dict[str, Worker]:
    """The workers that may run all of the tasks, by address."""
    try:
        client.wait_for_workers(1, timeout=WORKERS_SECONDS)
    except TimeoutError as error:
        raise InputError(
            "the scheduler has no worker", where="--dask", remedy="start one: dask worker ADDRESS"
        ) from error
    wanted = sorted({task.cell.target for task in tasks})
    found: dict[str, Worker | Exception] = client.run(describe, wanted, on_error="return")
    kinds = {(task.cell.target, task.simulated): task for task in tasks}.values()
    may, reasons = {}, []
    for address, worker in found.items():
        if isinstance(worker, Exception):  # it has no perdure, or another version
            reasons.append(f"worker {address} cannot run it: {type(worker).__name__}: {worker}")
            continue
        refusals = [reason for task in kinds if (reason := worker.refusal(task))]
        if refusals:
            reasons.append(f"worker {address} {refusals[0]}")
        else:
            may[address] = worker
    for reason in reasons:
        say(f"left out: {reason}")
    if not may:
        raise InputError(
            f"no worker may run this: {reasons[0]}",
            where="--dask",
            remedy="start workers with this build, on this kind of machine",
        )
    alone = any(not task.simulated for task in tasks)
    if alone and not any(worker.resources.get(HOST) for worker in may.values()):
        raise InputError(
            f"no worker has the resource {HOST}, which native cells take",
            where="--dask",
            remedy=f"start one on each machine with --resources {HOST}=1",
        )
    return may


def _once(
    client: distributed.Client,
    job: Job,
    tasks: Sequence[Task],
    workers: dict[str, Worker],
    start: Callable[[Task], None],
    finish: Finish,
) -> list[Task]:
    """Gives every task to a worker once; returns those that are to be given again."""
    import distributed
    from distributed.comm import CommClosedError

    futures = {}
    for task in tasks:
        start(task)
        future = client.submit(
            run_task,
            job,
            task,
            pure=False,
            workers=list(workers),
            resources={} if task.simulated else {HOST: 1},
        )
        futures[future] = task
    again = []
    for future in distributed.as_completed(futures):
        task = futures[future]
        error = future.exception()
        if isinstance(error, distributed.KilledWorker):
            finish(task, Result(State.FAILED, _killed(task)))
        elif isinstance(error, (PerdureError, CancelledError, CommClosedError)):
            raise error
        elif error is not None:
            what = f"a worker failed: {type(error).__name__}: {error}"
            raise PerdureError(what, where=task.title, remedy=AGAIN) from error
        else:
            result: Result = future.result()
            if result.state in (State.BUSY, State.REFUSED):
                again.append(task)
            else:
                finish(task, result)
    return again


def _killed(task: Task) -> dict[str, Any]:
    return {
        "key": task.key,
        "labels": task.cell.labels,
        "command": task.shell(),
        "reason": "its workers were killed",
    }


@contextmanager
def _client(address: str) -> Iterator[distributed.Client]:
    import distributed

    # Workers that come and go are no news here; what fails is said in a line of our own.
    for name in ("distributed", "distributed.client", "distributed.core"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        if address.startswith(LOCAL):
            cluster = distributed.LocalCluster(
                n_workers=int(address.removeprefix(LOCAL)),
                threads_per_worker=1,
                resources={HOST: 1},
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            )
            stack.enter_context(cluster)
            yield stack.enter_context(distributed.Client(cluster))
            return
        try:
            client = distributed.Client(address, timeout=CONNECT_SECONDS)
        except (OSError, TimeoutError, ValueError) as error:
            raise InputError(
                "no scheduler answers",
                where=f"--dask {address}",
                remedy="dask scheduler starts one",
            ) from error
        yield stack.enter_context(client)
