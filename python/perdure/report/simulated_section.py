"""The report's section about simulated servers: scaling, why, fidelity.

Simulated figures name the platform, figures of others their source. The two share an axis only in
the figures of fidelity, where a legend distinguishes their marks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perdure.format import rate
from perdure.memory import tables as memory_tables
from perdure.programs import inputs
from perdure.report import looks, plots, probe_plots, study_section, timelines
from perdure.report.facets import Facets
from perdure.report.figure import Figure, Rows, drawn
from perdure.results import naming, query, record, schemas, verdicts
from perdure.results.query import Cell
from perdure.results.record import Run
from perdure.types import Json

FOLDER = "simulated"  # below a results folder: the results of a simulated study of its own

# Parts of the time of an operation: name in the run record -> meaning, in reading order.
PARTS = {
    "compute": "instructions", "l1": "L1", "l2": "L2", "llc": "LLC",
    "memory_queueing": "queueing for memory", "media": "latency of DRAM and PM",
    "flush_fence": "flushes and fences", "lock_wait": "waiting for locks",
    "aborted_transactions": "aborted transactions",
}  # fmt: skip
# Counters per operation: heading -> name in the run record.
COUNTERS = {
    "LLC misses": "llc_misses", "flushes": "flushes", "fences": "fences",
    "PM read B": "pm_controller_read_bytes", "PM written B": "pm_controller_write_bytes",
    "media read B": "pm_media_read_bytes", "media written B": "pm_media_write_bytes",
    "aborts": "transaction_aborts",
}  # fmt: skip
AGAIN = "run `perdure fidelity` or `classify` again, or remove it"
RATIOS = {"EWR": "ewr", "RWR": "rwr"}
HEAT_MAPS = (
    ("i4-local", "i4-remote", "remote is faster", "remote is slower", "I4: remote p-stores"),
    ("i4-local", "i5", "plain stores are faster", "plain stores are slower", "I5: plain stores"),
)
DRAWN = ("i1", "i2", "i3", "i6", "u-write-buffer", "u-chase")


def section(source: Path, runs: Sequence[Run], *, quick: bool) -> Json | None:
    """The context of the section for `source`, a results folder; None when nothing is simulated.

    `runs` are the simulated runs of the folder itself. A folder may also hold `simulated/`, the
    results of a study of its own, and what `perdure fidelity` and `classify` wrote.
    """
    folder = source if source.is_dir() else source.parent
    own_figures = bool(record.read_manifest(folder, quick=quick).get("figures"))
    servers = [one for one in map(Server.of, _by_target(runs)) if one.cells]
    fidelity = _read(folder, "fidelity", quick, _fidelity)
    classes = _read(folder, "classes", quick, _classes)
    if not servers and fidelity is None and classes is None:
        return None
    return {
        "tag": naming.origin(server.target for server in servers),
        "figures": _figures(servers, runs, own_figures),
        "servers": [_server(server, own_figures) for server in servers],
        "command": _command(folder, quick),
        "fidelity": fidelity,
        "classes": classes,
    }


@dataclass(frozen=True)
class Server:
    """What ran on the model of one server."""

    target: str
    runs: Sequence[Run]
    cells: list[Cell]

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Server:
        cells = query.read(list(runs)).cells
        cells = [c for c in cells if c.index_class != "harness"] or cells
        return cls(runs[0].record["target"], runs, cells)

    def simulation(self, cell: Cell) -> Json | None:
        for run in self.runs:
            if run.labels == cell.labels:
                found: Json | None = run.record["repetitions"][0].get("simulation")
                return found if found and found["per_operation"] else None
        return None

    def labels(self, cell: Cell) -> dict[str, str]:
        return cell.labels | {naming.TARGET: self.target}


def _by_target(runs: Sequence[Run]) -> list[list[Run]]:
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.record["target"], []).append(run)
    return list(groups.values())


def _figures(servers: Sequence[Server], runs: Sequence[Run], own_figures: bool) -> list[Figure]:
    """Of all servers together. A study's own figures replace ours."""
    if not servers:
        return []
    colours = _colours([cell for server in servers for cell in server.cells])
    names = "".join(c if c.isalnum() else "-" for c in naming.platform(servers[0].target))
    identifier = "" if len(servers) > 1 else f"-{names}"
    found = [timelines.figure(f"simulated-timeline{identifier}", runs, colours)]
    if not own_figures:
        found = [_scaling(servers, colours, identifier), _why(servers, identifier), *found]
    return [one for one in found if one]


def _server(server: Server, own_figures: bool) -> Json:
    """One target's counters and cells."""
    first = server.runs[0]
    platform = first.record.get("platform") or {}
    best = fastest(server.cells, first.quick)
    return {
        "target": server.target,
        "tag": naming.origin([server.target]),
        "title": platform.get("title", server.target.removeprefix("sim:")),
        "domain": platform.get("persistence_domain", ""),
        "records": sorted({f"{c.records:,}" for c in server.cells}),
        "counters": [] if own_figures else _counters(server),
        "headings": [*RATIOS, *COUNTERS],
        "cells": [
            {
                "name": c.name,
                "variant": c.variant,
                "workload": c.workload,
                "threads": c.threads,
                "rate": rate(c.throughput.value),
                "command": c.command,
                "best": c.number in best,
            }
            for c in server.cells
        ],
    }


def fastest(cells: list[Cell], quick: bool) -> set[int]:
    """The numbers of the cells that share the first place of their workload and threads."""
    if quick:
        return set()
    found = set[int]()
    for place in dict.fromkeys((c.workload, c.threads) for c in cells):
        here = [c for c in cells if (c.workload, c.threads) == place]
        tied = verdicts.tied_for_best([c.side for c in here])
        found |= {c.number for c, first in zip(here, tied, strict=True) if first}
    return found


def _colours(cells: Sequence[Cell]) -> looks.Palette:
    return looks.palette(list(dict.fromkeys((c.index, c.index_class) for c in cells)))


def _scaling(servers: Sequence[Server], colours: looks.Palette, identifier: str) -> Figure | None:
    """Lines over threads; None where nothing ran with several numbers of them."""
    counts: dict[tuple[str, str, str], set[int]] = {}
    for server in servers:
        for c in server.cells:
            counts.setdefault((server.target, c.name, c.workload), set()).add(c.threads)
    there = [
        (c, server.labels(c))
        for server in servers
        for c in server.cells
        if len(counts[server.target, c.name, c.workload]) > 1
    ]
    if not there:
        return None
    facets = Facets.of([labels for _, labels in there], "index", apart=("threads", "workload"))
    rows = [
        {
            "index": c.index,
            "workload": labels.get("workload", ""),
            **{axis: labels.get(axis, "") for axis in facets.axes},
            **facets.row(labels, labels.get("workload", ""), c.index),
            "threads": c.threads,
            "throughput": c.throughput.value,
            "low": c.throughput.low,
            "high": c.throughput.high,
        }
        for c, labels in there
    ]
    return drawn(
        f"simulated-scaling{identifier}",
        "Scaling with threads",
        "Successful operations per simulated second. A simulation is exact: the same command gives "
        "the same number, so there are no intervals.",
        plots.scaling(rows, colours),
        rows,
    )


def _why(servers: Sequence[Server], identifier: str) -> Figure | None:
    """Where an operation's time goes, at the fewest and at the most threads."""
    threads = sorted({c.threads for server in servers for c in server.cells})
    there = [
        (c, server.labels(c), detail["per_operation"]["time_ns"])
        for server in servers
        for c in server.cells
        if c.threads in (threads[0], threads[-1]) and (detail := server.simulation(c))
    ]
    if not there:
        return None
    apart = ("threads", "workload")
    facets = Facets.of([labels for _, labels, _ in there], "index", apart=apart, dashes=False)
    rows: Rows = [
        {
            "index": cell.index,
            "bar": f"{cell.index}, {cell.threads} thread{'' if cell.threads == 1 else 's'}",
            "workload": labels.get("workload", ""),
            **{axis: labels.get(axis, "") for axis in facets.axes},
            **facets.row(labels, labels.get("workload", ""), cell.index),
            "threads": cell.threads,
            "part": label,
            "position": position,
            "time_ns": round(float(split.get(part) or 0), 2),
        }
        for cell, labels, split in there
        for position, (part, label) in enumerate(PARTS.items())
    ]
    return drawn(
        f"simulated-time{identifier}",
        "Where the time goes",
        "Nanoseconds of a thread per operation, by what it was doing or waiting for. The parts "
        "add up to the whole.",
        probe_plots.time_split(rows, list(PARTS.values())),
        rows,
    )


def _counters(server: Server) -> list[Json]:
    most = max(c.threads for c in server.cells)
    lines = []
    for cell in server.cells:
        detail = server.simulation(cell)
        if detail is None or cell.threads != most:
            continue
        ratios, per_operation = detail.get("ratios", {}), detail["per_operation"]
        values = [_number(ratios.get(key)) for key in RATIOS.values()]
        values += [_number(per_operation.get(key)) for key in COUNTERS.values()]
        lines.append(
            {
                "name": cell.name,
                "workload": cell.workload,
                "threads": cell.threads,
                "values": values,
            }
        )
    return lines


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _fidelity(document: Json) -> Json:
    by_name = {e["name"]: e for e in document["experiments"] if e["values"]}
    figures = [*_errors(document, by_name), *_heat_maps(by_name)]
    figures += [one for name in DRAWN if name in by_name for one in _beside(by_name[name])]
    return {
        "experiments": [_line(e) for e in document["experiments"]],
        "sets": [_line(s) for s in document["summary"]["sets"]],
        "total": _line({"name": "all", **document["summary"]}),
        "quick": bool(document.get("quick")),
        "figures": figures,
        "notes": list(memory_tables.fidelity_notes(document)),
    }


def _errors(document: Json, by_name: Mapping[str, Json]) -> Iterator[Figure]:
    """Every point of every experiment; none where no experiment has one."""
    columns = ("name", "role", "points", "median_error", "p90_error")
    rows = [{column: e[column] for column in columns} for e in by_name.values()]
    if rows:
        yield drawn(
            "fidelity-errors",
            "Every point: simulated over measured",
            "A tick per point, at 1 where both are equal; a triangle at the end of the axis is "
            "beyond it. Panels say what was fitted: "
            "calibration tables were, predictions were not; selection and unexplained ones "
            "were in view when mechanisms were chosen.",
            probe_plots.errors(document),
            [{"experiment": row.pop("name"), **row} for row in rows],
        )


def _heat_maps(by_name: Mapping[str, Json]) -> Iterator[Figure]:
    """Of pairs of experiments that are both there."""
    for upper, lower, cold, hot, title in HEAT_MAPS:
        if upper in by_name and lower in by_name:
            first, second = by_name[upper], by_name[lower]
            yield drawn(
                f"fidelity-{lower}",
                title,
                "Percent of bandwidth lost against local flushed stores, by threads and bytes per "
                f"access; measured: as published ({second['paper']}, {second['figure']}).",
                probe_plots.heat_map(first, second, negative=cold, positive=hot),
                _value_rows(second),
            )


def _beside(experiment: Json) -> Iterator[Figure]:
    """One experiment's curves beside the published dots, a figure for each metric."""
    for label, drawing in probe_plots.experiment(experiment):
        metric = label.removeprefix(experiment["name"]).strip("-").replace("-", " ")
        unit = probe_plots.UNIT_TITLES.get(metric.replace(" ", "_"), metric)
        yield drawn(
            f"fidelity-{label}",
            f"{experiment['title']}: {unit}".removesuffix(": "),
            f"Dots: {experiment['paper']}, {experiment['figure']}. Lines: simulated.",
            drawing,
            _value_rows(experiment),
        )


def _line(one: Json) -> Json:
    return {
        "name": one["name"],
        "title": one.get("title", ""),
        "role": one.get("role", ""),
        "platform": str(one.get("platform", "")).rsplit("/", 1)[-1],
        "source": ", ".join(filter(None, (one.get("paper", ""), one.get("figure", "")))),
        "figures": memory_tables.figures(one),
    }


def _value_rows(experiment: Json) -> Rows:
    names = [
        n
        for n in ("memory", "op", "pattern", "access_size", "threads", "region", "node")
        if any(n in v["inputs"] for v in experiment["values"])
    ]
    return [
        {
            **{n: v["inputs"].get(n, "") for n in names},
            "metric": v["metric"],
            "unit": v["unit"],
            "measured": v["measured"],
            "simulated": v["simulated"],
            "error": v["error"],
        }
        for v in experiment["values"]
    ]


def _classes(document: Json) -> Json:
    return {
        "target": document["target"],
        "quick": bool(document.get("quick")),
        "simulated": document["target"].startswith("sim:"),
        "names": document["classes"]["names"],
        "idiosyncrasies": [
            {
                **one,
                "factor": memory_tables.times(one["factor"]),
                "on_dram": memory_tables.times(one["factor_on_dram"]),
                "verdict": {True: "yes", False: "no", None: "unknown"}[one["shown"]],
            }
            for one in document["idiosyncrasies"]
        ],
        "rules": [
            {**rule, "factor": memory_tables.times(rule["factor"])} for rule in document["rules"]
        ],
    }


def _command(folder: Path, quick: bool) -> str:
    """How to run the simulated study again."""
    manifests = (record.read_manifest(place, quick=quick) for place in (folder / FOLDER, folder))
    return next((again for m in manifests if (again := study_section.command(m))), "")


def _read(folder: Path, name: str, quick: bool, draw: Callable[[Json], Json]) -> Json | None:
    """`draw` of what `fidelity` or `classify` kept of a full run, unless a quick one is wanted."""
    endings = ("-quick.json", ".json") if quick else (".json", "-quick.json")
    for ending in endings:
        for place in (folder, folder / name, folder / "fidelity"):
            file = place / f"{name}{ending}"
            if file.is_file():
                document = schemas.parse(inputs.text(file, AGAIN), str(file), AGAIN)
                with schemas.whole(file, AGAIN):
                    return draw(document)
    return None
