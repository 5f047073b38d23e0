"""Names at the ends of lines: where each stands so that none lies on another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

LINE = 13  # pixels from one name to the next
MOST_LETTERS = 15  # of a name that leaves the lines enough room


@dataclass(frozen=True)
class Span:
    """What a vertical axis shows, from bottom to top, over `height` pixels."""

    low: float
    high: float
    height: int
    logarithmic: bool = False

    def pixel(self, value: float) -> float:
        """From the top."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        share = (self._scaled(min(max(value, self.low), self.high)) - low) / (high - low)
        return self.height * (1 - share)

    def value(self, pixel: float) -> float:
        low, high = self._scaled(self.low), self._scaled(self.high)
        found = low + (1 - pixel / self.height) * (high - low)
        return float(10**found) if self.logarithmic else found

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value


def places(ends: Mapping[str, float], span: Span) -> dict[str, float] | None:
    """The value beside which each name stands, moved from its line's end as little as needed; None
    where there is no room for all."""
    if not ends or max(map(len, ends)) > MOST_LETTERS or len(ends) * LINE > span.height:
        return None
    names = sorted(ends, key=lambda name: (span.pixel(ends[name]), name))
    pixels = spread([span.pixel(ends[name]) - LINE / 2 for name in names], span.height - LINE)
    return {name: span.value(pixel + LINE / 2) for name, pixel in zip(names, pixels, strict=True)}


def spread(wanted: list[float], height: float, line: float = LINE) -> list[float]:
    """Growing positions from 0 to `height`, `line` apart, with the least sum of squared moves."""
    blocks = list[tuple[float, int]]()  # mean of (wanted - what stands before), how many
    for number, pixel in enumerate(wanted):
        mean, count = pixel - number * line, 1
        while blocks and blocks[-1][0] > mean:
            before, more = blocks.pop()
            mean = (before * more + mean * count) / (more + count)
            count += more
        blocks.append((mean, count))
    last = height - (len(wanted) - 1) * line
    means = [min(max(mean, 0.0), last) for mean, count in blocks for _ in range(count)]
    return [mean + number * line for number, mean in enumerate(means)]
