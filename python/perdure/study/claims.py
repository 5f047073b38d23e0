"""Findings of others, checked against our cells: the [[published]] entries of a study.

what      the finding in words
of        labels of cells; a list stands for each of its values
over      labels as well: the metric of every `of` over that of every `over`. Without it the metric
          of `of` itself is the number.
metric    of metrics.py; throughput when nothing is said
operation push, lookup, ...: whose latency is meant; without it that of the most frequent one
function  with metric = "function_time": search, ...; see metrics.py
part      with a metric of parts, as "part_ewr": whose traffic, "record-store" or "index"; and in
          `over` that of `part_over`, if that is given
value     what was published for the number; within = 1.25 says how far ours may be off, as a factor
direction "above" or "below" in place of a value, where the publication gives none: of 1, or of the
          factor in `than`
kind      what the number or the side is: "publication" (what others found and published, if nothing
          is said), "measurement" (found without a publication), or "aim" (what an index should
          reach, measured by nobody)
note, source, figure   a remark; section and figure there; the [[figure]] here to stand beside
differs   why ours is another, for the report to say where it is

A finding agrees when all pairs of cells do; an axis with the same list on both sides pairs equal
values only. One pair that does not agree, and the finding does not; the worst pair is the one
shown. Where cells were not measured it can agree in part only, and they are named.

What others found is a side of 1 (or of `than`), so ours must be on one as well, by the rule of
results/verdicts.py: a ratio within 5 % of it shows no difference, and one whose interval does not
tell the side is inconclusive. A published value that is itself within 5 % of 1 says that both are
equal, and has no side.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol, TypeVar

from perdure.errors import one_of
from perdure.results import metrics, stats, verdicts
from perdure.results.record import Run, group
from perdure.results.stats import Interval
from perdure.results.verdicts import Verdict
from perdure.study.entry import Wanted
from perdure.study.flags import Problem
from perdure.types import Json

WITHIN = 1.25
DIRECTIONS = ("above", "below")
KINDS = PUBLICATION, MEASUREMENT, AIM = ("publication", "measurement", "aim")
AGREES, IN_PART, NO_DIFFERENCE, INCONCLUSIVE, SIZE_DIFFERS, DIFFERS, NOT_MEASURED = VERDICTS = (
    "agrees", "agrees in part", "no difference", "inconclusive", "same side, size differs",
    "differs", "not measured",
)  # fmt: skip
# From best to worst, of a pair of cells: the worst pair of a claim decides.
_ORDER = (AGREES, SIZE_DIFFERS, INCONCLUSIVE, NO_DIFFERENCE, DIFFERS)
_EXPLAINED = (NO_DIFFERENCE, SIZE_DIFFERS, DIFFERS)  # what `differs` of a claim has words for
NO_VERDICT = ""  # of a quick run, which decides nothing


class Labelled(Protocol):
    """A cell of a study, or a run of one."""

    @property
    def labels(self) -> dict[str, str]: ...


Cell = TypeVar("Cell", bound=Labelled)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What others found; the head of this file says what each part means."""

    what: str
    note: str = ""
    figure: str = ""
    of: Wanted = field(default_factory=dict)
    over: Wanted = field(default_factory=dict)  # empty: `of` itself is compared with `value`
    metric: str = metrics.THROUGHPUT
    operation: str = ""
    function: str = ""
    part: str = ""
    part_over: str = ""
    value: float | None = None
    within: float = WITHIN
    direction: str = ""
    than: float = 1
    kind: str = PUBLICATION
    source: str
    differs: str = ""

    @property
    def subject(self) -> str:
        """The operation, function or part that the metric is of."""
        return self.operation or self.function or self.part

    def published(self) -> str:
        if self.value is None:
            words = f"{self.direction} {self.than:g}x"
        elif self.over:
            words = f"{self.value:g}x"
        else:
            words = metrics.text(self.metric, self.value)
        return words + (f" ({self.note})" if self.note else "")

    @property
    def side(self) -> float | None:
        """The number that the claim is on a side of; None where it only gives a size."""
        if self.value is None:
            return self.than
        if not self.over or verdicts.is_within(self.value):
            return None
        return 1.0

    def margin(self, number: float) -> float:
        """Larger is nearer to the claim, or farther on its side."""
        logarithm = math.log(number) if number > 0 else -math.inf
        if self.value is not None:
            return -abs(logarithm - math.log(self.value))
        beyond = logarithm - math.log(self.than)
        return beyond if self.direction == "above" else -beyond


KEYS = tuple(one.name for one in fields(Claim))


@dataclass(frozen=True)
class Finding:
    """A claim, and whether our cells agree with it."""

    claim: Claim
    ours: float | None  # the number of the pair of cells that is farthest from the claim
    pair: str  # the indexes of that pair, where there were several
    verdict: str
    missing: tuple[str, ...]  # indexes of cells that were not measured
    interval: Interval | None = None  # of the ratio, where it was measured and not simulated

    def undecided(self) -> Finding:
        """The same numbers without a verdict."""
        return replace(self, verdict=NO_VERDICT)

    def document(self) -> Json:
        claim = self.claim
        return {
            "what": claim.what,
            "figure": claim.figure,
            "kind": claim.kind,
            "published": claim.published(),
            "ours": self.ours if self.ours is not None and math.isfinite(self.ours) else None,
            "ours_text": self.text(),
            "pair": self.pair,
            "interval": self.interval.document() if self.interval else None,
            "verdict": self.verdict or None,
            "missing": list(self.missing),
            "source": claim.source,
            "note": claim.note,
            "why": claim.differs if self.verdict in _EXPLAINED else "",
        }

    def text(self) -> str:
        if self.ours is None:
            return "-"
        if self.claim.over:
            span = self.interval
            if math.isinf(self.ours):
                return "there only"
            return f"{self.ours:.2f}x" + (f" ({span.low:.2f} to {span.high:.2f})" if span else "")
        return metrics.text(self.claim.metric, self.ours)


def check(claim: Json) -> Problem | None:
    """What is wrong with a claim's own entries; its labels are the study's business."""
    for key in ("what", "source"):
        if not isinstance(claim.get(key), str):
            return Problem(f"does not say its {key}", f'add {key} = "..."')
    if claim.get("kind", PUBLICATION) not in KINDS:
        return Problem(f"unknown kind '{claim['kind']}'", one_of(KINDS))
    if not isinstance(claim.get("differs", ""), str):
        return Problem("`differs` is a text", 'write differs = "..."')
    if _is_ratio(claim.get("value")) == (claim.get("direction") in DIRECTIONS):
        return Problem(
            "needs a value above 0, or a direction, and not both",
            'write value = 2.09, or direction = "above" or "below"',
        )
    if "within" in claim and not (_is_ratio(claim["within"]) and claim["within"] > 1):
        return Problem("`within` is a factor above 1", "write within = 1.25")
    if "than" in claim and not ("direction" in claim and _is_ratio(claim["than"])):
        return Problem("`than` is a factor that goes with a direction", "write than = 1.5")
    if "over" not in claim and "value" not in claim:
        return Problem("compares with nothing", "add `over`, or the published value")
    return None


def judge_ratio(claim: Claim, ratio: float, pair: str) -> Finding:
    """The finding for a claim about one ratio that was not measured by cells."""
    return Finding(claim, ratio, pair, _verdict(claim, stats.exact(ratio)), ())


def select(wanted: Wanted, cells: Iterable[Cell]) -> list[Cell]:
    """The cells whose labels are those wanted; a list is any of its values."""
    texts = {
        axis: {str(v) for v in (value if isinstance(value, list) else [value])}
        for axis, value in wanted.items()
    }
    return [
        cell
        for cell in cells
        if all(cell.labels.get(axis) in values for axis, values in texts.items())
    ]


def judge(claims: Sequence[Claim], runs: Sequence[Run]) -> list[Finding]:
    """Judges each claim by the runs, which are all of one target; one about other targets says
    nothing of them."""
    cells = list(group(runs).values())
    targets = {run.labels["target"] for run in runs if "target" in run.labels}
    return [_judge(own, cells) for claim in claims if (own := _within(claim, targets))]


def _within(claim: Claim, targets: set[str]) -> Claim | None:
    """The claim about those of its targets that there are; None if it has others only."""
    of, over = (_of_targets(wanted, targets) for wanted in (claim.of, claim.over))
    if of is None or over is None:
        return None
    return replace(claim, of=of, over=over)


def _of_targets(wanted: Wanted, targets: set[str]) -> Wanted | None:
    if not targets or "target" not in wanted:
        return wanted
    named = wanted["target"] if isinstance(wanted["target"], list) else [wanted["target"]]
    own = [name for name in named if str(name) in targets]
    if not own:
        return None
    target: Any = own if len(own) > 1 else own[0]
    return {**wanted, "target": target}


def _judge(claim: Claim, cells: list[list[Run]]) -> Finding:
    of, over = claim.of, claim.over
    shared = [axis for axis in of if isinstance(of[axis], list) and over.get(axis) == of[axis]]
    upper, missing = _numbers(of, claim, cells)
    below = replace(claim, part=claim.part_over or claim.part)
    lower, more = _numbers(over, below, cells) if over else ([_Number({}, "", 1.0, ())], [])
    found = [
        Finding(
            claim,
            ratio.value,
            _pair_name(a, b, shared),
            _verdict(claim, ratio),
            (),
            ratio if not ratio.is_exact and ratio.samples > 1 else None,
        )
        for a, b in itertools.product(upper, lower)
        if all(a.labels[axis] == b.labels[axis] for axis in shared)
        for ratio in [_ratio(a, b)]
    ]
    absent = tuple(dict.fromkeys([*missing, *more]))
    if not found:
        return Finding(claim, None, "", NOT_MEASURED, absent)
    worst = min(found, key=lambda one: (-_ORDER.index(one.verdict), claim.margin(one.ours or 0)))
    if worst.verdict == AGREES and absent:
        worst = replace(worst, verdict=IN_PART)
    return replace(worst, missing=absent)


@dataclass(frozen=True)
class _Number:
    labels: dict[str, str]
    name: str  # its values of the axes that are lists, which distinguish it from the others
    value: float
    samples: tuple[float, ...]  # what `value` is the median of; none where it has no spread


def _pair_name(a: _Number, b: _Number, shared: Sequence[str]) -> str:
    return f"{a.name} over {b.name}" if a.name and b.name and not shared else a.name or b.name


def _numbers(
    wanted: Wanted, claim: Claim, cells: list[list[Run]]
) -> tuple[list[_Number], list[str]]:
    """The metric of each cell wanted, and the indexes of those that are not there."""
    lists = [v if isinstance(v, list) else [v] for v in wanted.values()]
    found: list[_Number] = []
    missing: list[str] = []
    for values in itertools.product(*lists):
        one = dict(zip(wanted, map(str, values), strict=True))
        runs = next((runs for runs in cells if select(one, runs[:1])), [])
        number = metrics.value(claim.metric, runs, claim.subject) if runs else None
        several = [v for v, choice in zip(one.values(), lists, strict=True) if len(choice) > 1]
        if number is None:
            missing.append(one.get("index", " ".join(one.values())))
        else:
            # A simulation is exact: its repetitions are no samples of anything. Bytes are counted.
            exact = runs[0].simulated or metrics.is_memory(claim.metric)
            samples = () if exact else metrics.samples(claim.metric, runs, claim.subject)
            found.append(_Number(one, " ".join(several), number, tuple(samples)))
    return found, missing


def _ratio(upper: _Number, lower: _Number) -> Interval:
    """Counters may be 0: nothing over nothing is the same."""
    if lower.value == 0:
        return stats.exact(math.inf if upper.value > 0 else 1.0)
    ratio = upper.value / lower.value
    if not (upper.samples and lower.samples):  # exact, or a number with nothing to compare
        return stats.exact(ratio)
    if min(upper.samples + lower.samples) <= 0:
        return Interval(ratio, ratio, ratio)  # of one sample: decides nothing
    return stats.ratio_interval(lower.samples, upper.samples)


def _verdict(claim: Claim, ratio: Interval) -> str:
    margin, side = claim.margin(ratio.value), claim.side
    is_near = margin >= -math.log(claim.within)
    if side is None:
        return AGREES if is_near else DIFFERS
    judged = verdicts.of_ratio(ratio, to=side)
    if judged is Verdict.SAME:
        return NO_DIFFERENCE
    if judged is Verdict.INCONCLUSIVE:
        return INCONCLUSIVE
    if claim.value is None:
        return AGREES if margin > 0 else DIFFERS
    if (ratio.value > side) != (claim.value > side):
        return DIFFERS
    return AGREES if is_near else SIZE_DIFFERS


def _is_ratio(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
