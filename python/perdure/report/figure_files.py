"""The report's figures as files for a paper: SVG and PDF of a wanted width, data as CSV."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import vl_convert

from perdure.errors import InputError
from perdure.programs import outputs
from perdure.report import page
from perdure.report.figure import COLUMNS, Figure
from perdure.report.pieces import as_file
from perdure.results.record import QUICK_BANNER, Run

MM = {"mm": 1.0, "cm": 10.0, "in": 25.4, "pt": 25.4 / 72}
COLUMN_MM = 84  # of a paper: a figure has a column of panels for each
LEAST_MM, MOST_MM = 20.0, 1000.0
_WIDTH = re.compile(r"^(\d+(?:\.\d+)?)\s*(mm|cm|in|pt)$")


def width_mm(text: str) -> float | None:
    """`84mm`, `3.3in`; None of an empty text. Errors: InputError."""
    if not text:
        return None
    found = _WIDTH.match(text)
    width = float(found.group(1)) * MM[found.group(2)] if found else 0.0
    if not LEAST_MM <= width <= MOST_MM:
        raise InputError(
            f"'{text}' is no width of {LEAST_MM:g} mm to {MOST_MM:g} mm",
            where="--width",
            remedy="write 84mm, 8.4cm, 3.3in or 240pt",
        )
    return width


def write(
    source: Path, runs: list[Run], folder: Path, *, pdf: bool, width: float | None
) -> list[Path]:
    """Writes NAME.svg, NAME.csv and, if asked, NAME.pdf for each figure, in place of those of the
    same names. `width` in mm; None: as in the report. Errors: InputError where there are none."""
    figures = list(_figures(page.content(source, runs)))
    if any(run.quick for run in runs):
        figures = [replace(one, caption=f"{QUICK_BANNER}. {one.caption}") for one in figures]
    if not figures:
        raise InputError("has nothing to draw", where=str(source), remedy="run a study first")
    outputs.folder(folder, "--to")
    written = []
    for figure in figures:
        svg = sized(figure, width)
        written += [folder / f"{figure.identifier}.{suffix}" for suffix in ("svg", "csv")]
        outputs.write(written[-2], svg)
        outputs.write(written[-1], figure.csv)
        if pdf:
            written.append(folder / f"{figure.identifier}.pdf")
            outputs.write_bytes(
                written[-1], vl_convert.svg_to_pdf(sized(figure, width, points=True))
            )
    return written


def sized(figure: Figure, width: float | None, *, points: bool = False) -> str:
    """The drawing as a file of its own: black, with its title and caption inside. `points`: with a
    unit for each point of a PDF, which takes them as such."""
    whole = figure.drawing.whole(
        COLUMNS if width is None else min(COLUMNS, max(1, round(width / COLUMN_MM)))
    )
    size = ""
    if width is not None:
        unit, scale = ("", 72 / 25.4) if points else ("mm", 1.0)
        wide = width * scale
        size = f'width="{wide:.6g}{unit}" height="{wide * whole.height / whole.width:.4g}{unit}"'
    about = f"<title>{escape(figure.title)}</title><desc>{escape(figure.caption)}</desc>"
    return as_file(whole, size, about).replace("currentColor", "#000000")


def _figures(node: Any, origin: str = "measured, native") -> Iterator[Figure]:
    """All in the context of a page, each once, with the origin of its numbers in the title."""
    if isinstance(node, Figure):
        yield replace(node, title=f"{node.title} ({origin})")
    elif isinstance(node, dict):
        origin = str(node.get("tag", origin))
        for name, inner in node.items():
            beside = name == "fidelity"
            yield from _figures(inner, "simulated beside measured by others" if beside else origin)
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for one in node:
            yield from _figures(one, origin)
