"""Flame graphs: folded stacks drawn as an SVG that needs nothing else.

Folded stacks are lines `outer;inner;innermost 123`: a stack of function names and its weight, here
time. The graph is an icicle: outermost functions on top, width is share of the whole time, and the
tool tip of a box names the function with its time and share.
"""

from __future__ import annotations

import html
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from perdure.errors import InputError, PerdureError, one_of
from perdure.programs import child

WIDTH, ROW, MARGIN, HEAD = 1200, 18, 8, 34
UNKNOWN = "[unknown]"
SMALLEST = 0.3  # pixels: narrower boxes are left out
CHARACTER = 6.3
UNITS = {"ps": 1e-12, "ns": 1e-9, "samples": 0.0}

# Functions of the same part of a program have the same hue.
HUES = (
    (re.compile(r"\bpm::|flush|fence|persist|stream|clwb|drain"), 12),
    (re.compile(r"lock|wait|pause|abort|transaction", re.IGNORECASE), 280),
    (re.compile(r"alloc|heap|pool|free", re.IGNORECASE), 45),
    (re.compile(r"driver|worker|workload|main"), 210),
)
OTHER_HUE = 150


@dataclass
class Frame:
    name: str
    weight: int = 0
    children: dict[str, Frame] = field(default_factory=dict)


def render(folded: str, title: str, *, unit: str = "ps", where: str = "folded stacks") -> str:
    """The SVG of folded stacks. Errors: InputError naming the line that is not a stack."""
    if unit not in UNITS:
        raise InputError(f"unknown unit '{unit}'", where=where, remedy=one_of(UNITS))
    root = parse(folded, where)
    depth = _depth(root)
    height = HEAD + depth * ROW + MARGIN
    boxes = "\n".join(_boxes(root, unit))
    heading = html.escape(f"{title}: {_amount(root.weight, unit)} over all threads")
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" \
style="width:100%;max-width:{WIDTH}px;height:auto" font-family="Inter, 'Segoe UI', system-ui, \
sans-serif" font-size="11">
<style>g:hover > rect {{ stroke: currentColor; }} text {{ pointer-events: none; }}</style>
<text x="{MARGIN}" y="20" font-size="14" font-weight="bold" fill="currentColor">{heading}</text>
{boxes}
</svg>
"""


def parse(folded: str, where: str = "folded stacks") -> Frame:
    """The tree of all stacks; every frame's weight includes its children's."""
    root = Frame("all")
    for number, line in enumerate(folded.splitlines(), start=1):
        if not line.strip():
            continue
        stack, _, weight = line.rpartition(" ")
        if not stack or not weight.isdigit():
            raise InputError(
                f"not a folded stack: {line[:60]!r}",
                where=f"{where}:{number}",
                remedy="each line is outer;inner and a whole number",
            )
        root.weight += int(weight)
        frame = root
        for name in stack.split(";"):
            frame = frame.children.setdefault(name, Frame(name))
            frame.weight += int(weight)
    if root.weight == 0:
        raise InputError("holds no time", where=where, remedy="profile a longer run")
    return root


def stacks(root: Frame) -> Iterable[tuple[str, int]]:
    """Every frame as `outer;inner`, with the time in it and what it calls; outermost first."""
    waiting = [(inner, inner.name) for inner in root.children.values()]
    while waiting:
        frame, path = waiting.pop(0)
        yield path, frame.weight
        waiting += [(inner, f"{path};{inner.name}") for inner in frame.children.values()]


def shortened(folded: str) -> str:
    """The same stacks with names that fit a box: `ListIndex::insert`, without template arguments
    and result; stacks that become equal are one line."""
    times: dict[str, int] = {}
    for line in folded.splitlines():
        stack, _, weight = line.rpartition(" ")
        names = ";".join(short_name(name) for name in stack.split(";"))
        if weight.isdigit():
            times[names] = times.get(names, 0) + int(weight)
    return "".join(f"{names} {time}\n" for names, time in sorted(times.items()))


def short_name(name: str) -> str:
    """`bool a::b::Tree<int>::find<K>(K) const` as `Tree::find`."""
    plain = re.sub(r"\(anonymous namespace\)::", "", name)
    plain = re.sub(r"\{lambda\([^{}]*\)#\d+\}(::operator\(\))?", "lambda", plain)
    plain = plain.replace("operator()", "operator\0")
    kept, depth = [], 0
    for position, letter in enumerate(plain):
        # The signs of `operator<` and `operator->` are no brackets.
        if letter in "<>()" and not plain[:position].endswith(("operator", "-", "operator<")):
            depth += 1 if letter in "<(" else -1
        elif depth <= 0:
            kept.append(letter)
    words = "".join(kept).removesuffix(" const").split(" ")
    return "::".join(words[-1].replace("\0", "()").split("::")[-2:]) or name


def fold_perf(recording: Path) -> str:
    """Folded stacks of a recording by `perf record -g`. Errors: PerdureError saying why not."""
    perf = shutil.which("perf")
    if perf is None:
        raise PerdureError(
            "perf is not installed",
            where="perdure flamegraph",
            remedy="install the package linux-perf",
        )
    if not recording.is_file():
        raise InputError("no such file", where=str(recording), remedy="record with perf record -g")
    command = [perf, "script", "-i", str(recording), "-F", "comm,ip,sym"]
    done = child.run(command, os.environ)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise PerdureError(f"perf script failed: {last}", where=str(recording))
    return fold(done.stdout.splitlines())


def fold(script: Iterable[str]) -> str:
    """`perf script` output (a header line per sample, frames innermost first) as folded stacks."""
    counts: dict[str, int] = {}
    command, frames = "", list[str]()

    def close() -> None:
        if frames:
            stack = ";".join([command, *reversed(frames)])
            counts[stack] = counts.get(stack, 0) + 1
        frames.clear()

    for line in script:
        if not line.strip():
            close()
        elif line[0].isspace():
            name = line.split(maxsplit=1)[1].strip() if len(line.split()) > 1 else UNKNOWN
            name = re.sub(r"\+0x[0-9a-f]+$", "", name).replace(";", ":")
            # Where there is no frame pointer, perf follows what else is on the stack: one says it.
            if name != UNKNOWN or frames[-1:] != [UNKNOWN]:
                frames.append(name)
        else:
            close()
            command = line.split()[0]
    close()
    return "".join(f"{stack} {count}\n" for stack, count in sorted(counts.items()))


def _boxes(root: Frame, unit: str) -> Iterable[str]:
    """A box per frame that is wide enough, outermost first."""
    scale = (WIDTH - 2 * MARGIN) / root.weight
    waiting = [(root, 0, float(MARGIN))]
    while waiting:
        frame, row, x = waiting.pop()
        if frame.weight * scale < SMALLEST:
            continue
        yield _box(frame, row, x, frame.weight * scale, root.weight, unit)
        for inner in sorted(frame.children.values(), key=lambda c: (-c.weight, c.name)):
            waiting.append((inner, row + 1, x))
            x += inner.weight * scale


def _box(frame: Frame, row: int, x: float, width: float, whole: int, unit: str) -> str:
    y = HEAD + row * ROW
    tip = html.escape(
        f"{frame.name}: {_amount(frame.weight, unit)}, {frame.weight / whole * 100:.1f} %"
    )
    letters = int((width - 6) / CHARACTER)
    label = ""
    if letters >= 3:
        name = frame.name if len(frame.name) <= letters else frame.name[: letters - 1] + "…"
        label = (
            f'<text x="{x + 3:.1f}" y="{y + 12.5:.1f}" fill="#101418">{html.escape(name)}</text>'
        )
    return (
        f'<g><title>{tip}</title><rect x="{x:.2f}" y="{y}" width="{max(width - 0.5, 0.2):.2f}" '
        f'height="{ROW - 1}" rx="2" fill="{_colour(frame.name)}"/>{label}</g>'
    )


def _colour(name: str) -> str:
    hue = next((hue for pattern, hue in HUES if pattern.search(name)), OTHER_HUE)
    # A stable shade per name sets neighbours apart.
    shade = 66 + sum(name.encode()) % 5 * 3
    return f"hsl({hue},55%,{shade}%)"


def _amount(weight: int, unit: str) -> str:
    if unit == "samples":
        return f"{weight:,} samples"
    seconds = weight * UNITS[unit]
    for name, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {name}"
    return f"{seconds / 1e-9:.3g} ns"


def _depth(frame: Frame) -> int:
    """The depth of the tree, without recursion: the profiled program may have recursed deeply."""
    deepest, level = 0, [frame]
    while level:
        deepest += 1
        level = [inner for one in level for inner in one.children.values()]
    return deepest
