"""The memories of a study: which idiosyncrasies each shows, of which class it is, what rules gain.

    [memories]
    targets = ["sim:optane100-8280l-2s", "sim:nvdimm-n"]   # classified, as by `perdure classify`
    tables  = ["i1", "i2"]            # compared with measurements, as by `perdure fidelity`
    [[memories.rule]]                 # a rule that cells measure, in place of probes
    name = "R7"
    of   = { index = "ring:txfree" }  # labels of one cell per memory; the gain is the throughput
    over = { index = "ring:tx" }      # of `of` over that of `over`
    note = "what was done"
    [[memories.note]]                 # why ours differs from the publication
    name   = "R2"                     # of an idiosyncrasy or a rule
    memory = "sim:nvdimm-n"
    why    = "..."

A campaign keeps the classification in memories.json, and the comparison in fidelity.json, with
-quick in the name after a quick run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from perdure.errors import InputError, did_you_mean, one_of
from perdure.memory import classify, fidelity, published, reference
from perdure.programs import inputs, outputs, probes
from perdure.progress import Progress
from perdure.results import metrics, schemas
from perdure.results.record import Run, group
from perdure.study import claims, entry
from perdure.study.document import Document
from perdure.study.flags import check_flag
from perdure.study.model import Cell, Memories, Note, Rule
from perdure.study.toml_lines import Path as KeyPath
from perdure.types import Json

HERE = "memories"  # the table in a study, and the file in a results folder
NAMES = tuple(f"{letter}{n}" for letter in "IR" for n in range(1, 8))
AGAIN = "run the study again"


def load(document: Document, cells: Sequence[Cell]) -> Memories:
    """The table [memories] of a study. Errors: InputError naming the line."""
    table = document.typed(HERE, Json())
    document.check_keys((HERE,), table, ("targets", "tables", "rule", "note"))
    for key in ("targets", "tables", "rule", "note"):
        if not isinstance(table.get(key, []), list):
            raise document.error(f"'{key}' must be a list", (HERE, key), f"write {key} = [...]")
    targets = table.get("targets", [])
    for target in targets:
        if problem := check_flag("target", target):
            raise document.error(problem.what, (HERE, "targets"), problem.remedy)
    try:
        fidelity.choose(reference.load_all(), table["tables"]) if "tables" in table else ()
    except InputError as error:
        raise document.error(str(error), (HERE, "tables"), "mend the name") from error
    for i, one in enumerate(table.get("rule", [])):
        _check_entry(document, (HERE, "rule", i), one, Rule, NAMES[-7:])
        for side in ("of", "over"):
            wanted = one[side]
            if not isinstance(wanted, dict) or not claims.select(wanted, cells):
                what, remedy = f"`{side}` names no cell", "write labels that there are"
                raise document.error(what, (HERE, "rule", i, side), remedy)
    for i, one in enumerate(table.get("note", [])):
        _check_entry(document, (HERE, "note", i), one, Note, NAMES)
        if one["memory"] not in targets:
            what = f"[memories] has no target '{one['memory']}'"
            raise document.error(what, (HERE, "note", i, "memory"), one_of(targets))
    return Memories(
        targets,
        table.get("tables", []),
        [entry.read(Rule, one) for one in table.get("rule", [])],
        [entry.read(Note, one) for one in table.get("note", [])],
    )


def _check_entry(
    document: Document, path: KeyPath, table: Any, kind: type[Rule | Note], names: Sequence[str]
) -> None:
    if not isinstance(table, dict):
        raise document.error("must be a table", path, f"write [[{HERE}.{path[1]}]]")
    known = [one.name for one in fields(kind)]
    document.check_keys(path, table, known)
    for key in known:
        if key not in table and key != "note":
            raise document.error(f"does not say its {key}", path, f"add {key} = ...")
    if table["name"] not in names:
        remedy = did_you_mean(str(table["name"]), names, one_of(names))
        raise document.error(f"unknown name '{table['name']}'", (*path, "name"), remedy)


def tasks(asked: Memories, *, quick: bool) -> list[probes.Task]:
    """What `run` asks first; which probes look for causes depends on the answers."""
    compared = [
        task
        for table in (fidelity.choose(reference.load_all(), asked.tables) if asked.tables else ())
        for task, _ in fidelity.grouped(
            table, fidelity.thinned(table.points) if quick else table.points, quick, ()
        )
    ]
    classified = [one for t in asked.targets for one in classify.tasks(t, quick=quick)]
    return [*compared, *classified]


def run(asked: Memories, results: Path, progress: Progress, *, quick: bool) -> None:
    """Classifies the memories and compares with measurements. Kept answers are not asked again."""
    cache = results / "probes"
    if asked.tables:
        progress.say("comparing probes of the simulated server with measurements ...")
        chosen = fidelity.choose(reference.load_all(), asked.tables)
        found = fidelity.compare(chosen, cache, progress, quick=quick)
        _write(results, "fidelity", fidelity.document(found, quick=quick) | {"ablate": []})
    if not asked.targets:
        return
    documents = []
    for target in asked.targets:
        progress.say(f"classifying the memory of {target} ...")
        documents.append(classify.classify(target, cache, progress, quick=quick))
    _write(results, HERE, {"quick": quick, "memories": documents})


def file_of(results: Path, *, quick: bool) -> Path:
    """What a campaign keeps of its memories."""
    return results / (f"{HERE}-quick.json" if quick else f"{HERE}.json")


def read(results: Path, *, quick: bool) -> list[Json]:
    """What a campaign kept of each memory; nothing where it classified none. It has no schema, so
    who uses it does so within `schemas.whole`."""
    file = file_of(results, quick=quick)
    if not file.is_file():
        return []
    document = schemas.parse(inputs.text(file, AGAIN), str(file), AGAIN)
    with schemas.whole(file, AGAIN):
        return list(document["memories"])


def judged(documents: Sequence[Json], asked: Json, runs: Sequence[Run]) -> list[Json]:
    """Each memory's idiosyncrasies and rules with what was published, and a verdict.

    Rules that `asked`, of a manifest, has cells for get the gain of these.
    """
    rules = [entry.read(Rule, table) for table in asked.get("rules", [])]
    notes = {(n["name"], n["memory"]): n["why"] for n in asked.get("notes", [])}
    return [_judged(document, rules, notes, runs) for document in documents]


def _judged(
    document: Json, rules: Sequence[Rule], notes: Mapping[tuple[str, str], str], runs: Sequence[Run]
) -> Json:
    target, names = document["target"], document["classes"]["names"]
    own = [run for run in runs if run.record["target"] == target]
    by_cells = {rule.name: rule for rule in rules}

    def with_verdict(one: Json, name: str, expected: object, found: object) -> Json:
        verdict = published.verdict(expected, found)
        why = notes.get((name, target), "") if verdict == published.DIFFERS else ""
        return one | {"verdict": verdict, "why": why}

    shown = [
        with_verdict(
            one,
            one["name"],
            published.applies(one["published_classes"], names) if names else None,
            one["shown"],
        )
        for one in document["idiosyncrasies"]
    ]
    gained = []
    for one in document["rules"]:
        rule = by_cells.get(one["rule"])
        if rule:
            gain = _gain(rule, own)
            impact = "" if document["quick"] else classify.level(gain)
            one = one | {"factor": gain, "impact": impact, "from": "cells", "note": rule.note}
        expected = published.impact(one["published_impact"], names)
        gained.append(with_verdict(one, one["rule"], expected, one["impact"]))
    return document | {"idiosyncrasies": shown, "rules": gained}


def _gain(rule: Rule, runs: Sequence[Run]) -> float | None:
    """None where a memory lacks the cells."""
    numbers = []
    for wanted in (rule.of, rule.over):
        cells = list(group(claims.select(wanted, runs)).values())
        numbers.append(metrics.value(metrics.THROUGHPUT, cells[0]) if len(cells) == 1 else None)
    of, over = numbers
    return of / over if of and over else None


def _write(results: Path, name: str, document: Json) -> None:
    file = f"{name}-quick.json" if document["quick"] else f"{name}.json"
    outputs.write(results / file, json.dumps(document, indent=1))
