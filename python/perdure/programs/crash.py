"""Short explorations by perdure-sim crash, which end the demo."""

from __future__ import annotations

from pathlib import Path

from perdure.errors import ExitCode, PerdureError
from perdure.programs import child, native, outputs
from perdure.progress import Progress
from perdure.types import Json

# A structure whose insert forgets a flush, so that a newcomer sees what a finding looks like.
PLANTED = "toy:missing_flush"
SECONDS, QUICK_SECONDS = 3.0, 0.5


def explore(index: str, seconds: float, replay: Path, threads: int = 1) -> Json:
    """What `crash --json` says of an index; its finding, if any, can be replayed from `replay`."""
    command = [
        str(native.program("sim")), "crash", "--index", index, "--threads", str(threads),
        "--budget", str(seconds), "--out", str(replay), "--quiet", "--json",
    ]  # fmt: skip
    done = child.run(command, native.environment())
    if done.returncode not in (ExitCode.OK, ExitCode.VIOLATION):
        raise PerdureError(native.said(done), where=command[0])
    result = native.parse_json(done.stdout, " ".join(command))
    assert isinstance(result, dict)
    return result


def explore_for_demo(results: Path, progress: Progress, *, quick: bool) -> Json:
    """Explores every index that recovers, some seconds each, and one with a planted defect."""
    outputs.folder(results)
    seconds = QUICK_SECONDS if quick else SECONDS
    explored = []
    for each in native.query("list", "indexes", kind="sim"):
        if each["index_class"] != "persistent" or not each["recovers"]:
            continue
        if each["key_kinds"] == ["slots"] or not each.get("replaces", True):
            continue  # structures and sets are studies of their own
        progress.say(f"cutting the power under {each['name']} ...")
        replay = results / f"{each['name']}.json"
        explored.append(explore(each["name"], seconds, replay, threads=2))
    progress.say(f"cutting the power under {PLANTED}, which has a defect ...")
    planted = explore(PLANTED, 2 * SECONDS, results / "planted.json")
    return {"explored": explored, "planted": planted}


def violations(document: Json) -> list[Json]:
    """The findings in the indexes; the planted one is none of them."""
    return [each for each in document["explored"] if each["violation"]]


def show(document: Json) -> str:
    """The document as the demo prints it."""
    lines = ["crash states explored: what a power cut at any moment may leave, recovered and asked"]
    for each in document["explored"]:
        coverage, found = each["coverage"], each["violation"]
        states = coverage["states"] + coverage["recovery_cuts"]
        lines.append(
            f"  {each['index']}, {each['domain']}, {each['threads']} threads: {states:,} states "
            f"at {coverage['crash_points']:,} moments, {1 if found else 0} violations"
        )
        if found:
            lines.append(found["text"])
    planted = document["planted"]
    lines.append(f"and what a finding looks like: {planted['index']}, a defect planted on purpose")
    finding = planted["violation"]
    lines.append(finding["text"].rstrip() if finding else "  it was not found")
    if finding:
        lines.append(f"replay: ./perdure crash --replay {finding['replay']}")
    return "\n".join(lines)
