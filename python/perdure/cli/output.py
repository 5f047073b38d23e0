"""What the commands share: their common flags, and what they print where."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from perdure.progress import Progress

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the commands; run nothing.")]
TinyCells = Annotated[bool, typer.Option(help="Tiny cells: does it all run?")]
QuickOnes = Annotated[bool, typer.Option(help="Of a quick run, where there is a full one, too.")]
# For commands whose flags the program knows.
PASSING = {"ignore_unknown_options": True, "allow_extra_args": True}


def console() -> Console:
    """For tables on stdout: as wide as the terminal; a pipe or file takes 200 columns."""
    # Without emoji: a target such as sim:x is no code for one.
    found = Console(emoji=False)
    if not found.is_terminal and "COLUMNS" not in os.environ:
        found = Console(width=200, emoji=False)
    return found


def progress(quiet: bool) -> Progress:
    """On stderr."""
    return Progress(Console(stderr=True), quiet=quiet)


def print_table(table: Table) -> None:
    console().print(table)


def print_json(document: object) -> None:
    print(json.dumps(document, indent=2))


def complain(line: str) -> None:
    print(f"perdure: {line}" if not line.startswith("perdure") else line, file=sys.stderr)
