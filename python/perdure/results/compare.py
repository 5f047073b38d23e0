"""Comparing two sets of results: which cells became faster or slower, and how sure that is."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from perdure.errors import InputError
from perdure.results import stats
from perdure.results.record import Run, group, samples_of
from perdure.results.stats import Interval, Verdict
from perdure.types import Json

QUICK = "a quick run decides nothing"


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

    def document(self) -> Json:
        return {
            "labels": self.labels,
            "median_a_ops_s": self.a.value,
            "median_b_ops_s": self.b.value,
            "ratio": self.ratio.value,
            "ratio_low": self.ratio.low,
            "ratio_high": self.ratio.high,
            "interval": "exact" if self.exact else self.ratio.name,
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
    runs_a: Sequence[Run], runs_b: Sequence[Run], *, threshold: float, confidence: float
) -> Result:
    """Pairs the cells of both sides by their labels and judges each pair.

    Two single cells are compared whatever their labels, because then the user compares two
    indexes. Errors: InputError when no cell is on both sides.
    """
    cells_a, cells_b = group(runs_a), group(runs_b)
    if len(cells_a) == len(cells_b) == 1:
        pairs = [(next(iter(cells_a)), next(iter(cells_b)))]
    else:
        pairs = [(labels, labels) for labels in cells_a if labels in cells_b]
    if not pairs:
        raise InputError(
            "no cell is on both sides", where="compare", remedy="compare results of one study"
        )
    compared_a, compared_b = {a for a, _ in pairs}, {b for _, b in pairs}
    return Result(
        [_judge(cells_a[a], cells_b[b], threshold, confidence) for a, b in pairs],
        [dict(labels) for labels in cells_a if labels not in compared_a],
        [dict(labels) for labels in cells_b if labels not in compared_b],
    )


def _judge(a: list[Run], b: list[Run], threshold: float, confidence: float) -> Comparison:
    simulated = {run.simulated for run in (*a, *b)}
    if simulated == {True, False}:
        raise InputError(
            "a simulated cell against a measured one says nothing of either",
            where="compare",
            remedy="give results of one kind of target; the report shows both, labelled",
        )
    if simulated == {True}:
        return _judge_exactly(a, b, threshold)
    samples_a, samples_b = samples_of(a), samples_of(b)
    fewest = min(len(samples_a), len(samples_b))
    ratio, verdict = Interval(0, 0, 0), Verdict.INCONCLUSIVE
    if min(samples_a + samples_b) > 0:
        ratio = stats.ratio_interval(samples_a, samples_b, confidence)
        verdict = stats.verdict(ratio, threshold, samples=fewest)
    if _any_quick(a[0], b[0]):
        verdict = Verdict.INCONCLUSIVE
    return Comparison(
        labels=_labels(a[0].labels, b[0].labels),
        a=stats.median_interval(samples_a, confidence),
        b=stats.median_interval(samples_b, confidence),
        ratio=ratio,
        verdict=verdict,
        samples=(len(samples_a), len(samples_b)),
        remark=_remark(a[0], b[0], fewest, verdict),
    )


def _judge_exactly(a: list[Run], b: list[Run], threshold: float) -> Comparison:
    """Simulated cells have no spread: they are equal to the last bit, or their ratio is exact."""
    samples_a, samples_b = samples_of(a), samples_of(b)
    first, second = statistics.median(samples_a), statistics.median(samples_b)
    ratio = second / first if min(first, second) > 0 else 0.0
    equal = [run.record["repetitions"] for run in a] == [run.record["repetitions"] for run in b]
    remarks = []
    verdict = stats.verdict_exactly(ratio, threshold)
    if ratio == 0.0:
        verdict, remarks = Verdict.INCONCLUSIVE, ["no successful operation"]
    elif verdict is Verdict.SAME and not equal:
        remarks.append("not bit for bit")
    if _any_quick(a[0], b[0]):
        verdict, remarks = Verdict.INCONCLUSIVE, [*remarks, QUICK]
    platforms = {(run.record.get("platform") or {}).get("fingerprint") for run in (a[0], b[0])}
    remarks += ["different platforms"] if len(platforms) > 1 else []
    return Comparison(
        labels=_labels(a[0].labels, b[0].labels),
        a=stats.exact(first),
        b=stats.exact(second),
        ratio=stats.exact(ratio),
        verdict=verdict,
        samples=(len(samples_a), len(samples_b)),
        remark="; ".join(["exact", *remarks]),
        exact=True,
    )


def _any_quick(a: Run, b: Run) -> bool:
    return a.quick or b.quick


def _labels(a: dict[str, str], b: dict[str, str]) -> dict[str, str]:
    """The common labels, and `a / b` where they differ."""
    names = [*a, *(name for name in b if name not in a)]
    both = {name: (a.get(name, "-"), b.get(name, "-")) for name in names}
    return {name: x if x == y else f"{x} / {y}" for name, (x, y) in both.items()}


def _remark(a: Run, b: Run, fewest: int, verdict: Verdict) -> str:
    remarks = []
    if min(a.samples + b.samples) <= 0:
        remarks.append("a repetition without a successful operation")
    if _any_quick(a, b):
        remarks.append(QUICK)
    elif verdict is Verdict.INCONCLUSIVE and fewest < 3:
        remarks.append(f"{fewest} sample{'s' if fewest > 1 else ''}: use --repetitions 5")
    hosts = {(run.record["environment"] or {}).get("host_fingerprint") for run in (a, b)}
    if len(hosts) > 1:
        remarks.append("different hosts")
    if _latency_method(a) != _latency_method(b):
        remarks.append("latencies timed in other ways, which changes throughput")
    if a.record["records"] != b.record["records"]:
        remarks.append(f"{a.record['records']} against {b.record['records']} records")
    return "; ".join(remarks)


def _latency_method(run: Run) -> str:
    """Which operations were timed; earlier records do not say it, and timed all."""
    return str((run.record["configuration"].get("latency") or {}).get("method", "every"))
