"""Medians and bootstrap intervals. `verdicts` says what they decide.

A sample here is one repetition's throughput or percentile. Repetitions are few (often 3 to 10), so
nothing assumes a distribution: intervals come from resampling, and resampling is seeded: the same
records always give the same interval.

No method makes a 95 % interval of three samples. The range of n samples holds the true median with
probability 1 - 2 / 2^n, whatever the distribution: 75 % of 3, 97 % of 6. Where that is less than
the confidence wanted, the interval is the range, and `Interval.name` says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float64]

RESAMPLES = 4000
SEED = 7
CONFIDENCE = 0.95
# Below, resampled ratios promise more than they keep: with 3 samples against 10, 92 % for 95 %.
FEWEST_FOR_RATIOS = 4


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval; low == value == high for a single sample."""

    value: float
    low: float
    high: float
    samples: int = 1  # of the side that has the fewest
    confidence: float = 0.0  # how often such an interval holds the true value; 0: it says nothing
    is_range: bool = False  # of all samples, because they are too few for the confidence wanted

    @property
    def is_exact(self) -> bool:
        """A number without spread, such as a simulated one."""
        return self.confidence == 1

    @property
    def name(self) -> str:
        """What kind of interval it is, to show beside it: `95 %`, `range of 3`, `one sample`."""
        if self.is_exact:
            return "exact"
        if self.samples < 2:
            return "one sample"
        return f"range of {self.samples}" if self.is_range else f"{self.confidence * 100:g} %"

    def document(self) -> dict[str, object]:
        """The interval in JSON."""
        return {
            "name": self.name,
            "confidence": round(self.confidence, 4),
            "low": self.low,
            "high": self.high,
        }

    @property
    def relative_width(self) -> float:
        """(high - low) / value: how far the estimate can be trusted; infinite where that is 0."""
        return _relative(self.high - self.low, self.value)


def median_interval(samples: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The median with its percentile-bootstrap interval, or with the range where samples are too
    few for one. Needs at least one sample."""
    values = _checked(samples)
    middle, size = float(np.median(values)), int(values.size)
    of_range = 1 - 2 * 0.5**size
    if of_range < confidence:
        return Interval(middle, float(values.min()), float(values.max()), size, of_range, True)
    medians = _resampled_medians(values, np.random.default_rng(SEED))
    return Interval(middle, *_bounds(medians, confidence), size, confidence)


def ratio_interval(
    a: Sequence[float], b: Sequence[float], confidence: float = CONFIDENCE
) -> Interval:
    """median(b) / median(a) with its bootstrap interval; the samples are independent.

    Of too few samples it is the range of the ratios. Where both sides differ by a factor alone,
    that holds the factor unless all samples of one side lie beyond all of the other.
    """
    first, second = _checked(a), _checked(b)
    if np.any(first <= 0) or np.any(second <= 0):
        raise ValueError("ratios need positive samples")
    ratio = float(np.median(second) / np.median(first))
    fewest, both = int(min(first.size, second.size)), int(first.size + second.size)
    of_range = 1 - 2 / math.comb(both, fewest)
    if of_range < confidence or fewest < FEWEST_FOR_RATIOS:
        low, high = float(second.min() / first.max()), float(second.max() / first.min())
        return Interval(ratio, low, high, fewest, max(0.0, of_range), True)
    rng = np.random.default_rng(SEED)
    ratios = _resampled_medians(second, rng) / _resampled_medians(first, rng)
    return Interval(ratio, *_bounds(ratios, confidence), fewest, confidence)


def exact(value: float) -> Interval:
    """A number without spread, such as a simulated one."""
    return Interval(value, value, value, confidence=1)


def names(intervals: Iterable[Interval]) -> str:
    """What several intervals are, to be said once: `95 %`, or `range of 3, range of 2`."""
    return ", ".join(dict.fromkeys(interval.name for interval in intervals))


def dispersion(samples: Sequence[float]) -> float:
    """(max - min) / median, the spread a reader should know of: 0 for one sample, infinite where
    the median alone is 0."""
    values = _checked(samples)
    return _relative(float(np.ptp(values)), float(np.median(values)))


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


def _relative(spread: float, middle: float) -> float:
    if middle:
        return spread / middle
    return math.inf if spread else 0.0


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
