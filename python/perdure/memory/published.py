"""What `pmidio` says of idiosyncrasies (table 1) and rules (table 4), beside what a memory shows.

Both tables speak of classes of memories (table 2), which overlap: of those that a memory belongs
to, the one with the largest published impact counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

ALL = ("C1", "C2", "C3", "C4")
LEVELS = ("none", "low", "moderate", "high")  # from the smallest
AGREES, DIFFERS = "agrees", "differs"


def classes_in(text: str) -> tuple[str, ...]:
    """`C1-C4, worse in C2 and C4` names all, `C3, C4` two."""
    if text.startswith("C1-C4"):
        return ALL
    if span := re.fullmatch(r"C(\d)-C(\d)", text):
        return tuple(f"C{n}" for n in range(int(span[1]), int(span[2]) + 1))
    return tuple(re.findall(r"C\d", text))


def impacts_in(text: str) -> dict[str, str]:
    """`high (C3, C4), moderate (C1, C2)` by class."""
    found: dict[str, str] = {}
    for level, names in re.findall(r"(\w+) \(([^)]*)\)", text):
        found |= dict.fromkeys(classes_in(names), level)
    return found


def impact(text: str, classes: Iterable[str]) -> str:
    """The published impact of a rule on a memory of these classes; empty where there is none."""
    levels = [level for name, level in impacts_in(text).items() if name in set(classes)]
    return max(levels, key=LEVELS.index, default="")


def applies(text: str, classes: Iterable[str]) -> bool:
    """Whether a memory of these classes should show an idiosyncrasy."""
    return not set(classes_in(text)).isdisjoint(classes)


def verdict(expected: object, found: object) -> str:
    """Empty where either is not known."""
    if expected in (None, "") or found in (None, "", "unknown"):
        return ""
    return AGREES if expected == found else DIFFERS
