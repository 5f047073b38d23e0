"""What tells the cells of a figure apart beside index, workload and threads, such as the server or
the size of values: of one axis the dash of a line, of all others panels side by side."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from perdure.results import naming
from perdure.results.naming import Labels

MOST_DASHES = 3  # that are told apart at a glance
MOST_LINES = 10  # of a panel in which lines differ in dash as well


@dataclass(frozen=True)
class Facets:
    """Axes of labels, by where a drawing shows them. `dashed`: empty where lines of one index are
    all alike."""

    panels: tuple[str, ...] = ()
    dashed: str = ""
    across: str = ""  # of `panels`, that with most values: in it alone panels side by side differ

    @classmethod
    def of(
        cls, cells: Sequence[Labels], series: str, *, apart: Collection[str], dashes: bool = True
    ) -> Facets:
        """Of cells with these labels. `series`: the axis that lines stand for. `apart`: axes that
        the drawing has another place for. `dashes`: whether it has lines."""
        told = [axis for axis in naming.differing(cells) if axis != series and axis not in apart]
        choices = [axis for axis in told if dashes and _fits(cells, axis, series)]
        dashed = min(choices, key=lambda axis: len(naming.values(cells, axis)), default="")
        panels = tuple(axis for axis in told if axis != dashed)
        across = max(panels, key=lambda axis: len(naming.values(cells, axis)), default="")
        return cls(panels, dashed, across)

    @property
    def axes(self) -> tuple[str, ...]:
        return (*self.panels, self.dashed) if self.dashed else self.panels

    def row(self, labels: Labels, workload: str, series: str) -> dict[str, str]:
        """What a row of a drawing needs: its panel, whose axis of numbers is that of all panels of
        the `workload`; with which others it stands side by side; the dash of its line; the name of
        that, which begins with `series`."""
        dash = naming.words(labels, [self.dashed])
        others = [axis for axis in self.panels if axis != self.across]
        return {
            "axis": workload,
            "beside": ", ".join(filter(None, (workload, naming.words(labels, others)))),
            "panel": ", ".join(filter(None, (workload, naming.words(labels, self.panels)))),
            "dash": dash,
            "name": f"{series} · {dash}" if dash else series,
        }


def _fits(labels: Sequence[Labels], axis: str, series: str) -> bool:
    lines = {(one.get(series), one.get(axis)) for one in labels}
    return len(naming.values(labels, axis)) <= MOST_DASHES and len(lines) <= MOST_LINES
