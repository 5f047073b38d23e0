"""The report's section about a study with figures of its own: each beside what others found.

A figure is drawn once per target, and what was measured shares none with what was simulated.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.report import plots
from perdure.report.figure import Figure as Drawing
from perdure.report.figure import Rows, drawn
from perdure.results import metrics, query, record, stats
from perdure.results.record import Run
from perdure.study import claims, entry, memory_claims
from perdure.study.model import Figure
from perdure.types import Json

CAPTIONS = {
    "threads": "Medians of the repetitions over the number of threads; the axis is logarithmic.",
    "percentiles": "Latency by percentile. The steeper to the right, the worse the tail.",
    "none": "Medians of the repetitions, a panel per workload and number of threads.",
}


def section(manifest: Json, runs: Sequence[Run]) -> Json | None:
    """The context of the section, None for a study that has neither figures nor published ones.

    `manifest` is the results folder's; a study that was run for two targets into one folder has a
    block for each.
    """
    figures, published = manifest.get("figures", []), manifest.get("published", [])
    targets = list(dict.fromkeys(run.record["target"] for run in runs))
    if not (figures or published) or not runs:
        return None
    return {
        "left_out": manifest.get("left_out", []),
        "command": command(manifest),
        "targets": [
            _target(manifest, [r for r in runs if r.record["target"] == target])
            for target in targets
        ],
    }


def command(manifest: Json) -> str:
    """How to run the study again; empty for results that come from none."""
    if "file" not in manifest:
        return ""
    quick = " --quick" if manifest.get("quick") else ""
    return f"./perdure study run {manifest['file']}{quick} --results results/again"


def _target(manifest: Json, runs: list[Run]) -> Json:
    figures = [entry.read(Figure, table) for table in manifest.get("figures", [])]
    target = runs[0].record["target"]
    judged = memory_claims.findings(manifest, runs)
    names = [figure.name for figure in figures]
    colours = _colours(runs)
    blocks = [
        {
            "title": figure.title,
            "note": figure.note,
            "drawn": _drawn(figure, runs, colours, target),
            "findings": [f.document() for f in judged if f.claim.figure == figure.name],
        }
        for figure in figures
    ]
    rest = [f.document() for f in judged if f.claim.figure not in names]
    if rest:
        blocks.append({"title": "Beside publication", "note": "", "drawn": None, "findings": rest})
    return {
        "target": target,
        "simulated": runs[0].simulated,
        "tag": f"simulated, {target}" if runs[0].simulated else "measured, native",
        "records": sorted({f"{int(run.record['records']):,}" for run in runs}),
        "blocks": [block for block in blocks if block["drawn"] or block["findings"]],
        "counts": _counts(judged),
        "quick": bool(manifest.get("quick")),
        "spans": stats.names(f.interval for f in judged if f.interval),
    }


def _counts(judged: Sequence[claims.Finding]) -> list[tuple[str, int]]:
    counts = {verdict: sum(f.verdict == verdict for f in judged) for verdict in claims.VERDICTS}
    return [(verdict, count) for verdict, count in counts.items() if count]


def _colours(runs: list[Run]) -> plots.Palette:
    classes = {run.record["index"]: run.record["index_class"] for run in runs}
    return plots.palette(sorted(classes.items(), key=lambda i: query.CLASSES.index(i[1])))


def _drawn(figure: Figure, runs: list[Run], colours: plots.Palette, target: str) -> Drawing | None:
    if figure.cells is None:
        return None
    wanted = claims.select(figure.cells, runs)
    cells = list(record.group(wanted).values())
    kind = figure.drawing
    rows = _percentile_rows(cells) if kind == "percentiles" else _rows(figure.metric, cells)
    if not rows:
        return None
    panels = list(dict.fromkeys(row["workload"] for row in rows))
    title = metrics.METRICS[figure.metric].title
    if kind == "percentiles":
        there = {row["percentile"] for row in rows}
        labels = [label for label in query.PERCENTILES.values() if label in there]
        operations = list(dict.fromkeys(row["operation"] for row in rows))
        svg = plots.latency(rows, labels, operations, colours)
    elif kind == "threads" and len({row["threads"] for row in rows}) > 1:
        rows = [row for row in rows if row["throughput"] > 0]  # the axis is logarithmic
        svg = plots.scaling(rows, panels, colours, title)
    else:
        kind = "none"
        svg = plots.bars(rows, title, colours)
    identifier = f"{figure.name}-{'simulated' if target != 'native' else 'native'}"
    caption = f"{title[:1].upper()}{title[1:]}. " if kind == "none" else ""
    return drawn(identifier, figure.title, caption + CAPTIONS[kind], svg, rows)


def _rows(metric: str, cells: list[list[Run]]) -> Rows:
    rows = []
    for runs in cells:
        number = metrics.value(metric, runs)
        if number is not None:
            rows.append({**_head(runs), "throughput": number, "low": number, "high": number})
    return rows


def _percentile_rows(cells: list[list[Run]]) -> Rows:
    rows = []
    for runs in cells:
        head = _head(runs)
        panel = f"{head['workload']}, {head['threads']} thread{'s'[: head['threads'] != 1]}"
        for name, label in query.PERCENTILES.items():
            number = metrics.value(name, runs)
            if number:
                rows.append({**head, "operation": panel, "percentile": label, "latency_ns": number})
    return rows


def _head(runs: list[Run]) -> Json:
    run = runs[0]
    keys = run.labels.get("keys")
    workload = run.labels.get("workload", "")
    return {
        "index": run.record["index"],
        "name": run.record["index"],
        "medium": run.labels.get("medium", "none"),
        "workload": f"{workload}, {keys}" if keys else workload,
        "threads": run.record["threads"],
    }
