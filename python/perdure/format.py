"""Numbers and values as text for reading: three digits with a unit."""

from __future__ import annotations

from typing import Any


def rate(ops_s: float) -> str:
    """Three digits with a unit: `4.21 M/s`, `812 k/s`, `36 /s`."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if ops_s >= size:
            return f"{_three(ops_s / size)} {unit}/s"
    return f"{_three(ops_s)} /s"


def nanoseconds(value: float | None) -> str:
    if value is None:
        return "-"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if value >= size:
            return f"{_three(value / size)} {unit}"
    return f"{_three(value)} ns"


def size(value: float) -> str:
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= scale:
            return f"{_three(value / scale)} {unit}"
    return f"{value:.0f} B"


def plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(str(entry) for entry in value)
    if isinstance(value, dict):
        return ", ".join(f"{name}={entry}" for name, entry in value.items())
    return "" if value is None else str(value)


def _three(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"
