"""The report's section about power cuts: what was explored of each index, and what was found."""

from __future__ import annotations

from pathlib import Path

from perdure.results import explorations
from perdure.study import exploring
from perdure.types import Json


def section(folder: Path, *, quick: bool) -> Json | None:
    """The context of the section; None where the folder keeps no exploration."""
    if not folder.is_dir():
        return None
    documents = explorations.read(folder, quick=quick)
    if not documents:
        return None
    own = [one for one in documents if not explorations.is_planted(one)]
    return {
        "lines": [_line(one) for one in documents],
        "findings": [_finding(one) for one in documents if one["violation"]],
        "violated": list(dict.fromkeys(one["index"] for one in own if one["violation"])),
        "builds": len({one["build_id"] for one in documents if "build_id" in one}),
    }


def _line(one: Json) -> Json:
    coverage, threads = one["coverage"], explorations.threads_of(one)
    return {
        "index": one["index"],
        "planted": explorations.is_planted(one),
        "domain": one["domain"],
        "more": _more(one),
        "threads": ", ".join(map(str, threads)),
        "points": f"{coverage['crash_points']:,}",
        "not_exhausted": f"{coverage['crash_points'] - coverage['exhausted_points']:,}",
        "states": f"{coverage['states']:,}",
        "recovery_cuts": f"{coverage['recovery_cuts']:,}",
        "given_up": coverage.get("given_up_runs", 0),
        "violations": 1 if one["violation"] else 0,
        "seconds": f"{one['seconds']:,.1f}",
        "command": one.get("command", ""),
    }


def _more(one: Json) -> str:
    """What is not as usual: `bytes keys, pmdk heap`."""
    kind = one["key_kind"]
    told = {
        "planted defect": explorations.is_planted(one),
        "queue": kind is None,
        f"{kind} keys": kind not in (None, "integer"),
        f"{one['heap']} heap": one["heap"] != "slab",
        "transactions": one["transactions"],
    }
    return ", ".join(word for word, is_so in told.items() if is_so)


def _finding(one: Json) -> Json:
    found = one["violation"]
    return {
        "index": one["index"],
        "domain": one["domain"],
        "planted": explorations.is_planted(one),
        "oracle": found["oracle"],
        "what": found["what"],
        "text": found["text"].strip(),
        "file": found["replay"],
        "replay": exploring.replaying(one) if found["replay"] else "",
    }
