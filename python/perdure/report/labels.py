"""Names at the ends of lines: where each stands so that none lies on another, or on a line."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from perdure.report.pieces import LETTER

LINE = 13  # pixels from one name to the next
MOST_LETTERS = 15  # of a name that leaves the lines enough room
BESIDE, ABOVE = 8, 12  # pixels from the end of a line to the name beside, above or below it
PAST = LINE / 2 + 1  # to a name before the end, past which the line itself runs

Point = tuple[float, float]  # pixels from the left and from the top


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


@dataclass(frozen=True)
class Place:
    """Of a name inside a plot: how far from its line's end, and what of it stands there."""

    dx: float
    dy: float
    align: Literal["left", "center", "right"]

    def box(self, end: Point, name: str) -> Box:
        wide = LETTER * len(name)
        before = {"left": 0.0, "center": wide / 2, "right": wide}[self.align]
        left, middle = end[0] + self.dx - before, end[1] + self.dy
        return Box(left, middle - LINE / 2, left + wide, middle + LINE / 2)


# The first that is free is taken.
PLACES = (
    Place(BESIDE, 0, "left"),
    Place(BESIDE, -ABOVE, "left"),
    Place(BESIDE, ABOVE, "left"),
    Place(0, -ABOVE, "center"),
    Place(0, ABOVE, "center"),
    Place(-BESIDE, -PAST, "right"),
    Place(-BESIDE, PAST, "right"),
)


@dataclass(frozen=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float

    def is_within(self, width: float, height: float) -> bool:
        return self.left >= 0 and self.top >= 0 and self.right <= width and self.bottom <= height

    def reaching(self, point: Point) -> Box:
        """The smallest box that has both."""
        x, y = point
        return Box(min(self.left, x), min(self.top, y), max(self.right, x), max(self.bottom, y))

    def overlaps(self, other: Box) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def is_crossed(self, line: Sequence[Point]) -> bool:
        steps = itertools.pairwise(line) if len(line) > 1 else [(line[0], line[0])]
        return any(self._meets(start, end) for start, end in steps)

    def _meets(self, start: Point, end: Point) -> bool:
        """Whether a segment has a point inside: what is left of it between each pair of sides."""
        first, last = 0.0, 1.0
        sides = ((self.left, self.right), (self.top, self.bottom))
        for (low, high), begin, stop in zip(sides, start, end, strict=True):
            if begin == stop:
                if not low < begin < high:
                    return False
                continue
            enter, leave = sorted(((low - begin) / (stop - begin), (high - begin) / (stop - begin)))
            first, last = max(first, enter), min(last, leave)
        return first < last


def inside(
    early: Iterable[str], lines: Mapping[str, Sequence[Point]], width: float, height: float
) -> dict[str, Place]:
    """Where the names of lines that end early stand in a plot: of those that have room. `lines`:
    all of the plot. None crosses a name, or lies between a name and the end of its line."""
    found, taken = dict[str, Place](), list[Box]()
    for name in early:
        end = lines[name][-1]
        place = next(_free(name, lines, taken, (width + BESIDE, height)), None)
        if place is not None:
            found[name] = place
            taken.append(place.box(end, name))
    return found


def _free(
    name: str,
    lines: Mapping[str, Sequence[Point]],
    taken: Sequence[Box],
    size: tuple[float, float],
) -> Iterator[Place]:
    end = lines[name][-1]
    for place in PLACES:
        box = place.box(end, name)
        if not box.is_within(*size) or any(box.overlaps(other) for other in taken):
            continue
        others = [line for other, line in lines.items() if other != name]
        if not box.is_crossed(lines[name]) and not any(map(box.reaching(end).is_crossed, others)):
            yield place
