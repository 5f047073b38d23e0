#!/usr/bin/env python3
"""Writes docs/results.md, the page of numbers that commands print, from records in docs/results/.

    tools/results.py            writes the page and its figure
    tools/results.py --check    exits with 1 if the page is not what the records give

Each section of the page (SECTIONS) has a file of records, made by the section's command and taken
by tools/keep_results.py. Those of a study are its cells, a line of JSON each, which
`./perdure report` reads as well.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
# Where the package has what this page is made with is said here and nowhere else in this file.
from perdure.report.looks import dark_rules, palette  # noqa: E402
from perdure.report.pieces import as_file  # noqa: E402
from perdure.report.plots import scaling  # noqa: E402
from perdure.results.metrics import value as metric  # noqa: E402
from perdure.results.record import Run, load, samples_of  # noqa: E402
from perdure.results.stats import median_interval  # noqa: E402
from perdure.study.memory_claims import findings  # noqa: E402

PAGE = ROOT / "docs" / "results.md"
Json = dict[str, Any]
Runs = list[Run]

HEAD = """# Results

Made by `tools/results.py` from the records in [`results/`](results/): change these, not the page.
[Measuring](measuring.md) says what the figures mean, [the platform model](platform-model.md) what
is simulated, [terms](terms.md) what the words mean.

Every section is labelled. **Measured**: on the machine named there, as medians with their interval
in brackets; the machine is small and shared with others, so that these show how the programs
behave there, not how indexes rank on a server. **Simulated**: on a model of a server; exact, and
the same on every machine. Figures that others **published** stand only beside simulated ones, in
columns of their own.
"""


@dataclass(frozen=True)
class Section:
    """A part of the page: the command that makes its records, and how they become text."""

    title: str
    label: str
    command: str
    name: str  # of the records' file
    text: Callable[[Path], str]

    def page(self, folder: Path) -> str:
        file = records(folder, self.name)
        about = [f"**{self.label}**, {origin(file)}", f"`{self.command}`"]
        return f"## {self.title}\n" + "<br>\n".join(about) + f"\n\n{self.text(file)}"


def records(folder: Path, name: str) -> Path:
    """The file of a section's records."""
    return next(path for s in ("json", "jsonl") if (path := folder / f"{name}.{s}").is_file())


def origin(file: Path) -> str:
    """`AMD EPYC, 2 cores, revision 5bc18cb79eda, 27 November 2026`; more of each, if there are."""
    machines, revisions, dates = dict[str, None](), dict[str, None](), list[float]()
    for line in file.read_text(encoding="utf-8").splitlines():
        document = json.loads(line)
        if "record" in document:
            found = document["record"]
            dates.append(document["started_unix"])
            revisions[found["build"]["commit"]] = None
            where = found["environment"] or found["platform"]
            machines[machine(where) if found["environment"] else where["title"]] = None
        else:
            dates.append(document["date_unix"])
            revisions[document["revision"]] = None
            machines[document["machine"]] = None
    day = time.strftime("%d %B %Y", time.gmtime(max(dates))).lstrip("0")
    return ", ".join([*filter(None, machines), *(f"revision {r[:12]}" for r in revisions), day])


def machine(environment: Json) -> str:
    return f"{environment['cpu']}, {environment['cores']} cores"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are figures."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def figure(value: float | None) -> str:
    """Three digits: `0.123`, `12.3`, `1,230`."""
    if value is None:
        return "-"
    digits = max(0, 2 - len(str(int(abs(value)))) + 1) if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}"


def throughput(runs: Runs) -> str:
    """Million operations per second: `4.21`, measured with its interval, `4.21 (4.05-4.33)`."""
    if not runs:
        return "-"
    samples = samples_of(runs)
    span = median_interval(samples)
    middle = figure(span.value / 1e6)
    if runs[0].simulated:
        return middle
    return f"{middle} ({figure(span.low / 1e6)}-{figure(span.high / 1e6)})"


def chosen(runs: Runs, **labels: str) -> Runs:
    return [run for run in runs if labels.items() <= run.labels.items()]


def values(runs: Runs, label: str) -> list[str]:
    return list(dict.fromkeys(run.labels[label] for run in runs if label in run.labels))


def over_threads(runs: Runs) -> str:
    """Throughput: a row per index and number of threads, a column per workload."""
    workloads = values(runs, "workload")
    rows = [
        [
            f"`{index}`, {count}",
            *(throughput(chosen(runs, index=index, threads=count, workload=w)) for w in workloads),
        ]
        for index in values(runs, "index")
        for count in values(runs, "threads")
    ]
    return table(["Mop/s: index, threads", *workloads], rows)


def cost(runs: Runs) -> str:
    """What an insert costs, and the memory of a record."""
    names = {
        "flushes": "flushes",
        "fences": "fences",
        "llc_misses": "LLC misses",
        "pm_media_write_bytes": "media B written",
        "p99": "p99, ns",
        "pm_bytes_per_record": "PM B/record",
        "dram_bytes_per_record": "DRAM B/record",
    }
    rows = [
        [f"`{index}`", *(figure(metric(name, chosen(runs, index=index))) for name in names)]
        for index in values(runs, "index")
    ]
    return table(["index", *names.values()], rows)


def of_structures(runs: Runs) -> str:
    """Throughput: a row per structure, a column per mode."""
    modes = values(runs, "mode")
    rows = [
        [f"`{index}`", *(throughput(chosen(runs, index=index, mode=mode)) for mode in modes)]
        for index in values(runs, "index")
    ]
    return table(["Mop/s: structure", *modes], rows)


def split(file: Path) -> tuple[Runs, Runs]:
    """The runs of indexes, and those of structures, which have modes; the study's axes in order."""
    runs = load(file)
    return [r for r in runs if "mode" not in r.labels], [r for r in runs if "mode" in r.labels]


def study(file: Path) -> str:
    """What studies/results.toml gives on one target."""
    indexes, structures = split(file)
    parts = [
        "Indexes with 1 million records of 8-byte keys and values; `mixed` is half lookups, "
        "half updates.",
        over_threads(indexes),
    ]
    if indexes[0].simulated:
        parts += [
            f"![Throughput over threads, simulated](results/{drawn(file).name})\n",
            "An insert with 10 threads, per operation:",
            cost(chosen(indexes, threads="10", workload="insert")),
        ]
    else:
        span = median_interval(samples_of([indexes[0]]))
        parts[0] += f" Intervals: {span.name} of {span.samples} repetitions."
    parts += [
        "Structures with 100 thousand values of 100 bytes, one thread, 90 % updates and "
        "10 % inserts, zipfian 0.99:",
        of_structures(structures),
    ]
    return "\n".join(parts)


def drawn(file: Path) -> Path:
    """The figure of the simulated indexes."""
    return file.with_name("scaling.svg")


def drawing(file: Path) -> str:
    """The figure's SVG. Its first line says what it was drawn from: fonts are the machine's own."""
    runs, _ = split(file)
    rows = [
        {
            "index": run.labels["index"],
            "panel": run.labels["workload"],
            "threads": int(run.labels["threads"]),
            "throughput": run.samples[0],
            "low": run.samples[0],
            "high": run.samples[0],
        }
        for run in runs
    ]
    colours = palette([(name, "persistent") for name in values(runs, "index")])
    chart = scaling(rows, colours, "operations per second, simulated")
    svg = as_file(chart.whole(), about=f"<style>{dark_rules()}</style>")
    # Inside a page's <img> there is no colour to follow: this grey is readable on light and dark.
    return f"{mark_of(file)}\n{svg.replace('currentColor', '#777')}\n"


def mark_of(file: Path) -> str:
    return (
        f"<!-- drawn from {file.name}, sha256 {hashlib.sha256(file.read_bytes()).hexdigest()} -->"
    )


def prediction(file: Path) -> str:
    """The study ep2-prediction: throughputs, then its findings beside the published ones."""
    runs = load(file)
    study = tomllib.loads((ROOT / "studies" / f"{file.stem}.toml").read_text("utf-8"))
    by_target = findings({"published": study["published"]}, runs)
    found = (one.document() for some in by_target.values() for one in some)
    rows = [
        [one["what"], one["ours_text"], one["published"].split(" (")[0], one["verdict"]]
        for one in found  # the note in brackets would make the table too wide
    ]
    return (
        "Skewed: 80 % of the operations on 20 % of the keys.\n"
        + over_threads(runs)
        + table(["finding", "simulated", "published", "verdict"], rows)
    )


def fidelity(file: Path) -> str:
    """The summary per set of tables."""

    def percent(value: float | None) -> str:
        return "-" if value is None else f"{100 * value:.1f} %"

    def goal(group: Json) -> str:
        wanted = (group["goal"] or {}).items()
        text = ", ".join(
            f"off by at most {v:g}" if k == "absolute" else f"{k} {v:.0%}" for k, v in wanted
        )
        return f"{text}: {'reached' if group['reached'] else 'missed'}" if text else ""

    rows = [
        [
            group["name"],
            f"{group['points']:,}",
            percent(group["median_error"]),
            percent(group["p90_error"]),
            percent(group["trend_agreement"]),
            goal(group),
        ]
        for group in json.loads(file.read_text(encoding="utf-8"))["found"]["summary"]["sets"]
    ]
    return table(["set", "points", "median", "p90", "trend", "goal"], rows)


def explored(file: Path) -> str:
    """A row per index: what of its crash states was explored, and what was found."""
    rows = []
    for line in file.read_text(encoding="utf-8").splitlines():
        found = json.loads(line)["found"]
        coverage = found["coverage"]
        share = math.floor(1000 * coverage["exhausted_points"] / coverage["crash_points"]) / 10
        counts = (
            found["programs"],
            coverage["crash_points"],
            coverage["states"],
            coverage["recovery_cuts"],
            round(found["states_per_second"]),
        )
        violations = "1" if found["violation"] else "0"
        rows.append([f"`{found['index']}`", *(f"{n:,}" for n in counts), f"{share} %", violations])
    head = [
        "index",
        "programs",
        "cuts",
        "states",
        "recovery cuts",
        "states/s",
        "exhausted",
        "violations",
    ]
    return (
        "Integer keys, ADR, programs of 1, 2 and 6 threads. `toy:missing_flush` has a planted "
        "defect.\n" + table(head, rows)
    )


SECTIONS = (
    Section(
        "Indexes and structures, simulated",
        "Simulated",
        "./perdure study run studies/results.toml",
        "simulated",
        study,
    ),
    Section(
        "Indexes and structures, measured",
        "Measured",
        "./perdure study run studies/results.toml --target native --results results/native",
        "measured",
        study,
    ),
    Section(
        "Two indexes beside publication",
        "Simulated, beside published",
        "./perdure study run studies/ep2-prediction.toml",
        "ep2-prediction",
        prediction,
    ),
    Section(
        "Fidelity",
        "Simulated, beside published",
        "./perdure fidelity --json",
        "fidelity",
        fidelity,
    ),
    Section(
        "Crash states explored",
        "Measured: as many as 5 seconds allow",
        "./perdure crash --index NAME --budget 5 --json",
        "crash",
        explored,
    ),
)


def page(folder: Path) -> str:
    """The whole page: the sections whose records are there."""
    there = {file.stem for file in folder.glob("*.json*")}
    sections = (section.page(folder) for section in SECTIONS if section.name in there)
    return "\n".join([HEAD, *sections])


def stale(file: Path, folder: Path) -> list[str]:
    """What does not follow from the records."""
    found = []
    if not file.is_file() or file.read_text(encoding="utf-8") != page(folder):
        found.append(f"{file.name} is not what its records give")
    source = records(folder, "simulated")
    picture = drawn(source)
    if not picture.is_file() or not picture.read_text("utf-8").startswith(mark_of(source)):
        found.append(f"{picture.name} was drawn from other records")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; is the page current?")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    file, folder = options.page, options.page.with_suffix("")
    if options.check:
        found = stale(file, folder)
        for what in found:
            print(f"{what}; run tools/results.py", file=sys.stderr)
        return 1 if found else 0
    file.write_text(page(folder), encoding="utf-8")
    source = records(folder, "simulated")
    drawn(source).write_text(drawing(source), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
