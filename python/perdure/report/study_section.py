"""The report's section about a study with figures of its own: each beside what others found.

A figure is drawn once per target, and what was measured shares none with what was simulated.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.report import looks, study_figures
from perdure.results import query, stats
from perdure.results.record import Run
from perdure.study import claims, entry, memory_claims
from perdure.study.model import Figure
from perdure.types import Json

MARKS = {
    claims.AGREES: "✓",
    claims.IN_PART: "✓",
    claims.NO_DIFFERENCE: "=",
    claims.INCONCLUSIVE: "?",
    claims.SIZE_DIFFERS: "~",
    claims.DIFFERS: "✗",
    claims.NOT_MEASURED: "-",
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
    judged = memory_claims.findings(manifest, runs)
    sections = [
        _target(manifest, [r for r in runs if r.record["target"] == target], judged.get(target, []))
        for target in targets
    ]
    return {
        "left_out": manifest.get("left_out", []),
        "command": command(manifest),
        "targets": [one for one in sections if one["blocks"]],
    }


def command(manifest: Json) -> str:
    """How to run the study again; empty for results that come from none."""
    if "file" not in manifest:
        return ""
    quick = " --quick" if manifest.get("quick") else ""
    return f"./perdure study run {manifest['file']}{quick} --results results/again"


def _target(manifest: Json, runs: list[Run], judged: Sequence[claims.Finding]) -> Json:
    figures = [entry.read(Figure, table) for table in manifest.get("figures", [])]
    target = runs[0].record["target"]
    names = [figure.name for figure in figures]
    colours = _colours(runs)
    blocks = [
        {
            "name": figure.name,
            "title": figure.title,
            "note": figure.note,
            "drawn": study_figures.draw(figure, runs, colours),
            "findings": [f.document() for f in judged if f.claim.figure == figure.name],
        }
        for figure in figures
    ]
    rest = [f.document() for f in judged if f.claim.figure not in names]
    if rest:
        blocks.append(
            {"name": "", "title": "Beside publication", "note": "", "drawn": [], "findings": rest}
        )
    return {
        "target": target,
        "simulated": runs[0].simulated,
        "tag": f"simulated, {target}" if runs[0].simulated else "measured, native",
        "records": sorted({f"{int(run.record['records']):,}" for run in runs}),
        "blocks": [block for block in blocks if block["drawn"] or block["findings"]],
        "counts": _counts(judged),
        "findings": _answers(judged, blocks),
        "quick": bool(manifest.get("quick")),
        "spans": stats.names(f.interval for f in judged if f.interval),
    }


def _answers(judged: Sequence[claims.Finding], blocks: Sequence[Json]) -> list[Json]:
    """All findings, each with its mark and the drawing it stands below; none of a quick run."""
    places = {block["name"]: block["drawn"][0].identifier for block in blocks if block["drawn"]}
    return [
        {**one.document(), "mark": MARKS[one.verdict], "place": places.get(one.claim.figure, "")}
        for one in judged
        if one.verdict != claims.NO_VERDICT
    ]


def _counts(judged: Sequence[claims.Finding]) -> list[tuple[str, int]]:
    counts = {verdict: sum(f.verdict == verdict for f in judged) for verdict in claims.VERDICTS}
    return [(verdict, count) for verdict, count in counts.items() if count]


def _colours(runs: list[Run]) -> looks.Palette:
    classes = {run.record["index"]: run.record["index_class"] for run in runs}
    return looks.palette(sorted(classes.items(), key=lambda i: query.CLASSES.index(i[1])))
