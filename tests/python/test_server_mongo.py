"""MongoDB clients of `perdure serve`: pymongo, unmodified."""

from __future__ import annotations

import re
import signal
import stat
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pymongo
import pytest
from bson import Decimal128, ObjectId
from pymongo.errors import (
    BulkWriteError,
    DuplicateKeyError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WriteError,
)

from served import PATIENCE, Served, all_from, make_certificate, served, write_password

ANY_PORT = ("--mongo", "0", "--threads", "2")
Document = dict[str, Any]


pytestmark = pytest.mark.usefixtures("real_programs")


@contextmanager
def client_of(server: Served, **options: Any) -> Iterator[pymongo.MongoClient[Document]]:
    client: pymongo.MongoClient[Document] = pymongo.MongoClient(
        "127.0.0.1", server.port, serverSelectionTimeoutMS=PATIENCE * 1000, **options
    )
    try:
        yield client
    finally:
        client.close()


@pytest.fixture
def client(folder: Path) -> Iterator[pymongo.MongoClient[Document]]:
    with served(folder / "pool", *ANY_PORT) as server, client_of(server) as connected:
        yield connected
        assert server.said() == ""


def test_documents_are_made_read_changed_and_removed(
    client: pymongo.MongoClient[Document],
) -> None:
    people = client.test.people
    made = people.insert_one({"name": "Ada", "age": 36})
    assert isinstance(made.inserted_id, ObjectId)
    people.insert_many([{"_id": i, "age": i, "tags": ["t", i]} for i in range(100)])
    assert people.find_one({"name": "Ada"}) == {"_id": made.inserted_id, "name": "Ada", "age": 36}
    assert people.count_documents({"age": {"$gte": 50}}) == 50
    assert people.estimated_document_count() == 101
    assert [one["_id"] for one in people.find({"tags": 7})] == [7]
    assert [
        one["_id"] for one in people.find({"_id": {"$lt": 9}}, sort=[("_id", -1)], limit=2)
    ] == [
        8,
        7,
    ]
    assert people.find_one({"_id": 5}, {"age": 1, "_id": 0}) == {"age": 5}

    changed = people.update_many(
        {"age": {"$lt": 10}}, {"$set": {"young": True}, "$inc": {"age": 1}}
    )
    assert (changed.matched_count, changed.modified_count) == (10, 10)
    replaced = people.replace_one({"_id": 5}, {"name": "Bob"})
    assert (replaced.matched_count, people.find_one({"_id": 5})) == (1, {"_id": 5, "name": "Bob"})
    upserted = people.update_one({"_id": "new"}, {"$set": {"a.b": 1}}, upsert=True)
    assert upserted.upserted_id == "new"
    assert people.find_one({"a.b": 1}) == {"_id": "new", "a": {"b": 1}}
    assert people.delete_many({"young": True}).deleted_count == 9
    assert people.delete_one({"_id": 5}).deleted_count == 1
    assert people.count_documents({}) == 92
    with pytest.raises(WriteError, match="immutable"):
        people.update_one({"_id": 20}, {"$set": {"_id": 21}})


def test_a_second_document_with_an_id_is_refused(client: pymongo.MongoClient[Document]) -> None:
    people = client.test.people
    people.insert_one({"_id": 1})
    with pytest.raises(DuplicateKeyError, match="E11000") as caught:
        people.insert_one({"_id": 1})
    assert caught.value.code == 11000
    with pytest.raises(BulkWriteError) as many:
        people.insert_many([{"_id": i} for i in range(5)], ordered=False)
    assert (many.value.details["nInserted"], len(many.value.details["writeErrors"])) == (4, 1)


def test_secondary_indexes_serve_and_restrict(client: pymongo.MongoClient[Document]) -> None:
    people = client.test.people
    people.insert_many([{"_id": i, "mail": f"m{i % 500}", "n": i} for i in range(1000)])
    with pytest.raises(DuplicateKeyError):
        people.create_index("mail", unique=True)
    assert list(people.index_information()) == ["_id_"]
    assert people.create_index("mail") == "mail_1"
    assert people.create_index([("n", -1)], unique=True) == "n_-1"
    assert sorted(people.index_information()) == ["_id_", "mail_1", "n_-1"]
    assert [one["_id"] for one in people.find({"mail": "m7"}).sort("_id", 1)] == [7, 507]
    assert people.count_documents({"n": {"$gt": 10, "$lte": 20}}) == 10
    with pytest.raises(DuplicateKeyError, match=re.escape("n_-1 dup key: { n: 5 }")):
        people.insert_one({"n": 5})
    people.drop_index("n_-1")
    people.insert_one({"n": 5})
    with pytest.raises(OperationFailure, match="one field"):
        people.create_index([("a", 1), ("b", 1)])


def test_a_cursor_goes_over_a_hundred_thousand_documents(
    client: pymongo.MongoClient[Document],
) -> None:
    many = client.test.many
    for begin in range(0, 100_000, 10_000):
        many.insert_many([{"_id": i, "v": i % 7} for i in range(begin, begin + 10_000)])
    assert [one["_id"] for one in many.find(batch_size=1000)] == list(range(100_000))
    with many.find({"v": 3}) as cursor:
        assert sum(1 for _ in cursor) == many.count_documents({"v": 3})
    unread = many.find(batch_size=10)
    next(unread)
    assert client.admin.command("serverStatus")["cursors"]["open"] == 1
    unread.close()
    assert client.admin.command("serverStatus")["cursors"]["open"] == 0


def test_documents_go_up_to_sixteen_megabytes(client: pymongo.MongoClient[Document]) -> None:
    people = client.test.people
    room = (16 << 20) - len(b"\x00\x00\x00\x00\x10_id\x00\x01\x00\x00\x00\x05x\x00") - 6
    longest = {"_id": 1, "x": bytes(room)}
    people.insert_one(longest)
    assert people.find_one({"_id": 1}) == longest
    with pytest.raises(PyMongoError, match=r"too large|at most"):
        people.insert_one({"_id": 2, "x": bytes(room + 1)})
    with pytest.raises(WriteError) as caught:
        people.update_one({"_id": 1}, {"$set": {"y": 1}})
    assert caught.value.code == 10334


def test_several_indexes_are_made_all_or_none(client: pymongo.MongoClient[Document]) -> None:
    people = client.test.people
    people.insert_many([{"_id": i, "a": i} for i in range(5)])
    with pytest.raises(DuplicateKeyError):
        people.create_indexes([pymongo.IndexModel("a"), pymongo.IndexModel("absent", unique=True)])
    assert list(people.index_information()) == ["_id_"]
    with pytest.raises(OperationFailure, match="always there"):
        people.create_index([("_id", -1)])


def test_a_damaged_document_is_an_error_and_the_rest_is_served(folder: Path) -> None:
    pool = folder / "pool"
    with served(pool, *ANY_PORT) as server, client_of(server) as client:
        client.test.people.insert_many([{"_id": i, "text": f"needle {i:04}"} for i in range(300)])
        assert server.stop() == 0
    at = pool.read_bytes().index(b"needle 0200")
    with pool.open("r+b") as file:
        file.seek(at)
        file.write(b"N")
    with served(pool, *ANY_PORT) as server, client_of(server) as client:
        people = client.test.people
        found: list[int] = []
        with pytest.raises(OperationFailure, match="damaged record"):
            for one in people.find():
                found.append(one["_id"])
        assert found == [i for i in range(300) if i != 200]
        assert people.find_one({"_id": 201}) is not None
        for act in (
            lambda: people.find_one({"_id": 200}),
            lambda: people.find_one({"text": "none"}),
            lambda: people.count_documents({"text": "none"}),
            lambda: people.update_one({"text": "none"}, {"$set": {"x": 1}}, upsert=True),
        ):
            with pytest.raises(OperationFailure, match="damaged record"):
                act()


def test_what_is_not_supported_is_named(client: pymongo.MongoClient[Document]) -> None:
    people = client.test.people
    people.insert_one({"_id": 1, "d": Decimal128("1.5"), "n": 1})
    attempts: dict[str, Callable[[], object]] = {
        r"\$regex": lambda: people.find_one({"a": {"$regex": "x"}}),
        r"\$push": lambda: people.update_one({}, {"$push": {"a": 1}}),
        r"\$project": lambda: list(people.aggregate([{"$project": {"a": 1}}])),
        "collation": lambda: list(people.find({}, collation={"locale": "de"})),
        "findAndModify": lambda: people.find_one_and_delete({}),
        "distinct": lambda: people.distinct("a"),
        "Decimal128": lambda: people.find_one({"d": {"$gt": 1}}),
    }
    for what, act in attempts.items():
        with pytest.raises(OperationFailure, match=what):
            act()
    assert people.count_documents({}) == 1


def test_collections_and_databases_are_listed_and_dropped(
    client: pymongo.MongoClient[Document],
) -> None:
    client.one.a.insert_one({})
    client.one.b.insert_one({})
    client.two.c.insert_one({})
    assert client.list_database_names() == ["one", "two"]
    assert sorted(client.one.list_collection_names()) == ["a", "b"]
    client.one.a.drop()
    assert client.one.list_collection_names() == ["b"]
    client.drop_database("one")
    assert client.list_database_names() == ["two"]
    assert client.two.command("collStats", "c")["count"] == 1


def test_nothing_acknowledged_is_lost_when_the_server_is_killed(folder: Path) -> None:
    acknowledged: list[int] = []
    with served(folder / "pool", *ANY_PORT) as server, client_of(server) as client:
        people = client.test.people
        people.create_index("n")
        killer = threading.Timer(1.0, server.stop, [signal.SIGKILL])
        killer.start()
        try:
            for i in range(1_000_000):
                people.insert_one({"_id": i, "n": i, "text": "x" * (i % 3000)})
                acknowledged.append(i)
        except PyMongoError:
            pass
        killer.join()
    assert len(acknowledged) > 100
    with served(folder / "pool", *ANY_PORT) as server, client_of(server) as client:
        people = client.test.people
        found = list(people.find(sort=[("_id", 1)]))
        assert [one["_id"] for one in found[: len(acknowledged)]] == acknowledged
        assert len(found) - len(acknowledged) <= 1
        assert all(one["text"] == "x" * (one["_id"] % 3000) for one in found)
        assert people.count_documents({"n": {"$gte": 0}}) == len(found)
        assert server.stop() == 0


def test_the_password_is_asked_for(folder: Path) -> None:
    password = write_password(folder, "s3cret")
    with served(folder / "pool", *ANY_PORT, "--password-file", password) as server:
        with client_of(server, username="perdure", password="s3cret") as client:
            client.test.people.insert_one({"_id": 1})
            assert client.test.people.count_documents({}) == 1
        with (
            client_of(server) as stranger,
            pytest.raises(OperationFailure, match="requires authentication"),
        ):
            stranger.test.people.find_one()
        for user, attempt in (("perdure", "secret"), ("root", "s3cret")):
            with (
                client_of(server, username=user, password=attempt) as stranger,
                pytest.raises(OperationFailure, match="Authentication failed"),
            ):
                stranger.test.people.find_one()


def test_a_password_goes_over_tls_and_nothing_without_it(folder: Path) -> None:
    certificate, key = make_certificate(folder)
    password = write_password(folder, "s3cret")
    flags = ("--password-file", password, "--tls-cert", certificate, "--tls-key", key)
    with served(folder / "pool", *ANY_PORT, *flags) as server:
        known: dict[str, Any] = {"username": "perdure", "password": "s3cret"}
        with client_of(server, tls=True, tlsCAFile=certificate, **known) as client:
            client.test.people.insert_one({"_id": 1, "x": bytes(3 << 20)})
            assert client.test.people.count_documents({}) == 1
        with (
            client_of(server, tls=True, tlsCAFile=certificate) as stranger,
            pytest.raises(OperationFailure, match="requires authentication"),
        ):
            stranger.test.people.find_one()
        plain: pymongo.MongoClient[Document] = pymongo.MongoClient(
            "127.0.0.1", server.port, serverSelectionTimeoutMS=500, **known
        )
        with plain, pytest.raises(ServerSelectionTimeoutError):
            plain.test.people.find_one()


def test_a_unix_socket_serves_pymongo_for_its_owner(folder: Path) -> None:
    path = folder / "docs.sock"
    with served(folder / "pool", "--socket", str(path), "--threads", "1") as server:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        address = f"mongodb://{quote_plus(str(path))}"
        client: pymongo.MongoClient[Document] = pymongo.MongoClient(
            address, serverSelectionTimeoutMS=PATIENCE * 1000
        )
        with client:
            client.test.people.insert_one({"_id": 1})
            assert client.test.people.find_one() == {"_id": 1}
        assert server.stop() == 0
    assert not path.exists()


def test_broken_frames_end_their_connection_and_no_other(folder: Path) -> None:
    header = struct.Struct("<iiii")
    with served(folder / "pool", *ANY_PORT) as server, client_of(server) as client:
        client.test.people.insert_one({"_id": 1})
        for frame in (
            header.pack(10, 1, 0, 2013),
            header.pack(100_000_000, 1, 0, 2013),
            header.pack(21, 1, 0, 2013) + b"\xff\xff\x00\x00\x00",
            header.pack(26, 1, 0, 2012) + bytes(10),
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ):
            with server.connect() as connection:
                connection.sendall(frame)
                assert all_from(connection) == b""
        assert client.test.people.find_one() == {"_id": 1}
