"""The order in which shards run the tasks of a campaign."""

from __future__ import annotations

import itertools
import os

import pytest

from perdure.programs import host
from perdure.study.engines import HERE, Here
from perdure.study.model import Cell
from perdure.study.tasks import Task

CELL = Cell({"index": "hot"}, {"target": "native"}, "none")
TASKS = [Task(CELL, 0, key, [], None, "", "") for key in "abcdefghij"]


def order(shard: int, shards: int) -> str:
    return "".join(task.key for task in Here(shard, shards).order(TASKS))


def test_a_shard_runs_its_own_part_in_order_and_then_helps_the_next_from_the_end() -> None:
    assert [order(shard, 3) for shard in range(3)] == [
        "adgj" + "heb" + "ifc",
        "beh" + "ifc" + "jgda",
        "cfi" + "jgda" + "heb",
    ]
    assert "".join(task.key for task in HERE.order(TASKS)) == "abcdefghij"


def test_a_helper_and_whom_it_helps_meet_at_their_last_task() -> None:
    # At one speed: who is through with its own part takes what the other would take last.
    two = [order(shard, 2) for shard in range(2)]
    for mine, theirs in itertools.permutations(two):
        helping = mine[len(TASKS) // 2 :]
        assert helping == theirs[: len(TASKS) // 2][::-1]


def test_more_shards_than_tasks_leave_some_without_a_part_of_their_own() -> None:
    assert order(9, 10**15) == "j" + "ihgfedcba"[::-1]
    assert order(10**14, 10**15) == "abcdefghij"
    assert Here(5, 10**15).order([]) == []


@pytest.mark.parametrize("variable", ["SLURM_CPUS_ON_NODE", "NCPUS"])
def test_a_batch_systems_grant_bounds_what_runs_side_by_side(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert host.granted_cores() == 8
    for said, granted in (("2", 2), ("64", 8), ("0", 1), ("many", 8), ("", 8)):
        monkeypatch.setenv(variable, said)
        assert host.granted_cores() == granted, said
