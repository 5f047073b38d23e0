"""Findings of others against our cells: which pairs count, and what a verdict says."""

from __future__ import annotations

from typing import Any

import pytest

import fake_native
from perdure.results import metrics
from perdure.results.record import Run
from perdure.study import claims, entry
from perdure.study.claims import Claim

Json = dict[str, Any]


def cell(index: str, threads: int = 1, rate: float = 1e6, **more: Any) -> Run:
    """A simulated run, which is exact; `more` are its counters per operation."""
    record = fake_native.record({"index": index, "threads": str(threads), "repetitions": "1"})
    record["repetitions"][0]["throughput_ops_s"] = rate
    record["repetitions"][0]["simulation"] = {"per_operation": more} if more else None
    labels = {"index": index, "threads": str(threads), "workload": "lookup"}
    return Run(labels, record | {"target": "sim:x"})


def judged(runs: list[Run], **claim: Any) -> claims.Finding:
    whole = {"what": "w", "source": "s", **claim}
    assert claims.check(whole) is None
    (found,) = claims.judge([entry.read(Claim, whole)], runs)
    return found


RUNS = [cell("fptree", rate=2e6), cell("lbtree", rate=6e6), cell("utree", rate=3e6)]


def test_a_claim_over_several_indexes_holds_only_when_every_pair_does() -> None:
    over = {"index": ["fptree", "utree"]}
    found = judged(RUNS, of={"index": "lbtree"}, over=over, direction="above")
    assert (found.verdict, found.ours, found.pair) == ("agrees", 2.0, "utree")
    slower = [RUNS[0], cell("lbtree", rate=2.7e6), RUNS[2]]
    found = judged(slower, of={"index": "lbtree"}, over=over, direction="above")
    assert (found.verdict, found.pair) == ("differs", "utree")
    found = judged(RUNS, of=over, over={"index": "lbtree"}, direction="below")
    assert (found.verdict, found.ours, found.pair) == ("agrees", 0.5, "utree")


def test_a_claim_about_other_targets_says_nothing_of_these_cells() -> None:
    def on(target: str, index: str, rate: float) -> Run:
        run = cell(index, rate=rate)
        return Run({**run.labels, "target": target}, run.record)

    whole: Json = {
        "what": "w", "source": "s", "direction": "above",
        "of": {"target": ["sim:a", "sim:b"], "index": "lbtree"},
        "over": {"target": ["sim:a", "sim:b"], "index": "fptree"},
    }  # fmt: skip
    claim = entry.read(Claim, whole)
    runs = [on("sim:b", "lbtree", 6e6), on("sim:b", "fptree", 2e6)]
    (found,) = claims.judge([claim], runs)
    assert (found.verdict, found.ours) == ("agrees", 3.0)
    assert claims.judge([claim], [on("sim:c", "lbtree", 6e6)]) == []


def test_the_pair_that_is_farthest_from_a_value_decides() -> None:
    found = judged(RUNS, of={"index": "lbtree"}, over={"index": ["fptree", "utree"]}, value=2.0)
    assert (found.verdict, found.ours, found.pair) == ("same side, size differs", 3.0, "fptree")


def test_an_axis_with_the_same_list_on_both_sides_pairs_equal_values() -> None:
    runs = [
        cell("fptree", 1, 1e6),
        cell("fptree", 20, 12e6),
        cell("lbtree", 1, 5e6),
        cell("lbtree", 20, 55e6),
    ]
    both = ["fptree", "lbtree"]
    found = judged(
        runs,
        of={"index": both, "threads": 20},
        over={"index": both, "threads": 1},
        direction="above",
        than=10,
    )
    # fptree with 20 threads over lbtree with one would be 2.4.
    assert (found.verdict, found.ours, found.pair) == ("agrees", 11.0, "lbtree")


@pytest.mark.parametrize(
    ("direction", "than", "verdict"),
    [
        ("above", 2.5, "agrees"),
        ("above", 3.5, "differs"),
        ("below", 3.5, "agrees"),
        ("above", 2.9, "no difference"),
        ("below", 3.1, "no difference"),
    ],
)
def test_a_direction_may_be_of_another_factor_than_one(
    direction: str, than: float, verdict: str
) -> None:
    sides = {"of": {"index": "lbtree"}, "over": {"index": "fptree"}}
    assert judged(RUNS, **sides, direction=direction, than=than).verdict == verdict


def test_cells_that_are_missing_are_named_and_the_others_still_judged() -> None:
    over = {"index": ["fptree", "hot", "roart"]}
    found = judged(RUNS, of={"index": "lbtree"}, over=over, direction="above")
    assert (found.verdict, found.missing) == ("agrees in part", ("hot", "roart"))
    slow = [*RUNS[1:], cell("fptree", rate=7e6)]
    found = judged(slow, of={"index": "lbtree"}, over=over, direction="above")
    assert found.verdict == "differs"
    found = judged(RUNS, of={"index": "hot"}, over={"index": "lbtree"}, direction="above")
    assert (found.verdict, found.ours, found.missing) == ("not measured", None, ("hot",))


SIDES: Json = {"of": {"index": "lbtree"}, "over": {"index": "fptree"}}


@pytest.mark.parametrize(
    ("ours", "claim", "verdict"),
    [
        (1.01, {"direction": "above"}, "no difference"),
        (0.99, {"direction": "above"}, "no difference"),
        (1.05, {"direction": "above"}, "no difference"),
        (0.95, {"direction": "below"}, "no difference"),
        (1.06, {"direction": "above"}, "agrees"),
        (0.94, {"direction": "above"}, "differs"),
        (0.94, {"direction": "below"}, "agrees"),
        # A published factor is on a side of 1 as well, however near ours is to it.
        (1.02, {"value": 1.2}, "no difference"),
        (1.02, {"value": 3.0}, "no difference"),
        (0.94, {"value": 1.1}, "differs"),
        (1.06, {"value": 1.2}, "agrees"),
        (1.10, {"value": 3.0}, "same side, size differs"),
        (0.50, {"value": 0.45}, "agrees"),
        # One that says "equal" has no side.
        (1.02, {"value": 1.0}, "agrees"),
        (0.97, {"value": 1.04}, "agrees"),
        (1.50, {"value": 1.0}, "differs"),
    ],
)
def test_a_ratio_near_the_threshold_agrees_with_no_side_of_it(
    ours: float, claim: Json, verdict: str
) -> None:
    runs = [cell("fptree", rate=1e6), cell("lbtree", rate=ours * 1e6)]
    assert judged(runs, **SIDES, **claim).verdict == verdict
    document = claims.judge_ratio(Claim(what="w", source="s", **SIDES, **claim), ours, "")
    assert document.verdict == verdict, "ratios of probes are judged by the same rule"


def several(index: str, *rates: float, target: str = "native") -> Run:
    run = cell(index)
    one = run.record["repetitions"][0]
    repetitions = [one | {"throughput_ops_s": rate} for rate in rates]
    return Run(run.labels, run.record | {"repetitions": repetitions, "target": target})


def test_an_interval_that_includes_the_threshold_decides_nothing() -> None:
    fptree, wide = several("fptree", 1e6, 1.1e6, 1.2e6), several("lbtree", 0.9e6, 1.5e6, 1.6e6)
    found = judged([fptree, wide], **SIDES, direction="above")
    assert found.verdict == "inconclusive"
    assert found.text() == "1.36x (0.75 to 1.60)"
    assert found.document()["interval"]["name"] == "range of 3"
    found = judged([fptree, several("lbtree", 1.4e6, 1.5e6, 1.6e6)], **SIDES, direction="above")
    assert found.verdict == "agrees"
    assert judged([fptree, wide], **SIDES, value=1.4).verdict == "inconclusive"
    near = several("lbtree", 1.08e6, 1.1e6, 1.12e6), several("fptree", 1.1e6, 1.1e6, 1.1e6)
    assert judged([*near], **SIDES, direction="above").verdict == "no difference"


def test_too_few_samples_decide_no_finding() -> None:
    for count, verdict in ((1, "inconclusive"), (2, "inconclusive"), (3, "agrees")):
        runs = [several("fptree", *[1e6] * count), several("lbtree", *[2e6] * count)]
        found = judged(runs, **SIDES, direction="above")
        assert (found.verdict, found.ours) == (verdict, 2.0)
        assert found.text() == ("2.00x" if count == 1 else "2.00x (2.00 to 2.00)")
        stopped = [runs[0], several("lbtree", *[0.0] * count)]
        assert judged(stopped, **SIDES, direction="below").verdict == "inconclusive"
    # A measured number that is compared with a published one alone has no ratio.
    alone = judged(runs[:1], of={"index": "fptree"}, value=1e6)
    assert (alone.verdict, alone.ours, alone.interval) == ("agrees", 1e6, None)
    # Bytes are counted natively, too.
    assert judged(runs[:1], of={"index": "fptree"}, over={"index": "fptree"}, value=1.0,
                  metric="pm_bytes_per_record").verdict == "agrees"  # fmt: skip


def test_repetitions_of_a_simulation_make_no_interval() -> None:
    runs = [
        several("fptree", 1e6, 1.1e6, 1.2e6, target="sim:x"),
        several("lbtree", 0.9e6, 1.5e6, 1.6e6, target="sim:x"),
    ]
    found = judged(runs, **SIDES, direction="above")
    assert (found.verdict, found.interval) == ("agrees", None)


def test_one_pair_without_a_difference_keeps_a_claim_from_agreeing() -> None:
    over = {"index": ["fptree", "utree"]}
    runs = [cell("fptree", rate=1e6), cell("lbtree", rate=2e6), cell("utree", rate=1.95e6)]
    found = judged(runs, of={"index": "lbtree"}, over=over, direction="above")
    assert (found.verdict, found.pair) == ("no difference", "utree")
    # The larger ratio with the wider interval is the worse pair.
    wide = [
        several("fptree", 1e6, 1.1e6, 1.2e6),
        several("lbtree", 3e6, 3.1e6, 3.2e6),
        several("utree", 1e6, 1e6, 3.3e6),
    ]
    found = judged(wide, of={"index": "lbtree"}, over=over, direction="above")
    assert (found.verdict, found.pair) == ("inconclusive", "utree")


def test_why_ours_is_another_is_said_where_it_is() -> None:
    sides: Json = {"of": {"index": "lbtree"}, "over": {"index": "fptree"}}
    for direction, why in (("above", ""), ("below", "another machine")):
        found = judged(RUNS, **sides, direction=direction, differs="another machine")
        assert found.document()["why"] == why


def test_a_claim_without_another_side_compares_the_metric_with_its_published_value() -> None:
    of, metric = {"index": "fptree"}, "pm_bytes_per_record"
    found = judged(RUNS, of=of, metric=metric, value=26.9)
    assert (found.verdict, found.ours, found.text()) == ("agrees", 27.0, "27")
    assert judged(RUNS, of=of, metric=metric, value=47.9).verdict == "differs"
    assert judged(RUNS, of=of, metric=metric, value=47.9, within=1.8).verdict == "agrees"


def test_what_a_simulation_counts_exists_only_there() -> None:
    sides: Json = {"of": {"index": "lbtree"}, "over": {"index": "fptree"}}
    counted = [cell("fptree", llc_misses=4.0), cell("lbtree", llc_misses=1.0)]
    found = judged(counted, **sides, metric="llc_misses", direction="below")
    assert (found.verdict, found.ours) == ("agrees", 0.25)
    assert judged(RUNS, **sides, metric="llc_misses", direction="below").verdict == "not measured"


@pytest.mark.parametrize(
    ("ours", "others", "verdict"),
    [(0.0, 4.0, "agrees"), (0.0, 0.0, "no difference"), (4.0, 0.0, "differs")],
)
def test_a_counter_of_nothing_is_below_every_other(
    ours: float, others: float, verdict: str
) -> None:
    runs = [cell("lbtree", llc_misses=ours), cell("fptree", llc_misses=others)]
    found = judged(
        runs,
        of={"index": "lbtree"},
        over={"index": "fptree"},
        metric="llc_misses",
        direction="below",
    )
    assert found.verdict == verdict


def test_a_latency_is_that_of_the_most_frequent_operation() -> None:
    run = cell("fptree")
    operations = run.record["repetitions"][0]["operations"]
    rare = {**operations["lookup"], "attempted": 1, "latency_ns": {"p99": 1}}
    run.record["repetitions"][0]["operations"] = {"insert": rare, **operations}
    assert metrics.value("p99", [run]) == operations["lookup"]["latency_ns"]["p99"]


@pytest.mark.parametrize(
    ("claim", "what"),
    [
        ({"direction": "above"}, "compares with nothing"),
        ({"value": 2.0, "than": 2.0}, "`than` is a factor that goes with a direction"),
        ({"value": 2.0, "within": 1}, "`within` is a factor above 1"),
        ({"value": -1}, "needs a value above 0"),
    ],
)
def test_a_claim_that_says_nothing_is_refused(claim: Json, what: str) -> None:
    problem = claims.check({"what": "w", "source": "s", "of": {"index": "lbtree"}, **claim})
    assert problem is not None and what in problem.what
