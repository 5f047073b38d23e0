"""`perdure serve --record` and `perdure engine replay`: the same contents, here and simulated."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pymongo
import pytest
from pymongo.errors import DuplicateKeyError

from conftest import wait_for
from perdure.programs import native
from served import Served, served

PORTS = ("--mongo", "0", "--redis", "0", "--threads", "3")
PLATFORM = "sim:optane100-8280l-2s"
Document = dict[str, Any]


pytestmark = pytest.mark.usefixtures("real_programs")


def engine(*arguments: str | Path, kind: str = "native") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [native.program(kind), "engine", *arguments],
        env=native.environment(), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def record_of(*arguments: str | Path, kind: str = "native") -> dict[str, Any]:
    done = engine("replay", *arguments, "--json", "--quiet", kind=kind)
    assert (done.returncode, done.stderr) == (0, ""), done
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def redis_cli(port: int, *arguments: str) -> str:
    command = ["redis-cli", "-p", str(port), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def make_traffic(server: Served) -> None:
    """Documents with common and unique entries, values, indexes that come and go; at once."""
    mongo, redis = (each["port"] for each in server.listening)
    client: pymongo.MongoClient[Document] = pymongo.MongoClient("127.0.0.1", mongo)
    people = client.test.people
    people.create_index("email", unique=True)
    people.create_index("age")

    def work(worker: int) -> None:
        for n in range(120):
            number = (worker * 61 + n * 7) % 150
            try:
                people.update_one(
                    {"_id": number},
                    {"$set": {"email": f"{n % 40}@x", "age": n % 9, "by": worker}},
                    upsert=True,
                )
            except DuplicateKeyError:
                people.delete_one({"_id": number})
            assert len(list(people.find({"age": n % 9}).limit(5))) <= 5
            people.find_one({"_id": number})

    workers = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    people.insert_many([{"_id": f"d{n}", "email": f"d{n}", "tags": ["a", n]} for n in range(300)])
    people.create_index("tags")
    people.drop_index("age_1")
    client.test.scratch.insert_many([{"n": n} for n in range(50)])
    client.test.scratch.drop()
    client.close()
    redis_cli(redis, "mset", "a", "1", "b", "2")
    redis_cli(redis, "set", "long", "x" * 100_000)
    redis_cli(redis, "del", "a")
    redis_cli(redis, "get", "long")
    redis_cli(redis, "get", "never")


def recorded(folder: Path) -> tuple[Path, str]:
    """A trace of such traffic, and the digest that the server told when it had ended."""
    trace = folder / "trace"
    with served(folder / "pool", *PORTS, "--record", str(trace)) as server:
        make_traffic(server)
        assert server.stop() == 0
        said = server.said()
    told = re.fullmatch(r"perdure: \S+trace: \d+ operations, .*, digest ([0-9a-f]{32})\n", said)
    assert told, said
    return trace, told[1]


def test_a_recorded_trace_replays_to_the_same_contents_everywhere(folder: Path) -> None:
    trace, digest = recorded(folder)
    checked = json.loads(engine("check", folder / "pool", "--json").stdout)
    assert (checked["digest"], checked["findings"]) == (digest, [])

    natively = record_of(trace, "--pool", folder / "again")
    assert natively["digest"]["replayed"] == natively["digest"]["recorded"] == digest
    assert natively["differences"] == 0
    assert natively["executed"] == natively["trace"]["operations"] > 2000
    assert {"lookup", "read", "scan_entries", "insert", "modify", "remove", "add_entries",
            "remove_entries"} <= set(natively["operations"])  # fmt: skip
    # The pool of a replay is one that a server may have left.
    again = json.loads(engine("check", folder / "again", "--json").stdout)
    assert (again["digest"], again["findings"]) == (digest, [])
    other_index = record_of(trace, "--pool", folder / "other", "--engine-index", "fptree")
    assert other_index["digest"]["replayed"] == digest

    flags = (str(trace), "--target", PLATFORM)
    simulated = record_of(*flags, kind="sim")
    assert simulated["digest"]["replayed"] == digest
    assert simulated["differences"] == 0
    assert simulated["simulated"] is True
    assert simulated["seconds"] > 0
    assert simulated["simulation"]["counters"]["fences"] > 1000
    assert simulated["operations"]["lookup"]["latency_ns"]["p99"] > 100
    assert record_of(*flags, kind="sim") == simulated
    apart = record_of(*flags, "--placement", "record-store", kind="sim")
    assert apart["digest"]["replayed"] == digest
    assert apart["simulation"]["parts"]["index"]["counters"]["media_write_bytes"] > 0
    assert "(simulated)" in engine("replay", *flags, "--quiet", kind="sim").stdout


def test_the_command_line_takes_the_program_of_the_target(folder: Path) -> None:
    trace = folder / "trace"
    with served(folder / "pool", "--redis", "0", "--record", str(trace)) as server:
        redis_cli(server.port, "mset", *(text for n in range(40) for text in (f"k{n}", f"v{n}")))
        assert server.stop() == 0
    done = subprocess.run(
        [sys.executable, "-m", "perdure", "engine", "replay", trace, "--target", PLATFORM, "--json",
         "--threads", "4"],
        env=native.environment(), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done
    record = json.loads(done.stdout)
    assert record["target"] == PLATFORM
    assert record["digest"]["documents"] == 40
    parallel = record_of(trace, "--pool", folder / "parallel", "--threads", "2")
    assert parallel["digest"] == record["digest"]


def test_a_killed_server_leaves_a_trace_without_an_end(folder: Path) -> None:
    trace = folder / "trace"
    with served(folder / "pool", *PORTS, "--record", str(trace)) as server:
        make_traffic(server)
        server.stop(signal.SIGKILL)
    text = engine("replay", trace, "--pool", folder / "again", "--quiet")
    assert text.returncode == 0, text
    assert "was cut off" in text.stdout
    assert "answers          all as recorded" in text.stdout


def test_the_server_goes_on_where_the_trace_cannot_be_written(folder: Path) -> None:
    trace = folder / "trace"
    os.mkfifo(trace)
    seen: list[bytes] = []

    def read_the_beginning() -> None:
        with trace.open("rb") as pipe:
            seen.append(pipe.read(64))

    reader = threading.Thread(target=read_the_beginning)
    reader.start()
    with served(folder / "pool", "--redis", "0", "--record", str(trace)) as server:
        reader.join()
        assert seen[0].startswith(b"PERDTRAC")
        for n in range(30):
            assert redis_cli(server.port, "set", f"k{n}", "x" * 50_000) == "OK\n"
        wait_for(server.said)
        assert redis_cli(server.port, "get", "k29") == "x" * 50_000 + "\n"
        assert server.stop() == 1
        said = server.said()
    assert re.fullmatch(
        r"perdure: \S+trace: cannot be written: Broken pipe: recording has ended, the server goes "
        r"on; name a file .*\n",
        said,
    ), said


def test_a_changed_trace_is_found_out(folder: Path) -> None:
    trace, _ = recorded(folder)
    bytes_of = trace.read_bytes()
    damaged = folder / "damaged"
    damaged.write_bytes(bytes_of[:5000] + bytes([bytes_of[5000] ^ 1]) + bytes_of[5001:])
    done = engine("replay", damaged, "--pool", folder / "again")
    assert done.returncode == 2
    assert re.search(r"damaged: the trace is damaged at byte \d+; .*\n$", done.stderr), done
    assert done.stderr.count("\n") == 1
    assert not (folder / "again").exists()


def test_a_smaller_pool_is_said_to_be_too_small(folder: Path) -> None:
    trace = folder / "trace"
    with served(folder / "pool", "--mongo", "0", "--record", str(trace)) as server:
        client: pymongo.MongoClient[Document] = pymongo.MongoClient("127.0.0.1", server.port)
        client.test.large.insert_many([{"_id": n, "text": "x" * (1 << 20)} for n in range(30)])
        client.close()
        assert server.stop() == 0
    flags = (trace, "--pool", folder / "small", "--pool-bytes", "16MiB", "--quiet")
    small = engine("replay", *flags)
    assert small.returncode == 5, small
    assert "recorded 'ok', now 'out of space'; give a larger --pool-bytes\n" in small.stderr
    again = engine("replay", *flags)
    assert again.returncode == 2
    assert again.stderr.endswith("exists already; replace it with --force, or name another\n")
    assert "--pool: a place" in engine("replay", trace).stderr


def test_recording_refuses_what_it_could_not_replay(folder: Path) -> None:
    pool, trace = folder / "pool", folder / "trace"

    def refusal(*flags: str | Path) -> str:
        done = subprocess.run(
            [native.program(), "serve", pool, "--redis", "0", *flags],
            env=native.environment(), capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
        return done.stderr

    with served(pool, "--redis", "0") as server:
        redis_cli(server.port, "set", "k", "v")
        server.stop()
    assert "holds 1 documents" in refusal("--record", trace)
    assert not trace.exists()
    pool.unlink()
    trace.write_text("mine")
    assert "exists already" in refusal("--create", "64MiB", "--record", trace)
    assert "is no trace" in refusal("--create", "64MiB", "--record", trace, "--force")
    assert trace.read_text() == "mine"
    assert "give --record FILE" in refusal("--create", "64MiB", "--force")
