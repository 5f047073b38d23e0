"""Studies: a TOML file of axes, expanded into the cells to run.

name = "demo"
repetitions = 1                 # processes per cell, or "auto": see repetitions.py
[flags]                         # for every cell: any flag of `perdure bench`, - written as _
records = "100K"
[axes]                          # every combination is a cell
index    = ["fptree", "lbtree"]
threads  = [1, "all"]
medium   = ["tmpfs", "file"]    # where the pool lies; "none" for indexes that need no pool
workload = ["lookup"]           # a table below [workloads], or a workload file
[workloads.lookup]              # flags again
mix = { lookup = 1.0 }
[[include]]                     # more cells: a smaller matrix; axes not named are inherited
index  = ["stdmap"]
medium = ["none"]
[[exclude]]                     # drops the cells that match every line
index = ["stdmap"]
[[override]]                    # sets flags where `when` matches
when = { medium = ["file"] }
set  = { seconds = 1.0 }
[[published]]                   # what others found; the report says whether our cells agree
what   = "inserts, 20 threads: lbtree over fptree"
of     = { index = "lbtree", threads = 20 }   # the cell with these labels; lists: all of them
over   = { index = "fptree", threads = 20 }   # left out: `of` itself is compared with `value`
value  = 2.09                                 # or direction = "above", "below": of 1
source = "paper, figure"
See claims.py for the rest of it. A large study also has
optional = ["hot"]              # indexes, left out where the build lacks them or an option of them
[keys]                          # names for the axis `keys`; --keys names=FILE replaces one
names = "random:8-25"
[native]                        # flags that a run with --target native sets last
seconds = 1.0
[[figure]]                      # cells that the report draws together, with their [[published]]
name   = "fig4"
title  = "Uniform accesses"
cells  = { threads = [1, 20] }  # labels, each one of these
metric = "throughput"           # or any other of metrics.py
[[probe]]                       # what others found of the memory itself; see memory_claims.py
[memories]                      # memories to classify; see memories.py
targets = ["sim:nvdimm-n"]
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from perdure.errors import InputError, did_you_mean, one_of
from perdure.programs import inputs
from perdure.study.toml_lines import Path as KeyPath
from perdure.study.toml_lines import line_of, line_of_value
from perdure.types import Json

Value = TypeVar("Value", str, int, float, list[Any], Json)
KINDS = {str: "text in quotes", int: "a whole number", dict: "a table", list: "[[tables]]"}


class Document:
    """A study's tables, with the lines where they stand."""

    def __init__(self, path: Path) -> None:
        """Errors: InputError for what cannot be read or is no TOML."""
        self.path = path
        self.text = inputs.text(path, "give a study, such as studies/demo.toml")
        try:
            self.tables: Json = tomllib.loads(self.text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise InputError(
                f"not valid TOML: {error}", where=str(path), remedy="mend that line"
            ) from error
        except ValueError as error:  # int() has a limit
            raise InputError(
                "a number has thousands of digits", where=str(path), remedy="write a shorter one"
            ) from error

    def table(self, name: str) -> Json:
        """A table at the top level; empty where there is none."""
        found: Json = self.tables.get(name, {})
        return found

    def entries(self, name: str) -> list[Json]:
        """The tables of an array; empty where there is none."""
        found: list[Json] = self.tables.get(name, [])
        return found

    def typed(self, name: str, fallback: Value) -> Value:
        """A value at the top level, which has the type of `fallback`; a float may be whole."""
        value: Value = self.tables.get(name, fallback)
        kinds: tuple[type, ...] = (int, float) if isinstance(fallback, float) else (type(fallback),)
        if isinstance(value, bool) or not issubclass(type(value), kinds):
            expected = KINDS.get(type(fallback), "a number")
            raise self.error(f"'{name}' must be {expected}", (name,), "mend the value")
        return value

    def check_keys(self, path: KeyPath, table: Mapping[str, object], known: Iterable[str]) -> None:
        for key in table:
            if key not in known:
                where = f" in [{'.'.join(str(p) for p in path)}]" if path else ""
                remedy = did_you_mean(key, known, one_of(known))
                raise self.error(f"unknown key '{key}'{where}", (*path, key), remedy)

    def line_of_value(self, path: KeyPath, value: object) -> int:
        return line_of_value(self.text, path, value)

    def error(self, what: str, path: KeyPath, remedy: str, line: int | None = None) -> InputError:
        """At `line`, or where `path` stands."""
        number = line if line is not None else line_of(self.text, path)
        return InputError(what, where=f"{self.path}:{number}", remedy=remedy)
