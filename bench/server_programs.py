"""Starts and ends the servers that bench/server.py measures; their files go with them."""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE = 60  # seconds that a start, a stop or work after the last reply may take
QUIET_SECONDS = 0.5  # without work, and a server has none left
PREFIX = "perdure-bench-"


class BenchError(Exception):
    """Ends the run with one line on stderr."""

    def __init__(self, what: str, *, exit_code: int = 1) -> None:
        super().__init__(what)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Running:
    port: int
    process: subprocess.Popen[Any]

    def wait_until_quiet(self) -> None:
        """Waits for work that goes on after the last reply, so that it costs no other server time.

        RocksDB writes sorted files and merges them in the background.
        """
        deadline = time.monotonic() + PATIENCE
        before = self._cpu_ticks()
        while time.monotonic() < deadline:
            time.sleep(QUIET_SECONDS)
            now = self._cpu_ticks()
            if now - before <= 1:
                return
            before = now

    def _cpu_ticks(self) -> int:
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8")
        except FileNotFoundError:
            raise BenchError(f"a server ended (exit code {self.process.poll()})") from None
        fields = stat.rsplit(")", 1)[1].split()  # a program's name may have blanks
        return int(fields[11]) + int(fields[12])


@contextmanager
def perdure(program: Path, memory: Path, room: int, *options: str) -> Iterator[Running]:
    """Our server on a new pool with room for so many bytes of keys and values."""
    size = (1 << 30) + 4 * room
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=memory) as folder:
        pool = Path(folder) / "pool"
        with announced(program, "serve", pool, "--create", str(size), *options) as running:
            yield running


@contextmanager
def rocksdb(program: Path, parent: Path, *options: str) -> Iterator[Running]:
    """RocksDB behind our front end, with a new database."""
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent) as folder,
        announced(program, Path(folder) / "db", *options) as running,
    ):
        yield running


@contextmanager
def announced(*command: str | Path) -> Iterator[Running]:
    """A server that prints its address as `perdure serve --json` does."""
    # libpmemobj refuses to treat tmpfs as persistent memory unless told to.
    environment = {"PMEM_IS_PMEM_FORCE": "1", **os.environ}
    with subprocess.Popen(
        [*command, "--redis", "0", "--json"], env=environment, stdout=subprocess.PIPE, text=True
    ) as process, ending(process):  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise BenchError(f"{command[0]} did not start")
        yield Running(int(json.loads(line)["listening"][0]["port"]), process)


@contextmanager
def redis(parent: Path, *options: str) -> Iterator[Running]:
    """redis-server without snapshots."""
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent) as folder:
        port = free_port()
        with subprocess.Popen(
            ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", folder,
             "--save", "", "--daemonize", "no", *options],
            stdout=subprocess.DEVNULL,
        ) as process, ending(process):  # fmt: skip
            wait_until(lambda: answers(port), process)
            yield Running(port, process)


@contextmanager
def ending(process: subprocess.Popen[Any]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise BenchError(f"redis-server did not start (exit code {process.poll()})")
        time.sleep(0.05)


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False


def free_port() -> int:
    # Another program may take it before redis-server does, which then does not start.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def require_program(path: Path, remedy: str) -> None:
    if not path.is_file():
        raise BenchError(f"{path}: no such program; {remedy}", exit_code=2)


def require_folders(flags: argparse.Namespace) -> None:
    for folder in (flags.folder, flags.memory):
        if not folder.is_dir():
            raise BenchError(f"{folder}: no such folder", exit_code=2)
    kind = subprocess.run(
        ["stat", "--file-system", "--format=%T", flags.folder],
        stdout=subprocess.PIPE, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    if kind in ("tmpfs", "ramfs"):
        what = f"{flags.folder} lies on {kind}, where fsync costs nothing; give --folder on a disk"
        raise BenchError(what, exit_code=2)
