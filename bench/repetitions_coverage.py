#!/usr/bin/env python3
"""How often the 95 % interval of a median holds the true one, with repetitions = "auto" and with a
number of them that was chosen before.

    PYTHONPATH=python .venv/bin/python bench/repetitions_coverage.py [--trials 2000] [--seed 1]

Samples are drawn at random from a distribution whose median is known: lognormal, with a relative
standard deviation that stands for the noise of a machine; and a mixture in which one sample of ten
is a fifth lower, as on a machine that others use at times. The rule and the intervals are those of
studies. Nothing is measured.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from perdure.results import stats
from perdure.results.stats import Interval, Samples
from perdure.study.repetitions import LEAST, Auto

Draw = Callable[[np.random.Generator, int], Samples]
NOISES = (0.01, 0.02, 0.03, 0.05, 0.1)
SLOWER, SLOW_SHARE = 0.8, 0.1


@dataclass
class Counted:
    """Of many trials: how many intervals held the true median, and how many samples they took."""

    held: int = 0
    samples: int = 0
    trials: int = 0

    def add(self, interval: Interval, median: float) -> None:
        self.held += interval.low <= median <= interval.high
        self.samples += interval.samples
        self.trials += 1

    def text(self) -> str:
        share = self.held / self.trials
        error = 1.96 * math.sqrt(share * (1 - share) / self.trials)
        return f"{100 * share:5.1f} +- {100 * error:.1f} %"


def lognormal(noise: float) -> tuple[Draw, float]:
    """A way to draw samples, and their median."""
    return lambda rng, size: np.exp(rng.normal(0.0, noise, size)), 1.0


def disturbed(noise: float) -> tuple[Draw, float]:
    """The same, where others take the machine at times. The median is that of a large sample."""

    def draw(rng: np.random.Generator, size: int) -> Samples:
        slow = rng.random(size) < SLOW_SHARE
        return np.exp(rng.normal(0.0, noise, size)) * np.where(slow, SLOWER, 1.0)

    return draw, float(np.median(draw(np.random.default_rng(0), 4_000_000)))


def repeated(auto: Auto, samples: Samples) -> Interval:
    """The interval that a study keeps of a cell whose runs give these samples, one by one."""
    for size in range(LEAST, auto.most_repetitions):
        interval = stats.median_interval(list(samples[:size]))
        if auto.is_narrow(interval):
            return interval
    return stats.median_interval(list(samples[: auto.most_repetitions]))


def counted(auto: Auto, draw: Draw, median: float, trials: int, seed: int) -> tuple[Counted, ...]:
    """(auto, as many repetitions as auto took on average, `most_repetitions` always)."""
    rng, by_rule, as_many, most = np.random.default_rng(seed), Counted(), Counted(), Counted()
    drawn = [draw(rng, auto.most_repetitions) for _ in range(trials)]
    for samples in drawn:
        by_rule.add(repeated(auto, samples), median)
        most.add(stats.median_interval(list(samples)), median)
    mean = max(LEAST, round(by_rule.samples / trials))
    for samples in drawn:
        as_many.add(stats.median_interval(list(samples[:mean])), median)
    return by_rule, as_many, most


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    asked, auto = parser.parse_args(), Auto()
    print(
        f"auto: until the interval is {100 * auto.interval_width:g} % of the median wide, "
        f"from {LEAST} to {auto.most_repetitions} repetitions; {asked.trials} trials a line"
    )
    print("noise           auto: samples   held          fixed: samples  held       "
          f"always {auto.most_repetitions}: held")  # fmt: skip
    for name, kind in (("", lognormal), (" disturbed", disturbed)):
        for noise in NOISES:
            draw, median = kind(noise)
            by_rule, as_many, most = counted(auto, draw, median, asked.trials, asked.seed)
            print(
                f"{f'{100 * noise:g} %{name}':15} {by_rule.samples / asked.trials:12.1f} "
                f"  {by_rule.text()} {as_many.samples / asked.trials:12.1f}   {as_many.text()} "
                f"  {most.text()}"
            )


if __name__ == "__main__":
    main()
