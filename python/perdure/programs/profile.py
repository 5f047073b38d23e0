"""`--flamegraph FILE` of `perdure bench`: where the time of a run went, by function.

Simulated runs know entry and exit of every function and print folded stacks of virtual time. Native
runs are sampled by `perf record`, where the machine has it and lets a user run it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure.errors import InputError, PerdureError
from perdure.programs import child, flame_graph, native, outputs

FLAG = "--flamegraph"
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


def value_of(arguments: list[str], flag: str) -> str | None:
    """The value of `--flag VALUE` or `--flag=VALUE`; the last one counts."""
    found = None
    for position, name in enumerate(arguments):
        if name == flag:
            found = arguments[position + 1] if position + 1 < len(arguments) else ""
        elif name.startswith(f"{flag}="):
            found = name.removeprefix(f"{flag}=")
    return found


def without(arguments: list[str], flag: str) -> list[str]:
    kept, skip = [], False
    for argument in arguments:
        if not skip and argument != flag and not argument.startswith(f"{flag}="):
            kept.append(argument)
        skip = argument == flag and not skip
    return kept


def output_of(arguments: list[str], flag: str) -> Path | None:
    """The file that `flag` names, tried before the work; None without the flag."""
    wanted = value_of(arguments, flag)
    if wanted is None:
        return None
    if not wanted or wanted.startswith("--"):
        raise InputError("needs a file", where=flag, remedy=f"write {flag} out.svg")
    outputs.check(Path(wanted), flag)
    return Path(wanted)


@contextmanager
def recorded(command: list[str], target: str) -> Iterator[list[str]]:
    """Yields the command to run in place of `command`; draws the graph when it went well."""
    path = output_of(command, FLAG)
    if path is None:
        yield command
        return
    plain = without(command, FLAG)
    with tempfile.TemporaryDirectory(prefix="perdure-") as folder:
        if native.kind_of(target) == "sim":
            folded = Path(folder) / "run.folded"
            yield [*plain, FLAG, str(folded)]
            text, unit = folded.read_text("utf-8") if folded.is_file() else "", "ps"
        else:
            data = Path(folder) / "perf.data"
            yield [*perf_record(data), *plain]
            text, unit = flame_graph.fold_perf(data) if data.is_file() else "", "samples"
    if not text:
        return  # the run failed, and printed why
    if path.suffix == ".folded":
        outputs.write(path, text)
    else:
        index = value_of(command, "--index") or "run"
        outputs.write(path, flame_graph.render(text, f"{index}, {target}", unit=unit))


def why_not() -> str:
    """Why native runs cannot be sampled here; empty where they can."""
    try:
        perf_record(Path("perf.data"))
    except PerdureError as error:
        return str(error).removeprefix(f"{FLAG}: ")
    return ""


def perf_record(data: Path) -> list[str]:
    """The start of a command under perf. Errors: PerdureError with the reason and the remedy."""
    perf = shutil.which("perf")
    if perf is None:
        raise PerdureError(
            "perf is not installed, so native runs cannot be sampled",
            where=FLAG,
            remedy="install linux-perf, or use --target sim:PLATFORM",
        )
    level = int(PARANOID.read_text(encoding="utf-8")) if PARANOID.is_file() else 0
    if level > 2:
        raise PerdureError(
            f"perf_event_paranoid is {level}: only root may sample",
            where=FLAG,
            remedy="sudo sysctl kernel.perf_event_paranoid=2, or use --target sim:PLATFORM",
        )
    return [perf, "record", "--quiet", "-g", "-F", "999", "-o", str(data), "--", *child.leash()]
