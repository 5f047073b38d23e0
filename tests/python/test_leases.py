"""Leases: of several processes one has a cell, and it is taken over only when the owner is dead."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.errors import PerdureError
from perdure.programs import host
from perdure.study import leases
from perdure.study.leases import DONE, FAILED, GIVEN_UP, Leases

KEY = "0123456789abcdef" * 2
LEASE = 60.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Advances the monotonic clock that leases look at."""
    passed = 0.0

    def advance(seconds: float) -> None:
        nonlocal passed
        passed += seconds

    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + passed)
    return advance


def folder(results: Path, campaign: str = "one") -> Leases:
    (results / leases.FOLDER).mkdir(exist_ok=True)
    return Leases(results, campaign, LEASE)


def of_another_machine(results: Path, generation: int = 0) -> Path:
    """Makes the newest claim look as if another machine had written it."""
    file = results / leases.FOLDER / f"{KEY}.{generation}"
    file.write_text(file.read_text().replace(host.token(), "f" * 16))
    return file


def test_of_many_that_try_one_has_it(tmp_path: Path) -> None:
    several, together = [folder(tmp_path) for _ in range(8)], threading.Barrier(8)
    won = []

    def contend(one: Leases) -> None:
        together.wait()
        if lease := one.take(KEY):
            won.append(lease)

    threads = [threading.Thread(target=contend, args=(one,)) for one in several]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert [f.name for f in (tmp_path / leases.FOLDER).iterdir()] == [f"{KEY}.0"]


def test_of_many_that_take_over_one_has_it(
    tmp_path: Path, clock: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert folder(tmp_path).take(KEY)
    of_another_machine(tmp_path)
    several = [folder(tmp_path) for _ in range(8)]
    assert not any(one.take(KEY) for one in several)
    clock(LEASE + 1)
    # All have seen it dead before the first of them links.
    together = threading.Barrier(8)
    link = Leases._link

    def later(self: Leases, key: str, generation: int, what: str) -> leases.Lease | None:
        together.wait()
        return link(self, key, generation, what)

    monkeypatch.setattr(Leases, "_link", later)
    won = []

    def contend(one: Leases) -> None:
        won.append(one.take(KEY))

    threads = [threading.Thread(target=contend, args=(one,)) for one in several]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(lease is not None for lease in won) == 1


def test_a_process_that_is_gone_is_followed_at_once(tmp_path: Path) -> None:
    (tmp_path / leases.FOLDER).mkdir()
    code = (
        "import sys; from pathlib import Path; from perdure.study.leases import Leases\n"
        f"print(Leases(Path(sys.argv[1]), 'one').take('{KEY}').generation, flush=True)\n"
        "sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert other.stdout is not None and other.stdout.readline() == "0\n"
    assert folder(tmp_path).take(KEY) is None
    other.kill()
    # Nobody has waited for it: its number is still taken.
    while host.process_start(other.pid):
        time.sleep(0.01)
    lease = folder(tmp_path).take(KEY)
    assert lease is not None and lease.generation == 1 and lease.is_ours()
    other.communicate()


def test_a_number_that_another_process_has_now_is_no_owner(tmp_path: Path) -> None:
    lease = folder(tmp_path).take(KEY)
    assert lease and folder(tmp_path).take(KEY) is None
    file = tmp_path / leases.FOLDER / f"{KEY}.0"
    started = json.dumps(host.process_start(os.getpid()))
    file.write_text(file.read_text().replace(f'"process_start": {started}', '"process_start": "1"'))
    assert folder(tmp_path).take(KEY)
    assert not lease.is_ours()


def test_of_another_machine_only_silence_by_our_clock_counts(
    tmp_path: Path, clock: Callable[[float], None]
) -> None:
    owner = folder(tmp_path).take(KEY)
    assert owner
    # Its wall clock is a year late.
    file = of_another_machine(tmp_path)
    file.write_text(file.read_text().replace('"since_unix": ', '"since_unix": -'))
    other = folder(tmp_path)
    assert other.take(KEY) is None, "seen for the first time"
    clock(LEASE * 0.9)
    assert other.take(KEY) is None
    owner.beat()
    clock(LEASE * 0.9)
    assert other.take(KEY) is None, "it has beaten since"
    clock(LEASE * 0.9)
    assert other.take(KEY) is None
    clock(LEASE * 0.2)
    mine = other.take(KEY)
    assert mine and not owner.is_ours()
    # What the former owner still writes changes nothing.
    owner.beat()
    owner.end(DONE)
    newest = other.newest(KEY)
    assert newest and newest.generation == 1 and newest.state == leases.RUNNING


def test_leases_are_kept_alive_and_given_up(tmp_path: Path) -> None:
    with Leases(tmp_path, "one", 0.06) as held:
        lease = held.take(KEY)
        assert lease
        before = held.newest(KEY)
        deadline = time.monotonic() + 30
        while held.newest(KEY) == before and time.monotonic() < deadline:
            time.sleep(0.01)
        assert held.newest(KEY) != before, "no beat"
    newest = held.newest(KEY)
    assert newest and newest.state == GIVEN_UP
    assert folder(tmp_path).take(KEY)


def test_a_cell_that_failed_is_tried_again_by_the_next_campaign_only(tmp_path: Path) -> None:
    lease = folder(tmp_path).take(KEY)
    assert lease
    lease.end(FAILED)
    assert folder(tmp_path).take(KEY) is None and folder(tmp_path).has_failed(KEY)
    assert not folder(tmp_path, "two").has_failed(KEY)
    assert folder(tmp_path, "two").take(KEY)


def test_done_without_a_record_is_believed_for_as_long_as_a_lease(
    tmp_path: Path, clock: Callable[[float], None]
) -> None:
    lease = folder(tmp_path).take(KEY)
    assert lease
    lease.end(DONE)
    other = folder(tmp_path)
    assert other.take(KEY) is None
    clock(LEASE + 1)
    assert other.take(KEY), "somebody removed the record"


@pytest.mark.parametrize("content", ["", "half", '000000000000 running \n{"pid": 1', "\0" * 500])
def test_a_damaged_claim_is_one_of_an_unknown_owner(
    tmp_path: Path, clock: Callable[[float], None], content: str
) -> None:
    held = folder(tmp_path)
    (tmp_path / leases.FOLDER / f"{KEY}.0").write_text(content)
    assert held.take(KEY) is None
    clock(LEASE + 1)
    assert held.take(KEY)


def test_a_full_disk_takes_nothing_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = folder(tmp_path)
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda _descriptor, text: len(text) // 2)
        with pytest.raises(PerdureError, match=f"{KEY}.0: cannot be claimed: No space left"):
            held.take(KEY)
    assert not list((tmp_path / leases.FOLDER).iterdir())
    assert held.take(KEY)


@pytest.mark.parametrize("number", [errno.EEXIST, errno.EIO, errno.ETIMEDOUT])
def test_a_link_whose_answer_is_lost_is_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    link = os.link

    def lose(source: Path, target: Path) -> None:
        link(source, target)
        raise OSError(number, os.strerror(number))

    one, other = folder(tmp_path), folder(tmp_path)
    monkeypatch.setattr(os, "link", lose)
    lease = one.take(KEY)
    assert lease is not None and lease.is_ours()
    assert other.take(KEY) is None
    monkeypatch.setattr(os, "link", link)
    lease.end(GIVEN_UP)
    assert other.take(KEY) is not None


def test_a_link_that_fails_is_an_error_and_no_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    one = folder(tmp_path)
    with monkeypatch.context() as patched, pytest.raises(PerdureError, match="cannot be claimed"):
        patched.setattr(os, "link", fail)
        one.take(KEY)
    assert list((tmp_path / leases.FOLDER).iterdir()) == []
    # Somebody else has it: the failed link says nothing about that.
    assert folder(tmp_path).take(KEY) is not None
    monkeypatch.setattr(one, "newest", lambda _: None)
    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(PerdureError, match="cannot be claimed"):
        one.take(KEY)


def test_without_hard_links_one_has_it_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(_source: Path, _target: Path) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", unsupported)
    test_of_many_that_try_one_has_it(tmp_path)
    newest = folder(tmp_path).newest(KEY)
    assert newest and newest.owner and newest.owner.pid == os.getpid()


def test_tidying_keeps_what_runs(tmp_path: Path) -> None:
    held = folder(tmp_path)
    running, done = held.take(KEY), held.take(KEY[::-1])
    assert running and done
    done.end(DONE)
    leases.tidy(tmp_path)
    assert [f.name for f in (tmp_path / leases.FOLDER).iterdir()] == [f"{KEY}.0"]
    running.end(GIVEN_UP)
    leases.tidy(tmp_path)
    assert not (tmp_path / leases.FOLDER).exists()
