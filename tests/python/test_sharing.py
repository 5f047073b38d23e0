"""The lock of a results folder: one campaign alone, or the shards of one plan."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path

import pytest

from perdure.errors import InputError
from perdure.study import sharing


def test_shards_that_come_and_go_at_once_agree_on_the_campaign(tmp_path: Path) -> None:
    count, rounds = 6, 25
    together = threading.Barrier(count)
    joined: list[list[sharing.Session]] = [[] for _ in range(rounds)]
    errors = []

    def shard() -> None:
        for number in range(rounds):
            together.wait()
            try:
                with sharing.shared(tmp_path, "plan") as session:
                    joined[number].append(session)
                    together.wait()
            except InputError as error:
                errors.append(error)
                together.abort()
                return

    threads = [threading.Thread(target=shard) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for sessions in joined:
        assert len({session.campaign for session in sessions}) == 1
        assert any(session.first for session in sessions)
    assert len({sessions[0].campaign for sessions in joined}) == rounds, "each began anew"


def test_the_first_finds_nobody_and_the_last_is_alone(tmp_path: Path) -> None:
    with sharing.shared(tmp_path, "plan") as one:
        with sharing.shared(tmp_path, "plan") as two:
            assert one.first and not two.first
            assert not two.is_alone()
        assert one.is_alone()


@pytest.mark.parametrize("content", ["", "999999999\n", "{", "[]", '{"shared": true}'])
def test_what_an_ended_campaign_left_in_it_keeps_nobody_out(tmp_path: Path, content: str) -> None:
    (tmp_path / sharing.LOCK).write_text(content)
    with sharing.shared(tmp_path, "plan") as one:
        assert one.first
    with sharing.alone(tmp_path) as two:
        assert two.campaign != one.campaign


def test_who_does_not_belong_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "LEAVING_SECONDS", 0.1)
    with sharing.shared(tmp_path, "plan") as one:
        with pytest.raises(InputError, match="another study, build"), sharing.shared(tmp_path, "x"):
            pass
        with pytest.raises(InputError, match="another campaign writes"), sharing.alone(tmp_path):
            pass
        with sharing.joined(tmp_path, one.campaign):
            pass
        with pytest.raises(InputError, match="has ended"), sharing.joined(tmp_path, "other"):
            pass
    with sharing.alone(tmp_path):
        for plan in ("plan", ""):
            with (
                pytest.raises(InputError, match="another campaign"),
                sharing.shared(tmp_path, plan),
            ):
                pass
        with pytest.raises(InputError, match="has ended"), sharing.joined(tmp_path, one.campaign):
            pass


def test_one_that_is_just_leaving_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "LEAVING_SECONDS", 30.0)
    lock = tmp_path / sharing.LOCK
    lock.write_text('{"campaign": "other", "plan": "other", "shared": true, "pid": 1}')
    with lock.open() as leaving:
        fcntl.flock(leaving, fcntl.LOCK_SH)
        timer = threading.Timer(0.3, fcntl.flock, (leaving, fcntl.LOCK_UN))
        timer.start()
        with sharing.shared(tmp_path, "plan") as one:
            assert one.first and one.campaign != "other"
        timer.join()


def test_a_file_system_without_locks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", none)
    said = f"{tmp_path / 'lock'}: cannot be locked: No locks available; use a folder with flock"
    with pytest.raises(InputError, match=said), sharing.alone(tmp_path):
        pass
    with pytest.raises(InputError, match=said), sharing.shared(tmp_path, "plan"):
        pass
