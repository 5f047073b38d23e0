"""The command line: `perdure COMMAND`. stdout carries results, stderr everything else."""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated, Any

import typer

from perdure import __version__
from perdure.cli import advise, baseline, doctor, listing, memory, one_run, results, serving, study
from perdure.cli.output import PASSING, complain
from perdure.errors import ExitCode, InputError, PerdureError, did_you_mean

EPILOG = (
    "Exit codes: 0 ok, 1 a cell failed, 2 usage or bad input, 3 regression, 4 inconclusive "
    "(with --strict), 5 crash-consistency violation, damage or a replay that differs, 130 "
    "interrupted with everything finished saved."
)

# The order of the help: first what a newcomer runs, last what the others build on.
ORDER = (
    "demo", "bench", "compare", "study", "report", "figures", "baseline", "export", "advise",
    "list", "doctor", "crash", "probe", "classify", "fidelity", "describe", "flamegraph", "serve",
    "engine", "test",
)  # fmt: skip


class _ByUse(typer.core.TyperGroup):
    """Lists the commands in `ORDER`, and cuts none of their lines."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=ORDER.index)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, self.commands[name].get_short_help_str(limit=200))
                    for name in self.list_commands(ctx)
                ]
            )


app = typer.Typer(
    name="perdure",
    cls=_ByUse,
    help="Measure, compare and report indexes on persistent memory.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for commands in (study, memory, advise, listing, one_run, serving, doctor, results, baseline):
    commands.register(app)


def main() -> None:
    """Runs the command line and exits; every error becomes one line on stderr."""
    try:
        code = app(standalone_mode=False, prog_name="perdure")
        sys.stdout.flush()
        if code == ExitCode.INTERRUPTED:  # typer's answer to KeyboardInterrupt
            raise KeyboardInterrupt
        sys.exit(int(code or 0))
    except PerdureError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except typer.TyperException as error:
        # A command group without a command: its help is the best answer.
        is_help = type(error).__name__ == "NoArgsIsHelpError"
        print(error, file=sys.stderr) if is_help else complain(_usage_line(error))
        sys.exit(ExitCode.USAGE)
    except BrokenPipeError:
        # The reader of stdout went away, as `| head` does; Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except OSError as error:
        # An unexpected failure of a file or directory: name it, and say why.
        parts = (str(error.filename or ""), error.strerror or str(error))
        complain(": ".join(filter(None, parts)))
        sys.exit(ExitCode.CELL_FAILED)
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted; what was finished is saved, run the same command to go on")
        sys.exit(ExitCode.INTERRUPTED)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(f"perdure {__version__}")
        raise typer.Exit


@app.command(
    short_help="Run every build and test; ./perdure test --list shows them.",
    context_settings=PASSING,
    add_help_option=False,
)
def test() -> None:
    """The launcher of a source tree runs this command itself; an installed package has no tests."""
    raise InputError(
        "is a command of ./perdure in a source tree",
        where="perdure test",
        remedy="run ./perdure test --list there",
    )


def _usage_line(error: typer.TyperException) -> str:
    """One line for a flag or command that does not exist: what, where, remedy."""
    context: Any = getattr(error, "ctx", None)
    format_message: Any = getattr(error, "format_message", None)
    where = context.command_path if context is not None else "perdure"
    option = getattr(error, "option_name", None)
    remedy = f"{where} --help lists what there is"
    if option and hasattr(error, "possibilities"):
        known = [name for p in context.command.params for name in p.opts] if context else []
        return f"{where}: unknown flag '{option}'; {did_you_mean(option, known, remedy)}"
    message = str(format_message() if format_message else error).strip().rstrip(".")
    if message.startswith("No such command"):
        given = message.split("'")[1]
        known = list(context.command.commands) if context else []
        return f"{where}: unknown command '{given}'; {did_you_mean(given, known, remedy)}"
    return f"{where}: {message[:1].lower()}{message[1:]}; {remedy}".replace("\n", " ")
