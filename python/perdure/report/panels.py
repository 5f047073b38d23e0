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
MOST_LINES = 12  # of a panel
FLAT = 0.1  # of an axis from 0: what has only such a share of it is hard to read


def _time_label() -> str:
    """For an axis of ns: the largest unit that fits."""
    expression = "datum.value + ' ns'"
    for unit, size in (("µs", "1e3"), ("ms", "1e6"), ("s", "1e9")):  # the last is asked first
        expression = f"datum.value >= {size} ? datum.value/{size} + ' {unit}' : {expression}"
    return expression


TIME_LABEL = _time_label()
NUMBER_LABEL = "abs(datum.value) >= 1000 ? format(datum.value, '~s') : format(datum.value, '~g')"


def panel(
    chart: Any,
    title: str,
    height: int,
    *,
    left: int = NUMBERS,
    right: int = MARGIN,
    title_lines: int = 1,
) -> Piece:
    """Draws a chart of one or more layers without any network, in colours that follow the page.
    `left` and `right`: what of the panel's width is beside the plot. `title_lines`: as many as the
    longest title beside it has, so that plots side by side stand at one height."""
    lines = _title(title)
    lines = [" "] * (title_lines - len(lines)) + lines
    chart = chart.properties(
        width=PANEL - left - right,
        height=height,
        title=alt.TitleParams(
            lines or "", anchor="start", frame="bounds", color=INK, fontSize=13, offset=8
        ),
    )
    found = piece(vl_convert.vegalite_to_svg(_styled(chart).to_dict()))
    return replace(found, width=max(PANEL, found.width))


def lines_of(titles: Iterable[str]) -> int:
    """How many lines the longest of some titles needs."""
    return max((len(_title(one)) for one in titles), default=1)


def _title(title: str) -> list[str]:
    return textwrap.wrap(title, int(PANEL / TITLE_LETTER))


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
    """A chart of lines: a panel for each `panel` of the rows, and a line for each name, which
    stands at its end where there is room. `columns` are those of x and y. Rows may also have
    `axis` and `beside` (see `arranged`), and `dash`, which a line's dash stands for."""

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

    def drawing(self, rows: Rows) -> Drawing:
        rows = [{"name": row["index"], "dash": "", "axis": row["panel"], **row} for row in rows]
        rows = split(rows)
        dashes = list(dict.fromkeys(str(row["dash"]) for row in rows))
        groups, sizes = arranged(rows)
        column = self.low_high[1] if self.low_high else self.columns[1]
        found, unnamed = list[Piece](), set[str]()
        lines = lines_of(one for panels in groups for one in panels)
        for panels in groups:
            like = sharing(panels, column, logarithmic=self.logarithmic)
            for title, own in panels.items():
                y = self._y(like[title])
                named, right, left_out = self._names(own, y)
                unnamed |= left_out
                chart = alt.layer(*self._lines(own, dashes, y), *named)
                found.append(panel(chart, title, self.height, right=right, title_lines=lines))
        keys = self._keys([row for row in rows if row["name"] in unnamed], dashes)
        return Drawing(found, keys, groups=sizes)

    def _keys(self, rows: Rows, dashes: list[str]) -> list[Piece]:
        indexes = dict.fromkeys(str(row["index"]) for row in rows)
        looks = self.palette.looks
        if len(dashes) > 1:
            lines = [Look("currentColor", "", dash) for dash in DASHES]
            return [key(one, looks[one], line=False) for one in indexes] + [
                key(one, look, point=False) for one, look in zip(dashes, lines, strict=False)
            ]
        return [key(one, looks[one]) for one in indexes]

    def _lines(self, rows: Rows, dashes: list[str], y: alt.Y) -> list[Any]:
        """The layers of intervals, lines and points."""
        used = {row["index"] for row in rows}
        base = alt.Chart(values(rows)).encode(
            x=self.x,
            y=y,
            stroke=alt.Stroke("index:N", scale=self.palette.colours(used), legend=None),
            detail="name:N",
        )
        dash = alt.StrokeDash("index:N", scale=self.palette.dashes(used), legend=None)
        if len(dashes) > 1:
            lines = alt.Scale(domain=dashes, range=[list(one) for one in DASHES[: len(dashes)]])
            dash = alt.StrokeDash("dash:N", scale=lines, legend=None)
        layers = [base.mark_line(strokeWidth=1.8).encode(strokeDash=dash)]
        if self.low_high:
            low, high = self.low_high
            interval = base.mark_rule(strokeWidth=4, opacity=0.35)
            layers.insert(0, interval.encode(y=alt.Y(f"{low}:Q"), y2=high))
        return [*layers, dots(self._pointed(base, rows), used, self.palette)]

    def _pointed(self, base: Any, rows: Rows) -> Any:
        """Long lines have a few points, because colour alone would tell them apart."""
        if not self.most_points:
            return base
        found: Rows = []
        for line in by(rows, "name").values():
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

    def _names(self, rows: Rows, y: alt.Y) -> tuple[list[Any], int, set[str]]:
        """The layers of the names that have room, what the panel needs right of its plot, and the
        names that have none: a legend tells these. Lines that end together have room or not."""
        across, value = Across.of(self.x, [row[self.columns[0]] for row in rows]), self.columns[1]
        ends = {name: self._last(line) for name, line in by(rows, "name").items()}
        last = max((row[self.columns[0]] for row in ends.values()), key=self._position)
        lasting = {
            name: row for name, row in ends.items() if self._reaches(row[self.columns[0]], last)
        }
        right = right_of(lasting, across.share(last))
        colours = self.palette.colours({row["index"] for row in rows})
        beside = names(lasting, self.x, y, value, colours, self.height)
        early = [name for name in ends if name not in lasting]
        if not beside:
            return [], MARGIN, set(ends)
        pixel, width = span_of(y, self.height).pixel, PANEL - NUMBERS - right
        lines = {
            name: [(across.pixel(row[self.columns[0]], width), pixel(row[value])) for row in line]
            for name, line in ((n, self._in_order(own)) for n, own in by(rows, "name").items())
        }
        found = labels.inside(early, lines, width, self.height)
        within = [self._inside(ends[name], place, y) for name, place in found.items()]
        return [*beside, *within], right, set(early) - set(found)

    def _inside(self, row: Row, place: labels.Place, y: alt.Y) -> Any:
        """The name of a line that ends early."""
        base = alt.Chart(values([row])).encode(x=self.x, y=y, text="name:N")
        return base.mark_text(
            align=place.align, baseline="middle", dx=place.dx, dy=place.dy, color=INK
        )

    def _position(self, x: Any) -> Any:
        return self.ordered.index(x) if self.ordered else x

    def _in_order(self, line: Rows) -> Rows:
        return sorted(line, key=lambda row: self._position(row[self.columns[0]]))

    def _last(self, line: Rows) -> Row:
        return self._in_order(line)[-1]

    def _reaches(self, x: Any, last: Any) -> bool:
        return bool(x >= last * (1 - self.near)) if self.near else bool(x == last)


@dataclass(frozen=True)
class Across:
    """Where numbers or words stand along a horizontal axis."""

    words: Sequence[Any] = ()  # of an axis of words, which stand in the middle of steps
    low: float = 0.0
    high: float = 1.0
    logarithmic: bool = False
    padding: float = 0.0  # pixels at both ends

    @classmethod
    def of(cls, x: alt.X, there: Iterable[Any]) -> Across:
        shown: Any = x.to_dict()
        if shown["type"] != "quantitative":
            sort, used = shown["sort"], set(there)
            return cls(words=[word for word in sort if word in used])
        scale = shown["scale"]
        low, high = scale["domain"]
        return cls((), low, high, scale.get("type") == "log", scale.get("padding", 0.0))

    def share(self, value: Any) -> float:
        if self.words:
            return (self.words.index(value) + 0.5) / len(self.words)
        low, high, at = self.low, self.high, value
        if self.logarithmic:
            low, high, at = math.log(low), math.log(high), math.log(value)
        return float((at - low) / (high - low)) if high > low else 0.5

    def pixel(self, value: Any, width: float) -> float:
        return self.padding + self.share(value) * (width - 2 * self.padding)


def by(rows: Rows, column: str) -> dict[str, Rows]:
    """The rows by what stands in a column."""
    found: dict[str, Rows] = {}
    for row in rows:
        found.setdefault(str(row[column]), []).append(row)
    return found


def split(rows: Rows) -> Rows:
    """What has more lines in a panel than can be told apart, in several with the same axis."""
    found: Rows = []
    for title, own in by(rows, "panel").items():
        names = list(by(own, "name"))
        parts = math.ceil(len(names) / MOST_LINES)
        size = math.ceil(len(names) / parts)
        for row in own:
            part = names.index(row["name"]) // size + 1
            if parts > 1:
                row = row | {"panel": f"{title} ({part} of {parts})"}
                row |= {"beside": f"{row['beside']} {part}"} if "beside" in row else {}
            found.append(row)
    return found


def arranged(rows: Rows) -> tuple[list[dict[str, Rows]], list[int]]:
    """The panels of each "axis" with their rows, and how many of them stand side by side at a time
    because they are "beside" each other (as one axis says, if nothing is said)."""
    groups, sizes = [], []
    for own in by(rows, "axis").values():
        lines = by([{"beside": "", **row} for row in own], "beside").values()
        panels = [by(line, "panel") for line in lines]
        groups.append({title: there for line in panels for title, there in line.items()})
        sizes += [len(line) for line in panels]
    return groups, sizes


def sharing(panels: Mapping[str, Rows], column: str, *, logarithmic: bool) -> dict[str, Rows]:
    """Of each panel, the rows that its axis of numbers has to show: those of all panels, or where
    some would be flat on it, those that stand beside it, or its own."""
    most = [max(abs(float(row[column])) for row in rows) for rows in panels.values()]
    if not logarithmic and min(most) < FLAT * max(most):
        lines: dict[str, dict[str, Rows]] = {}
        for title, rows in panels.items():
            lines.setdefault(rows[0]["beside"], {})[title] = rows
        if len(lines) == 1:
            return dict(panels)
        found = (sharing(line, column, logarithmic=False) for line in lines.values())
        return {title: rows for line in found for title, rows in line.items()}
    everything = [row for rows in panels.values() for row in rows]
    return dict.fromkeys(panels, everything)


def span_of(y: alt.Y, height: int) -> Span:
    """Of an axis with a domain."""
    shown: Any = y.to_dict()
    scale = shown["scale"]
    low, high = scale["domain"]
    return Span(low, high, height, scale.get("type") == "log")


def names(
    ends: Mapping[str, Row], x: alt.X, y: alt.Y, value: str, colours: alt.Scale, height: int
) -> list[Any]:
    """The layers of the names at the ends of lines; none where there is no room. `ends` has the
    last row of each line, "index" in it tells the colour, and `y` has a domain."""
    found = labels.places({name: row[value] for name, row in ends.items()}, span_of(y, height))
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
    if share == 0:  # the whole plot is
        return MARGIN
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
