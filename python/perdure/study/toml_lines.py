"""Line numbers in TOML files, which tomllib does not keep.

A light scan of the text: it knows table headers, array-of-table headers and `key =` lines, which is
how studies are written. A key inside an inline table is reported at the line of the outermost key
that holds it.
"""

from __future__ import annotations

import re

Path = tuple[str | int, ...]

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""^\s*((?:"[^"]*"|'[^']*'|[A-Za-z0-9_.-])+)\s*=""")


def line_of(text: str, path: Path) -> int:
    """The line (from 1) of the longest prefix of `path` found in `text`; 1 when there is none."""
    places = _places(text)
    for length in range(len(path), 0, -1):
        if path[:length] in places:
            return places[path[:length]]
    return 1


def line_of_value(text: str, path: Path, value: object) -> int:
    """The line of `value` inside the entry at `path`: arrays may go over several lines."""
    first = line_of(text, path)
    lines = text.splitlines()
    wanted = re.compile(r"(?<![\w.-])" + re.escape(str(value)) + r"(?![\w.-])")
    for number in range(first, len(lines) + 1):
        line = lines[number - 1]
        if number > first and (_HEADER.match(line) or _KEY.match(line)):
            break
        if wanted.search(line):
            return number
    return first


def _places(text: str) -> dict[Path, int]:
    places: dict[Path, int] = {}
    elements: dict[Path, int] = {}
    table: Path = ()
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.match(line)
        key = _KEY.match(line)
        if header:
            name = _split(header.group(2))
            if header.group(1) == "[[":
                position = elements.get(name, 0)
                elements[name] = position + 1
                table = (*name, position)
                places.setdefault(name, number)
            else:
                table = name
            places.setdefault(table, number)
        elif key:
            places.setdefault((*table, *_split(key.group(1))), number)
    return places


def _split(dotted: str) -> Path:
    parts = re.findall(r""""[^"]*"|'[^']*'|[^.\s]+""", dotted)
    return tuple(part.strip("\"'") for part in parts)
