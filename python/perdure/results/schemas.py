"""Reading documents back, checked against schema/: a damaged one is an error of one line.

`parse` takes standard JSON only: finite numbers, whole ones of 64 bits. `problem` names the first
place that breaks the schema.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.errors import InputError
from perdure.programs import inputs
from perdure.tree import PACKAGE
from perdure.types import Json

if TYPE_CHECKING:
    import jsonschema

FOLDER = PACKAGE / "schema"
# Kind of document -> its file, and where in there it is described.
KINDS = {
    "run record": ("run-record.schema.json", ""),
    "cell": ("results.schema.json", "cell"),
    "failed cell": ("results.schema.json", "failure"),
    "manifest": ("results.schema.json", "manifest"),
    "crash exploration": ("crash.schema.json", ""),
}
LONGEST = 120  # characters of a reason; a validator quotes what it finds, whole
WHOLE_DIGITS = 20  # of 2**64


def read(file: Path, kind: str, remedy: str) -> Json:
    """The document in a file. Errors: InputError."""
    document = parse(inputs.text(file, remedy), str(file), remedy)
    if found := problem(kind, document):
        raise InputError(f"not a {kind}: {found}", where=str(file), remedy=remedy)
    return dict(document)


def parse(text: str, where: str, remedy: str) -> Any:
    """JSON as a document. Errors: InputError."""
    try:
        return loads(text)
    except ValueError as error:
        raise InputError(f"not JSON ({error})", where=where, remedy=remedy) from error


def loads(text: str) -> Any:
    """As json.loads, but refuses numbers that our programs never write. Errors: ValueError."""
    try:
        return json.loads(text, parse_constant=_refused, parse_float=_finite, parse_int=_whole)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


@contextmanager
def whole(file: Path, remedy: str) -> Iterator[None]:
    """Turns errors of reading a document without a schema into an InputError."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"damaged, or of another version ({type(error).__name__}: {error})",
            where=str(file),
            remedy=remedy,
        ) from error


def problem(kind: str, document: Any) -> str:
    """What is wrong, such as `$.records: 'x' is not of type 'integer'`; empty if nothing is."""
    from jsonschema.exceptions import best_match

    error = best_match(_validator(kind).iter_errors(document))
    if error is None:
        return ""
    what = " ".join(error.message.split())
    return f"{error.json_path}: {what if len(what) <= LONGEST else f'...{what[-LONGEST:]}'}"


@cache
def _validator(kind: str) -> jsonschema.protocols.Validator:
    import jsonschema

    name, part = KINDS[kind]
    schema = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    if kind == "run record":
        # Earlier versions said less of how a run was set up.
        del schema["$defs"]["configuration"]["required"]
    if part:
        schema = {"$ref": f"#/$defs/{part}", "$defs": schema["$defs"]}
    return jsonschema.Draft202012Validator(schema)


def _refused(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:30]} is too large")
    return value


def _whole(text: str) -> int:
    if len(text) > WHOLE_DIGITS:
        raise ValueError(f"the number {text[:30]} is too large")
    return int(text)
