"""The report's section about a study with figures of its own: each beside what others found.

A figure is drawn once per target, and what was measured shares none with what was simulated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perdure.report import looks, study_figures
from perdure.report.figure import Figure as Drawn
from perdure.results import metrics, query, stats
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
# What stands beside ours: its words, and the style of its tag.
KIND_TAGS = {
    claims.PUBLICATION: ("measured by others", "published"),
    claims.MEASUREMENT: ("a measurement", ""),
    claims.AIM: ("an aim", "aim"),
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
        _target(
            manifest, [r for r in runs if r.record["target"] == target], judged.get(target, []), i
        )
        for i, target in enumerate(targets)
    ]
    shown = [one for one in sections if one["blocks"] or one["findings"]]
    left_out = manifest.get("left_out", [])
    return {
        "left_out": left_out,
        "command": command(manifest),
        "targets": shown,
        "title": _title(shown),
        "shown": bool(left_out) or any(one["blocks"] or one["quick"] for one in shown),
        "flames": {key: place for one in sections for key, place in one["flames"].items()},
        "answered": any(one["findings"] and not one["quick"] for one in shown),
    }


def command(manifest: Json) -> str:
    """How to run the study again; empty for results that come from none."""
    if "file" not in manifest:
        return ""
    quick = " --quick" if manifest.get("quick") else ""
    return f"./perdure study run {manifest['file']}{quick} --results results/again"


def _target(manifest: Json, runs: list[Run], judged: Sequence[claims.Finding], number: int) -> Json:
    figures = [entry.read(Figure, table) for table in manifest.get("figures", [])]
    target = runs[0].record["target"]
    colours = _colours(runs)
    drawn = {figure.name: study_figures.draw(figure, runs, colours) for figure in figures}
    places = {name: found[0].identifier for name, found in drawn.items() if found}
    findings = [
        _finding(one, f"finding-{number}-{i}", i, places) for i, one in enumerate(judged, start=1)
    ]
    blocks = [
        {
            "title": figure.title,
            "note": figure.note,
            "drawn": drawn[figure.name],
            "findings": [one for one in findings if one["figure"] == figure.name],
        }
        for figure in figures
    ]
    return {
        "target": target,
        "simulated": runs[0].simulated,
        "tag": f"simulated, {target}" if runs[0].simulated else "measured, native",
        "records": sorted({f"{int(run.record['records']):,}" for run in runs}),
        "blocks": [block for block in blocks if block["drawn"] or block["findings"]],
        "flames": _flames(figures, drawn, runs),
        "counts": _counts(judged),
        "findings": findings,
        "whose": _whose(findings),
        "quick": bool(manifest.get("quick")),
        "spans": stats.names(f.interval for f in judged if f.interval),
    }


def _flames(
    figures: Sequence[Figure], drawn: Mapping[str, Sequence[Drawn]], runs: Sequence[Run]
) -> dict[str, str]:
    """Of each cell with a flame graph (`query.Cell.variant`), the graph's place in the page. The
    title of a graph ends in the labels of its cell."""
    titles = {
        one.title.removeprefix(f"{figure.title}: "): one.identifier
        for figure in figures
        if figure.drawing == metrics.FLAME
        for one in drawn[figure.name]
    }
    wanted = {
        query.variant(run): ", ".join(v for axis, v in run.labels.items() if axis != "target")
        for run in runs
    }
    return {key: titles[what] for key, what in wanted.items() if what in titles}


def _finding(one: claims.Finding, identifier: str, number: int, places: Mapping[str, str]) -> Json:
    """A row of the only table of findings, and what links it with the drawing it is about."""
    return {
        **one.document(),
        "identifier": identifier,
        "number": number,
        "mark": MARKS.get(one.verdict, ""),
        "place": places.get(one.claim.figure, ""),
        "kind_tag": KIND_TAGS[one.claim.kind],
    }


def _whose(findings: Sequence[Json]) -> str:
    """The heading of a table of findings."""
    kinds = {one["kind"] for one in findings}
    if kinds == {claims.AIM}:
        return "Aims"
    return "Findings and aims" if claims.AIM in kinds else "Findings"


def _title(targets: Sequence[Json]) -> str:
    """The heading of the section with the figures."""
    kinds = {one["kind"] for target in targets for one in target["findings"]}
    if not kinds:
        return "Figures"
    return "Figures and aims" if kinds == {claims.AIM} else "Beside publication"


def _counts(judged: Sequence[claims.Finding]) -> list[tuple[str, int]]:
    counts = {verdict: sum(f.verdict == verdict for f in judged) for verdict in claims.VERDICTS}
    return [(verdict, count) for verdict, count in counts.items() if count]


def _colours(runs: list[Run]) -> looks.Palette:
    classes = {run.record["index"]: run.record["index_class"] for run in runs}
    return looks.palette(sorted(classes.items(), key=lambda i: query.CLASSES.index(i[1])))
