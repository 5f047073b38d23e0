"""Rounds in which servers are measured in turn, and what is printed of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from typing import Any


def measure_in_turn(
    names: Iterable[str], rounds: int, rate: Callable[[str], float]
) -> dict[str, list[float]]:
    """The rates of each, round by round, beginning with another each time."""
    order = list(names)
    rates: dict[str, list[float]] = {name: [] for name in order}
    for _ in range(rounds):
        for name in order:
            rates[name].append(rate(name))
        order = order[1:] + order[:1]
    return rates


def figures(unit: str, ours: list[float], other: list[float], target: float) -> dict[str, Any]:
    """Medians over the rounds, and ratios within a round, ours to the other's."""
    ratios = [mine / its for mine, its in zip(ours, other, strict=True)]
    return {
        unit: statistics.median(ours),
        f"other_{unit}": statistics.median(other),
        "ratio": statistics.median(ratios),
        "ratio_least": min(ratios),
        "ratio_most": max(ratios),
        "target": target,
    }


def spread(row: dict[str, Any]) -> str:
    return f"{row['ratio']:.2f} ({row['ratio_least']:.2f} to {row['ratio_most']:.2f})"
