"""Explorations by perdure-sim crash that are kept, and the short ones that end the demo."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from perdure.errors import ExitCode, InputError, PerdureError
from perdure.programs import child, native, outputs, profile
from perdure.progress import Progress
from perdure.results import explorations, schemas
from perdure.types import Json

# A structure whose insert forgets a flush, so that a newcomer sees what a finding looks like.
PLANTED = "toy:missing_flush"
SECONDS, QUICK_SECONDS = 3.0, 0.5
# Flags that decide what is printed where, and nothing of what is explored.
_OUTPUT, _OUTPUT_SWITCHES = "--out", ("--json", "--quiet", "-q")
_NO_EXPLORATIONS = ("--replay", "--mutate")


def explore(flags: Sequence[str], folder: Path) -> Json:
    """Explores, and keeps in `folder` what `crash --json` says; the counterexample of a violation
    lies beside it, unless --out names another place. Errors: InputError of the flags."""
    given = list(flags)
    for flag in _NO_EXPLORATIONS:
        if profile.value_of(given, flag) is not None:
            raise InputError("keeps explorations only", where="--results", remedy=f"omit {flag}")
    outputs.folder(folder, "--results")
    quiet = [one for one in given if one in ("--quiet", "-q")]
    asked = [one for one in profile.without(given, _OUTPUT) if one not in _OUTPUT_SWITCHES]
    name = explorations.name_of(profile.value_of(asked, "--index") or "", asked)
    place = profile.value_of(given, _OUTPUT)
    place = place or str(folder / f"{name}{explorations.COUNTEREXAMPLE}")
    program, began = str(native.program("sim")), time.time()
    done = child.answer(
        [program, "crash", *asked, _OUTPUT, place, *quiet[:1], "--json"], native.environment()
    )
    if done.returncode not in (ExitCode.OK, ExitCode.VIOLATION):
        raise ProgramFailedError(child.exit_code(done.returncode, [program], "perdure crash"))
    result = native.parse_json(done.stdout, "perdure crash")
    if wrong := schemas.problem("crash exploration", result):
        raise PerdureError(
            f"printed no exploration ({wrong})", where=program, remedy="rebuild the program"
        )
    document = dict(result) | {
        "command": shlex.join(["./perdure", "crash", *asked]),
        "build_id": native.build_id("sim"),
        "started_unix": round(began, 3),
    }
    explorations.keep(folder, name, document)
    return document


class ProgramFailedError(Exception):
    """The program ended with this exit code, and has said why."""

    def __init__(self, code: int) -> None:
        super().__init__(f"exit code {code}")
        self.code = code


def explore_for_demo(folder: Path, progress: Progress, *, quick: bool) -> Json:
    """Explores every index that recovers, some seconds each, and one with a planted defect."""
    seconds = QUICK_SECONDS if quick else SECONDS
    explored = []
    for each in native.query("list", "indexes", kind="sim"):
        if each["index_class"] != "persistent" or not each["recovers"]:
            continue
        if each["key_kinds"] == ["slots"] or not each.get("replaces", True):
            continue  # structures and sets are studies of their own
        progress.say(f"cutting the power under {each['name']} ...")
        explored.append(_explore(each["name"], seconds, folder))
    progress.say(f"cutting the power under {PLANTED}, which has a defect ...")
    return {"explored": explored, "planted": _explore(PLANTED, 2 * SECONDS, folder)}


def _explore(index: str, seconds: float, folder: Path) -> Json:
    flags = ["--index", index, "--threads", "2", "--budget", f"{seconds:g}", "--quiet"]
    try:
        return explore(flags, folder)
    except ProgramFailedError as failed:
        raise PerdureError(
            str(failed), where=shlex.join(["perdure-sim", "crash", *flags])
        ) from None


def violations(document: Json) -> list[Json]:
    """The findings in the indexes; the planted one is none of them."""
    return [each for each in document["explored"] if each["violation"]]


def line(document: Json) -> str:
    """An exploration in a line, as the demo prints it."""
    *more, last = map(str, explorations.threads_of(document))
    threads = f"{', '.join(more)} and {last}" if more else last
    plural = "" if threads == "1" else "s"
    return (
        f"{document['index']}, {document['domain']}, {threads} thread{plural}: "
        f"{_counted(explorations.states_of(document), 'state')} "
        f"at {_counted(document['coverage']['crash_points'], 'moment')}, "
        f"{_counted(1 if document['violation'] else 0, 'violation')}"
    )


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def replaying(document: Json) -> str:
    """How to see a finding again, step by step."""
    return f"./perdure crash --replay {shlex.quote(str(document['violation']['replay']))}"


def show(document: Json) -> str:
    """The document as the demo prints it."""
    lines = ["crash states explored: what a power cut at any moment may leave, recovered and asked"]
    for each in document["explored"]:
        lines.append(f"  {line(each)}")
        if each["violation"]:
            lines.append(each["violation"]["text"])
    planted = document["planted"]
    lines.append(f"and what a finding looks like: {planted['index']}, a defect planted on purpose")
    finding = planted["violation"]
    lines.append(finding["text"].rstrip() if finding else "  it was not found")
    if finding:
        lines.append(f"replay: {replaying(planted)}")
    return "\n".join(lines)
