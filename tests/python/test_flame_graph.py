"""Flame graphs from folded stacks and from what perf prints."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.errors import InputError
from perdure.programs import flame_graph

Cli = Callable[..., subprocess.CompletedProcess[str]]
FOLDED = "main;lookup;pm::flush<T> 3000000\nmain;lookup 1000000\nmain;scan & sort 4000000\n"


def test_weights_add_up_along_each_stack() -> None:
    root = flame_graph.parse(FOLDED)
    main = root.children["main"]
    assert (root.weight, main.weight) == (8000000, 8000000)
    assert main.children["lookup"].weight == 4000000
    assert main.children["lookup"].children["pm::flush<T>"].weight == 3000000


def test_the_svg_is_well_formed_and_boxes_are_as_wide_as_their_share() -> None:
    root = ET.fromstring(flame_graph.render(FOLDED, "a < b"))
    space = {"s": "http://www.w3.org/2000/svg"}
    boxes = {}
    for group in root.findall("s:g", space):
        title, rect = group.find("s:title", space), group.find("s:rect", space)
        assert title is not None and title.text and rect is not None
        boxes[title.text.split(": ")[0]] = float(rect.attrib["width"])
    assert boxes["scan & sort"] / boxes["main"] == pytest.approx(0.5, abs=0.01)
    assert "8 µs" in "".join(root.itertext())


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("bool a::search<a::Links<int> >", "a::search"),
        ("a::List<a::Harris<b::X> >::insert", "List::insert"),
        ("a::(anonymous namespace)::leaf(int, b::C const&) const", "a::leaf"),
        ("void d::R<int>::run(A)::{lambda(unsigned int)#1}::operator()", "run::lambda"),
        ("a::Less::operator()", "Less::operator()"),
        ("a::Node::operator->", "Node::operator->"),
        ("(harness)", "(harness)"),
        ("main", "main"),
    ],
)
def test_names_are_shortened(name: str, short: str) -> None:
    assert flame_graph.short_name(name) == short


def test_shortened_stacks_that_become_equal_are_one() -> None:
    folded = "main;a::f<int> 3\nmain;a::f<char> 4\nmain 1\n"
    assert flame_graph.shortened(folded) == "main 1\nmain;a::f 7\n"
    root = flame_graph.parse(flame_graph.shortened(folded))
    assert list(flame_graph.stacks(root)) == [("main", 8), ("main;a::f", 7)]


def test_deep_recursion_is_drawn() -> None:
    assert "deep" in flame_graph.render(";".join(["f"] * 5000) + " 7", "deep")


@pytest.mark.parametrize(
    ("text", "line"), [("a;b 1\nno weight\n", 2), ("a;b -3\n", 1), ("a 1.5\n", 1), (" 5\n", 1)]
)
def test_a_line_that_is_no_stack_is_named(text: str, line: int) -> None:
    with pytest.raises(InputError) as caught:
        flame_graph.parse(text, "f.folded")
    assert str(caught.value).startswith(f"f.folded:{line}: not a folded stack")


def test_nothing_to_draw_is_an_error() -> None:
    with pytest.raises(InputError, match="holds no time"):
        flame_graph.render("", "x")


def test_perf_script_is_folded_outermost_first() -> None:
    script = """bench
\t    55d0 perdure::lookup(long)+0x1f
\t    55d1 main+0x20

bench
\t    55d0 perdure::lookup(long)+0x33
\t    55d1 main+0x20
""".splitlines()
    assert flame_graph.fold(script) == "bench;main;perdure::lookup(long) 2\n"


def test_what_perf_takes_for_frames_without_a_name_is_one() -> None:
    script = ["bench", "\t 1 f+0x1", "\t 2 [unknown]", "\t 3 [unknown]", "\t 4 main+0x1", ""]
    assert flame_graph.fold(script) == "bench;main;[unknown];f 1\n"


def test_the_command_draws_beside_its_source(tmp_path: Path, cli: Cli) -> None:
    source = tmp_path / "run.folded"
    source.write_text(FOLDED)
    done = cli("flamegraph", source)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "run.svg")
    assert "lookup" in (tmp_path / "run.svg").read_text()


def test_a_recording_without_perf_says_why(tmp_path: Path, cli: Cli) -> None:
    done = cli("flamegraph", tmp_path / "perf.data", PATH=str(tmp_path))
    assert done.returncode == 1
    assert "perf is not installed" in done.stderr and done.stderr.count("\n") == 1
