"""Colours of series stay apart, also for who lacks a kind of cone, on light and dark pages."""

from __future__ import annotations

import itertools
import math

import pytest

from perdure.report import looks

# What a colour looks like to who lacks a kind of cone: Machado, Oliveira, Fernandes, TVCG 2009.
EYES = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216),
                   (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413),
                     (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602),
                   (0.004733, 0.691367, 0.303900)),
}  # fmt: skip
# Two greys of which one is a tenth lighter are 10 apart.
LEAST, LEAST_OF_SIX = 8.0, 12.0
PAGES = {"light": "#ffffff", "dark": "#191d26"}
LEAST_CONTRAST = 3.0  # WCAG 2, for graphics


def linear(colour: str) -> list[float]:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]


def seen(colour: str, eyes: str) -> tuple[float, ...]:
    """In OKLab, times 100."""
    light = linear(colour)
    r, g, b = (
        min(1.0, max(0.0, sum(m * p for m, p in zip(row, light, strict=True))))
        for row in EYES[eyes]
    )
    long, middle, short = (
        (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3),
        (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3),
        (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3),
    )
    return (
        100 * (0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short),
        100 * (1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short),
        100 * (0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short),
    )


def contrast(one: str, other: str) -> float:
    shares = (0.2126, 0.7152, 0.0722)
    low, high = sorted(
        sum(s * p for s, p in zip(shares, linear(c), strict=True)) for c in (one, other)
    )
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("page", PAGES)
def test_ten_colours_stay_apart(page: str) -> None:
    colours = [pair[list(PAGES).index(page)] for pair in looks.SERIES]
    assert len(set(colours)) == 10
    for eyes in EYES:
        points = [seen(colour, eyes) for colour in colours]
        for count, least in ((10, LEAST), (6, LEAST_OF_SIX)):
            for i, j in itertools.combinations(range(count), 2):
                apart = math.dist(points[i], points[j])
                assert apart >= least, f"{colours[i]} and {colours[j]} with {eyes}: {apart:.1f}"


@pytest.mark.parametrize("page", PAGES)
def test_lines_stand_out_from_the_page(page: str) -> None:
    side = list(PAGES).index(page)
    for pair in (*looks.SERIES, *looks.ORDERED):
        found = contrast(pair[side], PAGES[page])
        assert found >= LEAST_CONTRAST, f"{pair[side]}: {found:.2f}"


def test_numbers_in_order_grow_stronger() -> None:
    for side, page in enumerate(PAGES.values()):
        found = [contrast(pair[side], page) for pair in looks.ORDERED]
        assert found == sorted(found)


def test_no_two_series_look_alike() -> None:
    names = [(f"p{i}", "persistent") for i in range(14)]
    names += [(f"r{i}", "in_memory") for i in range(14)]
    palette = looks.palette(names)
    assert len({(one.colour, one.shape, one.hollow) for one in palette.looks.values()}) == 28
    assert len({(one.colour, one.dash) for one in palette.looks.values()}) == 28


def test_ten_series_of_both_kinds_share_no_colour() -> None:
    names = [(f"p{i}", "persistent") for i in range(4)]
    names += [(f"r{i}", "in_memory") for i in range(6)]
    palette = looks.palette(names)
    assert len({one.colour for one in palette.looks.values()}) == 10
    assert len({one.shape for one in palette.looks.values()}) == 10
    assert [one.hollow for one in palette.looks.values()] == [False] * 4 + [True] * 6


def test_a_dark_page_replaces_every_colour() -> None:
    rules = looks.dark_rules()
    for light, dark in (*looks.SERIES, *looks.ORDERED):
        assert f'[fill="{light}"]{{fill:{dark}}}' in rules
        assert f'[stroke="{light}"]{{stroke:{dark}}}' in rules
