"""Redis clients of `perdure serve`: Debian's own, and sockets that do what no client would."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import ROOT, wait_for
from perdure.programs import native
from served import Served, all_from, make_certificate, served, write_password

ANY_PORT = ("--redis", "0", "--threads", "2")


pytestmark = pytest.mark.usefixtures("real_programs")


@pytest.fixture
def server(folder: Path) -> Iterator[Served]:
    with served(folder / "pool", *ANY_PORT) as running:
        yield running


def request(*arguments: bytes) -> bytes:
    parts = [b"*%d\r\n" % len(arguments)]
    parts += [b"$%d\r\n%s\r\n" % (len(argument), argument) for argument in arguments]
    return b"".join(parts)


def exchange(connection: socket.socket, *requests: bytes) -> bytes:
    """Sends the requests and PING, and returns the replies before its own."""
    connection.sendall(b"".join(requests) + request(b"ECHO", b"that-is-all"))
    end = b"$11\r\nthat-is-all\r\n"
    received = b""
    while not received.endswith(end):
        piece = connection.recv(1 << 20)
        assert piece, received
        received += piece
    return received.removesuffix(end)


def redis_cli(*arguments: str) -> str:
    done = subprocess.run(
        ["redis-cli", *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    return done.stdout + done.stderr


def refusal(folder: Path, *flags: str) -> str:
    """What `serve` says with such flags, in one line and with exit code 2."""
    done = subprocess.run(
        [native.program(), "serve", folder / "pool", *flags],
        env=native.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    return done.stderr


def test_redis_cli_writes_and_reads(server: Served) -> None:
    port = ("-p", str(server.port))
    assert redis_cli(*port, "set", "greeting", "hello world") == "OK\n"
    assert redis_cli(*port, "get", "greeting") == "hello world\n"
    assert redis_cli(*port, "mset", "k1", "1", "k2", "2", "k3", "3") == "OK\n"
    assert sorted(redis_cli(*port, "--scan", "--pattern", "k*").split()) == ["k1", "k2", "k3"]
    assert redis_cli(*port, "del", "k1", "k9") == "1\n"
    assert redis_cli(*port, "dbsize") == "3\n"
    assert "db0:keys=3" in redis_cli(*port, "info")
    assert redis_cli(*port, "flushall").startswith("ERR unknown command 'flushall'")
    assert "not supported" in redis_cli(*port, "set", "k", "v", "ex", "5")


def test_redis_benchmark_runs_with_and_without_pipelines(server: Served) -> None:
    for pipeline in ("1", "16"):
        done = subprocess.run(
            ["redis-benchmark", "-p", str(server.port), "-t", "set,get", "-n", "4000",
             "-r", "1000", "-c", "50", "-P", pipeline, "--csv"],
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        assert re.search('"SET","[1-9]', done.stdout), done
        assert re.search('"GET","[1-9]', done.stdout), done
        assert "WARNING" not in done.stderr + done.stdout
    assert server.said() == ""


def test_a_pipeline_is_answered_in_order_however_it_is_cut(server: Served) -> None:
    requests = b"".join(request(b"SET", b"%d" % i, b"v%d" % i) for i in range(300))
    requests += b"".join(request(b"GET", b"%d" % i) for i in range(300))
    expected = b"+OK\r\n" * 300 + b"".join(
        b"$%d\r\nv%d\r\n" % (len(b"v%d" % i), i) for i in range(300)
    )
    with server.connect() as connection:
        assert exchange(connection, requests) == expected
        random.seed(7)
        while requests:
            size = random.randint(1, 700)
            connection.sendall(requests[:size])
            requests = requests[size:]
        assert exchange(connection) == expected


def test_the_longest_value_and_key_go_through_and_longer_ones_are_refused(server: Served) -> None:
    value = random.Random(3).randbytes(16 << 20)
    with server.connect() as connection:
        assert exchange(connection, request(b"SET", b"k" * 2044, value)) == b"+OK\r\n"
        reply = exchange(connection, request(b"GET", b"k" * 2044))
        assert reply == b"$%d\r\n" % len(value) + value + b"\r\n"
        assert b"longer than 2044" in exchange(connection, request(b"SET", b"k" * 2045, b"1"))
        connection.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (len(value) + 1))
        assert all_from(connection) == b"-ERR Protocol error: invalid bulk length\r\n"


@pytest.mark.parametrize(
    "garbage",
    [
        b"*1\r\n$x\r\n",
        b"*2000000\r\n",
        b"*1\r\n+PING\r\n",
        b"\x00\xff" * 70_000,
        b"*1\r\n$4\r\nPINGPONG\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_broken_frames_end_their_connection_with_a_reason(server: Served, garbage: bytes) -> None:
    with server.connect() as connection, server.connect() as other:
        connection.sendall(request(b"PING") + garbage)
        assert all_from(connection).startswith(b"+PONG\r\n-ERR Protocol error: ")
        assert exchange(other, request(b"PING")) == b"+PONG\r\n"
    assert "Protocol error" in server.said()


def test_half_frames_and_clients_that_do_not_read_are_ended(folder: Path) -> None:
    with (
        served(folder / "pool", *ANY_PORT, "--timeout", "0.5") as server,
        server.connect() as idle,
        server.connect() as half,
        server.connect() as slow,
    ):
        assert exchange(idle, request(b"SET", b"big", b"x" * (4 << 20))) == b"+OK\r\n"
        half.sendall(b"*2\r\n$3\r\nGET\r\n")
        slow.sendall(request(b"GET", b"big") * 50)  # 200 MB, more than sockets hold
        assert all_from(half) == b""
        wait_for(lambda: "does not read" in server.said())
        assert "begun and not finished" in server.said()
        assert exchange(idle, request(b"PING")) == b"+PONG\r\n"


def test_memory_is_bounded_while_a_client_does_not_read(server: Served) -> None:
    status = Path(f"/proc/{server.process.pid}/status")
    with server.connect() as slow, server.connect() as other:
        assert exchange(other, request(b"SET", b"big", b"x" * (4 << 20))) == b"+OK\r\n"
        slow.sendall(request(b"GET", b"big") * 500)  # 2 GB
        assert exchange(other, request(b"GET", b"big") * 5)
        # Anonymous memory: the pool's pages do not count.
        resident = re.search(r"RssAnon:\s+(\d+) kB", status.read_text())
        assert resident and int(resident[1]) < 150_000


def test_one_client_too_many_is_told_so(folder: Path) -> None:
    with served(folder / "pool", *ANY_PORT, "--max-connections", "3") as server:
        clients = [server.connect() for _ in range(3)]
        for client in clients:
            assert exchange(client, request(b"PING")) == b"+PONG\r\n"
        with server.connect() as extra:
            assert all_from(extra) == b"-ERR max number of clients reached\r\n"
        clients.pop().close()

        def works_again() -> bool:
            with server.connect() as late:
                late.sendall(request(b"PING"))
                return late.recv(100) == b"+PONG\r\n"

        wait_for(works_again)
        for client in clients:
            client.close()
    assert "raise --max-connections" in server.said()


def test_nothing_works_without_the_right_password(folder: Path) -> None:
    password = write_password(folder, "open sesame")
    with served(folder / "pool", *ANY_PORT, "--password-file", password) as server:
        port = ("-p", str(server.port))
        assert "NOAUTH" in redis_cli(*port, "set", "k", "v")
        assert "WRONGPASS" in redis_cli(*port, "-a", "open", "get", "k")
        assert "OK" in redis_cli(*port, "-a", "open sesame", "set", "k", "v")
        assert "v" in redis_cli(*port, "--user", "default", "-a", "open sesame", "get", "k")
        with server.connect() as guesser:
            guesser.sendall(request(b"AUTH", b"x") * 20)
            assert all_from(guesser).endswith(b"-ERR too many wrong passwords\r\n")
        with server.connect() as flood:  # nobody unknown makes the server hold much
            flood.sendall(b"*2\r\n$4\r\nAUTH\r\n$1000000\r\n")
            assert b"invalid bulk length" in all_from(flood)


def test_unsafe_and_wrong_flags_are_refused_in_one_line(folder: Path) -> None:
    create = ("--create", "64MiB")
    assert "--password-file" in refusal(folder, *create, "--redis", "0", "--listen", "0.0.0.0")
    readable = write_password(folder, "secret", 0o644)
    assert "chmod 600" in refusal(folder, *create, "--redis", "0", "--password-file", readable)
    empty = write_password(folder, "")
    assert "empty" in refusal(folder, *create, "--redis", "0", "--password-file", empty)
    assert "--create" in refusal(folder, "--redis", "0")
    assert "nothing to listen on" in refusal(folder, *create)
    assert "--tls-key" in refusal(folder, *create, "--redis", "0", "--tls-cert", "x.pem")
    for index in ("none", "hot", "lmdb"):  # unknown, volatile, on disk
        said = refusal(folder, *create, "--redis", "0", "--engine-index", index)
        assert "--engine-index" in said, said
    assert not (folder / "pool").exists()
    long_path = str(folder / ("x" * 100))
    assert "107" in refusal(folder, *create, "--redis-socket", long_path)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_a_port_speaks_tls_and_nothing_else(folder: Path) -> None:
    certificate, key = make_certificate(folder)
    tls = ("--tls-cert", certificate, "--tls-key", key)
    with served(folder / "pool", *ANY_PORT, *tls) as server:
        secure = ("-p", str(server.port), "--tls", "--cacert", certificate)
        assert redis_cli(*secure, "set", "k", "v") == "OK\n"
        trust = ssl.create_default_context(cafile=certificate)
        plain = server.connect()
        with trust.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
            assert connection.version() in ("TLSv1.2", "TLSv1.3")
            value = b"x" * (3 << 20)
            assert exchange(connection, request(b"SET", b"big", value)) == b"+OK\r\n"
            assert value in exchange(connection, request(b"GET", b"big"))
        with server.connect() as unencrypted:
            unencrypted.sendall(request(b"GET", b"k"))
            assert b"$1" not in all_from(unencrypted)
        assert "TLS handshake failed" in server.said()
        old = ssl.create_default_context(cafile=certificate)
        old.set_ciphers("ALL:@SECLEVEL=0")  # otherwise the client itself would refuse
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        with server.connect() as outdated, pytest.raises(ssl.SSLError, match="protocol version"):
            old.wrap_socket(outdated, server_hostname="127.0.0.1")


def test_a_unix_socket_is_for_its_owner_and_outlives_a_kill(folder: Path) -> None:
    path = folder / "redis.sock"
    flags = ("--redis-socket", str(path), "--threads", "1")
    with served(folder / "pool", *flags) as server:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert redis_cli("-s", str(path), "set", "k", "v") == "OK\n"
        second = refusal(folder, "--redis-socket", str(path))
        assert "another process uses the pool" in second
        server.stop(signal.SIGKILL)
    assert path.exists()
    with served(folder / "pool", *flags) as server:
        assert redis_cli("-s", str(path), "get", "k") == "v\n"
        assert server.stop() == 0
    assert not path.exists()


def test_sigterm_answers_what_is_in_hand_and_closes_the_pool_cleanly(folder: Path) -> None:
    with served(folder / "pool", *ANY_PORT) as server, server.connect() as idle:
        with server.connect() as connection:
            assert exchange(connection, request(b"SET", b"k", b"v")) == b"+OK\r\n"
            assert exchange(idle, request(b"PING")) == b"+PONG\r\n"
            began = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - began < 5
            assert all_from(connection) == b""
        assert all_from(idle) == b""
        assert server.said() == ""
    with served(folder / "pool", *ANY_PORT) as server, server.connect() as connection:
        server.process.send_signal(signal.SIGTERM)
        assert server.stop() == 0, "the same signal twice is one wish"
    with served(folder / "pool", *ANY_PORT) as server, server.connect() as connection:
        replies = exchange(connection, request(b"GET", b"k"), request(b"DBSIZE"))
        assert replies == b"$1\r\nv\r\n:1\r\n"


def check(pool: Path) -> tuple[int, str]:
    done = subprocess.run(
        [native.program(), "engine", "check", pool],
        env=native.environment(), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


class Writer(threading.Thread):
    """Sets its own keys one after the other until the server is gone; knows what was answered."""

    def __init__(self, server: Served, number: int) -> None:
        super().__init__()
        self.server, self.number = server, number
        self.acknowledged: dict[bytes, int] = {}

    def value(self, turn: int) -> bytes:
        return b"%d-%d-" % (self.number, turn) + b"x" * (turn * 37 % 3000)

    def run(self) -> None:
        try:
            with self.server.connect() as connection:
                for turn in range(1_000_000):
                    key = b"%d:%d" % (self.number, turn % 50)
                    connection.sendall(request(b"SET", key, self.value(turn)))
                    if connection.recv(100) != b"+OK\r\n":
                        return
                    self.acknowledged[key] = turn
        except OSError:
            return


def test_sigkill_loses_nothing_that_was_acknowledged(folder: Path) -> None:
    kills = max(1, round(3 * float(os.environ.get("PERDURE_TEST_FACTOR", "1"))))
    for _ in range(kills):
        with served(folder / "pool", *ANY_PORT) as server:
            writers = [Writer(server, number) for number in range(4)]
            for writer in writers:
                writer.start()
            time.sleep(0.3)
            server.stop(signal.SIGKILL)
            for writer in writers:
                writer.join()
        assert check(folder / "pool")[0] == 0, check(folder / "pool")
        with served(folder / "pool", *ANY_PORT) as server, server.connect() as connection:
            for writer in writers:
                assert writer.acknowledged
                for key, turn in writer.acknowledged.items():
                    # One more write may have become durable, and its answer not come through.
                    found = exchange(connection, request(b"GET", key))
                    expected = [writer.value(turn), writer.value(turn + 50)]
                    assert found in [b"$%d\r\n%s\r\n" % (len(v), v) for v in expected], key
            keys = {key for writer in writers for key in writer.acknowledged}
            count = int(exchange(connection, request(b"DBSIZE"))[1:])
            assert len(keys) <= count <= 200
            assert server.stop() == 0


def test_a_full_pool_refuses_and_deletes_make_room(folder: Path) -> None:
    value = random.Random(1).randbytes(1 << 20)
    with served(folder / "pool", *ANY_PORT) as server, server.connect() as connection:
        keys = 0
        while (reply := exchange(connection, request(b"SET", b"%d" % keys, value))) == b"+OK\r\n":
            keys += 1
        assert reply.startswith(b"-OOM the pool is full")
        assert exchange(connection, request(b"DBSIZE")) == b":%d\r\n" % keys
        assert exchange(connection, *(request(b"DEL", b"%d" % i) for i in range(keys // 2)))
        assert exchange(connection, request(b"SET", b"again", value)) == b"+OK\r\n"
        assert server.stop() == 0
    assert check(folder / "pool")[0] == 0


def test_the_launcher_becomes_the_server(folder: Path) -> None:
    python = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    process = subprocess.Popen(
        [sys.executable, "-m", "perdure", "serve", folder / "pool", "--create", "64MiB",
         "--redis", "0"],
        env=python, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    with process.stdout:
        line = process.stdout.readline()
        found = re.fullmatch(r"listening on 127\.0\.0\.1:(\d+) \(redis\)\n", line)
        assert found, line
        assert redis_cli("-p", found[1], "ping") == "PONG\n"
        program = Path(f"/proc/{process.pid}/exe").resolve()
        assert program.name == "perdure-native"
        process.terminate()
        assert process.wait(30) == 0


def test_engine_check_names_damage_with_its_own_exit_code(folder: Path) -> None:
    pool = folder / "pool"
    with served(pool, *ANY_PORT) as server, server.connect() as connection:
        value = b"a value that is easy to find " * 10
        assert exchange(connection, request(b"SET", b"k", value)) == b"+OK\r\n"
        assert server.stop() == 0
    assert check(pool)[0] == 0
    damaged = folder / "damaged"
    shutil.copyfile(pool, damaged)
    content = damaged.read_bytes()
    at = content.index(value)
    with damaged.open("r+b") as file:
        file.seek(at + 5)
        file.write(b"!")
    code, said = check(damaged)
    assert code == 5, said
    assert "damaged" in said or "checksum" in said
    code, said = check(folder / "absent")
    assert code == 2 and "there is no pool" in said
