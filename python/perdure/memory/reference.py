"""Reference tables: measurements of real memory that simulations are compared with.

A table is a CSV file with its description in front:

    # title: Streaming stores to one DIMM
    # paper: who measured it, and where it is published
    # platform: optane100-8260-2s        (a name, or a TOML file beside the table)
    # role: prediction
    # probe: bandwidth
    # memory: pm
    op,pattern,access_size,threads,metric,unit,value
    ntstore,seq,256,4,bandwidth,MiB/s,2145

Every row is a point. A column that has one value for all rows may stand in the header instead, and
one that is left out has its default. docs/fidelity.md explains the columns.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from perdure.errors import InputError, did_you_mean, one_of
from perdure.programs import inputs
from perdure.programs.probes import Value
from perdure.tree import ROOT

ROLES = {
    "calibration": "the model was fitted to it",
    "selection": "mechanisms or single limits of the model were chosen with it in view",
    "prediction": "nothing was fitted to it",
    "unexplained": "in view as well, and its cause is only partly understood",
}
PROBES = ("bandwidth", "latency", "chase", "write-buffer", "I1", "I7")

# Units of each metric as factors to the unit in which probes answer.
GIB = float(2**30)
UNITS: dict[str, dict[str, float]] = {
    "bandwidth": {"GiB/s": 1.0, "MiB/s": 2**20 / GIB, "GB/s": 1e9 / GIB, "MB/s": 1e6 / GIB},
    "latency": {"ns": 1.0, "us": 1e3},
    "ewr": {"ratio": 1.0},
    "err": {"ratio": 1.0},
    "rwr": {"ratio": 1.0},
    "buffer_hit_ratio": {"ratio": 1.0},
    "write_amplification": {"ratio": 1.0},
}

# Inputs of a point: their choices or kinds of number, and their defaults.
CHOICES: dict[str, tuple[str, ...]] = {
    "probe": PROBES,
    "memory": ("pm", "dram"),
    "op": ("load", "store", "store+clwb", "ntstore", "pstore"),
    "pattern": ("seq", "rand", "stride", "same"),
    "node": ("local", "remote"),
    "prefetch": ("on", "off"),
    "durability": ("adr", "eadr", "none"),
    "op_cost": ("waits", "overlaps"),
    "op_state": ("kept", "stored"),
    "variant": ("as_published", "corrected", "dependent"),
}
COUNTS = ("access_size", "threads", "dimms", "stride", "region", "readers", "align")
NUMBERS = ("op_cost_ns", "mix_reads", "hit_ratio")
DEFAULTS: dict[str, Value | None] = {
    "probe": "bandwidth", "memory": "pm", "op": "load", "pattern": "seq", "access_size": 64,
    "threads": 1, "stride": None, "region": None, "dimms": None, "node": "local",
    "prefetch": "on", "fence": "none", "mix_reads": None, "op_cost_ns": None, "op_cost": None,
    "op_state": None, "hit_ratio": None, "variant": None, "durability": None, "readers": None,
    "align": None,
}  # fmt: skip
DESCRIPTION = (
    "title", "paper", "figure", "platform", "role", "set", "benchmark", "measured", "goal_median",
    "goal_p90",
    "goal_absolute", *(f"noise_{metric}" for metric in UNITS),
)  # fmt: skip
# Two standard deviations of the repetitions on the calibration platform (1.75 %).
DEFAULT_NOISE = 0.035
ANSWER = ("metric", "unit", "value")
FENCE = re.compile(r"^(none|each|every=[1-9]\d*)$")
HEADER = re.compile(r"^#\s*([A-Za-z_0-9]+)\s*:\s*(.*)$")
# The inputs that a curve is drawn over, in the order in which they are tried.
AXES = (
    "access_size", "threads", "region", "hit_ratio", "stride", "mix_reads", "readers", "align",
)  # fmt: skip


def lattester(point: Mapping[str, Value | None]) -> dict[str, Value]:
    """What the loops of Yang et al. (FAST'20, their released code) add to an access.

    The strided ones take a line an iteration, the random ones at most 512 B. From 32 iterations on
    the loop's end is mispredicted, and the core waits for its loads; where an access has one new
    line, that was fetched on the wrong path. Random ones store their state each time.
    """
    op, pattern, size = point["op"], point["pattern"], int(point["access_size"] or 0)
    iterations = size // (512 if pattern == "rand" else 64)
    if op == "load" and iterations >= 32 and point["stride"] != 64:
        cost = point["op_cost_ns"]
        return {"op_cost": "waits", "op_cost_ns": 7.0 if cost is None else cost}
    if op in ("store", "store+clwb") and pattern == "rand":
        return {"op_state": "stored"}
    return {}


BENCHMARKS = {"lattester": lattester}  # by what measured with them


@dataclass(frozen=True)
class Point:
    """One measured number with everything it depends on."""

    inputs: tuple[tuple[str, Value | None], ...]
    metric: str
    unit: str
    value: float
    line: int

    @cached_property
    def input(self) -> dict[str, Value | None]:
        return dict(self.inputs)

    @property
    def probe_value(self) -> float:
        """The value in the unit of probes: GiB/s, ns or a plain ratio."""
        return self.value * UNITS[self.metric][self.unit]

    def text(self) -> str:
        """What tells the point from others of its table: `load seq 64 B 4 threads`."""
        point = self.input
        parts = [str(point["memory"]), str(point["op"]), str(point["pattern"])]
        if point["stride"]:
            parts[-1] += f" {point['stride']}"
        parts += [f"{point['access_size']} B", f"{point['threads']} threads"]
        units = (
            ("region", " B region"), ("hit_ratio", " hits"), ("mix_reads", " reads"),
            ("readers", " readers"), ("align", " B aligned"),
        )  # fmt: skip
        for name, unit in units:
            if point[name] is not None:
                parts.append(f"{point[name]:g}{unit}")
        return " ".join(parts)


@dataclass(frozen=True)
class Table:
    """The points of one experiment on one platform."""

    name: str
    file: Path
    description: dict[str, str]
    points: tuple[Point, ...]

    @property
    def title(self) -> str:
        return self.description.get("title", self.name)

    @property
    def platform(self) -> str:
        """A platform's name, or the absolute path of its TOML file."""
        platform = self.description["platform"]
        return str((self.file.parent / platform).resolve()) if _is_file(platform) else platform

    @property
    def role(self) -> str:
        return self.description.get("role", "prediction")

    @property
    def set_name(self) -> str:
        """What the table is summed up with."""
        return self.description.get("set", self.role)

    def goal(self, kind: str) -> float | None:
        text = self.description.get(f"goal_{kind}")
        return float(text) if text else None

    def noise(self, metric: str) -> float:
        """How far two measured values of one metric differ by chance, relative to the first."""
        text = self.description.get(f"noise_{metric}")
        return float(text) if text else default_noise(metric)


def default_noise(_metric: str) -> float:
    return DEFAULT_NOISE


def directory() -> Path:
    """The project's own tables."""
    return ROOT / "reference"


def load_all(places: list[Path] | None = None) -> list[Table]:
    """The tables of the given files and folders; the project's own when there are none."""
    tables: dict[str, Table] = {}
    for place in places or [directory()]:
        files = sorted(place.glob("*.csv")) if place.is_dir() else [place]
        if not files:
            raise InputError("holds no tables", where=str(place), remedy="give a folder of *.csv")
        for file in files:
            table = load(file)
            if table.name in tables:
                raise InputError(
                    f"two tables are called '{table.name}'",
                    where=str(file),
                    remedy=f"rename it: the other one is {tables[table.name].file}",
                )
            tables[table.name] = table
    return list(tables.values())


def load(file: Path) -> Table:
    """Reads and checks one table. Errors: InputError naming the line and the remedy."""
    text = inputs.text(file, "give a readable CSV table")
    return _Reader(file, text).table()


class _Reader:
    def __init__(self, file: Path, text: str) -> None:
        self.file, self.lines = file, text.splitlines()
        self.description: dict[str, str] = {}
        self.constants: dict[str, str] = {}

    def table(self) -> Table:
        start = self.read_header()
        columns = self.read_columns(start)
        points: list[Point] = []
        seen: dict[Any, int] = {}
        for number in range(start + 1, len(self.lines) + 1):
            if not self.lines[number - 1].strip() or self.lines[number - 1].startswith("#"):
                continue
            point = self.point(number, columns)
            first = seen.setdefault((point.inputs, point.metric), number)
            if first != number:
                raise self.error(
                    f"the same point as line {first}",
                    number,
                    "keep one of them, or add the column that tells them apart",
                )
            points.append(point)
        if not points:
            raise self.error("has no points", len(self.lines) or 1, "add a row per measurement")
        return Table(self.file.stem, self.file, self.description, tuple(points))

    def read_header(self) -> int:
        """Reads the description; returns the number of the line that names the columns."""
        known = (*DESCRIPTION, *DEFAULTS, "metric", "unit")
        for number, line in enumerate(self.lines, start=1):
            if not line.strip():
                continue
            if not line.startswith("#"):
                self.check_description()
                return number
            match = HEADER.match(line)
            if not match:
                raise self.error("not `# name: value`", number, "write it so, or drop the line")
            name, value = match.group(1), match.group(2).strip()
            if name not in known:
                raise self.error(
                    f"unknown name '{name}'", number, did_you_mean(name, known, one_of(known))
                )
            if name in DESCRIPTION:
                self.description[name] = value
                self.check_entry(name, value, number)
            else:
                self.constants[name] = value
                self.parsed(name, value, number)
        raise self.error(
            "has no row of column names",
            len(self.lines) or 1,
            "add a line such as op,access_size,threads,metric,unit,value",
        )

    def check_entry(self, name: str, value: str, line: int) -> None:
        if name == "benchmark" and value not in BENCHMARKS:
            raise self.error(
                f"unknown benchmark '{value}'",
                line,
                did_you_mean(value, BENCHMARKS, one_of(BENCHMARKS)),
            )
        if name == "role" and value not in ROLES:
            raise self.error(
                f"unknown role '{value}'", line, did_you_mean(value, ROLES, one_of(ROLES))
            )
        if name.startswith(("goal_", "noise_")) and value:
            self.number(name, value, line)
        if name == "platform" and _is_file(value) and not (self.file.parent / value).is_file():
            raise self.error(f"no platform file {value}", line, "give its path from this table")

    def check_description(self) -> None:
        for name in ("paper", "platform"):
            if not self.description.get(name):
                raise self.error(f"does not say its {name}", 1, f"add the line `# {name}: ...`")

    def read_columns(self, line: int) -> list[str]:
        columns = [name.strip() for name in self.lines[line - 1].split(",")]
        known = (*DEFAULTS, *ANSWER)
        for name in columns:
            if name not in known:
                raise self.error(
                    f"unknown column '{name}'", line, did_you_mean(name, known, one_of(known))
                )
        for name in columns:
            if columns.count(name) > 1:
                raise self.error(f"column '{name}' is there twice", line, "drop one")
        for name in ANSWER:
            if name not in columns and name not in self.constants:
                raise self.error(f"no column '{name}'", line, f"add {name} to the column names")
        return columns

    def point(self, line: int, columns: list[str]) -> Point:
        cells = next(csv.reader([self.lines[line - 1]]))
        if len(cells) != len(columns):
            raise self.error(
                f"{len(cells)} cells for {len(columns)} columns",
                line,
                "give every column a cell; it may be empty",
            )
        texts = self.constants | {
            name: cell.strip()
            for name, cell in zip(columns, cells, strict=True)
            if cell.strip() or name in ANSWER
        }
        inputs = {
            name: self.parsed(name, texts[name], line) if texts.get(name) else default
            for name, default in DEFAULTS.items()
        }
        if "benchmark" in self.description:
            inputs |= BENCHMARKS[self.description["benchmark"]](inputs)
        self.check_inputs(inputs, line)
        metric, unit = texts["metric"], texts["unit"]
        self.parsed("metric", metric, line)
        if unit not in UNITS[metric]:
            raise self.error(f"unit '{unit}' is none of {metric}", line, one_of(UNITS[metric]))
        value = self.number("value", texts["value"], line)
        if value <= 0:
            raise self.error(f"value {value:g} is not above 0", line, "leave the row out")
        return Point(tuple(inputs.items()), metric, unit, value, line)

    def check_inputs(self, inputs: dict[str, Value | None], line: int) -> None:
        needs = {
            "stride": inputs["pattern"] == "stride",
            "hit_ratio": inputs["probe"] == "I1",
            "region": inputs["probe"] in ("chase", "write-buffer"),
        }
        for name, needed in needs.items():
            if needed and inputs[name] is None:
                raise self.error(f"needs a {name}", line, f"add the column {name}")
        for name in ("mix_reads", "hit_ratio"):
            share = inputs[name]
            if share is not None and not 0 <= float(share) <= 1:
                raise self.error(f"{name} {share} is not between 0 and 1", line, "mend it")
        if inputs["op"] == "pstore" and inputs["probe"] != "I1":
            raise self.error(
                "pstore is an operation of the probe I1 only",
                line,
                "write store+clwb or ntstore, and fence each",
            )

    def parsed(self, name: str, text: str, line: int) -> Value:
        if name in CHOICES and text not in CHOICES[name]:
            choices = CHOICES[name]
            raise self.error(
                f"unknown {name} '{text}'", line, did_you_mean(text, choices, one_of(choices))
            )
        if name == "metric" and text not in UNITS:
            raise self.error(
                f"unknown metric '{text}'", line, did_you_mean(text, UNITS, one_of(UNITS))
            )
        if name == "fence" and not FENCE.match(text):
            raise self.error(f"unknown fence '{text}'", line, "write none, each or every=N")
        if name in NUMBERS:
            return self.number(name, text, line)
        if name in COUNTS:
            if not re.fullmatch(r"[1-9]\d*", text):
                raise self.error(
                    f"{name} '{text}' is no whole number above 0",
                    line,
                    "write it as plain digits, sizes in bytes",
                )
            return int(text)
        return text

    def number(self, name: str, text: str, line: int) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value < 0:
            raise self.error(
                f"{name} '{text}' is no number of at least 0",
                line,
                "write it with a decimal point and without a unit",
            )
        return value

    def error(self, what: str, line: int, remedy: str) -> InputError:
        return InputError(what, where=f"{self.file}:{line}", remedy=remedy)


def _is_file(platform: str) -> bool:
    return platform.endswith(".toml") or "/" in platform
