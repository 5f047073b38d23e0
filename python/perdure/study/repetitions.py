"""repetitions = "auto": a measured cell is run again until its median is known well enough.

A cell first gets LEAST processes, the fewest of which a 95 % interval can be made. Then it gets one
more at a time, until the interval of its median throughput is at most `interval_width` of the
median wide, or `most_repetitions` have run. A simulated cell is exact and runs once. A cell of
which a run failed gets no more.

Stopping because the interval is narrow picks samples that happen to lie close together, so that the
interval holds the true median less often than it says; bench/repetitions_coverage.py counts how
much less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.results import stats
from perdure.results.record import Run, samples_of
from perdure.results.stats import Interval
from perdure.study.flags import Problem
from perdure.types import Json

if TYPE_CHECKING:
    from perdure.study.model import Labels

AUTO = "auto"
LEAST = 6
WIDTH, MOST = 0.05, 20
# Why a cell gets no more runs.
NARROW, BUDGET, EXACT, FAILED = ENDS = ("interval", "budget", "exact", "failed")
UNDECIDED = ""


@dataclass(frozen=True)
class Auto:
    """When a cell has run often enough."""

    interval_width: float = WIDTH  # (high - low) / median
    most_repetitions: int = MOST

    def check(self) -> Problem | None:
        if not 0 < self.interval_width < 1:
            return Problem("`interval_width` is a share of the median", "write 0.05")
        if self.most_repetitions < LEAST:
            return Problem(
                f"`most_repetitions` is at least {LEAST}, of which an interval can be made",
                f"write {MOST}",
            )
        return None

    def is_narrow(self, interval: Interval) -> bool:
        """Whether the interval of a median is one at all, and as narrow as wanted."""
        is_known = not interval.is_range and interval.value > 0
        return is_known and interval.relative_width <= self.interval_width

    def end(self, runs: Sequence[Run], started: int) -> str:
        """Why a cell of these runs, of `started` ones, gets no more; UNDECIDED if it does."""
        if len(runs) < started:
            return FAILED
        if runs[0].simulated:
            return EXACT
        if self.is_narrow(stats.median_interval(samples_of(runs))):
            return NARROW
        return BUDGET if started >= self.most_repetitions else UNDECIDED

    def document(self, cells: Sequence[Json]) -> Json:
        """For a manifest."""
        return {
            "interval_width": self.interval_width,
            "most_repetitions": self.most_repetitions,
            "cells": list(cells),
        }

    def cell(self, labels: Labels, runs: Sequence[Run], started: int, *, failed: bool) -> Json:
        """For a manifest: how often a cell is run, how well its median is known, and what ended it;
        nothing has where runs are to come."""
        is_over = failed or len(runs) == started
        width = stats.median_interval(samples_of(runs)).relative_width if runs else math.inf
        exact = bool(runs) and runs[0].simulated
        return {
            "labels": labels,
            "repetitions": started,
            "relative_width": 0.0 if exact else width if math.isfinite(width) else None,
            "ended_by": self.end(runs, started) or None if is_over else None,
        }
