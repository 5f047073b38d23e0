"""Entries of a study as dataclasses: read from TOML or JSON that was checked, and written back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, TypeVar

from perdure.types import Json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Label = str | int | float | bool
# Labels of cells; a list stands for each of its values.
Wanted = Mapping[str, Label | Sequence[Label]]
Entry = TypeVar("Entry", bound="DataclassInstance")


def read(kind: type[Entry], table: Json) -> Entry:
    """The entry that a table holds; keys of other versions are left out."""
    return kind(**{f.name: table[f.name] for f in fields(kind) if f.name in table})


def table(entry: DataclassInstance) -> Json:
    """The keys of an entry that differ from their defaults."""
    found: Json = {}
    for one in fields(entry):
        value = getattr(entry, one.name)
        default = one.default if one.default_factory is MISSING else one.default_factory()
        if value != default:
            found[one.name] = value
    return found
