"""Programs that run in place of perdure: their signals, their ends, and the terminal are theirs."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Cli, alive, numbers_in, wait_for

# Writes its number, then waits for a signal and ends with a code of its own.
WAITS = """
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda n, _frame: (print("got", n, flush=True), sys.exit(40 + n)))
with open(os.environ["NUMBERS"], "a") as file:
    file.write(f"{os.getpid()}\\n")
time.sleep(60)
"""
Program = Callable[[str], Path]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    def make(body: str) -> Path:
        path = tmp_path / "perdure-native"
        path.write_text(body)
        path.chmod(0o755)
        return path

    return make


@pytest.mark.parametrize("command", ["bench", "crash", "probe", "describe"])
@pytest.mark.parametrize(
    ("name", "cause"), [("KILL", "not enough memory"), ("BUS", "file system"), ("SEGV", "report")]
)
def test_a_program_that_dies_by_a_fault_is_named(
    cli: Cli, program: Program, command: str, name: str, cause: str
) -> None:
    path = str(program(f"#!/bin/sh\necho begun\nkill -{name} $$\n"))
    done = cli(command, "x", PERDURE_NATIVE=path, PERDURE_SIM=path)
    assert done.returncode == 128 + getattr(signal, f"SIG{name}")
    assert done.stdout == "begun\n" and done.stderr.count("\n") == 1
    words = f"perdure {command}: perdure-native was killed by SIG{name}; "
    assert done.stderr.startswith(words) and cause in done.stderr


@pytest.mark.parametrize("flag", [["--flamegraph", "x.svg"], ["--plot", "x.svg"]])
def test_it_is_named_where_its_result_is_drawn(
    cli: Cli, program: Program, tmp_path: Path, flag: list[str]
) -> None:
    path = str(program("#!/bin/sh\nkill -SEGV $$\n"))
    command = "bench" if flag[0] == "--flamegraph" else "probe"
    done = cli(command, flag[0], tmp_path / flag[1], "--target", "sim:x", PERDURE_SIM=path)
    assert done.returncode == 139 and "was killed by SIGSEGV; " in done.stderr
    assert not (tmp_path / flag[1]).exists()


def test_a_cell_that_dies_by_a_signal_says_so(cli: Cli, study: Path, tmp_path: Path) -> None:
    path = tmp_path / "dying"
    fake = Path(__file__).with_name("fake_native.py")
    path.write_text(
        f"#!/bin/sh\ncase $1 in bench) echo no room >&2; kill -BUS $$;; esac\n"
        f'exec {sys.executable} {fake} "$@"\n'
    )
    path.chmod(0o755)
    study.write_text(study.read_text().replace("[1, 2]", "[1]").replace("ions = 2", "ions = 1"))
    done = cli("study", "run", study, "--results", tmp_path / "r", PERDURE_NATIVE=str(path))
    assert done.returncode == 1
    assert "killed by SIGBUS; most likely the file system" in done.stderr
    assert "(its last words: no room)" in done.stderr


def started(
    environment: dict[str, str], program: Program, tmp_path: Path
) -> tuple[subprocess.Popen[str], int]:
    path, numbers = program(f"#!{sys.executable}{WAITS}"), tmp_path / "numbers"
    process = subprocess.Popen(
        [sys.executable, "-m", "perdure", "bench", "x"],
        process_group=0,
        encoding="utf-8",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**environment, "PERDURE_NATIVE": str(path), "NUMBERS": str(numbers)},
    )
    (number,) = wait_for(lambda: numbers_in(numbers))
    return process, number


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_reaches_the_program_once_and_its_exit_code_comes_through(
    environment: dict[str, str], program: Program, tmp_path: Path, number: signal.Signals
) -> None:
    process, _ = started(environment, program, tmp_path)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (40 + number, f"got {number.value}\n", "")


def test_a_signal_that_ends_the_program_ends_us_alike(
    environment: dict[str, str], program: Program, tmp_path: Path
) -> None:
    process, _ = started(environment, program, tmp_path)
    process.send_signal(signal.SIGQUIT)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == -signal.SIGQUIT


def state(number: int) -> str:
    return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_both_stop_and_both_go_on(
    environment: dict[str, str], program: Program, tmp_path: Path
) -> None:
    process, number = started(environment, program, tmp_path)
    process.send_signal(signal.SIGTSTP)
    wait_for(lambda: state(number) == "T" and state(process.pid) == "T")
    process.send_signal(signal.SIGCONT)
    wait_for(lambda: state(number) != "T" and state(process.pid) != "T")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 40 + signal.SIGTERM and not alive(number)


def test_ctrl_c_of_a_terminal_comes_once(
    environment: dict[str, str], program: Program, tmp_path: Path
) -> None:
    path, numbers = program(f"#!{sys.executable}{WAITS}"), tmp_path / "numbers"
    variables = {**environment, "PERDURE_NATIVE": str(path), "NUMBERS": str(numbers)}
    process, terminal = pty.fork()
    if process == 0:
        os.execve(sys.executable, [sys.executable, "-m", "perdure", "bench", "x"], variables)
    wait_for(lambda: numbers_in(numbers))
    os.write(terminal, b"\x03")
    said = b""
    try:
        while part := os.read(terminal, 1000):
            said += part
    except OSError:  # the other end is closed
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 40 + signal.SIGINT
    assert said.count(b"got 2") == 1 and b"erdure:" not in said
    os.close(terminal)
