#!/usr/bin/env python3
"""Takes what a command left at PATH as the records NAME of docs/results/, for tools/results.py.

    tools/keep_results.py simulated results/results         the cells of a study
    tools/keep_results.py crash folder                      JSON that commands printed, a file each
    tools/keep_results.py fidelity fidelity.json            one such file

Leaves out paths, timelines and what names the machine, and rounds to six digits. --revision is that
of programs whose output does not tell it, or tells one that was rewritten since.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from results import PAGE, Json, machine


def keep(name: str, source: Path, folder: Path, revision: str) -> None:
    """Takes the cells of a study, one JSON document, or a folder of them."""
    folder.mkdir(exist_ok=True)
    cells = source / "cells"
    if cells.is_dir():
        manifest = json.loads((source / "manifest.json").read_text(encoding="utf-8"))
        files = [cells / f"{key}.json" for key in manifest["cells"]]
        kept = [cell(json.loads(file.read_text(encoding="utf-8")), revision) for file in files]
    else:
        files = sorted(source.glob("*.json")) if source.is_dir() else [source]
        kept = [output(file, revision) for file in files]
    suffix = "json" if source.is_file() else "jsonl"
    text = "".join(json.dumps(rounded(document)) + "\n" for document in kept)
    (folder / f"{name}.{suffix}").write_text(text, encoding="utf-8")


def cell(document: Json, revision: str) -> Json:
    """A cell without what belongs to one machine."""
    found = document["record"]
    found["build"]["commit"] = revision or found["build"]["commit"]
    found["configuration"]["pool"] = found["configuration"]["pool"] and "pool"
    document["command"] = " ".join(
        "POOL" if word.startswith("/") else word for word in document["command"].split()
    )
    document["host_fingerprint"] = ""
    document.pop("interval", None)  # of that machine alone
    if found["environment"]:
        found["environment"] |= {"kernel": "", "host_fingerprint": "0" * 16}
    for repetition in found["repetitions"]:
        repetition["timeline"] = []
    return document


def output(file: Path, revision: str) -> Json:
    """What a command printed, without its single values and traces."""
    found = json.loads(file.read_text(encoding="utf-8"))
    for experiment in found.pop("experiments", []):
        del experiment["values"]
    if found.get("violation"):
        found["violation"] = {"oracle": found["violation"]["oracle"]}
    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        "unknown",
    )
    here = "" if "summary" in found else machine({"cpu": cpu, "cores": os.cpu_count()})
    return {
        "machine": here,
        "revision": revision,
        "date_unix": file.stat().st_mtime,
        "found": found,
    }


def rounded(value: Any) -> Any:
    """Six digits of each broken number, nine of a time."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if value < 1e9 else round(value)
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("path", type=Path)
    parser.add_argument("--revision", default="")
    options = parser.parse_args()
    keep(options.name, options.path, PAGE.with_suffix(""), options.revision)


if __name__ == "__main__":
    main()
