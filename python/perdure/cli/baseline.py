"""The commands about baselines: results kept under a name, for `perdure compare --baseline`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from perdure.cli.output import AsJson, print_json, print_table
from perdure.results import baselines

Folder = Annotated[
    Path, typer.Option("--folder", help="Where baselines are, in the working directory.")
]


def register(app: typer.Typer) -> None:
    """Adds the commands to the command line."""
    group = typer.Typer(
        help="Keep results under a name, for `perdure compare --baseline NAME RESULTS`.",
        short_help="Keep results to compare later ones with: baseline save NAME.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command("save")(save)
    group.command("list")(list_)
    app.add_typer(group, name="baseline")


def save(
    name: Annotated[str, typer.Argument(help="The baseline's name.")],
    results: Annotated[
        Path | None,
        typer.Argument(help="A results directory or a file of records; else the last in results/."),
    ] = None,
    folder: Folder = baselines.FOLDER,
    force: Annotated[bool, typer.Option("--force", help="Replace one of that name.")] = False,
    as_json: AsJson = False,
) -> None:
    """Keep the finished cells of a results directory. A baseline is never replaced unasked."""
    chosen = results or baselines.newest(Path("results"))
    saved = baselines.save(name, chosen, folder, force=force)
    if as_json:
        print_json(saved.document() | {"results": str(chosen)})
    else:
        print(f"{saved.file}: {saved.cells} cells of {chosen}")


def list_(folder: Folder = baselines.FOLDER, as_json: AsJson = False) -> None:
    """List the baselines, with what they hold."""
    found = baselines.every(folder)
    if as_json:
        print_json([one.document() for one in found])
        return
    if not found:
        print(f"no baselines in {folder}; perdure baseline save NAME RESULTS")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("baseline", "saved", "cells", "processes", "targets", "revisions"):
        table.add_column(column, justify="right" if column in ("cells", "processes") else "left")
    for one in found:
        table.add_row(
            one.name,
            baselines.day(one.saved_unix),
            str(one.cells),
            str(one.processes),
            ", ".join(one.targets),
            ", ".join(revision[:12] for revision in one.revisions),
        )
    print_table(table)
