"""The launcher's set-up on machines that lack something, with stand-ins for Debian's tools."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import ROOT

NOBODY = 65534


@pytest.fixture
def tree() -> Iterator[Path]:
    """A copy of what the set-up reads, in a folder that another user may use too."""
    with tempfile.TemporaryDirectory(prefix="perdure-launcher-") as folder:
        root = Path(folder)
        for name in ("tools", "bin"):
            (root / name).mkdir()
        for name in ("setup.sh", "debian-packages.txt"):
            shutil.copy(ROOT / "tools" / name, root / "tools" / name)
        root.chmod(0o777)
        yield root


def tool(tree: Path, name: str, script: str) -> None:
    """Puts a stand-in for a program first on the PATH of `ensure`."""
    path = tree / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def installed_but(package: str) -> str:
    """A dpkg-query that knows every package it is asked for, but one."""
    return f'shift 2; for p in "$@"; do [ $p = {package} ] || echo "$p installed"; done'


def ensure(tree: Path, *jobs: str) -> subprocess.CompletedProcess[str]:
    """Runs ensure_packages as a user who is not root."""
    script = f'set -euo pipefail; root={tree}; source "$root/tools/setup.sh"; ensure_packages "$@"'
    command = ["bash", "-c", script, "ensure", *jobs]
    if os.geteuid() == 0:
        command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]
    return subprocess.run(
        command,
        env={"PATH": f"{tree}/bin:/usr/bin:/bin", "HOME": str(tree)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_missing_packages_without_root_print_one_command_and_exit_2(tree: Path) -> None:
    tool(tree, "sudo", "exit 1")
    tool(tree, "dpkg-query", installed_but("cmake"))
    done = ensure(tree, "build")
    assert done.returncode == 2
    assert done.stdout == ""
    *_, command = done.stderr.splitlines()
    # With no Python of its own that can make environments, this machine would need that as well.
    assert command.startswith(
        "sudo apt-get update && sudo apt-get install --yes --no-install-recommends cmake"
    )


def test_passwordless_sudo_installs_exactly_what_is_missing(tree: Path) -> None:
    tool(tree, "sudo", f'echo "$@" >> {tree}/log')
    tool(tree, "dpkg-query", installed_but("cmake"))
    done = ensure(tree, "build")
    assert done.returncode == 0, done.stderr
    asked, update, install = (tree / "log").read_text().splitlines()
    assert asked == "--non-interactive true"
    assert update.endswith("apt-get update")
    assert "apt-get install --yes --no-install-recommends cmake" in install


def test_nothing_missing_changes_and_says_nothing(tree: Path) -> None:
    tool(tree, "sudo", "exit 9")
    tool(tree, "dpkg-query", installed_but("none"))
    done = ensure(tree, "build", "test")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_test_packages_are_only_asked_for_by_the_tests(tree: Path) -> None:
    tool(tree, "sudo", "exit 1")
    tool(tree, "dpkg-query", installed_but("clang-16"))
    assert ensure(tree, "build").returncode == 0
    assert ensure(tree, "build", "test").returncode == 2


def test_locks_pin_every_package_with_hashes_and_name_no_host() -> None:
    small = (ROOT / "requirements.lock").read_text()
    large = (ROOT / "requirements-test.lock").read_text()
    cluster = (ROOT / "requirements-cluster.lock").read_text()
    for text in (small, large, cluster):
        assert "://" not in text
        assert "--index-url" not in text
        pins = [line for line in text.splitlines() if "==" in line and not line.startswith(" ")]
        assert pins
        assert text.count("--hash=sha256:") >= len(pins)
    pinned = {line.split()[0] for line in small.splitlines() if "==" in line}
    assert pinned <= {line.split()[0] for line in cluster.splitlines() if "==" in line}
    pinned = {line.split()[0] for line in cluster.splitlines() if "==" in line}
    assert pinned <= {line.split()[0] for line in large.splitlines() if "==" in line}
