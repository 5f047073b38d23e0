"""The flags that `study run` and `study array` share."""

from __future__ import annotations

from typing import Annotated

import typer

from perdure.errors import InputError

Scale = Annotated[
    float,
    typer.Option(
        min=1e-6,
        max=1e6,
        help="Multiplies records and operations of every cell.",
    ),
]
Target = Annotated[
    str, typer.Option(help="Instead of the study's: native (up to all cores), sim:PLATFORM.")
]
Keys = Annotated[
    list[str], typer.Option(help="NAME=FILE (a key a line) for a name in the study's [keys].")
]
Lease = Annotated[
    float,
    typer.Option(
        min=1.0,
        max=1e6,
        help="Of shards and of Dask: seconds without a sign of life until another machine's cell "
        "is taken over.",
    ),
]


def pairs(arguments: list[str], flag: str) -> dict[str, str]:
    """NAME=VALUE, each once. Errors: InputError."""
    found = dict(argument.partition("=")[::2] for argument in arguments)
    for name, value in found.items():
        if not name or not value:
            raise InputError(f"'{name}' names no value", where=flag, remedy="write NAME=VALUE")
    return found
