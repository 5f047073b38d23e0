"""A drawing with its data, both shown on the page and offered as files."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perdure.types import Json

# A row of the data behind a drawing: column -> text or number.
Row = Json
Rows = list[Row]


@dataclass(frozen=True)
class Drawing:
    """An SVG for a wide page, and one for a telephone or a column of a paper."""

    svg: str
    narrow: str


@dataclass(frozen=True)
class Figure:
    """A drawing with what is needed to check it and to make it again."""

    identifier: str
    title: str
    caption: str
    svg: str
    narrow: str
    columns: list[str]
    rows: list[list[str]]
    csv: str
    csv_uri: str
    svg_uri: str


def drawn(
    identifier: str,
    title: str,
    caption: str,
    drawing: Drawing,
    rows: Sequence[Mapping[str, object]],
) -> Figure:
    columns = [name for name in rows[0] if name != "name"] if "index" in rows[0] else list(rows[0])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([row[name] for name in columns] for row in rows)
    return Figure(
        identifier=identifier,
        title=title,
        caption=caption,
        svg=drawing.svg,
        narrow=drawing.narrow,
        columns=columns,
        rows=[[_text(row[name]) for name in columns] for row in rows],
        csv=text.getvalue(),
        csv_uri=_data_uri("text/csv", text.getvalue()),
        svg_uri=_data_uri("image/svg+xml", drawing.svg),
    )


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4g}"
    return str(value)


def _data_uri(kind: str, text: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(text.encode()).decode()}"
