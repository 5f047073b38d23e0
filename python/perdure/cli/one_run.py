"""The commands of one run of a program: bench and crash."""

from __future__ import annotations

from pathlib import Path

import typer

from perdure.cli.output import PASSING, print_json
from perdure.errors import ExitCode, InputError
from perdure.programs import child, native, profile
from perdure.programs.target import check_target
from perdure.results import explorations
from perdure.study import exploring

RESULTS = "--results"
_CRASH_HELP = """Usage: perdure crash FLAGS [--results DIR] [--json]

--results DIR keeps what was found in DIR/crash/, where the report of DIR shows it.
Every other flag goes to the program, which says of them:
"""


def register(app: typer.Typer) -> None:
    """Adds the commands to the command line."""
    measuring = "Measure one index once, on this machine or simulated."
    app.command(short_help=measuring, context_settings=PASSING, add_help_option=False)(bench)
    exploring = "Explore what a power cut may leave of an index."
    app.command(short_help=exploring, context_settings=PASSING, add_help_option=False)(crash)


def bench(context: typer.Context) -> None:
    """Measure one index once; --target sim:PLATFORM simulates it, --flamegraph FILE draws why."""
    arguments = list(context.args)
    target = profile.value_of(arguments, "--target") or "native"
    check_target(target)
    if "--help" in arguments or "-h" in arguments:
        _bench_help(target)
        return
    command = [str(native.program(native.kind_of(target))), "bench", *arguments]
    if profile.value_of(arguments, profile.FLAG) is None:
        child.become(command, native.environment(), "perdure bench")
    with profile.recorded(command, target) as wrapped:
        code = child.attend(wrapped, native.environment())
    raise typer.Exit(child.exit_code(code, command, "perdure bench"))


def crash(context: typer.Context) -> None:
    """Explore what a power cut may leave: --index NAME, --replay FILE, --mutate NAME; --results DIR
    keeps the exploration for the report."""
    arguments = list(context.args)
    is_help = "--help" in arguments or "-h" in arguments
    results = profile.value_of(arguments, RESULTS)
    if is_help:
        print(_CRASH_HELP)
    if is_help or results is None:
        command = [str(native.program("sim")), "crash", *arguments]
        child.become(command, native.environment(), "perdure crash")
    if not results or results.startswith("--"):
        raise InputError("needs a folder", where=RESULTS, remedy=f"write {RESULTS} results/demo")
    folder = explorations.folder_of(Path(results))
    try:
        document = exploring.explore(profile.without(arguments, RESULTS), folder)
    except exploring.ProgramFailedError as failed:
        raise typer.Exit(failed.code) from failed
    if "--json" in arguments:
        print_json(document)
    else:
        print(exploring.line(document))
        if document["violation"]:
            print(f"{document['violation']['text']}\nreplay: {exploring.replaying(document)}")
    raise typer.Exit(ExitCode.VIOLATION if document["violation"] else ExitCode.OK)


def _bench_help(target: str) -> None:
    print(
        "Usage: perdure bench FLAGS [--json] [--dry-run]\n\n"
        "Measures one index once and prints a table; --json prints the run record instead.\n"
        "Example: perdure bench --index fptree --records 1M --mix lookup=0.9,insert=0.1 "
        "--threads 2 --seconds 2 --pool /dev/shm/p.pool\n\n"
        "--target sim:PLATFORM simulates the run; --flamegraph FILE draws where its time went "
        "(.svg, or .folded stacks).\n"
        "Every other flag goes to the program, which says of them:\n"
    )
    program = native.program(native.kind_of(target))
    child.become([str(program), "bench", "--help"], native.environment(), "perdure bench")
