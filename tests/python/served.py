"""A server of the build tree for the tests of its clients, on a pool in memory."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perdure.programs import native

MEMORY = Path("/dev/shm")
PATIENCE = 30  # seconds that a start or a stop may take


class Served:
    """`perdure-native serve` with its addresses; use `served`, which ends it."""

    def __init__(self, pool: Path, *flags: str) -> None:
        self.errors = pool.with_suffix(".err")
        create = () if pool.exists() else ("--create", "256MiB")
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [native.program(), "serve", pool, *create, "--json", *flags],
                env=native.environment(),
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.said()
        self.listening: list[dict[str, Any]] = json.loads(line)["listening"]

    def said(self) -> str:
        return self.errors.read_text()

    @property
    def port(self) -> int:
        return int(next(each["port"] for each in self.listening if "port" in each))

    def connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int:
        """Its exit code; negative for a signal."""
        if self.process.poll() is None:
            self.process.send_signal(by)
        return self.process.wait(PATIENCE)


@contextmanager
def served(pool: Path, *flags: str) -> Iterator[Served]:
    server = Served(pool, *flags)
    try:
        yield server
    finally:
        server.stop(signal.SIGKILL)
        if server.process.stdout is not None:
            server.process.stdout.close()


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """For pools: a disk would make each write slow."""
    with tempfile.TemporaryDirectory(prefix="perdure-test-", dir=MEMORY) as folder:
        yield Path(folder)


def make_certificate(folder: Path) -> tuple[str, str]:
    """A certificate for 127.0.0.1 and its key, both PEM files."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", "/CN=perdure", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return str(certificate), str(key)


def write_password(folder: Path, password: str, mode: int = 0o600) -> str:
    path = folder / "password"
    path.write_text(f"{password}\n")
    path.chmod(mode)
    return str(path)


def all_from(connection: socket.socket) -> bytes:
    """What comes until the other side ends."""
    received = b""
    while piece := connection.recv(1 << 16):
        received += piece
    return received
