#!/usr/bin/env python3
"""Checks the house rules that a compiler does not: layers, lengths, the map, banned words.

Usage: tools/tidy.py [--root FOLDER]

Prints one line per finding, `file:line: what; remedy`, and exits with 1 if there is any, else 0.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# What a layer of src/ may include besides itself.
LAYERS: dict[str, set[str]] = {
    "core": set(),
    "pm": {"core"},
    "pool": {"core", "pm"},
    "index": {"core", "pm", "pool"},
    "structure": {"core", "pm", "pool", "index"},
    "lockfree": {"core", "pm", "pool", "index"},
    "engine": {"core", "pm", "pool", "index"},
    "workload": {"core"},
    "platform": {"core", "pm"},
    # The explorer creates and recovers whatever is registered, on pool images: so it stands above
    # the indexes, which never include it.
    "crash": {"core", "pm", "pool", "index", "lockfree", "platform"},
    "probe": {"core", "pm", "pool"},
    "pibench": {"core", "pm", "pool", "index"},
    "driver": {
        "core",
        "pm",
        "pool",
        "index",
        "structure",
        "lockfree",
        "engine",
        "workload",
        "platform",
        "crash",
        "probe",
        "pibench",
    },
}
LAYERS["server"] = {"core", "pm", "pool", "index", "engine"}
LAYERS["cli"] = LAYERS["driver"] | {"driver", "engine", "server"}

# What a package of python/perdure may import besides itself and the modules beside the packages;
# those import no package.
PYTHON_LAYERS: dict[str, set[str]] = {
    "programs": set(),
    "results": {"programs"},
    "memory": {"programs", "results"},
    "study": {"programs", "results", "memory"},
    "report": {"programs", "results", "study", "memory"},
}
PYTHON_LAYERS["cli"] = PYTHON_LAYERS["report"] | {"report"}
PYTHON_ROOT = "python/perdure/"
# They start the command line, so they stand above all packages.
PYTHON_STARTS = {"__main__.py"}

# A folder of these for each index, structure, list or queue.
PLUGIN_LAYERS = {"index", "structure", "lockfree", "engine"}
# Folders that hold what several of them share; they are no index themselves.
SHARED_INDEX_FOLDERS = {
    "base",
    "common",
    "inner_tree",
    "leaf",
    "list",
    "memory",
    "reference",
    "slots",
    "store",
    "trace",
    "tree",
}

TEMPORARY = re.compile(r"\bTempDir\(\)|\btemp_directory_path\(\)")
OWN_NAME = re.compile(r"\bgetpid\(\)|X{6}")

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 75

CXX_SUFFIXES = {".h", ".cpp"}
TEXT_SUFFIXES = CXX_SUFFIXES | {".py", ".md", ".cmake", ".txt", ".toml", ".sh", ".in", ".json"}
SKIPPED_FOLDERS = {".git", ".venv", "__pycache__", "node_modules"}
SKIPPED_AT_THE_ROOT = {"results"}  # where commands write

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
LAYER_FOLDERS = set(LAYERS)

# Intrinsics belong into pm/, but for what one index alone needs: HOT's partial keys, which lie in
# DRAM, never change once linked, and are announced to the simulator where it can meet them.
INTRINSICS_ALLOWED = {
    "src/index/hot/partial_keys.h",
    "src/index/hot/wide_extension.h",
    "src/index/hot/wide_keys.h",
}

# Folders of indexes and engines that the simulator never compiles.
NATIVE_FOLDERS = ("src/engine/document/", "src/engine/recorder/")

# Words that make the simulator and the crash explorer blind, in sources of indexes and structures.
BANNED_IN_INDEXES = [
    (re.compile(r"\bthread_local\b"), "thread_local", "use pm::thread_slot()"),
    (re.compile(r"\bstd::(recursive_|shared_|timed_)?mutex\b"), "std::mutex", "use a pm:: lock"),
    (re.compile(r"\b_mm\d*_\w+"), "a raw intrinsic", "put it behind pm/simd.h"),
    (
        re.compile(r"\b(__asm__|__asm|asm)\b\s*(volatile)?\s*[({]"),
        "inline assembly",
        "use the pm:: facade",
    ),
    (re.compile(r"\b__builtin_ia32_\w+"), "a raw intrinsic", "put it behind pm/"),
]
TODO = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\s*\(#\d+\))")
DISABLED = re.compile(r"\bDISABLED_\w+|@pytest\.mark\.skip\b|\bGTEST_SKIP\b")
MACHINE_PATH = re.compile(r"(?<![\w.:/$}~-])/(home|root|work|Users|mnt|media)/\w")


@dataclass(frozen=True)
class Finding:
    """One broken rule at one line."""

    path: str
    line: int
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}; {self.remedy}"


class Tree:
    """The files under a root, read once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: dict[str, list[str]] = {}
        self.folders: set[str] = set()
        for path in sorted(self._walk(root)):
            inside = path.relative_to(root).parents
            self.folders.update(folder.as_posix() for folder in inside)
            if path.suffix in TEXT_SUFFIXES or path.parent == root and path.name == "perdure":
                text = path.read_text(encoding="utf-8", errors="replace")
                self.files[path.relative_to(root).as_posix()] = text.splitlines()

    def _walk(self, folder: Path) -> Iterator[Path]:
        for entry in folder.iterdir():
            skipped = entry.name in SKIPPED_FOLDERS or entry.name.startswith("build")
            skipped = skipped or folder == self.root and entry.name in SKIPPED_AT_THE_ROOT
            skipped = skipped or entry.name.startswith(".") and entry.name != ".ci"
            if entry.is_dir() and not entry.is_symlink():
                if not skipped and not entry.name.endswith(".egg-info"):
                    yield from self._walk(entry)
            elif entry.is_file():
                yield entry

    def sources(self) -> Iterator[tuple[str, list[str]]]:
        """C++ files."""
        for path, lines in self.files.items():
            if Path(path).suffix in CXX_SUFFIXES:
                yield path, lines


def check_layers(tree: Tree) -> Iterator[Finding]:
    """Includes point one way only; an index includes itself and shared folders, no other index."""
    for path, lines in tree.sources():
        parts = path.split("/")
        if parts[0] != "src" or parts[1] not in LAYERS:
            continue
        layer = parts[1]
        is_test = path.endswith("_test.cpp")
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if match is None:
                continue
            target = match.group(1).split("/")
            if target[0] not in LAYER_FOLDERS:
                continue
            if target[0] != layer and target[0] not in LAYERS[layer]:
                allowed = ", ".join(sorted(LAYERS[layer])) or "nothing"
                yield Finding(
                    path,
                    number,
                    f"{layer} includes {match.group(1)}",
                    f"{layer} may include {allowed} besides itself",
                )
            if (
                layer in PLUGIN_LAYERS
                and target[0] == layer
                and len(target) > 2
                and len(parts) > 3
                and not is_test
                and target[1] not in SHARED_INDEX_FOLDERS | {parts[2]}
            ):
                yield Finding(
                    path,
                    number,
                    f"{parts[2]} includes the index {target[1]}",
                    "move what they share to a folder of its own",
                )


def check_python_layers(tree: Tree) -> Iterator[Finding]:
    """Imports between the packages of python/perdure point one way only."""
    for path, lines in tree.files.items():
        module = path.removeprefix(PYTHON_ROOT)
        if module == path or not path.endswith(".py") or module in PYTHON_STARTS:
            continue
        package = module.split("/")[0] if "/" in module else ""
        if package and package not in PYTHON_LAYERS:
            yield Finding(path, 1, f"unknown package {package}", "add it to PYTHON_LAYERS")
            continue
        allowed = PYTHON_LAYERS[package] if package else set()
        for line, target in python_imports(lines):
            if target in PYTHON_LAYERS and target not in allowed | {package}:
                yield Finding(
                    path,
                    line,
                    f"{package or 'a module beside the packages'} imports {target}",
                    f"it may import {', '.join(sorted(allowed)) or 'no package'}",
                )


def python_imports(lines: list[str]) -> Iterator[tuple[int, str]]:
    """(line, package or module) of each import of the project's own, wherever it stands."""
    try:
        nodes = list(ast.walk(ast.parse("\n".join(lines))))
    except SyntaxError:  # for the interpreter to report
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from own_part(node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                yield from own_part(node.lineno, f"{node.module}.{alias.name}")


def own_part(line: int, name: str) -> Iterator[tuple[int, str]]:
    parts = name.split(".")
    if parts[0] == "perdure" and len(parts) > 1:
        yield line, parts[1]


def check_lengths(tree: Tree) -> Iterator[Finding]:
    """Files and functions stay short enough to read."""
    for path, lines in tree.files.items():
        if Path(path).suffix not in CXX_SUFFIXES | {".py"}:
            continue
        if len(lines) > MAX_FILE_LINES:
            yield Finding(
                path, len(lines), f"{len(lines)} lines", f"split it: at most {MAX_FILE_LINES}"
            )
        spans = python_functions(lines) if path.endswith(".py") else cxx_functions(lines)
        for start, length in spans:
            if length > MAX_FUNCTION_LINES:
                yield Finding(
                    path,
                    start,
                    f"a function of {length} lines",
                    f"split it: at most about {MAX_FUNCTION_LINES - 5}",
                )


STRUCTURAL = re.compile(
    r"^\s*(namespace|extern\s+\"C\"|(template\s*<.*>\s*)?(class|struct|union|enum)\b)"
)
STRING = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'')


def cxx_functions(lines: list[str]) -> Iterator[tuple[int, int]]:
    """(first line, length) of each outermost brace block that is no namespace, class or enum."""
    depth: list[bool] = []  # one entry per open brace: does it belong to a function?
    start = 0
    head = ""
    in_comment = False
    for number, raw in enumerate(lines, 1):
        line = STRING.sub('""', raw)
        if in_comment:
            if "*/" not in line:
                continue
            line, in_comment = line.split("*/", 1)[1], False
        line = re.sub(r"/\*.*?\*/", "", line).split("//", 1)[0]
        if "/*" in line:
            line, in_comment = line.split("/*", 1)[0], True
        if line.lstrip().startswith("#"):
            continue
        for character in line:
            if character == "{":
                inside = bool(depth) and depth[-1]
                function = inside or not STRUCTURAL.match(head.strip())
                if function and not inside:
                    start = number - head.count("\n")
                depth.append(function)
                head = ""
            elif character == "}":
                if depth:
                    was_function = depth.pop()
                    if was_function and not (depth and depth[-1]):
                        yield start, number - start + 1
                head = ""
            elif character == ";":
                head = ""
            else:
                head += character
        head = head + "\n" if head.strip() else ""


def python_functions(lines: list[str]) -> Iterator[tuple[int, int]]:
    """(first line, length) of each function."""
    for number, line in enumerate(lines, 1):
        match = re.match(r"^(\s*)(async )?def ", line)
        if match is None:
            continue
        indent = len(match.group(1))
        length = last = 1
        for following in lines[number:]:
            stripped = following.strip()
            blank = not stripped or stripped.startswith((")", "#"))
            if not blank and len(following) - len(following.lstrip()) <= indent:
                break
            length += 1
            if stripped:
                last = length
        yield number, last


def check_index_folders(tree: Tree) -> Iterator[Finding]:
    """Every index has its design.md and a test; every shared folder has a test."""
    folders: dict[str, set[str]] = {}
    for path in tree.files:
        parts = path.split("/")
        if parts[0] == "src" and parts[1] in PLUGIN_LAYERS and len(parts) == 4:
            folders.setdefault("/".join(parts[:3]), set()).add(parts[3])
    for folder, names in folders.items():
        registers = any(
            "PERDURE_REGISTER_INDEX(" in line or "PERDURE_REGISTER_QUEUE(" in line
            for name in names
            if name.endswith(".cpp") and not name.endswith("_test.cpp")
            for line in tree.files[f"{folder}/{name}"]
        )
        if registers and "design.md" not in names:
            yield Finding(folder, 1, "no design.md", "say what the index is and where it deviates")
        if not any(name.endswith("_test.cpp") for name in names):
            yield Finding(folder, 1, "no test", "add a *_test.cpp beside the source")


def check_banned_words(tree: Tree) -> Iterator[Finding]:
    """Index code goes through the facade."""
    for path, lines in tree.sources():
        folders = tuple(f"src/{layer}/" for layer in sorted(PLUGIN_LAYERS))
        if not path.startswith((*folders, "examples/adding-an-index/")):
            continue
        if path.endswith("_test.cpp"):
            continue
        for number, line in enumerate(lines, 1):
            code = STRING.sub('""', line).split("//", 1)[0]
            for pattern, name, remedy in BANNED_IN_INDEXES:
                allowed = (name == "a raw intrinsic" and path in INTRINSICS_ALLOWED) or (
                    name == "std::mutex" and path.startswith(NATIVE_FOLDERS)
                )
                if pattern.search(code) and not allowed:
                    yield Finding(path, number, f"{name} in index code", remedy)


def check_words(tree: Tree) -> Iterator[Finding]:
    """Unfinished work, tests switched off, paths of one machine."""
    for path, lines in tree.files.items():
        if path.startswith("tools/tidy") or path == "tests/docs/tidy_test.py":
            continue
        is_test = path.startswith(("tests/", "src/", "python/"))
        for number, line in enumerate(lines, 1):
            if TODO.search(line):
                yield Finding(
                    path,
                    number,
                    "unfinished work without an issue number",
                    "write TODO(#12) or finish it",
                )
            if is_test and DISABLED.search(line):
                yield Finding(path, number, "a test that is switched off", "mend it or delete it")
            if MACHINE_PATH.search(line):
                yield Finding(
                    path, number, "an absolute path of one machine", "make it relative or an option"
                )


def check_temporary_names(tree: Tree) -> Iterator[Finding]:
    """Tests run side by side, so that a file outside a folder of the test's own has the process's
    number in its name."""
    for path, lines in tree.sources():
        if not path.endswith("_test.cpp"):
            continue
        for number, line in enumerate(lines, 1):
            statement = " ".join(lines[number - 1 : number + 2]).partition(";")[0]
            if TEMPORARY.search(line) and not OWN_NAME.search(statement):
                what = "a temporary name that another process may use"
                yield Finding(path, number, what, "put std::to_string(getpid()) into it")


def check_headers(tree: Tree) -> Iterator[Finding]:
    """Every header opens with what it is, and is guarded."""
    for path, lines in tree.sources():
        if not path.endswith(".h"):
            continue
        if not lines or not lines[0].startswith("// "):
            yield Finding(
                path,
                1,
                "a header that does not say what it is",
                "open it with a comment of a sentence or more",
            )
        if not any(line.startswith("#pragma once") for line in lines[:60]):
            yield Finding(path, 1, "no #pragma once", "add it below the opening comment")


def check_headings(tree: Tree) -> Iterator[Finding]:
    """Every text opens with its heading; one that a formatter of code has seen does not."""
    for path, lines in tree.files.items():
        if path.endswith(".md") and not (lines and lines[0].startswith("# ")):
            yield Finding(path, 1, "no heading", "open it with `# title`")


MAP = "docs/architecture.md"
MAP_ROW = re.compile(r"^\| `([\w./-]+)/` \|")
# Folders of the map: those at the root, the layers and their parts, the packages of Python.
MAPPED = re.compile(r"[^./][^/]*|src/[^/]+(/[^/]+)?|python/perdure(/[^/]+)?")
UNMAPPED_NAMES = {"testing"}


def check_map(tree: Tree) -> Iterator[Finding]:
    """The map of the architecture has a line for each folder, and the layers in their order."""
    if MAP not in tree.files:
        return
    lines = enumerate(tree.files[MAP], 1)
    mapped = {match.group(1): n for n, line in lines if (match := MAP_ROW.match(line))}
    there = {
        folder
        for folder in tree.folders
        if MAPPED.fullmatch(folder) and folder.split("/")[-1] not in UNMAPPED_NAMES
    }
    for folder in sorted(there - mapped.keys()):
        yield Finding(MAP, 1, f"{folder}/ is not on the map", "add its line")
    for folder in sorted(mapped.keys() - there):
        what = f"{folder}/ is on the map and not in the tree"
        yield Finding(MAP, mapped[folder], what, "rename its line, or take it away")
    layers = [f"src/{layer}" for layer in LAYERS]
    for folder in sorted(set(layers) - there):
        yield Finding(MAP, 1, f"{folder}/ is a layer and not in the tree", "mend LAYERS of tidy.py")
    rows = [folder for folder in mapped if folder in layers]
    for folder, expected in zip(rows, sorted(rows, key=layers.index), strict=True):
        if folder != expected:
            what = f"{folder}/ stands in the place of {expected}/"
            yield Finding(MAP, mapped[folder], what, "keep the order of LAYERS")


CHECKS = [
    check_layers,
    check_python_layers,
    check_lengths,
    check_index_folders,
    check_banned_words,
    check_words,
    check_temporary_names,
    check_headers,
    check_headings,
    check_map,
]


def findings(root: Path) -> list[Finding]:
    """Everything wrong under `root`, in order of file and line."""
    tree = Tree(root)
    found = [finding for check in CHECKS for finding in check(tree)]
    return sorted(found, key=lambda finding: (finding.path, finding.line))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    found = findings(parser.parse_args().root)
    for finding in found:
        print(finding)
    print(f"tidy: {len(found)} finding(s)", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
