"""Medians, bootstrap intervals and verdicts.

A sample here is one repetition's throughput or percentile. Repetitions are few (often 3 to 10), so
nothing assumes a distribution: intervals come from resampling, and resampling is seeded: the same
records always give the same interval. No method makes much of three samples: their interval is
their range, which holds the true median 3 times in 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float64]

RESAMPLES = 4000
SEED = 7


@dataclass(frozen=True)
class Interval:
    """An estimate with its bootstrap interval; low == value == high for a single sample."""

    value: float
    low: float
    high: float

    @property
    def relative_width(self) -> float:
        """(high - low) / value: how far the estimate can be trusted."""
        return (self.high - self.low) / self.value if self.value else 0.0


class Verdict(StrEnum):
    """How B compares with A."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> Interval:
    """The median with its percentile-bootstrap interval. Needs at least one sample."""
    values = _checked(samples)
    medians = _resampled_medians(values, np.random.default_rng(SEED))
    low, high = _bounds(medians, confidence)
    return Interval(float(np.median(values)), low, high)


def ratio_interval(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Interval:
    """median(b) / median(a) with its bootstrap interval; the samples are independent."""
    first, second = _checked(a), _checked(b)
    if np.any(first <= 0) or np.any(second <= 0):
        raise ValueError("ratios need positive samples")
    rng = np.random.default_rng(SEED)
    ratios = _resampled_medians(second, rng) / _resampled_medians(first, rng)
    low, high = _bounds(ratios, confidence)
    return Interval(float(np.median(second) / np.median(first)), low, high)


def verdict(ratio: Interval, threshold: float, *, samples: int) -> Verdict:
    """Judges a throughput ratio B/A against a threshold such as 0.05.

    faster, slower: the whole interval lies beyond 1 and the estimate beyond the threshold.
    same: the whole interval lies within the threshold. Anything else is inconclusive, and so is
    every comparison with fewer than three samples on a side, whose interval means nothing.
    """
    if samples < 3:
        return Verdict.INCONCLUSIVE
    if ratio.low > 1 and ratio.value >= 1 + threshold:
        return Verdict.FASTER
    if ratio.high < 1 and ratio.value <= 1 / (1 + threshold):
        return Verdict.SLOWER
    if ratio.low >= 1 / (1 + threshold) and ratio.high <= 1 + threshold:
        return Verdict.SAME
    return Verdict.INCONCLUSIVE


def dispersion(samples: Sequence[float]) -> float:
    """(max - min) / median, the spread a reader should know of; 0 for one sample."""
    values = _checked(samples)
    middle = float(np.median(values))
    return float(np.ptp(values)) / middle if middle else 0.0


def outliers(samples: Sequence[float]) -> list[int]:
    """Positions of samples further than 3.5 scaled MADs from the median (Iglewicz and Hoaglin).

    They are reported and kept. Fewer than five samples cannot tell an outlier from spread.
    """
    values = _checked(samples)
    if values.size < 5:
        return []
    distance = np.abs(values - np.median(values))
    mad = float(np.median(distance))
    if mad == 0.0:
        return []
    return [int(i) for i in np.flatnonzero(0.6745 * distance / mad > 3.5)]


def _checked(samples: Sequence[float]) -> Samples:
    values = np.asarray(samples, dtype=np.float64)
    if values.size == 0:
        raise ValueError("no samples")
    return values


def _resampled_medians(values: Samples, rng: np.random.Generator) -> Samples:
    picks = rng.integers(0, values.size, size=(RESAMPLES, values.size))
    return np.asarray(np.median(values[picks], axis=1), dtype=np.float64)


def _bounds(estimates: Samples, confidence: float) -> tuple[float, float]:
    """The tails' ends, rounded outwards: at most `tail` of the estimates lie at or beyond a bound.

    Medians of few samples take few distinct values, each with a large share. The usual quantile
    then falls into such a share and cuts it short: at 15 samples it covers the true median 88 % of
    the time and not 95 %. Rounded outwards it keeps what it promises from 6 samples on.
    """
    tail = (1 - confidence) / 2
    values, counts = np.unique(estimates, return_counts=True)
    at_or_below = np.cumsum(counts) / estimates.size
    at_or_above = np.cumsum(counts[::-1])[::-1] / estimates.size
    low = values[at_or_below <= tail]
    high = values[at_or_above <= tail]
    return float(low[-1] if low.size else values[0]), float(high[0] if high.size else values[-1])
