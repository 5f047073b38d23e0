"""A drawing with its data, both shown on the page and offered as files."""

from __future__ import annotations

import csv
import io
import itertools
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
SHARED = " Panels of the same workload have one axis, except where some would be flat on it."
# Columns of a row that its drawing needs, and that others tell as well.
DRAWN_ONLY = ("name", "axis", "beside", "dash")


@dataclass(frozen=True)
class Drawing:
    """Panels with their legend. `broad`: one that is wider than panels are, such as a flame graph.
    `groups`: how many panels in succession share an axis; such a group begins a row."""

    panels: Sequence[Piece]
    keys: Sequence[Piece] = ()
    broad: bool = False
    groups: Sequence[int] = ()

    @property
    def rows(self) -> list[list[Piece]]:
        """The panels, those of a group in a row of their own."""
        if all(count == 1 for count in self.groups):
            return [list(self.panels)]
        rest = iter(self.panels)
        return [list(itertools.islice(rest, count)) for count in self.groups]

    def whole(self, columns: int = COLUMNS) -> Piece:
        return composed([row for row in (self.keys, *self.rows) if row], columns)


def standalone(drawing: Drawing, *lines: str) -> str:
    """A file that says above its drawing what it shows, and where the numbers are from."""
    wide = drawing.whole().width
    words = [part for line in lines for part in textwrap.wrap(line, int(wide / KEY_LETTER))]
    rows = [[replace(heading(one), width=wide) for one in words], drawing.keys, *drawing.rows]
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
    if any(count > 1 for count in drawing.groups):
        caption += SHARED
    hidden = DRAWN_ONLY if "index" in rows[0] else ()
    columns = [name for name in rows[0] if name not in hidden]
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
