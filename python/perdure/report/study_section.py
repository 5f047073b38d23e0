"""The report's section about a study with figures of its own: each beside what others found.

A figure is drawn once of what was measured, and once of what was simulated, with all servers; the
two share none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perdure.report import looks, study_figures
from perdure.report.figure import Figure as Drawn
from perdure.results import metrics, naming, query, stats
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
    origins = [
        Origin.of(manifest, own)
        for simulated in (False, True)
        if (own := [run for run in runs if run.simulated is simulated])
    ]
    sections = [
        _target(manifest, target, judged.get(target, []), i, _origin_of(target, origins))
        for i, target in enumerate(targets)
    ]
    shown = [_blocks(manifest, one, sections) for one in origins]
    shown = [one for one in shown if one["blocks"] or one["quick"] and one["targets"]]
    left_out = manifest.get("left_out", [])
    return {
        "left_out": left_out,
        "command": command(manifest),
        "targets": [one for one in sections if one["findings"]],
        "origins": shown,
        "title": _title(sections),
        "shown": bool(left_out or shown),
        "flames": {key: place for one in origins for key, place in one.flames().items()},
        "answered": any(one["findings"] and not one["quick"] for one in sections),
    }


@dataclass(frozen=True)
class Origin:
    """What was measured, or what was simulated, be it of one server or of several: its drawings, by
    the name of the figure."""

    runs: Sequence[Run]
    figures: Sequence[Figure]
    drawn: Mapping[str, Sequence[Drawn]]

    @classmethod
    def of(cls, manifest: Json, runs: list[Run]) -> Origin:
        figures = [entry.read(Figure, table) for table in manifest.get("figures", [])]
        colours = _colours(runs)
        drawn = {figure.name: study_figures.draw(figure, runs, colours) for figure in figures}
        return cls(runs, figures, drawn)

    @property
    def targets(self) -> list[str]:
        return list(dict.fromkeys(run.record["target"] for run in self.runs))

    @property
    def places(self) -> dict[str, str]:
        """Of each figure that was drawn, where in the page it begins."""
        return {name: found[0].identifier for name, found in self.drawn.items() if found}

    def flames(self) -> dict[str, str]:
        """Of each cell with a flame graph (`query.Cell.variant`), the graph's place in the page."""
        titles = {
            one.title.removeprefix(f"{figure.title}: "): one.identifier
            for figure in self.figures
            if figure.drawing == metrics.FLAME
            for one in self.drawn[figure.name]
        }
        wanted = {query.variant(run): study_figures.flame_title(run) for run in self.runs}
        return {key: titles[what] for key, what in wanted.items() if what in titles}


def _origin_of(target: str, origins: Sequence[Origin]) -> Origin:
    return next(one for one in origins if target in one.targets)


def command(manifest: Json) -> str:
    """How to run the study again; empty for results that come from none."""
    if "file" not in manifest:
        return ""
    quick = " --quick" if manifest.get("quick") else ""
    return f"./perdure study run {manifest['file']}{quick} --results results/again"


def _target(
    manifest: Json, target: str, judged: Sequence[claims.Finding], number: int, origin: Origin
) -> Json:
    """The findings of one target."""
    findings = [
        _finding(one, f"finding-{number}-{i}", i, origin.places)
        for i, one in enumerate(judged, start=1)
    ]
    return {
        "target": target,
        "simulated": origin.runs[0].simulated,
        "tag": naming.origin([target]),
        "counts": _counts(judged),
        "findings": findings,
        "whose": _whose(findings),
        "quick": bool(manifest.get("quick")),
        "spans": stats.names(f.interval for f in judged if f.interval),
    }


def _blocks(manifest: Json, origin: Origin, sections: Sequence[Json]) -> Json:
    """The figures of an origin, each with the findings about it of each of its targets."""
    targets = [one for one in sections if one["target"] in origin.targets and one["findings"]]
    blocks = [
        {
            "title": figure.title,
            "note": figure.note,
            "drawn": origin.drawn[figure.name],
            "findings": [
                one | {"target": naming.platform(target["target"]) if len(targets) > 1 else ""}
                for target in targets
                for one in target["findings"]
                if one["figure"] == figure.name
            ],
        }
        for figure in origin.figures
    ]
    return {
        "tag": naming.origin(origin.targets),
        "servers": len(origin.targets),
        "simulated": origin.runs[0].simulated,
        "records": sorted({f"{int(run.record['records']):,}" for run in origin.runs}),
        "blocks": [block for block in blocks if block["drawn"] or block["findings"]],
        "targets": targets,
        "quick": bool(manifest.get("quick")),
    }


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
