"""./perdure itself: what it answers without setting anything up, and when it locks the folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534


@pytest.fixture
def clone() -> Iterator[Path]:
    """A bare checkout that needs no Debian packages and that everybody may read."""
    with tempfile.TemporaryDirectory(prefix="perdure set-up ") as folder:
        root = Path(folder)
        root.chmod(0o755)
        for name in ("perdure", "pyproject.toml", "CMakeLists.txt"):
            shutil.copy(ROOT / name, root / name)
        for lock in ROOT.glob("requirements*.lock"):
            shutil.copy(lock, root)
        for name in ("tools", "cmake", "src/core", "python/perdure"):
            shutil.copytree(ROOT / name, root / name)
        (root / "tools" / "debian-packages.txt").write_text("# none\n", encoding="utf-8")
        yield root


def run(root: Path, *arguments: str, as_nobody: bool = False) -> subprocess.CompletedProcess[str]:
    command = [str(root / "perdure"), *arguments]
    if as_nobody:
        command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", check=False, timeout=60, cwd="/"
    )


def shell(root: Path, text: str) -> str:
    """What bash prints with the set-up's functions at hand."""
    return subprocess.run(
        ["bash", "-c", f'set -eu; root=$1; source "$root/tools/setup.sh"; {text}', "-", str(root)],
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout


def make_ready(root: Path) -> None:
    """What a set-up leaves, with a Python that prints its arguments."""
    python = root / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\nshift 2\necho "ran $*"\n', encoding="utf-8")
    python.chmod(0o755)
    (root / ".venv" / "requirements.lock.stamp").write_text(shell(root, "python_state"))
    release = root / "build" / "release"
    release.mkdir(parents=True)
    (release / "build.ninja").touch()
    for programs in ("native", "all"):
        (release / f"{programs}.stamp").write_text(shell(root, "build_state"))


def files(root: Path) -> set[Path]:
    return set(root.rglob("*"))


def test_help_version_and_the_stages_need_nothing_and_leave_nothing(clone: Path) -> None:
    before = files(clone)
    for arguments in (["--help"], ["-h"], ["--version"], ["test", "--list"], ["test", "--help"]):
        done = run(clone, *arguments)
        assert done.returncode == 0, done.stderr
        assert done.stdout
    assert run(clone, "--version").stdout.startswith("perdure ")
    nothing = run(clone)
    assert nothing.returncode == 2
    assert nothing.stderr == run(clone, "--help").stdout
    assert files(clone) == before


def test_where_everything_is_ready_nothing_is_locked_or_written(clone: Path) -> None:
    make_ready(clone)
    before = files(clone)
    done = run(clone, "compare", "a", "b")
    assert (done.stdout, done.stderr) == ("ran compare a b\n", "")
    assert files(clone) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_another_user_runs_what_is_ready_and_is_told_what_is_not(clone: Path) -> None:
    make_ready(clone)
    assert run(clone, "bench", as_nobody=True).stdout == "ran bench\n"
    (clone / "build" / "release" / "native.stamp").write_text("of older sources")
    before = files(clone)
    stale = run(clone, "bench", as_nobody=True)
    assert stale.returncode == 2
    assert "its programs are not built or not up to date" in stale.stderr
    assert "as its owner, or clone it" in stale.stderr
    assert stale.stderr.count("\n") == 1
    assert files(clone) == before


def test_list_doctor_and_the_help_of_a_command_need_no_programs(clone: Path) -> None:
    make_ready(clone)
    shutil.rmtree(clone / "build")
    for arguments in (["list"], ["doctor", "--json"], ["study", "run", "--help"]):
        assert run(clone, *arguments).stdout == f"ran {' '.join(arguments)}\n"
    assert not (clone / "build").exists()


@pytest.mark.parametrize(
    ("command", "programs"),
    [
        ("bench --help", "native"),
        ("bench --index fptree", "native"),
        ("bench --target sim:optane100-8280l-2s", "all"),
        ("probe latency --target=sim:x", "all"),
        ("probe latency", "native"),
        ("describe platform x", "native"),
        ("list platforms", "none"),
        ("doctor", "none"),
        ("study --help", "none"),
        ("study status results", "none"),
        ("compare a b", "none"),
        ("baseline save x", "none"),
        ("study run studies/demo.toml", "all"),
        ("crash --index fptree", "all"),
        ("fidelity", "all"),
    ],
)
def test_a_command_waits_for_the_programs_that_it_runs(
    clone: Path, command: str, programs: str
) -> None:
    assert shell(clone, f"programs_of {command}") == f"{programs}\n"


def test_progress_of_a_build_says_how_far_it_is_and_what_is_left(clone: Path) -> None:
    log = clone / "ninja.log"
    log.write_text("[0/2] Re-checking globbed directories...\n[30/90] Building a.o\n")
    said = shell(
        clone,  # a minute passes while the builder sleeps
        "sleep 3 & builder=$!; SECONDS=0; sleep() { SECONDS=$((SECONDS + 60)); command sleep 1; };"
        f' report_progress "{log}" building "$builder" 2>&1',
    )
    assert re.match(r"perdure: building \[30/90\], about 2 min \d+ s left\n", said)


def test_a_build_that_has_built_nothing_yet_is_no_fault(clone: Path) -> None:
    log = clone / "ninja.log"
    log.write_text("[0/2] Re-checking globbed directories...\n")
    said = shell(clone, f'sleep 3 & report_progress "{log}" building $! 2>&1')
    assert said == ""
    slow = "printf '[0/2] looking\\n'; command sleep 2; printf '[2/2] done\\n'"
    assert "done in" in shell(clone, f'build_step b.log building bash -c "{slow}" 2>&1')
