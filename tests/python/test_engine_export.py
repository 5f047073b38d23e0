"""`perdure engine export`: what mongorestore and redis-cli --pipe read."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import bson
import pymongo
import pytest

from perdure.programs import native
from served import served

PORTS = ("--mongo", "0", "--redis", "0", "--threads", "1")
pytestmark = pytest.mark.usefixtures("real_programs")


def engine(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [native.program(), "engine", *arguments],
        env=native.environment(), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def redis_cli(port: int, *arguments: str, text: bytes = b"") -> bytes:
    command = ["redis-cli", "-p", str(port), *arguments]
    return subprocess.run(command, input=text, capture_output=True, check=True, timeout=60).stdout


def test_a_dump_holds_documents_indexes_and_values(folder: Path) -> None:
    documents: list[dict[str, Any]] = [
        {"_id": n, "name": f"n{n}", "nested": {"list": [n, "x" * (n % 500)]}} for n in range(2500)
    ]
    pool, dump = folder / "pool", folder / "dump"
    with served(pool, *PORTS) as server:
        mongo, redis = (each["port"] for each in server.listening)
        client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient("127.0.0.1", mongo)
        client.test.people.insert_many(documents)
        client.test.people.create_index("name", unique=True)
        client.test.people.create_index([("nested.list", -1)], name="by list")
        client.test["odd/name"].insert_one({"_id": "only"})
        client.other.few.insert_one({"_id": 1, "large": b"x" * (15 << 20)})
        client.close()
        redis_cli(redis, "mset", "a", "1", "key with spaces", "2\r\n3")
        assert "another process uses the pool" in engine("export", pool).stderr
        assert server.stop() == 0
    done = engine("export", pool, "--out", dump)
    assert done.returncode == 0, done
    assert "2502 documents of 3 collections, 2 values" in done.stdout
    files = sorted(str(path.relative_to(dump)) for path in dump.rglob("*") if path.is_file())
    assert files == [
        "other/few.bson", "other/few.metadata.json",
        "redis.resp",
        "test/odd%2Fname.bson", "test/odd%2Fname.metadata.json",
        "test/people.bson", "test/people.metadata.json",
    ]  # fmt: skip
    assert bson.decode_all((dump / "test/people.bson").read_bytes()) == documents
    metadata = json.loads((dump / "test/people.metadata.json").read_text())
    assert metadata["collectionName"] == "people"
    assert [
        (index["name"], index["key"], index.get("unique", False)) for index in metadata["indexes"]
    ] == [
        ("_id_", {"_id": {"$numberInt": "1"}}, False),
        ("name_1", {"name": {"$numberInt": "1"}}, True),
        ("by list", {"nested.list": {"$numberInt": "-1"}}, False),
    ]
    again = engine("export", pool, "--out", dump)
    assert again.returncode == 2 and "is not empty" in again.stderr
    # The values go into another server as they came out of this one.
    with served(folder / "second", *PORTS) as server:
        port = server.listening[1]["port"]
        said = redis_cli(port, "--pipe", text=(dump / "redis.resp").read_bytes())
        assert b"errors: 0, replies: 2" in said
        assert redis_cli(port, "get", "key with spaces") == b"2\r\n3\n"
