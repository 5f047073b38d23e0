"""Verdicts: faster, slower, same or inconclusive. Whatever names a winner asks here.

`compare`, the report, findings of studies and `advise` judge by one rule:

faster, slower   the whole interval of the ratio lies beyond 1, and the estimate beyond the margin
same             the whole interval lies within the margin
inconclusive     anything else; fewer than three samples on a side, whose interval means nothing;
                 a repetition without a successful operation; a quick run

A margin of 0.05 means that neither is more than 5 % slower than the other: ratios from 0.95 to
1 / 0.95. So B against A gets the mirror image of A against B. A ratio of simulated numbers is
exact: its interval is the number itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from perdure.results import stats
from perdure.results.record import Run, samples_of
from perdure.results.stats import CONFIDENCE, Interval

MARGIN = 0.05  # a smaller relative difference is none
FEWEST = 3  # samples of a side
QUICK = "a quick run decides nothing"
NO_SUCCESS = "a repetition without a successful operation"
_ROUNDING = 1e-9


class Verdict(StrEnum):
    """How B compares with A."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Side:
    """One side of a comparison: throughputs in operations per second, at least one."""

    samples: tuple[float, ...]
    exact: bool = False  # simulated: the samples have no spread
    quick: bool = False

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Side:
        """All runs of one cell."""
        return cls(tuple(samples_of(runs)), runs[0].simulated, any(run.quick for run in runs))

    @property
    def median(self) -> float:
        return float(np.median(self.samples))

    def interval(self, confidence: float = CONFIDENCE) -> Interval:
        """Of the median."""
        if self.exact:
            return stats.exact(self.median)
        return stats.median_interval(self.samples, confidence)


@dataclass(frozen=True)
class Judgement:
    """The ratio of B to A, 0 where there is none, and what it says."""

    ratio: Interval
    verdict: Verdict
    why: str = ""  # it is inconclusive, where the interval alone does not say it


def judge(a: Side, b: Side, *, margin: float = MARGIN, confidence: float = CONFIDENCE) -> Judgement:
    """Compares B with A, of which both are measured or both simulated."""
    if a.exact != b.exact:
        raise ValueError("a simulated side against a measured one says nothing of either")
    numbers = (a.median, b.median) if a.exact else (*a.samples, *b.samples)
    if min(numbers) <= 0:
        return Judgement(Interval(0, 0, 0), Verdict.INCONCLUSIVE, NO_SUCCESS)
    if a.exact:
        ratio = stats.exact(b.median / a.median)
    else:
        ratio = stats.ratio_interval(a.samples, b.samples, confidence)
    if a.quick or b.quick:
        return Judgement(ratio, Verdict.INCONCLUSIVE, QUICK)
    if not ratio.is_exact and ratio.samples < FEWEST:
        plural = "" if ratio.samples == 1 else "s"
        why = f"{ratio.samples} sample{plural}: use --repetitions 5"
        return Judgement(ratio, Verdict.INCONCLUSIVE, why)
    return Judgement(ratio, of_ratio(ratio, margin))


def of_ratio(ratio: Interval, margin: float = MARGIN, *, to: float = 1.0) -> Verdict:
    """Judges a ratio against the number `to`: 1, or what a finding says it is above or below."""
    if not ratio.is_exact and ratio.samples < FEWEST:
        return Verdict.INCONCLUSIVE
    value, low, high = (number / to for number in (ratio.value, ratio.low, ratio.high))
    if is_within(low, margin) and is_within(high, margin):
        return Verdict.SAME
    if not is_within(value, margin):
        if low > 1:
            return Verdict.FASTER
        if high < 1:
            return Verdict.SLOWER
    return Verdict.INCONCLUSIVE


def is_within(ratio: float, margin: float = MARGIN) -> bool:
    """Whether neither side is slower than the other by more than the margin."""
    return ratio >= 1 - margin - _ROUNDING and ratio * (1 - margin) <= 1 + _ROUNDING


def is_slower(side: Side, than: Side) -> bool:
    """Whether `side` is called slower, or never did an operation where the other one did."""
    if side.median <= 0:
        return than.median > 0
    return judge(than, side).verdict is Verdict.SLOWER


def tied_for_best(sides: Sequence[Side]) -> list[bool]:
    """Who shares the first place: all that are not called slower than the largest median.

    Whatever shows a fastest one uses this rule. Who did no operation is never first.
    """
    if not sides:
        return []
    best = max(sides, key=lambda side: side.median)
    return [side.median > 0 and not is_slower(side, best) for side in sides]


def ranks(sides: Sequence[Side]) -> list[tuple[int, int]]:
    """(position in `sides`, rank from 1), best first. Who is not slower than the first of a rank
    shares it."""
    order = sorted(range(len(sides)), key=lambda i: -sides[i].median)
    found: list[tuple[int, int]] = []
    first = number = 0
    for place, position in enumerate(order, start=1):
        if not found or is_slower(sides[position], sides[first]):
            first, number = position, place
        found.append((position, number))
    return found


def matrix(sides: Sequence[Side]) -> list[list[Judgement | None]]:
    """Every side against every other: row over column; None on the diagonal."""
    return [[None if row is column else judge(column, row) for column in sides] for row in sides]


def counts(verdicts: Iterable[Verdict]) -> dict[Verdict, int]:
    """How often each verdict occurs, in the order of `Verdict`."""
    found = list(verdicts)
    return {verdict: found.count(verdict) for verdict in Verdict}
