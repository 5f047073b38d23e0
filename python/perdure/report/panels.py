"""What all panels share: their style, axes, and lines with their names."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt
import vl_convert

from perdure.report import labels
from perdure.report.figure import Drawing, Row, Rows
from perdure.report.labels import Span
from perdure.report.looks import DASHES, FAINT, INK, Look, Palette
from perdure.report.pieces import FONT, FONT_SIZE, LETTER, PANEL, TITLE_LETTER, Piece, key, piece

LABELS = 150  # pixels, the most that names on a vertical axis take
NUMBER, NUMBERS = 46, 72  # numbers take, without and with the title of their axis
MARGIN = 18  # right of a plot, for half of the last number below it
POINT_SIZE = 38


def _time_label() -> str:
    """For an axis of ns: the largest unit that fits."""
    expression = "datum.value + ' ns'"
    for unit, size in (("µs", "1e3"), ("ms", "1e6"), ("s", "1e9")):  # the last is asked first
        expression = f"datum.value >= {size} ? datum.value/{size} + ' {unit}' : {expression}"
    return expression


TIME_LABEL = _time_label()
NUMBER_LABEL = "abs(datum.value) >= 1000 ? format(datum.value, '~s') : format(datum.value, '~g')"


def panel(
    chart: Any, title: str, height: int, *, left: int = NUMBERS, right: int = MARGIN
) -> Piece:
    """Draws a chart of one or more layers without any network, in colours that follow the page.
    `left` and `right`: what of the panel's width is beside the plot."""
    lines = textwrap.wrap(title, int(PANEL / TITLE_LETTER))
    chart = chart.properties(
        width=PANEL - left - right,
        height=height,
        title=alt.TitleParams(
            lines or "", anchor="start", frame="bounds", color=INK, fontSize=13, offset=8
        ),
    )
    found = piece(vl_convert.vegalite_to_svg(_styled(chart).to_dict()))
    return replace(found, width=max(PANEL, found.width))


def room_of(names: Iterable[str]) -> int:
    """Pixels of the longest name in a wide font, with its distance from the plot."""
    return min(LABELS, round(LETTER * max(map(len, names), default=0))) + 14


def names_axis(names: Iterable[str]) -> alt.Axis:
    """Of names below each other, with room for the longest in a wider font as well."""
    return alt.Axis(
        labelLimit=LABELS, minExtent=room_of(names) - 10, ticks=False, domain=False, labelPadding=4
    )


def values(rows: Rows) -> alt.InlineData:
    return alt.InlineData(values=rows)


def ticks(numbers: Iterable[float]) -> list[float]:
    """Round values around the numbers, the closer the less these differ; at least two."""
    there = [number for number in numbers if number > 0] or [1.0, 10.0]
    low, high = min(there), max(there)
    first, last = math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1
    close = high / low < 6
    steps = (1, 1.5, 2, 3, 5, 7) if close else (1, 2, 5) if high / low < 300 else (1,)
    candidates = [step * 10.0**n for n in range(first, last + 1) for step in steps]
    start = max(one for one in candidates if one <= low)
    end = min(one for one in candidates if one >= high and one > start)
    return [one for one in candidates if start <= one <= end]


def logarithmic(numbers: Sequence[float]) -> tuple[alt.Scale, list[float]]:
    """A scale that shows all numbers, and its ticks, at least two. What is 0 stands at its end."""
    marks = ticks(numbers)
    there = [number for number in numbers if number > 0] or marks
    low, high = min(there) / 1.15, max(there) * 1.15
    if sum(low <= mark <= high for mark in marks) < 2:
        low, high = min(low, marks[0]), max(high, marks[-1])
    # A tick beyond the ends would stand at them, with a number that is not theirs.
    inside = [mark for mark in marks if low <= mark <= high]
    return alt.Scale(type="log", nice=False, domain=[low, high], clamp=True), inside


def number_axis(marks: Sequence[float] = (), *, times: bool = False, **more: Any) -> alt.Axis:
    """Of numbers as 0.5, 500, 5k; `times`: of ns. Labels that would touch are left out."""
    return alt.Axis(
        values=list(marks) or alt.Undefined,
        labelExpr=TIME_LABEL if times else NUMBER_LABEL,
        labelOverlap="greedy",
        labelSeparation=8,
        tickCount=alt.Undefined if marks else 4,
        **more,
    )


@dataclass(frozen=True)
class Lines:
    """A chart of lines: a panel for each of `panels`, a line for each name, which stands at its end
    where there is room. `columns` are those of x and y."""

    x: alt.X
    columns: tuple[str, str]
    title: str
    palette: Palette
    height: int = 220
    logarithmic: bool = False  # else from 0
    times: bool = False
    low_high: tuple[str, str] | None = None  # columns of intervals
    most_points: int = 0  # of a line; 0: one for each number
    ordered: Sequence[Any] = ()  # of x: the last is where names stand
    near: float = 0.0  # of x: lines that end so close to the last one end with it
    panels: str = "panel"

    def drawing(self, rows: Rows) -> Drawing:
        there = list(dict.fromkeys(str(row[self.panels]) for row in rows))
        media = list(dict.fromkeys(str(row.get("medium", "")) for row in rows))
        found = [
            self._panel([row for row in rows if row[self.panels] == one], one, media)
            for one in there
        ]
        unnamed = any(not named for _, named in found)
        return Drawing([one for one, _ in found], self._keys(rows, media) if unnamed else [])

    def _keys(self, rows: Rows, media: list[str]) -> list[Piece]:
        indexes = dict.fromkeys(str(row["index"]) for row in rows)
        looks = self.palette.looks
        if len(media) > 1:
            lines = [Look("currentColor", "", dash) for dash in DASHES]
            return [key(one, looks[one], line=False) for one in indexes] + [
                key(one, look, point=False) for one, look in zip(media, lines, strict=False)
            ]
        return [key(one, looks[one]) for one in indexes]

    def _panel(self, rows: Rows, title: str, media: list[str]) -> tuple[Piece, bool]:
        rows = [row | {"name": row.get("name", row["index"])} for row in rows]
        used = {row["index"] for row in rows}
        y = self._y(rows)
        base = alt.Chart(values(rows)).encode(
            x=self.x,
            y=y,
            stroke=alt.Stroke("index:N", scale=self.palette.colours(used), legend=None),
            detail="name:N",
        )
        dash = alt.StrokeDash("index:N", scale=self.palette.dashes(used), legend=None)
        if len(media) > 1:
            lines = alt.Scale(domain=media, range=[list(one) for one in DASHES[: len(media)]])
            dash = alt.StrokeDash("medium:N", scale=lines, legend=None)
        layers = [base.mark_line(strokeWidth=1.8).encode(strokeDash=dash)]
        if self.low_high:
            low, high = self.low_high
            interval = base.mark_rule(strokeWidth=4, opacity=0.35)
            layers.insert(0, interval.encode(y=alt.Y(f"{low}:Q"), y2=high))
        layers.append(dots(self._pointed(base, rows), used, self.palette))
        named = self._names(rows, y)
        layers += named
        right = right_of({row["name"] for row in rows}, self._share(rows)) if named else MARGIN
        return panel(alt.layer(*layers), title, self.height, right=right), bool(named)

    def _share(self, rows: Rows) -> float:
        """Where in the plot lines end: words stand in the middle of steps."""
        if self.x.shorthand.endswith(":Q"):
            return 1.0
        return 1 - 0.5 / len({row[self.columns[0]] for row in rows})

    def _pointed(self, base: Any, rows: Rows) -> Any:
        """Long lines have a few points, because colour alone would tell them apart."""
        if not self.most_points:
            return base
        found: Rows = []
        for name in dict.fromkeys(row["name"] for row in rows):
            line = [row for row in rows if row["name"] == name]
            step = max(1, len(line) // self.most_points)
            found += line[(len(line) - 1) % step :: step]
        pointed = base.copy()
        pointed.data = values(found)
        return pointed

    def _y(self, rows: Rows) -> alt.Y:
        column = self.columns[1]
        numbers = [row[end] for row in rows for end in (column, *(self.low_high or ()))]
        scale, marks = alt.Scale(domain=[0, max(numbers) * 1.06 or 1.0], nice=False), list[float]()
        if self.logarithmic:
            scale, marks = logarithmic(numbers)
        return alt.Y(
            f"{column}:Q",
            title=self.title,
            scale=scale,
            axis=number_axis(marks, times=self.times, minExtent=NUMBER),
        )

    def _names(self, rows: Rows, y: alt.Y) -> list[Any]:
        column, value = self.columns
        there = {row[column] for row in rows}
        last = [one for one in self.ordered if one in there][-1] if self.ordered else max(there)
        least = last * (1 - self.near) if self.near else last
        ends = {
            str(row["name"]): row
            for row in rows
            if row[column] == last or (self.near and row[column] >= least)
        }
        if set(ends) != {str(row["name"]) for row in rows}:
            return []
        colours = self.palette.colours({row["index"] for row in rows})
        return names(ends, self.x, y, value, colours, self.height)


def names(
    ends: Mapping[str, Row], x: alt.X, y: alt.Y, value: str, colours: alt.Scale, height: int
) -> list[Any]:
    """The layers of the names at the ends of lines; none where there is no room. `ends` has the
    last row of each line, "index" in it tells the colour, and `y` has a domain."""
    scale: Any = y.to_dict()
    low, high = scale["scale"]["domain"]
    span = Span(low, high, height, scale["scale"].get("type") == "log")
    found = labels.places({name: row[value] for name, row in ends.items()}, span)
    if found is None:
        return []
    rows = [{**ends[name], "label": name, "beside": place} for name, place in found.items()]
    base = alt.Chart(values(rows)).encode(x=x)
    beside = y.copy()
    beside.shorthand = "beside:Q"
    leader = base.mark_rule(strokeWidth=1, opacity=0.6, xOffset=5, x2Offset=13).encode(
        x2=x.shorthand.split(":")[0],
        y=y,
        y2="beside",
        stroke=alt.Stroke("index:N", scale=colours, legend=None),
    )
    name = base.mark_text(align="left", baseline="middle", dx=15, color=INK)
    return [leader, name.encode(y=beside, text="label:N")]


def right_of(names: Iterable[str], share: float) -> int:
    """What is right of a plot when names stand where the lines end, at `share` of it."""
    room = room_of(names) + 8
    plot = (PANEL - NUMBERS - room) / share
    return max(MARGIN, round(PANEL - NUMBERS - plot))


def dots(base: Any, used: set[Any], palette: Palette) -> Any:
    return base.mark_point(size=POINT_SIZE, opacity=1, strokeWidth=1.3).encode(
        fill=alt.Fill("index:N", scale=palette.fills(used), legend=None),
        shape=alt.Shape("index:N", scale=palette.shapes(used), legend=None),
    )


def _styled(chart: Any) -> Any:
    return chart.configure(
        background="transparent",
        padding={"left": 6, "right": 6, "top": 4, "bottom": 4},
        font=FONT,
        aria=False,
        view=alt.ViewConfig(stroke=None),
        axis=alt.AxisConfig(
            labelColor=INK,
            titleColor=INK,
            gridColor=FAINT,
            domainColor=FAINT,
            tickColor=FAINT,
            labelFontSize=FONT_SIZE,
            titleFontSize=FONT_SIZE,
            titleFontWeight="normal",
            labelOpacity=0.85,
            titleOpacity=0.7,
        ),
    )
