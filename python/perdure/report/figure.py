"""A drawing with its data, both shown on the page and offered as files."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from urllib.parse import quote

from perdure.report.pieces import KEY_LETTER, Piece, as_file, composed, heading
from perdure.types import Json

# A row of the data behind a drawing: column -> text or number.
Row = Json
Rows = list[Row]

COLUMNS = 3  # of panels on a page that is wide enough


@dataclass(frozen=True)
class Drawing:
    """Panels with their legend. `broad`: one that is wider than panels are, such as a flame
    graph."""

    panels: Sequence[Piece]
    keys: Sequence[Piece] = ()
    broad: bool = False

    def whole(self, columns: int = COLUMNS) -> Piece:
        return composed([row for row in (self.keys, self.panels) if row], columns)


def standalone(drawing: Drawing, *lines: str) -> str:
    """A file that says above its drawing what it shows, and where the numbers are from."""
    wide = drawing.whole().width
    words = [part for line in lines for part in textwrap.wrap(line, int(wide / KEY_LETTER))]
    rows = [[replace(heading(one), width=wide) for one in words], drawing.keys, drawing.panels]
    about = f"<title>{escape(lines[0])}</title><desc>{escape('. '.join(lines[1:]))}</desc>"
    return as_file(composed([row for row in rows if row], COLUMNS), about=about)


@dataclass(frozen=True)
class Figure:
    """A drawing with what is needed to check it and to make it again."""

    identifier: str
    title: str
    caption: str
    drawing: Drawing
    columns: list[str]
    rows: list[list[str]]
    csv: str

    @property
    def svg(self) -> str:
        """As a file of its own, in the colours of a light page; text follows `color`."""
        return as_file(self.drawing.whole())

    @property
    def csv_uri(self) -> str:
        """The only copy of the data in a page: its script makes the table of them."""
        return "data:text/csv;charset=utf-8," + quote(self.csv, safe=",.:;/()*=@!-_~")


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
        drawing=drawing,
        columns=columns,
        rows=[[_text(row[name]) for name in columns] for row in rows],
        csv=text.getvalue(),
    )


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4g}"
    return str(value)
