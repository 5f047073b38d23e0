"""Pools of campaigns: whose they are, and which of them a sweep removes."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from perdure.study import pools

KEY = "0123456789abcdef" * 2
TOKEN, OTHER = "aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"


def dead(folder: Path, token: str) -> list[Path]:
    """What a killed campaign leaves: its owner's file, pools in parts, an engine's directory."""
    owner = folder / f"perdure-{token}.owner"
    pool = folder / f"perdure-{token}-{KEY}.pool"
    second = folder / f"perdure-{token}-{KEY}.pool.1"
    engine = folder / f"perdure-{token}-{KEY[::-1]}.pool"
    for file in (owner, pool, second):
        file.write_text("x")
    engine.mkdir()
    (engine / "data.mdb").write_text("x")
    return [owner, pool, second, engine]


def test_pools_of_a_campaign_that_is_gone_are_swept(tmp_path: Path) -> None:
    left = dead(tmp_path, TOKEN)
    with pools.owned([tmp_path]) as ours:
        assert not any(path.exists() for path in left)
        assert [path.name for path in tmp_path.iterdir()] == [f"perdure-{ours.token}.owner"]
    assert not list(tmp_path.iterdir())


def test_what_a_living_campaign_uses_stays(tmp_path: Path) -> None:
    left, kept = dead(tmp_path, TOKEN), dead(tmp_path, OTHER)
    with kept[0].open() as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        pools.sweep(tmp_path)
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in kept)


def test_the_lock_is_held_while_a_process_that_inherited_it_lives(tmp_path: Path) -> None:
    with pools.owned([tmp_path]) as ours:
        inherited = os.dup(ours.descriptors[0])
        pool = ours.path(tmp_path, KEY)
        pool.write_text("x")
        # As if the campaign had been killed: its own descriptor is closed, its files stay.
        os.close(ours.descriptors[0])
        pools.sweep(tmp_path)
        assert pool.exists()
        os.close(inherited)
        pools.sweep(tmp_path)
        assert not pool.exists()
        ours.descriptors[0] = os.open(tmp_path, os.O_RDONLY)


@pytest.mark.parametrize(
    "name",
    [
        f"perdure-{TOKEN}-notes.txt",
        f"perdure-{TOKEN}-{KEY}.pool2",
        f"perdure-{OTHER}-{KEY}.pool",  # nobody says whose it is
        f"perdure-{KEY}.pool",  # somebody's own
        "perdure-thesis.owner",
    ],
)
def test_a_sweep_removes_only_what_is_named_as_ours(tmp_path: Path, name: str) -> None:
    dead(tmp_path, TOKEN)
    (tmp_path / name).write_text("mine")
    pools.sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_link_is_no_owner_and_is_not_followed(tmp_path: Path) -> None:
    there, directory = tmp_path / "there", tmp_path / "shm"
    there.mkdir()
    directory.mkdir()
    (there / "file").write_text("mine")
    (directory / f"perdure-{TOKEN}.owner").symlink_to(there / "file")
    dead(directory, OTHER)
    (directory / f"perdure-{OTHER}-{KEY}.pool.linked").symlink_to(there)
    pools.sweep(directory)
    assert [path.name for path in directory.iterdir()] == [f"perdure-{TOKEN}.owner"]
    assert (there / "file").read_text() == "mine"


def test_two_campaigns_share_no_name(tmp_path: Path) -> None:
    with pools.owned([tmp_path]) as one, pools.owned([tmp_path]) as two:
        assert one.path(tmp_path, KEY) != two.path(tmp_path, KEY)
        assert len(list(tmp_path.glob("*.owner"))) == 2
