#!/usr/bin/env python3
"""Code quoted in README.md and docs/ is the files' own, so that what a reader copies has been run.

`<!-- file: PATH -->` before a fenced block: the block is the whole file.
`<!-- quote: PATH -->`: the block stands in the file as it is.
Every C++ or C block needs one of the two. Blocks marked `<!-- run: ... -->` are checked by
tests/python/test_quoted_runs.py. A command in a block must be one that a reader can type in a fresh
clone: our programs are on no PATH, and what is built lies in build/release.
Usage: check_quotes.py ROOT
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

MARK = re.compile(r"<!-- (file|quote): (\S+) -->")
UNTYPEABLE = (
    (re.compile(r"^(\$ )?perdure(-native|-sim)?\s"), "is on no PATH: write ./perdure, or its path"),
    (re.compile(r"cmake --install build(\s|$)"), "is not what was built: write build/release"),
)
MUST_HAVE = {"README.md": "file", "docs/adding-an-index.md": "quote"}


def check(root: Path, page: Path) -> list[str]:
    """What is wrong with the quotes of one page."""
    problems: list[str] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    kinds: set[str] = set()
    mark: tuple[str, str] | None = None
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if (match := MARK.fullmatch(line.strip())) is not None:
            mark = (match.group(1), match.group(2))
        elif line.startswith("```"):
            language, start, body = line[3:].strip(), number, []
            while number < len(lines) and not lines[number].startswith("```"):
                body.append(lines[number])
                number += 1
            number += 1
            where = f"{page.relative_to(root)}:{start}"
            problems += [
                f"{page.relative_to(root)}:{start + i + 1}: {text!r} {why}"
                for i, text in enumerate(body) for pattern, why in UNTYPEABLE
                if pattern.search(text)
            ]  # fmt: skip
            if mark is not None:
                kinds.add(mark[0])
                problems += compare(root, where, mark, "\n".join(body).strip("\n"))
            elif language in {"cpp", "c++", "c"}:
                problems.append(f"{where}: C++ that is quoted from no file")
            mark = None
        elif line.strip():
            mark = None
            problems += [
                f"{page.relative_to(root)}:{number}: {code!r} {why}"
                for code in re.findall(r"`([^`]+)`", line) for pattern, why in UNTYPEABLE[1:]
                if pattern.search(code)
            ]  # fmt: skip
    wanted = MUST_HAVE.get(page.relative_to(root).as_posix())
    if wanted is not None and wanted not in kinds:
        problems.append(f"{page.relative_to(root)}: holds no `<!-- {wanted}: PATH -->` block")
    return problems


def compare(root: Path, where: str, mark: tuple[str, str], body: str) -> list[str]:
    """What is wrong with one block."""
    kind, name = mark
    source = root / name
    if not source.is_file():
        return [f"{where}: {name} does not exist"]
    text = source.read_text(encoding="utf-8").strip("\n")
    if kind == "file" and text != body:
        return [f"{where}: differs from {name}"]
    if kind == "quote" and body not in text:
        return [f"{where}: is not in {name} as it stands here"]
    return []


def main() -> int:
    root = Path(sys.argv[1]).resolve()
    pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    problems = [problem for page in pages for problem in check(root, page)]
    print("\n".join(problems) or f"{len(pages)} pages quote their files")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
