"""The commands of the document store: serve and engine."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

import typer

from perdure.cli.output import PASSING
from perdure.programs import native, profile
from perdure.programs.target import check_target


def register(app: typer.Typer) -> None:
    """Adds the commands to the command line."""
    serving = "Serve a pool's documents to MongoDB and Redis clients."
    app.command(short_help=serving, context_settings=PASSING, add_help_option=False)(serve)
    keeping = "Check or export a pool of documents, or replay what a server recorded."
    app.command(short_help=keeping, context_settings=PASSING, add_help_option=False)(engine)


def serve(context: typer.Context) -> None:
    """Serve a pool's documents: serve POOL [--mongo PORT] [--redis PORT] [--create SIZE]."""
    _become("serve", context)


def engine(context: typer.Context) -> None:
    """Check a pool of documents or export it as mongodump does: engine check|export POOL; replay
    a recorded trace, also simulated: engine replay FILE [--target sim:PLATFORM]."""
    target = "native"
    if context.args[:1] == ["replay"]:
        target = profile.value_of(context.args, "--target") or target
        check_target(target)
    _become("engine", context, native.kind_of(target))


def _become(command: str, context: typer.Context, kind: str = "native") -> NoReturn:
    """Becomes the program, so that a supervisor's signals reach the server itself."""
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, and exec would hand that on
        signal.signal(ignored, signal.SIG_DFL)
    program = str(native.program(kind))
    os.execve(program, [program, command, *context.args], native.environment())
