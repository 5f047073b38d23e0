"""The command `list`: what there is to choose from, and all facts of one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from perdure.cli.output import AsJson, console, print_json, print_table
from perdure.errors import InputError, did_you_mean, one_of
from perdure.format import plain
from perdure.programs import catalogue
from perdure.programs.catalogue import KINDS, Entry
from perdure.types import Json

BY_MODE = "by mode"
STRUCTURE_MODES = ("dram", "pmem-volatile", "pmem-persist", "pmem-trans")
CLASSES: dict[str, str] = {
    "persistent": "persistent",
    "in_memory": "in memory",
    "volatile_pm": "volatile PM",
    "on_disk": "on disk",
    "harness": "harness",
}
# The least width of a table's last column, which holds long text and is wrapped.
LEAST_WIDTH = 28
Row = tuple[str, ...]


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("list", short_help="List indexes, queues, workloads, heaps, options or platforms.")(
        list_
    )


def list_(
    what: Annotated[
        str,
        typer.Argument(
            help="indexes, queues, workloads, heaps, options, platforms, or a name of one"
        ),
    ] = "indexes",
    as_json: AsJson = False,
) -> None:
    """List the indexes, queues, workloads, heaps, options or platforms of this build, or all facts
    of one of them: perdure list fptree."""
    if what in KINDS:
        found = catalogue.entries(what)
        if as_json:
            print_json(found)
        else:
            _print_kind(what, found)
        return
    named = _named(what)
    if as_json:
        print_json([{"kind": kind, **entry} for kind, entry in named])
        return
    for kind, entry in named:
        print_table(_facts(kind, entry))
        if kind == "platforms":
            print(f"every number with its source: perdure describe platform {what}\n")


def _named(name: str) -> list[tuple[str, Entry]]:
    """All entries of this name, with their kinds; a structure alone means all its modes."""
    known = {kind: catalogue.entries(kind) for kind in KINDS if kind != "options"}
    found = [
        (kind, entry)
        for kind, entries in known.items()
        for entry in entries
        if name in (entry["name"], _without_mode(entry["name"]))
    ]
    if not found:
        names = [entry["name"] for entries in known.values() for entry in entries]
        names += [_without_mode(each) for each in names]
        raise InputError(
            f"unknown list '{name}'",
            where="perdure list",
            remedy=did_you_mean(name, [*KINDS, *names], f"{one_of(KINDS)}, or a name from there"),
        )
    return found


def _indexes(entries: list[Entry]) -> Iterable[Row]:
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(_without_mode(entry["name"]), []).append(entry)
    for name, modes in groups.items():
        first, titles = modes[0], dict.fromkeys(each.get("title", "") for each in modes)
        where = CLASSES.get(first["index_class"], "other") if name == first["name"] else BY_MODE
        title = next(iter(titles))
        if len(titles) > 1:  # each mode is a structure of its own
            title = "modes " + ", ".join(each["name"].partition(":")[2] for each in modes)
        kinds = first["key_kinds"]
        yield name, where, ", ".join(kinds) if len(kinds) < 3 else "all three", title


def _queues(entries: list[Entry]) -> Iterable[Row]:
    return (
        (e["name"], CLASSES.get(e["index_class"], "other"), e["progress"], e["title"])
        for e in entries
    )


def _options(entries: list[Entry]) -> Iterable[Row]:
    modes: dict[str, dict[str, list[Row]]] = {}
    for e in entries:
        option = (e["name"], str(e["default"]), e["description"])
        modes.setdefault(_without_mode(e["index"]), {}).setdefault(e["index"], []).append(option)
    for name, options in modes.items():
        if len({tuple(each) for each in options.values()}) == 1:  # all modes have the same
            options = {name: next(iter(options.values()))}
        for owner, rows in options.items():
            yield from ((owner, *row) for row in rows)


def _workloads(entries: list[Entry]) -> Iterable[Row]:
    return ((e["name"], e["error"] or e["mix"].replace(",", ", ")) for e in entries)


def _platforms(entries: list[Entry]) -> Iterable[Row]:
    return (
        (e["name"], str(e["cpus"]), e["persistence_domain"], e["error"] or e["title"])
        for e in entries
    )


# Kind -> its columns, the last one long; the rows; which columns go first where there is no room;
# what to try next.
_View = tuple[Row, Callable[[list[Entry]], Iterable[Row]], tuple[int, ...], str]
_VIEWS: dict[str, _View] = {
    "indexes": (("name", "where", "keys", "what it is"), _indexes, (1, 2),
                "one: perdure list fptree; queues: perdure list queues"),
    "queues": (("name", "where", "progress", "what it is"), _queues, (1, 2),
               "use one: perdure bench --index NAME --producers 2 --consumers 2"),
    "workloads": (("name", "mix"), _workloads, (), "all facts of one: perdure list ycsb-a"),
    "heaps": (("name", "what it is"), lambda es: ((e["name"], e["description"]) for e in es), (),
              "use one: --heap NAME"),
    "options": (("index", "option", "default", "what it does"), _options, (2,),
                "with their limits: perdure list fptree"),
    "platforms": (("name", "cpus", "domain", "what it is"), _platforms, (2, 1),
                  "use one: --target sim:NAME; its numbers: perdure describe platform NAME"),
}  # fmt: skip


def _print_kind(kind: str, entries: list[Entry]) -> None:
    columns, view, dropped, hint = _VIEWS[kind]
    rows = list(view(entries))
    width = console().width
    shown = list(range(len(columns)))
    for number in dropped:
        if width - _room(rows, columns, shown[:-1]) < LEAST_WIDTH:
            shown.remove(number)
    table = Table(title=kind, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for number in shown:
        last = number == shown[-1]
        table.add_column(columns[number], no_wrap=not last, overflow="fold")
    for row in rows:
        table.add_row(*(Text(row[number]) for number in shown))
    print_table(table)
    if any(row[1] == BY_MODE for row in rows):
        print(f"{BY_MODE}: {', '.join(f'NAME:{mode}' for mode in STRUCTURE_MODES)}")
    print(hint)


def _room(rows: list[Row], columns: Row, shown: list[int]) -> int:
    """The width of the columns that are not wrapped, each with three characters of space."""
    return sum(max(len(columns[n]), *(len(row[n]) for row in rows), 0) + 3 for n in shown)


def _facts(kind: str, entry: Entry) -> Table:
    table = Table(
        title=f"{kind}: {entry['name']}",
        title_justify="left",
        box=box.SIMPLE,
        pad_edge=False,
        show_header=False,
    )
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in entry.items():
        if name == "options":
            for option in value:
                table.add_row(Text(f"option {option['name']}"), Text(_limits(option)))
        elif name != "name":
            table.add_row(name.replace("_", " "), Text(plain(value) or "-"))
    return table


def _limits(option: Json) -> str:
    limits = f"{option['least']} to {option['most']}, default {option['default']}"
    return f"{option['description']} ({limits})"


def _without_mode(name: str) -> str:
    return name.partition(":")[0]
