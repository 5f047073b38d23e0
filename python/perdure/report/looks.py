"""How series look: ten colours that stay apart, each with a shape and a line of its own.

The colours were chosen by a search that kept the least distance in OKLab large, both as seen and
as people see them who lack one kind of cone, at 3:1 or more against the page; those of a dark page
have about the same hues. `tests/python/test_looks.py` measures both. Drawings hold the colours of a
light page; a style sheet replaces them on a dark one, so that a drawing exists once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

# Text and rules are drawn in these two, which become the colour of the text around the drawing.
INK, FAINT = "#010203", "#040506"

# Of a series on a light and on a dark page; the first six are farthest from each other.
SERIES = (
    ("#361bea", "#75bdfc"),  # blue
    ("#875a24", "#f39936"),  # orange, brown on white
    ("#093f1b", "#097e00"),  # green
    ("#fc36b4", "#c65199"),  # pink
    ("#631287", "#9036f3"),  # purple
    ("#ab9012", "#f3e1ab"),  # gold
    ("#1b90a2", "#00f3fc"),  # teal
    ("#b46363", "#f30951"),  # red
    ("#d836fc", "#997eea"),  # violet
    ("#36515a", "#bdb4a2"),  # grey
)
# Of numbers in order, such as of threads: the farther, the stronger.
ORDERED = (
    ("#6790d4", "#4a78c8"), ("#3f76d0", "#5c8fe0"), ("#2159b8", "#82adf5"),
    ("#1b4391", "#a5c5fa"), ("#132f6b", "#c6dbfc"), ("#0a1a40", "#e6effe"),
)  # fmt: skip
# Of the parts of an operation's time. Neighbours differ in lightness.
PARTS = (
    "#8d97a8", "#cfe0fa", "#7fabe8", "#3b6fc4", "#e9c46a", "#c9722b", "#d9402b", "#8a5fc2",
    "#e58fc9",
)  # fmt: skip
COLOURS = tuple(light for light, _ in SERIES)
SHADES = tuple(light for light, _ in ORDERED)

# Outlines of points in a square from -1 to 1, of about the same area.
SHAPES = {
    "circle": "M.9 0A.9.9 0 1 1-.9 0A.9.9 0 1 1 .9 0Z",
    "square": "M-.8-.8H.8V.8H-.8Z",
    "triangle": "M0-1L1 .8H-1Z",
    "diamond": "M0-1.15L1.05 0L0 1.15L-1.05 0Z",
    "point": "M0 1L1-.8H-1Z",
    "cross": "M-.3-1H.3V-.3H1V.3H.3V1H-.3V.3H-1V-.3H-.3Z",
    "bar": "M-1.1-.45H1.1V.45H-1.1Z",
    "left": "M-1 0L.8-1V1Z",
    "post": "M-.45-1.1H.45V1.1H-.45Z",
    "right": "M1 0L-.8-1V1Z",
}
DASHES = ((1, 0), (7, 3), (2, 2), (9, 3, 2, 3), (4, 4), (1, 3))
OUTLINES = tuple(SHAPES.values())


@dataclass(frozen=True)
class Look:
    """`hollow`: its points are outlines, as those of what is only compared with."""

    colour: str
    shape: str
    dash: tuple[int, ...] = DASHES[0]
    hollow: bool = False


@dataclass(frozen=True)
class Palette:
    """The look of each series, the same in every figure; no two share one."""

    looks: dict[str, Look]

    def colours(self, used: Iterable[str]) -> alt.Scale:
        return self._scale(used, lambda look: look.colour)

    def fills(self, used: Iterable[str]) -> alt.Scale:
        """Of points: the colour, or nothing inside hollow ones."""
        return self._scale(used, lambda look: "transparent" if look.hollow else look.colour)

    def shapes(self, used: Iterable[str]) -> alt.Scale:
        return self._scale(used, lambda look: look.shape)

    def dashes(self, used: Iterable[str]) -> alt.Scale:
        return self._scale(used, lambda look: list(look.dash))

    def _scale(self, used: Iterable[str], of: Callable[[Look], Any]) -> alt.Scale:
        there = set(used)
        found = {name: of(look) for name, look in self.looks.items() if name in there}
        return alt.Scale(domain=list(found), range=list(found.values()))


def palette(series: Sequence[tuple[str, str]]) -> Palette:
    """`series`: (name, class), in order of appearance. What is no persistent index is hollow and
    dashed, and takes the colours that those leave first."""
    looks, turns = dict[str, Look](), {True: 0, False: 0}
    own = sum(kind == "persistent" for _, kind in series)
    for name, kind in series:
        hollow = kind != "persistent"
        position = turns[hollow]
        turn = position // len(COLOURS)
        place = (position + (own if hollow else 0)) % len(COLOURS)
        looks[name] = Look(
            COLOURS[place],
            OUTLINES[(place + turn) % len(OUTLINES)],
            DASHES[(2 * turn + hollow) % len(DASHES)],
            hollow,
        )
        turns[hollow] += 1
    return Palette(looks)


def dark_rules() -> str:
    """CSS that gives drawings the colours of a dark page; paper is light."""
    rules = "\n".join(
        f'[fill="{light}"]{{fill:{dark}}}[stroke="{light}"]{{stroke:{dark}}}'
        for light, dark in (*SERIES, *ORDERED)
    )
    return f"@media screen and (prefers-color-scheme: dark) {{\n{rules}\n}}"
