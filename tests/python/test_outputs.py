"""Files that a command writes: refused before its work, whole or absent after it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import fake_native
from conftest import Cli
from perdure.errors import InputError, PerdureError
from perdure.programs import host, outputs
from perdure.tree import PACKAGE


def test_a_reader_finds_the_old_text_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    path.chmod(0o640)
    outputs.write(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_leaves_the_old_text_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PerdureError, match=r"out.json: cannot be written: No space left"):
        outputs.write(path, "new", durable=True)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("links", [True, False])
def test_a_new_file_replaces_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def unsupported(_source: Path, _target: Path) -> None:
        raise OSError(95, "Operation not supported")

    if not links:
        monkeypatch.setattr(os, "link", unsupported)
    path = tmp_path / "out.json"
    assert outputs.write_new(path, "first")
    assert not outputs.write_new(path, "second")
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_sweep_of_a_shared_folder_removes_only_what_our_dead_left(tmp_path: Path) -> None:
    def left(pid: int, machine: str) -> Path:
        path = tmp_path / f"cell.{pid}-{pid}-{machine}.tmp"
        path.touch()
        return path

    dead, alive = left(999_999_999, host.token()), left(os.getpid(), host.token())
    elsewhere = left(999_999_999, "f" * 16)
    outputs.sweep(tmp_path, shared=True)
    assert set(tmp_path.iterdir()) == {alive, elsewhere} and not dead.exists()
    outputs.sweep(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_link_stays_and_a_device_is_written_in_place(tmp_path: Path) -> None:
    path, link, pipe = tmp_path / "there", tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(path)
    outputs.write(link, "through")
    assert link.is_symlink() and path.read_text() == "through"
    outputs.check(Path("/dev/null"))
    outputs.write(Path("/dev/null"), "gone")
    assert Path("/dev/null").is_char_device()
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    outputs.write(pipe, "hello")
    assert os.read(reader, 100) == b"hello"
    os.close(reader)


def test_checking_makes_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_text("kept")
    for one in (path, tmp_path / "new"):
        outputs.check(one)
    assert list(tmp_path.iterdir()) == [path] and path.read_text() == "kept"


@pytest.mark.parametrize("name", ["nowhere/out.svg", ".", "file/out.svg"])
def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError) as caught:
        outputs.check(tmp_path / name, "--plot")
    assert str(caught.value).startswith(f"--plot {tmp_path / name}: ")


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("demo", True), ("my study (2)", True), ("größe", True), ("v1.2", True),
        ("../../x", False), ("a/b", False), ("a\\b", False), ("", False), (" ", False),
        ("..", False), (".hidden", False), ("-rf", False), ("a\nb", False), ("x" * 101, False),
    ],
)  # fmt: skip
def test_names_that_become_files_stay_where_they_are_put(name: str, good: bool) -> None:
    assert (outputs.name_problem(name) is None) == good


FOLDED = "main;lookup 3000000\n"
# Each command with an output below {bad}, a folder that is not there or is a file.
COMMANDS = [
    ["bench", "--index", "fptree", "--target", "sim:x", "--flamegraph", "{bad}/out.svg"],
    ["probe", "bandwidth", "--target", "sim:x", "--sizes", "64", "--plot", "{bad}/out.svg"],
    ["flamegraph", "{tmp}/run.folded", "-o", "{bad}/out.svg"],
    ["report", "{tmp}/one.json", "--output", "{bad}/out.html"],
    ["study", "run", "{tmp}/small.toml", "--results", "{bad}"],
    ["advise", "--records", "1M", "--mix", "lookup=1", "--target", "native", "--results", "{bad}"],
    ["fidelity", "--experiments", "i7", "--results", "{tmp}/f", "--plot", "{bad}"],
    ["fidelity", "--experiments", "i7", "--results", "{bad}"],
    ["classify", "--target", "sim:x", "--results", "{bad}"],
    ["demo", "--results", "{bad}"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: f"{command[0]} {command[-2]}")
def test_no_command_works_for_an_output_that_it_cannot_write(
    sim_cli: Cli, study: Path, tmp_path: Path, command: list[str]
) -> None:
    bad, log = tmp_path / "bad", tmp_path / "log"
    bad.write_text("a file, and no folder")
    (tmp_path / "run.folded").write_text(FOLDED)
    record = fake_native.record({"index": "fptree"})
    (tmp_path / "one.json").write_text(json.dumps(record))
    assert study.parent == tmp_path
    arguments = [part.format(bad=bad, tmp=tmp_path) for part in command]
    done = sim_cli(*arguments, FAKE_PIDS=str(log))
    assert done.returncode == 2, done.stderr
    assert done.stdout == "" and done.stderr.count("\n") == 1 and str(bad) in done.stderr
    assert not log.exists(), "nothing had run"
    assert bad.read_text() == "a file, and no folder"


def test_the_result_of_a_probe_is_there_when_its_figure_is_not(
    sim_cli: Cli, tmp_path: Path
) -> None:
    # The stand-in answers I7 with ratios only, which make no figure.
    plot = tmp_path / "out.svg"
    done = sim_cli("probe", "I7", "--target", "sim:x", "--plot", plot)
    assert done.returncode == 1
    assert done.stdout == "table of I7\n"
    assert "nothing that can be drawn" in done.stderr and not plot.exists()
    drawn = sim_cli("probe", "bandwidth", "--target", "sim:x", "--sizes", "64,256", "--plot", plot)
    assert drawn.returncode == 0, drawn.stderr
    assert drawn.stdout == f"table of bandwidth\n{plot}\n" and plot.read_text().startswith("<svg")
    assert ">simulated, sim:x</text>" in plot.read_text()
    said = sim_cli("probe", "bandwidth", "--target", "sim:x", "--plot", plot, "--json")
    assert json.loads(said.stdout)["points"]


def test_the_result_of_a_study_is_printed_though_its_report_cannot_be(
    cli: Cli, study: Path, tmp_path: Path
) -> None:
    # The report's package is not there; the check before the work does not see that.
    broken = tmp_path / "modules"
    broken.mkdir()
    (broken / "vl_convert.py").write_text("raise ImportError(name='vl_convert')\n")
    path = os.pathsep.join([str(broken), str(PACKAGE.parent)])
    arguments = ("study", "run", study, "--results", tmp_path / "r", "--report", "-q")
    for more in ((), ("--json",)):
        done = cli(*arguments, *more, PYTHONPATH=path)
        assert done.returncode == 2
        assert "vl_convert" in done.stderr and done.stderr.count("\n") == 1
        assert ("A small study" in done.stdout) or json.loads(done.stdout)["report"] is None


def test_a_folder_may_be_swept_while_another_campaign_tries_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of shards that start at the same moment the first one sweeps the folders of all."""
    touch = Path.touch

    def touched_then_swept(path: Path, *how: object, **more: object) -> None:
        touch(path, *how, **more)  # type: ignore[arg-type]
        outputs.sweep(tmp_path)

    monkeypatch.setattr(Path, "touch", touched_then_swept)
    assert outputs.folder(tmp_path, "--results") == tmp_path
    assert list(tmp_path.iterdir()) == []
