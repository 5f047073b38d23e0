"""Comparing two sets of results: which cells became faster or slower, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.errors import InputError
from perdure.results import stats, verdicts
from perdure.results.record import Run, group
from perdure.results.stats import Interval
from perdure.results.verdicts import Side, Verdict
from perdure.types import Json


@dataclass(frozen=True)
class Comparison:
    """One cell on both sides. The ratio is B / A of the median throughput."""

    labels: dict[str, str]
    a: Interval
    b: Interval
    ratio: Interval
    verdict: Verdict
    samples: tuple[int, int]
    remark: str
    exact: bool = False  # simulated: the ratio has no spread

    @property
    def kind_of_interval(self) -> str:
        return "exact" if self.exact else self.ratio.name

    def document(self) -> Json:
        return {
            "labels": self.labels,
            "median_a_ops_s": self.a.value,
            "median_b_ops_s": self.b.value,
            "ratio": self.ratio.value,
            "ratio_low": self.ratio.low,
            "ratio_high": self.ratio.high,
            "interval": self.kind_of_interval,
            "interval_confidence": None if self.exact else round(self.ratio.confidence, 4),
            "verdict": str(self.verdict),
            "samples_a": self.samples[0],
            "samples_b": self.samples[1],
            "remark": self.remark,
        }


@dataclass(frozen=True)
class Result:
    comparisons: list[Comparison]
    only_a: list[dict[str, str]]
    only_b: list[dict[str, str]]

    def count(self, verdict: Verdict) -> int:
        return sum(c.verdict is verdict for c in self.comparisons)


def compare(
    runs_a: Sequence[Run],
    runs_b: Sequence[Run],
    *,
    threshold: float,
    confidence: float,
    same_cells: bool = False,
) -> Result:
    """Pairs the cells of both sides by their labels and judges each pair.

    Two single cells are compared whatever their labels, because then the user compares two
    indexes; with `same_cells`, as with a baseline, never. Errors: InputError when no cell is on
    both sides.
    """
    cells_a, cells_b = group(runs_a), group(runs_b)
    if len(cells_a) == len(cells_b) == 1 and not same_cells:
        pairs = [(next(iter(cells_a)), next(iter(cells_b)))]
    else:
        pairs = [(labels, labels) for labels in cells_a if labels in cells_b]
    if not pairs:
        raise InputError(
            "no cell is on both sides", where="compare", remedy="compare results of one study"
        )
    compared_a, compared_b = {a for a, _ in pairs}, {b for _, b in pairs}
    return Result(
        [judge(cells_a[a], cells_b[b], threshold, confidence) for a, b in pairs],
        [dict(labels) for labels in cells_a if labels not in compared_a],
        [dict(labels) for labels in cells_b if labels not in compared_b],
    )


def judge(
    a: list[Run],
    b: list[Run],
    threshold: float = verdicts.MARGIN,
    confidence: float = stats.CONFIDENCE,
) -> Comparison:
    """Compares the runs of one cell with those of another. Errors: InputError where one is
    simulated and the other measured."""
    simulated = {run.simulated for run in (*a, *b)}
    if simulated == {True, False}:
        raise InputError(
            "a simulated cell against a measured one says nothing of either",
            where="compare",
            remedy="give results of one kind of target; the report shows both, labelled",
        )
    sides = Side.of(a), Side.of(b)
    found = verdicts.judge(*sides, margin=threshold, confidence=confidence)
    exact = simulated == {True}
    remarks = [*(["exact"] if exact else []), *([found.why] if found.why else [])]
    equal = [run.record["repetitions"] for run in a] == [run.record["repetitions"] for run in b]
    if exact and found.verdict is Verdict.SAME and not equal:
        remarks.append("not bit for bit")
    return Comparison(
        labels=_labels(a[0].labels, b[0].labels),
        a=sides[0].interval(confidence),
        b=sides[1].interval(confidence),
        ratio=found.ratio,
        verdict=found.verdict,
        samples=(len(sides[0].samples), len(sides[1].samples)),
        remark="; ".join([*remarks, *_differences(a[0], b[0])]),
        exact=exact,
    )


def _labels(a: dict[str, str], b: dict[str, str]) -> dict[str, str]:
    """The common labels, and `a / b` where they differ."""
    names = [*a, *(name for name in b if name not in a)]
    both = {name: (a.get(name, "-"), b.get(name, "-")) for name in names}
    return {name: x if x == y else f"{x} / {y}" for name, (x, y) in both.items()}


def _differences(a: Run, b: Run) -> list[str]:
    """What else differs between both sides, and may be why they differ."""
    found = []
    hosts = {(run.record["environment"] or {}).get("host_fingerprint") for run in (a, b)}
    if len(hosts) > 1:
        found.append("different hosts")
    platforms = {(run.record.get("platform") or {}).get("fingerprint") for run in (a, b)}
    if len(platforms) > 1:
        found.append("different platforms")
    if not a.simulated and _latency_method(a) != _latency_method(b):
        found.append("latencies timed in other ways, which changes throughput")
    if a.record["records"] != b.record["records"]:
        found.append(f"{a.record['records']} against {b.record['records']} records")
    return found


def _latency_method(run: Run) -> str:
    """Which operations were timed; earlier records do not say it, and timed all."""
    return str((run.record["configuration"].get("latency") or {}).get("method", "every"))
