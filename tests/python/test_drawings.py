"""What drawings consist of: names at the ends of lines, ticks, and pieces side by side."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from perdure.report import labels, looks, panels, pieces, plots, probe_plots
from perdure.report.figure import Rows
from perdure.report.pieces import Piece

PERCENTILES = ["p50", "p90", "p99"]


def rows(names: list[str], last: int = 3) -> Rows:
    """Latencies of lines that end close together, the first one at the `last` percentile."""
    return [
        {"index": name, "panel": "insert", "percentile": label, "latency_ns": 1e3 + 10 * i + n}
        for n, name in enumerate(names)
        for i, label in enumerate(PERCENTILES[: last if n == 0 else 3])
    ]  # fmt: skip


def drawn(names: list[str], last: int = 3) -> tuple[dict[str, float], int]:
    """Where the names stand, from the top, and how many keys there are."""
    palette = looks.palette([(name, "persistent") for name in names])
    drawing = plots.latency(rows(names, last), PERCENTILES, palette)
    assert {one.width for one in drawing.panels} == {pieces.PANEL}
    found = re.findall(r'y="([\d.]+)"[^>]*>(\w[^<]*)</text>', drawing.panels[0].body)
    return {name: float(y) for y, name in found if name in names}, len(drawing.keys)


def test_names_stand_at_the_ends_of_lines_instead_of_a_legend() -> None:
    names = [f"index{n}" for n in range(10)]
    places, keys = drawn(names)
    assert set(places) == set(names) and keys == 0
    heights = sorted(places.values())
    gaps = [after - before for before, after in itertools.pairwise(heights)]
    assert min(gaps) >= labels.LINE - 0.1, "names that end within 9 ns of each other lie apart"
    assert sorted(names, key=lambda name: -places[name]) == names, "the largest on top"


@pytest.mark.parametrize(
    ("names", "last"),
    [
        (["short", "a-name-that-leaves-no-room"], 3),
        ([f"an-index-{n:07}" for n in range(12)], 3),
    ],
)
def test_without_room_there_is_a_legend(names: list[str], last: int) -> None:
    places, keys = drawn(names, last)
    assert places == {} and keys == len(names)


def test_a_line_that_ends_early_has_its_name_in_the_plot() -> None:
    places, keys = drawn(["early", "lasts"], 2)
    assert set(places) == {"early", "lasts"} and keys == 0
    # `early` ends below the line that lasts, so that its name stands below its end.
    assert places["early"] > places["lasts"]


def test_a_panel_that_ends_where_the_axis_begins_has_its_names_in_the_plot() -> None:
    """Panels of a figure share an axis; one may have its least value only."""
    common = {"medium": "none", "dash": "", "axis": ""}
    both = [("insert", 20), ("insert", 40), ("lookup skewed", 20)]
    ends = [
        {"index": name, "name": name, "panel": panel, "workload": panel, "beside": panel,
         "threads": threads, "throughput": at, "low": at, "high": at, **common}
        for name, at in (("fast", 2e6), ("slow", 1e6))
        for panel, threads in both
    ]  # fmt: skip
    palette = looks.palette([(name, "persistent") for name in ("fast", "slow")])
    drawing = plots.scaling(ends, palette, "Mop/s")
    for panel in drawing.panels:
        assert {">fast</text>", ">slow</text>"} <= set(re.findall(r">\w+</text>", panel.body))


SIZE = (230.0, 220.0)  # pixels of a plot
LASTS = [(0.0, 100.0), (230.0, 100.0)]


@pytest.mark.parametrize(
    ("others", "place"),
    [
        ([LASTS], labels.Place(labels.BESIDE, 0, "left")),
        ([[(80, 0), (80, 49)]], labels.Place(labels.BESIDE, labels.ABOVE, "left")),
        ([[(60, 0), (60, 220)]], labels.Place(-labels.BESIDE, -labels.PAST, "right")),
        ([[(60, 0), (60, 220)], [(45, 0), (45, 220)]], None),  # on both sides
        ([[(0, 45), (230, 45)], [(0, 55), (230, 55)]], None),  # above and below
    ],
)
def test_no_line_crosses_a_name_or_parts_it_from_its_end(
    others: list[list[labels.Point]], place: labels.Place | None
) -> None:
    lines = {"early": [(0.0, 50.0), (50.0, 50.0)]}
    if place and place.align == "right":  # its own line comes from below
        lines = {"early": [(0.0, 150.0), (50.0, 50.0)]}
    lines |= {f"other{n}": line for n, line in enumerate(others)}
    found = labels.inside(["early"], lines, *SIZE)
    assert found == ({"early": place} if place else {})


def test_names_in_a_plot_stand_apart_from_each_other_and_inside() -> None:
    lines: dict[str, list[labels.Point]] = {
        f"index{n}": [(0.0, 100.0 + 4 * n), (100.0, 100.0 + 4 * n)] for n in range(3)
    }
    found = labels.inside(lines, lines, *SIZE)
    boxes = [place.box(lines[name][-1], name) for name, place in found.items()]
    assert len(boxes) >= 2
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    at_the_end = {"early": [(0.0, 5.0), (225.0, 5.0)]}
    (place,) = labels.inside(["early"], at_the_end, *SIZE).values()
    assert place.box((225.0, 5.0), "early").is_within(*SIZE)


def test_what_has_no_room_is_all_that_the_legend_tells() -> None:
    palette = looks.palette([(name, "persistent") for name in ("above", "early", "below", "far")])
    ends = {"above": (1060, 3), "early": (1030, 2), "below": (1000, 3)}
    found: Rows = [
        {"index": name, "panel": "insert", "percentile": label, "latency_ns": rate + i}
        for name, (rate, last) in ends.items()
        for i, label in enumerate(PERCENTILES[:last])
    ]
    body = plots.latency(found, PERCENTILES, palette)
    close = [row | {"latency_ns": 1000.0 + row["latency_ns"] / 1e6} for row in found]
    far: Rows = [
        row | {"index": "far", "latency_ns": 1e7} for row in close if row["index"] == "above"
    ]
    assert not body.keys and ">early</text>" in body.panels[0].body
    body = plots.latency([*close, *far], PERCENTILES, palette)
    (key,) = body.keys
    assert ">early</text>" in key.body and ">early</text>" not in body.panels[0].body
    assert ">above</text>" in body.panels[0].body


def test_more_lines_than_can_be_told_apart_stand_in_panels_with_one_axis() -> None:
    names = [f"index{n}" for n in range(panels.MOST_LINES + 3)]
    palette = looks.palette([(name, "persistent") for name in names])
    drawing = plots.latency(rows(names), PERCENTILES, palette)
    assert drawing.groups == [2] and not drawing.keys
    first, second = (set(re.findall(r">(index\d+)<", one.body)) for one in drawing.panels)
    assert first | second == set(names) and not first & second
    assert abs(len(first) - len(second)) <= 1
    ticks = [re.findall(r">([\d.]+ (?:µs|ns))<", one.body) for one in drawing.panels]
    assert ticks[0] == ticks[1] and len(ticks[0]) > 1
    assert ">insert (1 of 2)</text>" in drawing.panels[0].body
    beside = [
        {**row, "axis": "insert", "beside": "insert", "panel": f"insert, {server}"}
        for server in ("one", "other")
        for row in rows(names)
    ]
    titles = [
        re.findall(r">(insert, [^<]*)<", one.body)
        for one in plots.latency(beside, PERCENTILES, palette).panels
    ]
    assert titles == [[f"insert, {s} ({n} of 2)"] for n in (1, 2) for s in ("one", "other")]


def test_names_are_moved_no_farther_than_needed() -> None:
    assert labels.spread([10, 60, 150], 200) == [10, 60, 150]
    assert labels.spread([100, 101], 200, 13) == [94, 107]
    assert labels.spread([0, 1, 199], 200, 13) == [0, 13, 199]
    generator = random.Random(7)
    for _ in range(200):
        wanted = sorted(generator.uniform(-5, 205) for _ in range(generator.randint(1, 15)))
        found = labels.spread(wanted, 200, 13)
        assert found[0] >= 0 and found[-1] <= 200 + 1e-9
        assert all(b - a >= 13 - 1e-9 for a, b in itertools.pairwise(found))


@pytest.mark.parametrize("numbers", [(3.1e6, 3.4e6), (90, 4e7), (1.0, 1.0), (999.0, 1001.0)])
def test_a_logarithmic_axis_has_two_ticks_and_all_numbers(numbers: tuple[float, float]) -> None:
    scale, marks = panels.logarithmic(numbers)
    low, high = scale.to_dict()["domain"]
    assert low < min(numbers) and max(numbers) < high
    assert len(marks) >= 2 and all(low <= mark <= high for mark in marks)


def test_an_interval_from_0_ends_where_a_logarithmic_axis_does() -> None:
    ends: Rows = [
        {"index": "a", "panel": "w", "threads": threads,
         "throughput": threads * 1e6, "low": 0.0, "high": threads * 2e6}
        for threads in (1, 2, 4)
    ]  # fmt: skip
    (panel,) = plots.scaling(ends, looks.palette([("a", "persistent")])).panels
    found = re.findall(
        r'<line transform="translate\([\d.]+,([\d.]+)\)" y2="-[\d.]+" op', panel.body
    )
    assert found == ["220"] * 3, "up from the bottom of the plot"


def test_a_drawing_is_slimmer_than_drawn_and_shows_the_same() -> None:
    told = (
        '<svg class="marks" xmlns="http://www.w3.org/2000/svg" width="320" height="99">'
        '<g fill="none" role="x"><path class="background" d="M0,0h9"/><g aria-label="a">'
        '<g><line transform="translate(1.23456,2)" x2="0" y2="5" stroke="#040506"/>'
        '<line transform="translate(0,0)" x2="7" y2="0" stroke="#040506" opacity="1"/></g></g>'
        '<text fill="#010203" font-size="11px"><tspan>two</tspan><tspan>lines</tspan></text>'
        '<text> </text><path d=""/></g></svg>'
    )
    found = pieces.piece(told)
    assert (found.width, found.height) == (320, 99)
    assert found.body == (
        '<g fill="none"><g stroke="currentColor" stroke-opacity=".14">'
        '<line transform="translate(1.23,2)" y2="5"/><line x2="7"/></g>'
        '<text fill="currentColor"><tspan>two</tspan><tspan>lines</tspan></text></g>'
    )


def test_a_file_has_as_many_columns_as_asked() -> None:
    panel, key = Piece("<p/>", pieces.PANEL, 100), Piece("<k/>", 200, 18)
    rows = [[key] * 2, [panel] * 3]

    def places(columns: int) -> list[str]:
        return re.findall(r"translate\(([\d.,]+)\)", pieces.composed(rows, columns).body)

    assert places(1) == ["0,0", "0,23", "0,51", "0,156", "0,261"]
    assert places(3) == ["0,0", "210,0", "0,28", "330,28", "660,28"]
    assert pieces.composed(rows, 3).width == 980 and pieces.composed(rows, 1).width == 320


def test_ratios_beyond_the_axis_are_triangles_at_its_ends() -> None:
    values = [{"simulated": ratio, "measured": 1.0} for ratio in (0.01, 1.0, 50.0)]
    roles = [{"name": role, "role": role, "values": values} for role in ("prediction", "own")]
    first, second = probe_plots.errors({"experiments": roles}).panels
    ends = re.findall(r'translate\(([\d.]+),[\d.]+\)" d="M(-?)[^"]*Z" opacity', first.body)
    assert [sign for _, sign in ends] == ["-", ""], "one points to the left, one to the right"
    axis = re.search(r'<line x2="([\d.]+)"', first.body)
    assert axis and [place for place, _ in ends] == ["0", axis[1]]
    assert ">prediction<" in first.body and ">own<" in second.body


def probed(**more: object) -> str:
    points = [
        {"inputs": {"op": "load", "pattern": "seq", "access_size": size, "threads": 1},
         "bandwidth_gib_s": 2.0}
        for size in (64, 256)
    ]  # fmt: skip
    return probe_plots.probe_file({"probe": "bandwidth", "points": points} | more)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"target": "native"}, "measured here, native"),
        ({"target": "sim:x"}, "simulated, sim:x"),
        ({"target": "sim:x", "quick": True}, "simulated, sim:x, a quick run"),
    ],
)
def test_a_picture_of_a_probe_says_where_it_is_from(more: dict[str, object], said: str) -> None:
    picture = probed(**more)
    assert f">{said}</text>" in picture and f"<desc>{said}</desc>" in picture
    assert "<title>probe bandwidth</title>" in picture


def test_names_in_a_drawing_are_escaped() -> None:
    assert "<b>" not in pieces.key("<b>", looks.Look("#000", "")).body
    assert "<b>" not in pieces.heading("<b>").body
