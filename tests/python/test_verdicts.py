"""The one rule by which a winner is named."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from perdure.results import stats, verdicts
from perdure.results.stats import Interval
from perdure.results.verdicts import Side, Verdict


def side(*samples: float) -> Side:
    return Side(samples)


def exact(*samples: float) -> Side:
    return Side(samples, exact=True)


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (Interval(1.20, 1.10, 1.30, 5), Verdict.FASTER),
        (Interval(0.80, 0.75, 0.90, 5), Verdict.SLOWER),
        (Interval(1.01, 0.98, 1.03, 5), Verdict.SAME),
        (Interval(1.20, 0.95, 1.40, 5), Verdict.INCONCLUSIVE),
        (Interval(0.80, 0.70, 1.02, 5), Verdict.INCONCLUSIVE),
        (Interval(1.03, 1.01, 1.04, 5), Verdict.SAME),  # real, but below the margin
        (Interval(1.04, 1.01, 1.08, 5), Verdict.INCONCLUSIVE),
        (Interval(0.97, 0.96, 0.99, 5), Verdict.SAME),
        (Interval(9, 8, 10, 2), Verdict.INCONCLUSIVE),  # fewer than three samples
        (stats.exact(0.95), Verdict.SAME),
        (stats.exact(1.05), Verdict.SAME),
        (stats.exact(1.06), Verdict.FASTER),
        (stats.exact(0.94), Verdict.SLOWER),
    ],
)
def test_a_ratio_is_judged_by_its_interval_and_the_margin(
    ratio: Interval, verdict: Verdict
) -> None:
    assert verdicts.of_ratio(ratio) is verdict
    mirrored = Interval(
        1 / ratio.value, 1 / ratio.high, 1 / ratio.low, ratio.samples, ratio.confidence
    )
    opposite = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}
    assert verdicts.of_ratio(mirrored) is opposite.get(verdict, verdict), "B over A is A over B"


def test_a_ratio_may_be_judged_against_another_number_than_one() -> None:
    assert verdicts.of_ratio(stats.exact(2.1), to=2) is Verdict.SAME
    assert verdicts.of_ratio(stats.exact(2.2), to=2) is Verdict.FASTER
    assert verdicts.of_ratio(Interval(2.2, 1.9, 2.4, 5), to=2) is Verdict.INCONCLUSIVE


def test_equal_populations_seldom_get_a_winner() -> None:
    rng = np.random.default_rng(12)
    named = 0
    for _ in range(300):
        a, b = rng.normal(100, 3, size=(2, 7))
        judged = verdicts.judge(side(*a), side(*b), margin=0.02)
        named += judged.verdict in (Verdict.FASTER, Verdict.SLOWER)
    assert named / 300 < 0.08


def test_what_decides_nothing_says_why() -> None:
    few = verdicts.judge(side(1, 1), side(2, 2))
    assert (few.verdict, few.ratio.value) == (Verdict.INCONCLUSIVE, 2)
    assert few.why == "2 samples: use --repetitions 5"
    quick = verdicts.judge(side(1, 1, 1), Side((2, 2, 2), quick=True))
    assert (quick.verdict, quick.why) == (Verdict.INCONCLUSIVE, verdicts.QUICK)
    none = verdicts.judge(side(1, 1, 1), side(2, 0, 2))
    assert (none.verdict, none.why) == (Verdict.INCONCLUSIVE, verdicts.NO_SUCCESS)
    with pytest.raises(ValueError, match="simulated"):
        verdicts.judge(exact(1), side(1, 1, 1))


def test_who_is_not_slower_shares_the_first_place() -> None:
    best, near, wild, slow = (100, 101, 102), (97, 98, 99), (40, 90, 130), (50, 51, 52)
    sides = [side(*one) for one in (slow, near, best, wild)]
    assert verdicts.tied_for_best(sides) == [False, True, True, True]
    assert verdicts.tied_for_best([exact(100), exact(97), exact(94)]) == [True, True, False]
    assert verdicts.tied_for_best([side(100), side(50)]) == [True, True], "one sample tells nothing"
    assert verdicts.tied_for_best([side(0, 0, 0), side(5, 5, 5)]) == [False, True]
    assert verdicts.tied_for_best([]) == []
    assert verdicts.ranks(sides) == [(2, 1), (1, 1), (3, 1), (0, 4)]
    assert verdicts.ranks([exact(0), exact(5)]) == [(1, 1), (0, 2)]


def test_a_matrix_says_of_rows_and_columns_the_opposite() -> None:
    rng = np.random.default_rng(3)
    sides = [side(*rng.normal(middle, 2, 5)) for middle in (100, 101, 130, 60)]
    found = verdicts.matrix(sides)
    opposite = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}
    for i, j in itertools.combinations(range(4), 2):
        upper, lower = found[i][j], found[j][i]
        assert upper and lower
        assert lower.verdict is opposite.get(upper.verdict, upper.verdict)
        assert lower.ratio.value == pytest.approx(1 / upper.ratio.value)
    row = found[2][0]
    assert row and row.verdict is Verdict.FASTER and row.ratio.value > 1, "row over column"
    assert found[0][0] is None
