"""The lock of a machine: what measures has it alone, simulations have it beside each other."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import wait_for
from perdure.errors import PerdureError
from perdure.programs import host_lock
from perdure.programs.host_lock import held


def quiet(_text: str) -> None:
    pass


class Holder:
    """A thread that holds the machine until it is told to let it go."""

    def __init__(self, *, alone: bool, say: Callable[[str], None] = quiet) -> None:
        self.has, self.end, self.stop = threading.Event(), threading.Event(), False
        self.thread = threading.Thread(target=self._hold, args=(alone, say))
        self.thread.start()

    def _hold(self, alone: bool, say: Callable[[str], None]) -> None:
        try:
            with held("a study", alone=alone, say=say, stopped=lambda: self.stop):
                self.has.set()
                self.end.wait(30)
        except host_lock.StoppedError:
            pass

    def release(self) -> None:
        self.stop = True
        self.end.set()
        self.thread.join()


@pytest.mark.slow
def test_simulations_share_and_what_measures_waits_for_them_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_lock, "QUIET_SECONDS", 0.0)
    said: list[str] = []
    one, two = Holder(alone=False), Holder(alone=False)
    assert one.has.wait(30) and two.has.wait(30)
    native = Holder(alone=True, say=said.append)
    wait_for(lambda: said)
    assert said == ["waiting for this machine: simulations, or a process that is ending, hold it"]
    one.release()
    assert not native.has.wait(0.2)
    late = Holder(alone=False)
    assert not late.has.wait(0.2), "simulations that keep coming would make it wait for ever"
    two.release()
    assert native.has.wait(30) and not late.has.is_set()
    other = Holder(alone=True, say=said.append)
    wait_for(lambda: len(said) > 1)
    assert f"measures a study (process {os.getpid()}) since" in said[1]
    native.release()
    assert late.has.wait(30) or other.has.wait(30)
    late.release()
    assert other.has.wait(30)
    other.release()


def test_who_stops_waiting_leaves() -> None:
    one = Holder(alone=True)
    assert one.has.wait(30)
    two = Holder(alone=True)
    two.release()
    assert not two.has.is_set()
    one.release()


def test_it_is_held_until_the_process_that_measures_is_gone() -> None:
    with held("a study", alone=True, say=quiet) as descriptor:
        child = subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[descriptor]
        )
    waiting = Holder(alone=False)
    assert not waiting.has.wait(0.3)
    child.communicate(b"\n")
    assert waiting.has.wait(30)
    waiting.release()


def test_every_user_may_open_it_and_no_link_is_followed(own_machine: Path) -> None:
    before = os.umask(0o077)
    try:
        with held("a study", alone=True, say=quiet):
            pass
    finally:
        os.umask(before)
    lock = own_machine / host_lock.LOCK
    assert lock.stat().st_mode & 0o777 == 0o666
    lock.unlink()
    (own_machine / "mine").write_text("mine")
    lock.symlink_to(own_machine / "mine")
    with pytest.raises(PerdureError, match="cannot be opened"), held("", alone=True, say=quiet):
        pass
    assert (own_machine / "mine").read_text() == "mine"


@pytest.mark.parametrize("text", ["", "{", '{"pid": "x"}', '{"pid": 1e400}', "[1]"])
def test_what_others_wrote_into_it_is_not_believed(own_machine: Path, text: str) -> None:
    file = own_machine / host_lock.LOCK
    file.write_text(text)
    descriptor = os.open(file, os.O_RDONLY)
    assert host_lock.holder(descriptor) == "simulations, or a process that is ending, hold it"
    os.close(descriptor)


def test_its_place_is_one_that_every_user_may_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, all_users = tmp_path / "mine", tmp_path / "all"
    for place, mode in ((mine, 0o755), (all_users, 0o1777)):
        place.mkdir()
        place.chmod(mode)
    monkeypatch.delenv("PERDURE_LOCKS")
    monkeypatch.setattr(host_lock, "PLACES", (str(tmp_path / "none"), str(mine), str(all_users)))
    assert host_lock.folder() == all_users
