"""Which idiosyncrasies a memory shows, why, of which class it is, and which rules pay there.

The definitions follow Gugnani et al., PVLDB 14(4), 2021 (`pmidio`): section 4 and table 1 for
I1-I7, table 2 for the classes, table 4 for the rules. Each idiosyncrasy becomes a factor, the ratio
of two probes that are equal on a memory without it.

Causes are found in the two ways of the study's section 3, the same probes on the server's DRAM and
the device's counters, and in a third that only a simulator offers: the same two probes with one
mechanism of the model switched off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from perdure.programs import probes
from perdure.programs import target as targets
from perdure.programs.probes import Inputs, Value
from perdure.progress import Progress
from perdure.types import Json

SHOWN = 1.25  # a smaller factor may have other reasons
EXPLAINS = 0.2  # a mechanism that takes away this share of an effect is one of its causes
LOW, HIGH = 1.5, 3.0  # table 4: low below 1.5x, moderate to 3x, high above

# Each mechanism that `--ablate` switches off, and how the memory behaves without it.
ABLATIONS = {
    "in-order-arrival": "stores reach the controller in program order",
    "lru-write-buffer": "the internal buffer evicts its oldest line",
    "no-directory": "remote reads write no directory bits",
    "no-prefetchers": "the CPU fetches nothing ahead",
    "no-dependence-window": "every load waits for the one before",
    "no-read-modify-write": "partial lines are written without reading them first",
    "no-address-cache": "every address is known to the device",
    "no-wear-levelling": "no pauses to move worn lines",
    "no-flush-gap": "flushed lines leave a core as soon as they can",
    "no-buffer-sets": "a line may lie anywhere in the internal buffer",
    "no-write-hindrance": "reads wait for nothing that is being written",
    "no-early-lines": "all parts of a media line wait until it has been read whole",
}


@dataclass(frozen=True)
class Measure:
    """One number of one probe."""

    inputs: tuple[tuple[str, Value], ...]
    metric: str = "bandwidth"

    def on(self, memory: str) -> Measure:
        """The same on the other memory."""
        return Measure(
            tuple((k, memory if k == "memory" else v) for k, v in self.inputs), self.metric
        )

    def text(self) -> str:
        shown = {k: v for k, v in self.inputs if k not in ("probe", "memory", "variant")}
        words = [str(shown.pop(k)) for k in ("op", "pattern") if k in shown]
        words += [f"{shown.pop('access_size')} B"] if "access_size" in shown else []
        words += [f"{n} thread{'s' if n != 1 else ''}"] if (n := shown.pop("threads", 0)) else []
        words += [f"hit ratio {h}" for h in [shown.pop("hit_ratio", None)] if h is not None]
        words += [str(v) for k, v in shown.items() if k == "node" and v == "remote"]
        return " ".join(words)


Values = dict[Measure, float | None]
Ratio = tuple[Measure, Measure]  # upper and lower


@dataclass(frozen=True)
class Idiosyncrasy:
    """A factor, and where the study defines it."""

    name: str
    title: str
    section: str
    published_cause: str
    published_classes: str
    formula: str
    measures: tuple[Measure, ...]
    ratio: Callable[[Values], Ratio | None]


def classify(
    target: str, cache: Path, progress: Progress, *, quick: bool = False, jobs: int = 0
) -> Json:
    """Runs the probes and judges. A probe that cannot run leaves what depends on it unknown."""
    threads = thread_counts(target)
    effects = idiosyncrasies(threads)
    extra = [*_writers(threads), *_transaction()]
    wanted = [m for e in effects for m in e.measures] + extra
    runner = _Runner(target, cache, progress, quick, jobs)
    values, reasons = runner.measure(wanted)
    control, _ = runner.measure([m.on("dram") for m in wanted if m not in extra])
    found = [_effect(e, values, control, reasons) for e in effects]
    if target.startswith("sim:"):
        _explain_by_ablation(effects, found, values, runner)
    else:
        for one in found:
            one["cause_note"] = "real hardware has no switch for its mechanisms"
    # A quick run has the numbers and decides nothing.
    shown = {one["name"]: None if quick else one["shown"] for one in found}
    for one in found:
        one["shown"] = shown[one["name"]]
    classes = classes_of(shown)
    return {
        "target": target,
        "quick": quick,
        "threads": threads,
        "thresholds": {"shown": SHOWN, "explains": EXPLAINS, "low": LOW, "high": HIGH},
        "idiosyncrasies": found,
        "classes": classes,
        "rules": [
            rule | ({"impact": ""} if quick else {}) for rule in rules(found, values, threads)
        ],
        "notes": [] if quick else _notes(found, classes),
    }


def tasks(target: str, *, quick: bool) -> list[probes.Task]:
    """The first probes of `classify`: without those on DRAM and those that look for causes."""
    threads = thread_counts(target)
    wanted = [m for e in idiosyncrasies(threads) for m in e.measures]
    wanted += [*_writers(threads), *_transaction()]
    identity = targets.identity(target)
    return [_task(m, (), target, quick, identity) for m in wanted]


def classes_of(shown: dict[str, bool | None]) -> Json:
    """The classes of table 2, which overlap. Only idiosyncrasies that few classes have decide."""
    known = all(shown.get(name) is not None for name in ("I2", "I3", "I5", "I7"))
    c2, c3 = bool(shown.get("I5")), bool(shown.get("I3"))
    c4 = c2 and c3 and bool(shown.get("I2")) and bool(shown.get("I7"))
    names = [n for n, has in (("C2", c2), ("C3", c3), ("C4", c4)) if has]
    if not names and known:
        names = ["C1"]
    return {
        "names": names,
        "certain": known,
        "meaning": {n: CLASSES[n] for n in names},
    }


CLASSES = {
    "C1": "battery-backed DRAM: no idiosyncrasy that DRAM does not have",
    "C2": "internal cache: scattered write-backs cost more than flushes (I5)",
    "C3": "granularity of access coarser than a cache line: small random writes amplify (I3)",
    "C4": "like Optane: C2 and C3 with slow writes (I2) and read-modify-write (I7)",
}


def level(factor: float | None) -> str:
    """Table 4's words for a factor."""
    if factor is None:
        return "unknown"
    if factor < 1.05:
        return "none"
    return "low" if factor < LOW else "moderate" if factor <= HIGH else "high"


def rules(found: Sequence[Json], values: Values, threads: Sequence[int]) -> list[Json]:
    """Table 4: what each rule gains, as the larger factor of what it avoids."""
    factor = {one["name"]: one["factor"] for one in found}
    writers = [(v, m) for m in _writers(threads) if (v := values.get(m)) is not None]
    crowded = None
    if len(writers) > 1:
        crowded = max(v for v, _ in writers) / writers[-1][0]
    steps = [values.get(m) for m in _transaction()]
    transaction = None
    if all(steps):
        # Bytes over bandwidth is the time of a step: log, data, commit word.
        log, data, commit = (
            b / v for b, v in zip((128, 64, 64), [s for s in steps if s], strict=True)
        )
        transaction = (log + data + commit) / data
    entries = [
        ("R1", "avoid p-stores", _largest(factor, "I1", "I2"), "I1, I2", "high (C1-C4)", ""),
        ("R2", "limit the number of writers", crowded, "I2", "high (C4), none (C1-C3)",
         "largest p-store bandwidth over that of all threads"),
        ("R3", "avoid small writes", factor.get("I3"), "I3", "high (C3, C4), moderate (C1, C2)",
         ""),
        ("R4", "limit remote access", factor.get("I4"), "I4", "high (C2, C4), moderate (C1, C3)",
         ""),
        ("R5", "flush cold data under eADR", factor.get("I5"), "I5",
         "high (C2, C4), low (C1, C3)", "pays where the caches are durable; else a flush is due"),
        ("R6", "avoid random reads and writes", factor.get("I6"), "I6",
         "high (C2, C4), moderate (C1, C3)", ""),
        ("R7", "avoid transactions", transaction, "section 6", "high (C1-C4)",
         "estimate: one 64 B change with log entry and commit word, three persists, over one"),
    ]  # fmt: skip
    return [
        {
            "rule": name,
            "title": title,
            "factor": value,
            "impact": level(value),
            "from": source,
            "published_impact": published,
            "note": note,
        }
        for name, title, value, source, published, note in entries
    ]


def thread_counts(target: str) -> list[int]:
    """1, 4, 8, and up to all cores of one socket."""
    cores = targets.cores_per_socket(target)
    return sorted({n for n in (1, 4, 8, 16, cores) if n <= cores})


def idiosyncrasies(threads: Sequence[int]) -> list[Idiosyncrasy]:
    """Section 4 as ratios of probes, without a benchmark's own cost per operation."""
    many = [n for n in threads if n <= 16][-1]
    loads = _grid(op=["load"], pattern=["seq"], access_size=[4096], threads=threads)
    writes = _grid(
        op=["store+clwb", "ntstore"], pattern=["seq"], access_size=[4096], threads=threads
    )
    small = _grid(op=["ntstore"], pattern=["rand"], access_size=[64, 256], threads=[many])
    local = _grid(
        op=["store+clwb"], pattern=["seq", "rand"], access_size=[256, 4096], threads=threads
    )
    remote = [_with(m, node="remote") for m in local]
    stores = [_with(m, op="store") for m in local]
    reads = _grid(op=["load"], pattern=["seq"], access_size=[64, 256, 1024, 4096], threads=[many])
    random = [_with(m, pattern="rand") for m in reads]
    cached = [
        _measure("I1", "latency", op=op, variant="corrected", threads=min(8, many), hit_ratio=1.0)
        for op in ("pstore", "load")
    ]
    line = [_measure("I7", metric) for metric in ("ewr", "rwr")]
    make = Idiosyncrasy
    return [
        make("I1", "p-stores slower than loads, even of cached data", "4.1", "CPU cache", "C1-C4",
             "latency of a p-store over that of a load, both of lines in the LLC", tuple(cached),
             lambda v: _largest_ratio(v, [(cached[0], cached[1])])),
        make("I2", "writes slower than reads", "4.2", "iMC contention and media latency", "C4",
             "largest sequential read bandwidth over largest p-store bandwidth",
             (*loads, *writes), lambda v: _best_ratio(v, loads, writes)),
        make("I3", "small random writes slow", "4.3", "access granularity", "C3, C4",
             "bandwidth of random 256 B over that of random 64 B ntstores", tuple(small),
             lambda v: _largest_ratio(v, [(small[1], small[0])])),
        make("I4", "p-stores to a remote node slow", "4.4", "mesh interconnect and XPPrefetcher",
             "C1-C4, worse in C2 and C4", "largest local over remote p-store bandwidth",
             (*local, *remote),
             lambda v: _largest_ratio(v, list(zip(local, remote, strict=True)))),
        make("I5", "stores slower than p-stores", "4.5", "XPPrefetcher", "C2, C4",
             "largest p-store over store bandwidth", (*local, *stores),
             lambda v: _largest_ratio(v, list(zip(local, stores, strict=True)))),
        make("I6", "random reads slower than sequential ones", "4.6", "CPU prefetcher and "
             "XPPrefetcher", "C1-C4, worse in C2 and C4",
             "largest sequential over random read bandwidth", (*reads, *random),
             lambda v: _largest_ratio(v, list(zip(reads, random, strict=True)))),
        make("I7", "full-line writes read and write the media", "4.7", "XPBuffer design", "C4",
             "bytes moved by the media per byte written to one line again and again: "
             "(1 + RWR) / EWR", tuple(line), lambda v: None if _unknown(v, line) else
             (line[1], line[0])),
    ]  # fmt: skip


class _Runner:
    """Measures on one target, keeping answers."""

    def __init__(self, target: str, cache: Path, progress: Progress, quick: bool, jobs: int):
        self.target, self.cache, self.progress = target, cache, progress
        self.quick, self.jobs = quick, jobs
        self.identity = targets.identity(target)

    def measure(
        self, measures: Sequence[Measure], ablate: Sequence[str] = ()
    ) -> tuple[Values, dict[Measure, str]]:
        return self.measure_all([(m, tuple(ablate)) for m in measures]).get(tuple(ablate), ({}, {}))

    def measure_all(
        self, wanted: Sequence[tuple[Measure, tuple[str, ...]]]
    ) -> dict[tuple[str, ...], tuple[Values, dict[Measure, str]]]:
        """By what was switched off: the values, and the reasons for those that are missing."""
        plan = [(m, off, self.task(m, off)) for m, off in dict.fromkeys(wanted)]
        answers = probes.run([t for *_, t in plan], self.cache, self.progress, self.jobs)
        results: dict[tuple[str, ...], tuple[Values, dict[Measure, str]]] = {}
        for measure, off, task in plan:
            values, reasons = results.setdefault(off, ({}, {}))
            points = answers.points(task)
            point = points[0] if points else None
            values[measure] = point.value(measure.metric) if point else None
            if values[measure] is None:
                failure = answers.failures.get(task.key)
                skipped = point.skipped if point else ""
                reasons[measure] = failure or skipped or f"no {measure.metric}"
        return results

    def task(self, measure: Measure, off: tuple[str, ...]) -> probes.Task:
        return _task(measure, off, self.target, self.quick, self.identity)


def _task(
    measure: Measure, off: tuple[str, ...], target: str, quick: bool, identity: str
) -> probes.Task:
    inputs: Inputs = dict(measure.inputs)
    swept = inputs.get(probes.SWEPT[str(inputs["probe"])])
    listed = [] if swept is None else [swept]
    return probes.task(target, inputs, listed, quick=quick, ablate=off, identity=identity)


def _effect(
    idiosyncrasy: Idiosyncrasy, values: Values, control: Values, reasons: dict[Measure, str]
) -> Json:
    ratio = idiosyncrasy.ratio(values)
    factor = factor_of(idiosyncrasy.name, ratio, values)
    swapped: Values = {m.on("pm"): v for m, v in control.items()}
    on_dram = factor_of(idiosyncrasy.name, idiosyncrasy.ratio(swapped), swapped)
    missing = [reasons[m] for m in idiosyncrasy.measures if m in reasons]
    return {
        "name": idiosyncrasy.name,
        "title": idiosyncrasy.title,
        "section": idiosyncrasy.section,
        "definition": idiosyncrasy.formula,
        "factor": factor,
        "shown": None
        if factor is None
        else factor >= SHOWN and not _as_dram(idiosyncrasy.name, factor, on_dram),
        "at": [m.text() for m in ratio] if ratio else [],
        "values": [values[m] for m in ratio] if ratio else [],
        "factor_on_dram": on_dram,
        "missing": sorted(set(missing)),
        "published_cause": idiosyncrasy.published_cause,
        "published_classes": idiosyncrasy.published_classes,
        "causes": [],
        "cause_note": "",
    }


def factor_of(name: str, ratio: Ratio | None, values: Values) -> float | None:
    if ratio is None:
        return None
    upper, lower = values.get(ratio[0]), values.get(ratio[1])
    if upper is None or not lower:
        return None
    return (1 + upper) / lower if name == "I7" else upper / lower


def _as_dram(name: str, factor: float, on_dram: float | None) -> bool:
    """I2, I3, I5 and I7 are the memory's own only where DRAM on the same server has less of it."""
    own = name in ("I2", "I3", "I5", "I7")
    return own and on_dram is not None and factor < SHOWN * on_dram


def _explain_by_ablation(
    effects: Sequence[Idiosyncrasy], found: list[Json], values: Values, runner: _Runner
) -> None:
    """Fills `causes`: what is left of each factor with one mechanism switched off."""
    ratios = {e.name: r for e in effects if (r := e.ratio(values)) is not None}
    shown = [one for one in found if one["shown"] and one["name"] in ratios]
    wanted = [(m, (off,)) for one in shown for m in ratios[one["name"]] for off in ABLATIONS]
    results = runner.measure_all(wanted)
    for one in shown:
        ratio = ratios[one["name"]]
        for off in ABLATIONS:
            without = results.get((off,), ({}, {}))[0]
            left = factor_of(one["name"], ratio, without)
            if left is None:
                continue
            share = (one["factor"] - left) / (one["factor"] - 1)
            one["causes"].append(
                {
                    "ablation": off,
                    "left": left,
                    "explains": share,
                    "by": _side(ratio, values, without),
                    "meaning": ABLATIONS[off],
                }
            )
        one["causes"].sort(key=lambda cause: -cause["explains"])
        one["cause_note"] = _cause_note(one)


def _side(ratio: Ratio, values: Values, without: Values) -> str:
    """How the switch shrank the factor: it sped up the slow side, or only slowed the fast one."""
    changes = []
    for measure in ratio:
        before, after = values.get(measure), without.get(measure)
        if not before or not after:
            return ""
        # A latency that grows is slower, a bandwidth that grows is faster.
        gain = before / after if measure.metric == "latency" else after / before
        changes.append(math.log(gain))
    fast, slow = changes if ratio[0].metric == "bandwidth" else changes[::-1]
    if ratio[0].metric not in ("bandwidth", "latency"):
        return ""
    return "speeding the slow side" if slow > -fast else "slowing the fast side"


def _cause_note(one: Json) -> str:
    causes = [c for c in one["causes"] if c["explains"] >= EXPLAINS]
    if not one["causes"]:
        return "no ablation could run"
    if causes:
        return ", ".join(
            f"{c['ablation']} leaves {c['left']:.2f}x" + (f" by {c['by']}" if c["by"] else "")
            for c in causes
        )
    dram = one["factor_on_dram"]
    outside = 0.0 if dram is None else (dram - 1) / (one["factor"] - 1)
    if outside >= 0.5:
        return f"none of the switches; DRAM shows {dram:.2f}x: caches, queues and links of the CPU"
    return "none of the switches, and DRAM shows less: the media's own times and granularity"


def _notes(found: Sequence[Json], classes: Json) -> list[str]:
    notes = [
        f"{one['name']} is unknown: {reason}"
        for one in found
        if one["shown"] is None
        for reason in one["missing"][:1]
    ]
    if not classes["certain"]:
        notes.append("the class is uncertain, because some idiosyncrasies are unknown")
    return notes


def _measure(probe: str, metric: str = "bandwidth", **inputs: Value) -> Measure:
    return Measure((("probe", probe), ("memory", "pm"), *inputs.items()), metric)


def _with(measure: Measure, **inputs: Value) -> Measure:
    merged = dict(measure.inputs) | inputs
    return Measure(tuple(merged.items()), measure.metric)


def _grid(
    op: Sequence[str], pattern: Sequence[str], access_size: Sequence[int], threads: Sequence[int]
) -> list[Measure]:
    return [
        _measure("bandwidth", op=o, pattern=p, access_size=s, threads=t, node="local", fence="none")
        for o in op
        for p in pattern
        for s in access_size
        for t in threads
    ]


def _writers(threads: Sequence[int]) -> list[Measure]:
    return _grid(op=["store+clwb"], pattern=["seq"], access_size=[4096], threads=threads)


def _transaction() -> list[Measure]:
    """Log entry, data, commit word: one thread, each made durable before the next."""

    def step(op: str, pattern: str, size: int) -> Measure:
        return _measure(
            "bandwidth",
            op=op,
            pattern=pattern,
            access_size=size,
            threads=1,
            node="local",
            fence="each",
        )

    return [
        step("ntstore", "seq", 128),
        step("store+clwb", "rand", 64),
        step("store+clwb", "same", 64),
    ]


def _largest(factor: dict[str, float | None], *names: str) -> float | None:
    return max((f for n in names if (f := factor.get(n)) is not None), default=None)


def _largest_ratio(values: Values, ratios: Sequence[Ratio]) -> Ratio | None:
    known = [r for r in ratios if not _unknown(values, r) and values[r[1]]]
    return max(known, key=lambda r: (values[r[0]] or 0) / (values[r[1]] or 1), default=None)


def _best_ratio(values: Values, upper: Sequence[Measure], lower: Sequence[Measure]) -> Ratio | None:
    best = [
        max(
            (m for m in side if values.get(m) is not None),
            key=lambda m: values[m] or 0,
            default=None,
        )
        for side in (upper, lower)
    ]
    return (best[0], best[1]) if best[0] and best[1] else None


def _unknown(values: Values, measures: Sequence[Measure]) -> bool:
    return any(values.get(m) is None for m in measures)
