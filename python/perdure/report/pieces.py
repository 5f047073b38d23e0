"""A drawing is pieces that stand side by side as far as there is room: keys, then panels.

A page lets its browser place them, so that one drawing serves a telephone, a screen and paper; a
file of its own is one SVG with as many columns as its width has room for.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as Xml
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from perdure.report.looks import FAINT, INK, Look

PANEL = 320  # pixels, of every panel: three stand side by side on a page, one on a telephone
GAP = 10
# Of a letter in pixels: of the font of 11 that labels have, of 12 in keys, of 13 and bold in
# titles. A browser may lack the font that is measured here, and take a wider one.
LETTER, KEY_LETTER, TITLE_LETTER = 6.8, 7.4, 8.8
FONT = "Inter, 'Segoe UI', system-ui, sans-serif"
FONT_SIZE = 11

# What a reader of the page does not need, and what is so without being said.
_NEEDLESS = ("class", "role", "pointer-events", "stroke-miterlimit", "font-family", "display")
_DEFAULTS = {"opacity": "1", "stroke-width": "1", "font-size": f"{FONT_SIZE}px", "y2": "0",
             "x2": "0", "font-weight": "normal", "text-anchor": "start", "stroke-dasharray": "1,0",
             "fill-opacity": "1", "stroke-opacity": "1"}  # fmt: skip
_INHERITED = ("fill", "stroke", "fill-opacity", "stroke-opacity", "stroke-width", "text-anchor",
              "font-size", "font-weight", "stroke-dasharray")  # fmt: skip
_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_MOVED = re.compile(r"^translate\((-?[\d.]+),(-?[\d.]+)\)$")


@dataclass(frozen=True)
class Piece:
    """A part of a drawing: what stands inside its `<svg>`."""

    body: str
    width: float
    height: float

    @property
    def svg(self) -> str:
        return (
            f'<svg viewBox="0 0 {self.width:g} {self.height:g}" '
            f'style="width:{self.width:g}px">{self.body}</svg>'
        )


def piece(svg: str) -> Piece:
    """What vl-convert drew, without what no reader needs."""
    root = Xml.fromstring(re.sub(r"<svg [^>]*?(?=width=)", "<svg ", svg, count=1))
    width, height = (float(root.get(name, "0")) for name in ("width", "height"))
    body = "".join(_text(one) for child in root for one in _slim(child))
    for marker, seen in ((INK, "currentColor"), (FAINT, "currentColor")):
        body = body.replace(f'fill="{marker}"', f'fill="{seen}"')
        opacity = ' stroke-opacity=".14"' if marker == FAINT else ""
        body = body.replace(f'stroke="{marker}"', f'stroke="{seen}"{opacity}')
    return Piece(body, width, height)


def inside(svg: str) -> Piece:
    """Another program's drawing as it is."""
    found = re.search(r'<svg\b[^>]*viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>(.*)</svg>', svg, re.S)
    if found is None:
        raise ValueError("no SVG with a viewBox from 0 0")
    return Piece(found.group(3), float(found.group(1)), float(found.group(2)))


def _slim(node: Xml.Element) -> list[Xml.Element]:
    """What is left of an element: itself, its children alone, or nothing."""
    if node.get("display") == "none" or node.get("class") in ("background", "foreground"):
        return []
    if node.tag == "path" and not node.get("d"):
        return []
    children = [one for child in node for one in _slim(child)]
    kept = Xml.Element(node.tag, dict(_attributes(node)))
    kept.text = node.text
    if node.tag == "text":
        kept.extend(children)  # lines of a title
        return [kept] if children or (node.text or "").strip() else []
    if node.tag != "g":
        return [kept]
    if not children:
        return []
    if len(children) == 1 and (alone := _merged(kept, children[0])) is not None:
        return [alone]
    kept.extend(children)
    _hoist(kept)
    return [kept] if kept.attrib else children


def _attributes(node: Xml.Element) -> Iterable[tuple[str, str]]:
    for name, value in node.attrib.items():
        rounded = _NUMBER.sub(lambda found: _short(float(found.group())), value)
        if name in _NEEDLESS or name.startswith("aria-") or _DEFAULTS.get(name) == rounded:
            continue
        moved = _MOVED.match(rounded) if name == "transform" else None
        if moved and moved.groups() == ("0", "0"):
            continue
        if moved and node.tag == "text":
            yield from (("x", moved.group(1)), ("y", moved.group(2)))
        else:
            yield name, rounded


def _short(number: float) -> str:
    return f"{round(number, 2) + 0.0:g}" if abs(number) < 1000 else f"{number:.0f}"


def _merged(group: Xml.Element, child: Xml.Element) -> Xml.Element | None:
    """A group of one child as that child, unless both are moved."""
    both = "transform" in group.attrib and {"transform", "x"} & set(child.attrib)
    if both or ("transform" in group.attrib and child.tag == "text"):
        return None
    child.attrib = {**group.attrib, **child.attrib}
    return child


def _hoist(group: Xml.Element) -> None:
    """Moves to the group what all its children say alike."""
    for name in _INHERITED:
        values = {child.get(name) for child in group}
        if len(values) == 1 and (value := values.pop()) is not None:
            group.set(name, value)
            for child in group:
                del child.attrib[name]


def _text(node: Xml.Element) -> str:
    return Xml.tostring(node, encoding="unicode").replace(" />", "/>")


def key(name: str, look: Look, *, line: bool = True, point: bool = True) -> Piece:
    """An entry of a legend: the line with its point, and the name."""
    parts = []
    if line:
        dash = f' stroke-dasharray="{",".join(map(str, look.dash))}"' if look.dash[1] else ""
        parts.append(f'<path d="M2 9H26" stroke="{look.colour}" stroke-width="1.8"{dash}/>')
    if point:
        fill = "none" if look.hollow else look.colour
        parts.append(
            f'<path d="{look.shape}" transform="translate({14 if line else 8},9)scale(4)" '
            f'fill="{fill}" stroke="{look.colour}" stroke-width=".35"/>'
        )
    start = 32 if line else 18
    parts.append(
        f'<text x="{start}" y="13" font-size="12" fill="currentColor">{escape(name)}</text>'
    )
    return Piece("".join(parts), start + round(KEY_LETTER * len(name)) + 8, 18)


def heading(text: str) -> Piece:
    """Words among keys, such as what their names are."""
    body = f'<text y="13" font-size="12" fill="currentColor">{escape(text)}</text>'
    return Piece(body, round(KEY_LETTER * len(text)) + 8, 18)


def composed(rows: Sequence[Sequence[Piece]], columns: int) -> Piece:
    """The pieces of each of `rows` from left to right, in as many lines as they need."""
    panels = max((sum(one.width >= PANEL for one in row) for row in rows), default=0)
    widest = max((one.width for row in rows for one in row), default=1.0)
    width = max(columns_width(min(columns, panels)), widest)
    found, top = list[str](), 0.0
    for row in rows:
        left, tallest = 0.0, 0.0
        for one in row:
            if left and left + one.width > width + 0.5:
                left, top, tallest = 0.0, top + tallest + GAP / 2, 0.0
            found.append(f'<g transform="translate({left:g},{top:g})">{one.body}</g>')
            left += one.width + GAP
            tallest = max(tallest, one.height)
        top += tallest + GAP
    return Piece("".join(found), width, top)


def columns_width(columns: int) -> int:
    return columns * PANEL + (columns - 1) * GAP


def as_file(one: Piece, size: str = "", about: str = "") -> str:
    """An SVG of its own. `size`: its attributes width and height; else as many pixels as drawn."""
    size = size or f'width="{one.width:g}" height="{one.height:g}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {one.width:g} {one.height:g}" '
        f'{size} font-family="{FONT}" font-size="{FONT_SIZE}">{about}{one.body}</svg>'
    )
