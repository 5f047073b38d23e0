"""Fidelity: how far simulated probes are from measurements of real memory.

Errors are relative to the measured value. A trend is the sign of the change between neighbouring
points of a curve, that is of points which differ in one input only; changes of the measured value
below the spread of its repetitions tell nothing and are left out. A peak is the position of the
largest bandwidth of a curve over threads or access size.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from perdure.errors import InputError, did_you_mean
from perdure.memory.reference import AXES, DEFAULT_NOISE, Point, Table, default_noise
from perdure.programs import native, probes
from perdure.programs import target as targets
from perdure.programs.probes import Value
from perdure.progress import Progress
from perdure.types import Json

QUICK_VALUES = 4
BENCHMARK = ("op_cost_ns", "op_cost", "op_state")  # what the measuring program itself cost
Noise = Callable[[str], float]  # of a metric
RATIOS = ("ewr", "err", "rwr", "buffer_hit_ratio", "write_amplification")


@dataclass(frozen=True)
class Pair:
    """A point with its simulated value, in the unit of probes; None: the probe has no answer."""

    point: Point
    simulated: float | None
    why_not: str = ""

    @property
    def measured(self) -> float:
        return self.point.probe_value

    @property
    def error(self) -> float:
        assert self.simulated is not None
        return abs(self.simulated - self.measured) / self.measured


@dataclass(frozen=True)
class Peak:
    """Where a curve is highest; agrees when the measured curve is as high there, within noise."""

    curve: str
    axis: str
    measured_at: Value
    simulated_at: Value
    agrees: bool


@dataclass
class Experiment:
    """One table beside its simulation."""

    table: Table
    pairs: list[Pair] = field(default_factory=list)

    @property
    def compared(self) -> list[Pair]:
        return [pair for pair in self.pairs if pair.simulated is not None]

    @property
    def errors(self) -> list[float]:
        return [pair.error for pair in self.compared]


@dataclass(frozen=True)
class Trends:
    steps: int
    right: int

    @property
    def agreement(self) -> float | None:
        return self.right / self.steps if self.steps else None


def choose(tables: Sequence[Table], names: Iterable[str]) -> list[Table]:
    """The tables of the given names or sets. Errors: InputError with the nearest name."""
    chosen: dict[str, Table] = {}
    known = [*(t.name for t in tables), *dict.fromkeys(t.set_name for t in tables)]
    for name in names:
        found = [t for t in tables if name in (t.name, t.set_name)]
        if not found:
            raise InputError(
                f"unknown experiment '{name}'",
                where="--experiments",
                remedy=did_you_mean(name, known, "use one of " + ", ".join(known)),
            )
        chosen |= {t.name: t for t in found}
    return list(chosen.values()) if chosen else list(tables)


def compare(
    tables: Sequence[Table],
    cache: Path,
    progress: Progress,
    *,
    quick: bool = False,
    jobs: int = 0,
    ablate: Sequence[str] = (),
) -> list[Experiment]:
    """Simulates every point of the tables, or of a thinned grid when quick."""
    plan: list[tuple[Experiment, Point, probes.Task, Value | None]] = []
    for table in tables:
        experiment = Experiment(table)
        points = thinned(table.points) if quick else list(table.points)
        for one, members in grouped(table, points, quick, ablate):
            plan += [
                (experiment, p, one, p.input[probes.SWEPT[str(p.input["probe"])]]) for p in members
            ]
    answers = probes.run([task for _, _, task, _ in plan], cache, progress, jobs)
    experiments: dict[str, Experiment] = {}
    for experiment, point, one, swept in plan:
        experiments.setdefault(experiment.table.name, experiment)
        experiment.pairs.append(_pair(point, one, swept, answers))
    for experiment in experiments.values():
        experiment.pairs.sort(key=lambda pair: pair.point.line)
    return list(experiments.values())


def grouped(
    table: Table, points: Iterable[Point], quick: bool, ablate: Sequence[str] = ()
) -> list[tuple[probes.Task, list[Point]]]:
    """Points that one process answers: equal in all but the probe's list."""
    groups: dict[Any, list[Point]] = {}
    for point in points:
        swept = probes.SWEPT[str(point.input["probe"])]
        groups.setdefault(tuple(i for i in point.inputs if i[0] != swept), []).append(point)
    target = f"sim:{table.platform}"
    identity = targets.identity(target)
    tasks = []
    for members in groups.values():
        swept = probes.SWEPT[str(members[0].input["probe"])]
        values = sorted({v for p in members if (v := p.input[swept]) is not None}, key=float)
        one = probes.task(
            target, members[0].input, values, quick=quick, ablate=ablate, identity=identity
        )
        tasks.append((one, members))
    return tasks


def thinned(points: Sequence[Point]) -> list[Point]:
    """At most four values of each axis per kind of curve: the ends and two between."""
    kept: dict[Any, dict[str, set[Any]]] = {}
    for axis in AXES:
        values: dict[Any, set[Any]] = {}
        for point in points:
            if point.input[axis] is not None:
                values.setdefault(_kind(point), set()).add(point.input[axis])
        for kind, found in values.items():
            ordered = sorted(found, key=float)
            last = len(ordered) - 1
            picks = {round(i * last / (QUICK_VALUES - 1)) for i in range(QUICK_VALUES)}
            kept.setdefault(kind, {})[axis] = {ordered[i] for i in picks}
    return [p for p in points if all(p.input[a] in v for a, v in kept.get(_kind(p), {}).items())]


def curves(pairs: Sequence[Pair]) -> list[tuple[str, str, list[Pair]]]:
    """(axis, name, points in order) of every curve: points that differ along one axis only."""
    found = []
    for axis in AXES:
        groups: dict[Any, list[Pair]] = {}
        for pair in pairs:
            if pair.point.input[axis] is not None:
                # The cost of the software varies along the curve, so it is no axis of its own.
                rest = tuple(i for i in pair.point.inputs if i[0] not in (axis, *BENCHMARK))
                groups.setdefault((pair.point.metric, rest), []).append(pair)
        for members in groups.values():
            if len({p.point.input[axis] for p in members}) > 1:
                members.sort(key=lambda p: float(p.point.input[axis] or 0))
                found.append((axis, _curve_name(members[0].point, axis), members))
    return found


def trends(pairs: Sequence[Pair], noise: Noise = default_noise) -> Trends:
    """Counts the steps of all curves, and those where simulated and measured values move alike."""
    steps = right = 0
    for _, _, members in curves(pairs):
        chance = noise(members[0].point.metric)
        for a, b in itertools.pairwise(members):
            if abs(b.measured / a.measured - 1) <= chance:
                continue
            assert a.simulated is not None and b.simulated is not None
            steps += 1
            right += (b.simulated - a.simulated) * (b.measured - a.measured) > 0
    return Trends(steps, right)


def peaks(pairs: Sequence[Pair], noise: Noise = default_noise) -> list[Peak]:
    """The highest point of each bandwidth curve over threads or sizes that rises above noise."""
    found = []
    chance = noise("bandwidth")
    for axis, name, members in curves(pairs):
        if axis not in ("threads", "access_size") or members[0].point.metric != "bandwidth":
            continue
        top = max(members, key=lambda p: p.measured)
        if top.measured <= (1 + chance) * min(p.measured for p in members) or len(members) < 3:
            continue
        simulated = max(members, key=lambda p: p.simulated or 0)
        found.append(
            Peak(
                name,
                axis,
                _at(top, axis),
                _at(simulated, axis),
                simulated.measured >= (1 - chance) * top.measured,
            )
        )
    return found


def document(experiments: Sequence[Experiment], *, quick: bool = False) -> Json:
    """What `perdure fidelity --json` prints. A quick run does
    not say whether goals are reached, because they are set for all points."""
    whole = _document(experiments)
    if quick:
        summary = whole["summary"]
        for one in (*whole["experiments"], *summary["sets"], *summary["roles"]):
            one["reached"] = None
    return whole | {"quick": quick}


def _document(experiments: Sequence[Experiment]) -> Json:
    sets = dict.fromkeys(e.table.set_name for e in experiments)
    roles = dict.fromkeys(e.table.role for e in experiments)
    return {
        "build_id": native.build_id("sim"),
        "noise": DEFAULT_NOISE,
        "experiments": [_experiment(e) for e in experiments],
        "summary": {
            **figures([p for e in experiments for p in e.compared], experiments),
            "skipped": sum(len(e.pairs) - len(e.compared) for e in experiments),
            "sets": [_group(n, [e for e in experiments if e.table.set_name == n]) for n in sets],
            "roles": [_group(n, [e for e in experiments if e.table.role == n]) for n in roles],
        },
    }


def _experiment(experiment: Experiment) -> Json:
    table = experiment.table
    found = peaks(experiment.compared, table.noise)
    skipped = [p for p in experiment.pairs if p.simulated is None]
    return {
        "name": table.name,
        "title": table.title,
        "platform": table.platform,
        "role": table.role,
        "set": table.set_name,
        "paper": table.description["paper"],
        "figure": table.description.get("figure", ""),
        "measured": table.description.get("measured", ""),
        **figures(experiment.compared, [experiment]),
        **_goal([experiment]),
        "peaks": [vars(peak) for peak in found],
        "skipped": [{"point": p.point.text(), "reason": p.why_not} for p in skipped],
        "values": [_value(pair) for pair in experiment.compared],
    }


def figures(pairs: Sequence[Pair], experiments: Sequence[Experiment]) -> Json:
    errors = [pair.error for pair in pairs]
    absolute = [abs((p.simulated or 0) - p.measured) for p in pairs if p.point.metric in RATIOS]
    counted = [trends(e.compared, e.table.noise) for e in experiments]
    total = Trends(sum(t.steps for t in counted), sum(t.right for t in counted))
    found = [peak for e in experiments for peak in peaks(e.compared, e.table.noise)]
    return {
        "points": len(pairs),
        "median_error": statistics.median(errors) if errors else None,
        "p90_error": float(np.percentile(errors, 90)) if errors else None,
        "max_absolute_error_of_ratios": max(absolute, default=None),
        "trend_steps": total.steps,
        "trend_agreement": total.agreement,
        "peak_count": len(found),
        "peak_agreement": sum(p.agrees for p in found) / len(found) if found else None,
    }


def _group(name: str, members: list[Experiment]) -> Json:
    pairs = [pair for e in members for pair in e.compared]
    return {
        "name": name,
        "experiments": [e.table.name for e in members],
        **figures(pairs, members),
        **_goal(members),
    }


def _goal(members: Sequence[Experiment]) -> Json:
    """The goals that all members share, and whether their figures reach them."""
    pairs = [pair for e in members for pair in e.compared]
    found = {
        "median": statistics.median([p.error for p in pairs]) if pairs else None,
        "p90": float(np.percentile([p.error for p in pairs], 90)) if pairs else None,
        "absolute": max((abs((p.simulated or 0) - p.measured) for p in pairs), default=None),
    }
    goals, reached = {}, None
    for kind, figure in found.items():
        wanted = {e.table.goal(kind) for e in members}
        goal = wanted.pop() if len(wanted) == 1 else None
        if goal is None:
            continue
        goals[kind] = goal
        if figure is not None:
            reached = (reached is not False) and figure <= goal
    return {"goal": goals or None, "reached": reached}


def _value(pair: Pair) -> Json:
    return {
        "inputs": {k: v for k, v in pair.point.inputs if v is not None},
        "metric": pair.point.metric,
        "unit": {"bandwidth": "GiB/s", "latency": "ns"}.get(pair.point.metric, "ratio"),
        "measured": pair.measured,
        "simulated": pair.simulated,
        "error": pair.error,
    }


def _pair(point: Point, task: probes.Task, swept: Value | None, answers: probes.Answers) -> Pair:
    if task.key in answers.failures:
        return Pair(point, None, answers.failures[task.key])
    answer = answers.point(task, swept)
    if answer is None:
        return Pair(point, None, "the probe left it out")
    if answer.skipped:
        return Pair(point, None, answer.skipped)
    value = answer.value(point.metric)
    return Pair(point, value, "" if value is not None else f"the probe tells no {point.metric}")


def _kind(point: Point) -> Any:
    free = (*AXES, *BENCHMARK)
    return point.metric, tuple(i for i in point.inputs if i[0] not in free)


def _curve_name(point: Point, axis: str) -> str:
    inputs = point.input
    parts = [str(inputs["memory"]), str(inputs["op"]), str(inputs["pattern"])]
    parts += [f"{inputs['access_size']} B"] if axis != "access_size" else []
    parts += [f"{inputs['threads']} threads"] if axis != "threads" else []
    parts += [f"stride {inputs['stride']}"] if inputs["stride"] and axis != "stride" else []
    parts += [f"{inputs['region']} B region"] if inputs["region"] and axis != "region" else []
    return " ".join(parts)


def _at(pair: Pair, axis: str) -> Value:
    value = pair.point.input[axis]
    assert value is not None
    return value
