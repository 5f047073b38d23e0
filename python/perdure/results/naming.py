"""What labels tell cells apart, and the words for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

Labels = Mapping[str, str]

MEDIUM, TARGET, NONE = "medium", "target", "none"
_SAYS_LITTLE = (NONE, "True", "False")


def differing(labels: Sequence[Labels]) -> list[str]:
    """The axes with several values. An index that needs no pool says nothing about media."""
    axes = dict.fromkeys(axis for one in labels for axis in one)
    return [axis for axis in axes if len(values(labels, axis)) > 1]


def values(labels: Sequence[Labels], axis: str) -> list[str]:
    """In order of appearance; empty text where an axis is missing."""
    found = dict.fromkeys(one.get(axis, "") for one in labels)
    return [value for value in found if axis != MEDIUM or value not in (NONE, "")]


def common_medium(labels: Sequence[Labels]) -> str:
    """Where all pools lie, which names need not say; empty where they lie on several media, or
    nothing is said."""
    media = values(labels, MEDIUM)
    return media[0] if len(media) == 1 else ""


def words(labels: Labels, axes: Collection[str]) -> str:
    """`cxl-asic, value bytes 16`. A word speaks for itself, a number does not."""
    there = {axis: labels[axis] for axis in axes if labels.get(axis)}
    return ", ".join(
        word(axis, value) for axis, value in there.items() if (axis, value) != (MEDIUM, NONE)
    )


def word(axis: str, value: str) -> str:
    if axis == TARGET:
        return platform(value)
    if axis == "workload":
        return value
    if value[:1].isalpha() and value not in _SAYS_LITTLE:
        return value
    return f"{axis.replace('_', ' ')} {value}"


def platform(target: str) -> str:
    """`cxl-asic` of a simulated target, also of a platform file."""
    return Path(target.removeprefix("sim:")).stem


def origin(targets: Iterable[str]) -> str:
    """Where the numbers of a figure or a table are from; `targets` are all native or all not."""
    there = set(targets)
    if there <= {"native"}:
        return "measured, native"
    return f"simulated, {there.pop() if len(there) == 1 else f'{len(there)} servers'}"


def with_medium(name: str, medium: str, common: str) -> str:
    """`lbtree · tmpfs`, or `lbtree` where all pools lie on the same medium."""
    return name if medium in (NONE, "", common) else f"{name} · {medium}"
