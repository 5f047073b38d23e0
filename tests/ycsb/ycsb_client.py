"""YCSB's client: built by Maven with one of our `DB` classes, run as a process, its figures read.

Needs java, javac and mvn (Debian packages default-jdk-headless, maven) and, at the first build of a
profile, Maven Central. The profiles are those of pom.xml beside this file.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build/ycsb"
EXPORTER = "site.ycsb.measurements.exporter.JSONArrayMeasurementsExporter"
TAIL_LINES = 20  # of a client's log, when its run was short or failed

# YCSB's defaults are 0.95 reads and 0.05 updates, so each share has to be given.
NO_OPERATIONS = {
    f"{kind}proportion": "0" for kind in ("read", "update", "insert", "scan", "readmodifywrite")
}
LOAD, RUN = "-load", "-t"


class YcsbError(Exception):
    """Ends the run with one line on stderr; exit code 2 where the user has to do something."""

    def __init__(self, what: str, *, exit_code: int = 1) -> None:
        super().__init__(what)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Export:
    """What one phase measured, and the end of the client's log."""

    rows: list[dict[str, Any]]
    tail: str

    def value(self, metric: str, measurement: str) -> float:
        for row in self.rows:
            if (row["metric"], row["measurement"]) == (metric, measurement):
                return float(row["value"])
        raise YcsbError(f"YCSB gave no {metric} {measurement}; the end of its log:\n{self.tail}")

    def returned(self) -> dict[tuple[str, str], int]:
        """How many operations of each kind had each return code; VERIFY is a kind, too."""
        return {
            (row["metric"], row["measurement"].removeprefix("Return=")): int(row["value"])
            for row in self.rows
            if row["measurement"].startswith("Return=")
        }


@dataclass(frozen=True)
class Client:
    classpath: str
    database: str  # our class
    threads: int
    folder: Path  # for its files

    def run(self, phase: str, properties: dict[str, str], what: str) -> Export:
        """Runs a phase, LOAD or RUN; `what` names it in complaints."""
        export, log = self.folder / "export.json", self.folder / "client.log"
        command = ["java", "-cp", self.classpath, "site.ycsb.Client", phase,
                   "-threads", str(self.threads), "-db", self.database]  # fmt: skip
        given = properties | {"exporter": EXPORTER, "exportfile": str(export)}
        for key, value in given.items():
            command += ["-p", f"{key}={value}"]
        export.unlink(missing_ok=True)
        with log.open("w") as out:
            done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False)
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-TAIL_LINES:])
        if done.returncode != 0 or not export.is_file():
            raise YcsbError(
                f"{what} {phase}: YCSB ended with {done.returncode}; the end of its log:\n{tail}"
            )
        return Export(json.loads(export.read_text()), tail)


def build(profile: str) -> str:
    """Compiles the classes of a profile; returns the class path."""
    missing = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
    if missing:
        raise YcsbError(
            f"{', '.join(missing)} not found; apt-get install default-jdk-headless maven",
            exit_code=2,
        )
    folder = BUILD / profile
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["mvn", "-B", "-q", "-f", HERE / "pom.xml", "-P", profile, "compile",
         "dependency:build-classpath", f"-Dmdep.outputFile={folder / 'classpath'}"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        # The first line of many has the reason; those after it tell how to debug Maven.
        said = next((line for line in done.stdout.splitlines() if "[ERROR]" in line), "no reason")
        again = f"mvn -f tests/ycsb/pom.xml -P {profile} compile"
        raise YcsbError(f"mvn: exit code {done.returncode}: {said.strip()}; try {again}")
    return f"{folder / 'classes'}:{(folder / 'classpath').read_text().strip()}"
