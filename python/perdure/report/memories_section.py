"""The report's part about the memories of a study: idiosyncrasies, classes and rules, as tables.

They are those of `pmidio`: 1 (idiosyncrasies with causes), 2 (classes) and 4 (rules). A column per
memory; each entry beside what the publication says of memories of that class.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perdure.memory import published, tables
from perdure.memory.classify import CLASSES
from perdure.results import schemas
from perdure.results.record import Run
from perdure.study import memories
from perdure.types import Json


def section(folder: Path, manifest: Json, runs: Sequence[Run]) -> Json | None:
    """None where the study classified no memory."""
    quick = bool(manifest.get("quick"))
    documents = memories.read(folder, quick=quick)
    if not documents:
        return None
    with schemas.whole(memories.file_of(folder, quick=quick), memories.AGAIN):
        return _tables(documents, manifest, runs, quick)


def _tables(documents: Sequence[Json], manifest: Json, runs: Sequence[Run], quick: bool) -> Json:
    judged = memories.judged(documents, manifest.get("memories", {}), runs)
    entries = [one for memory in judged for one in (*memory["idiosyncrasies"], *memory["rules"])]
    return {
        "quick": quick,
        "meaning": CLASSES,
        "memories": [_memory(one) for one in judged],
        "idiosyncrasies": _lines(judged, "idiosyncrasies", "name"),
        "rules": _lines(judged, "rules", "rule"),
        "counts": [
            (verdict, count)
            for verdict in (published.AGREES, published.DIFFERS)
            if (count := sum(one["verdict"] == verdict for one in entries))
        ],
        "whys": [
            {"memory": memory["target"], "name": one.get("name") or one["rule"], "why": one["why"]}
            for memory in judged
            for one in (*memory["idiosyncrasies"], *memory["rules"])
            if one["why"]
        ],
        "notes": [f"{one['target']}: {note}" for one in judged for note in one["notes"]],
    }


def _memory(document: Json) -> Json:
    return {
        "target": document["target"],
        "name": document["target"].removeprefix("sim:"),
        "simulated": document["target"].startswith("sim:"),
        "classes": ", ".join(document["classes"]["names"]) or "-",
    }


def _lines(judged: Sequence[Json], part: str, name: str) -> list[Json]:
    """A line per idiosyncrasy or rule: what is the same of all memories, and a cell of each."""
    return [
        {
            "name": one[name],
            "title": one["title"],
            "published": one.get("published_impact") or one["published_classes"],
            "cause": one.get("published_cause", ""),
            "found": one.get("cause_note", ""),
            "note": one.get("note", ""),
            "cells": [_cell(memory[part][i]) for memory in judged],
        }
        for i, one in enumerate(judged[0][part])
    ]


def _cell(one: Json) -> Json:
    shown = {True: "shown", False: "not shown", None: ""}
    return {
        "factor": tables.times(one["factor"]),
        "word": one["impact"] if "impact" in one else shown[one["shown"]],
        "verdict": one["verdict"],
    }
