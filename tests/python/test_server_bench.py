"""bench/server.py without measurements: its flags, what it says where a part is missing, and what
it makes of YCSB's figures. Stand-ins take the places of Java and of the servers."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import server_programs
import server_ycsb
from conftest import ROOT
from served import folder_in_memory
from server_programs import BenchError, rocksdb
from server_rounds import figures, measure_in_turn, spread
from ycsb_client import Export, YcsbError

ROCKSDB = ROOT / "build/release/bench/rocksdb_server"
# Announces itself as `perdure serve --json` does, and runs until SIGTERM.
SERVER = """
import json, os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print(json.dumps({"listening": [{"protocol": "redis", "port": os.getpid()}]}), flush=True)
signal.pause()
"""
# Notes its arguments, and exports what FAKE_COUNTS says.
JAVA = """
import json, os, sys
given = dict(each.split("=", 1) for each in sys.argv if "=" in each)
phase = "load" if "-load" in sys.argv else "run"
with open(os.environ["FAKE_CALLS"], "a") as calls:
    print(phase, json.dumps(given), file=calls)
print("the end of the log")
with open(given["exportfile"], "w") as export:
    json.dump(json.loads(os.environ["FAKE_COUNTS"])[phase], export)
sys.exit(int(os.environ.get("FAKE_EXIT", "0")))
"""


def row(metric: str, measurement: str, value: float) -> dict[str, Any]:
    return {"metric": metric, "measurement": measurement, "value": value}


LOADED = [row("INSERT", "Return=OK", 100)]
RAN = [
    row("OVERALL", "RunTime(ms)", 1000),
    row("OVERALL", "Throughput(ops/sec)", 1500.5),
    row("READ", "Operations", 700),
    row("READ", "Return=OK", 700),
    row("UPDATE", "Return=OK", 800),
    row("VERIFY", "Return=OK", 700),
]


def script(text: str, path: Path) -> Path:
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return path


def bench(*flags: str | Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A run of the program; `path`: the only folder in which it finds others."""
    environment = {**os.environ, **({} if path is None else {"PATH": str(path)})}
    return subprocess.run(
        [sys.executable, ROOT / "bench/server.py", *flags],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH with neither Java nor Redis, on which every folder lies on a disk."""
    folder = tmp_path / "tools"
    folder.mkdir()
    script("print('ext2/ext3')", folder / "stat")
    return folder


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    """The flags of a run of YCSB over stand-ins."""
    script(JAVA, tmp_path / "java")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("FAKE_COUNTS", json.dumps({"load": LOADED, "run": RAN}))
    monkeypatch.setattr(server_programs, "QUIET_SECONDS", 0.01)
    server = script(SERVER, tmp_path / "server")
    return argparse.Namespace(
        program=server, rocksdb_server=server, memory=tmp_path, folder=tmp_path,
        threads=3, records=100, seconds=7, rounds=2,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--only", "mongo"), "invalid choice: 'mongo'"),
        (("--seconds", "0"), "'0' is no positive number"),
        (("--threads", "-1"), "'-1' is no positive number"),
        (("--records", "many"), "'many' is no positive number"),
    ],
)
def test_wrong_flags_are_refused(flags: tuple[str, str], complaint: str) -> None:
    done = bench(*flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in done.stderr.replace("argument --only: ", "")


def test_a_missing_part_is_named_with_its_remedy(tools: Path, tmp_path: Path) -> None:
    program = ("--program", sys.executable)
    server = ("--rocksdb-server", sys.executable)
    folder = ("--folder", tmp_path, "--memory", tmp_path)
    only = ("--only", "ycsb")
    for flags, complaint in (
        ((*program, *folder), r"redis-server, redis-benchmark not found; apt-get install .*"),
        ((*only, "--program", tmp_path / "no"), r".*/no: no such program; build it .*"),
        ((*only, *program, "--folder", tmp_path / "no"), r".*/no: no such folder"),
        (
            (*only, *program, *folder, "--rocksdb-server", tmp_path / "no"),
            r".*/no: no such program; cmake .* -DPERDURE_BENCH=ON .*, or give --rocksdb-server",
        ),
        (
            (*only, *program, *folder, *server),
            r"java, javac, mvn not found; apt-get install default-jdk-headless maven",
        ),
    ):
        done = bench(*flags, path=tools)
        assert (done.returncode, done.stdout) == (2, ""), done
        assert re.fullmatch(f"bench/server.py: {complaint}\n", done.stderr), done.stderr


def test_ycsb_is_left_out_with_a_reason_unless_it_was_asked_for(tools: Path) -> None:
    # Redis is there in name only, so the run ends after the line that matters here.
    for name in ("redis-server", "redis-benchmark"):
        script("import sys; sys.exit(1)", tools / name)
    server = script(SERVER, tools / "server")
    flags = ("--program", server, "--rocksdb-server", server, "--folder", tools)
    done = bench(*flags, path=tools)
    first, second = done.stderr.splitlines()
    assert re.fullmatch(r"bench/server.py: YCSB is left out: java, javac, mvn not found; .*", first)
    assert "redis-server did not start" in second
    assert done.returncode == 1
    assert "YCSB" not in bench("--only", "redis", *flags, path=tools).stderr


def test_servers_are_measured_in_turn_and_compared_within_a_round() -> None:
    order: list[str] = []
    speeds = {"ours": iter((100.0, 200.0, 90.0)), "other": iter((50.0, 50.0, 90.0))}

    def rate(name: str) -> float:
        order.append(name)
        return next(speeds[name])

    rates = measure_in_turn(speeds, 3, rate)
    assert order == ["ours", "other", "other", "ours", "ours", "other"]
    found = figures("per_second", rates["ours"], rates["other"], 1.0)
    assert (found["per_second"], found["other_per_second"]) == (100, 50)
    assert (found["ratio"], found["ratio_least"], found["ratio_most"]) == (2, 1, 4)
    assert spread(found) == "2.00 (1.00 to 4.00)"


def test_ycsb_loads_verifies_and_then_measures(
    measured: argparse.Namespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = server_ycsb.measure("classes", measured)
    assert [each["other"] for each in rows] == [server_ycsb.IN_MEMORY, server_ycsb.ON_DISK]
    assert {(each["operations_per_second"], each["ratio"], each["target"]) for each in rows} == {
        (1500.5, 1.0, 1.0)
    }
    calls = [line.split(" ", 1) for line in (tmp_path / "calls").read_text().splitlines()]
    given = [(phase, json.loads(text)) for phase, text in calls]
    assert [phase for phase, _ in given] == ["load", "run"] * 3 + ["run"] * 6
    assert all(each["dataintegrity"] == "true" for _, each in given[:6])
    assert all("dataintegrity" not in each for _, each in given[6:])
    assert {each["maxexecutiontime"] for _, each in given[6:]} == {"7"}
    assert {each["recordcount"] for _, each in given} == {"100"}
    assert len({each["perdure.port"] for _, each in given}) == 3
    server_ycsb.print_table(rows)
    assert "1.00 (1.00 to 1.00)" in capsys.readouterr().out
    assert not list(tmp_path.glob("perdure-bench-*"))


@pytest.mark.parametrize(
    ("phase", "rows", "complaint"),
    [
        ("load", [row("INSERT", "Return=OK", 99)], "99 of 100 records loaded"),
        ("run", [*RAN, row("READ", "Return=NOT_FOUND", 1)], "'READ NOT_FOUND': 1"),
        ("run", [*RAN, row("VERIFY", "Return=UNEXPECTED_STATE", 2)], "UNEXPECTED_STATE': 2"),
        ("run", RAN[:4], "'UPDATE OK': 0"),
    ],
)
def test_an_operation_that_fails_ends_the_run(
    measured: argparse.Namespace, monkeypatch: pytest.MonkeyPatch,
    phase: str, rows: list[dict[str, Any]], complaint: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("FAKE_COUNTS", json.dumps({"load": LOADED, "run": RAN, phase: rows}))
    with pytest.raises(BenchError, match=re.escape(complaint)) as raised:
        server_ycsb.measure("classes", measured)
    assert raised.value.exit_code == 1


def test_a_client_that_ends_badly_shows_the_end_of_its_log(
    measured: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_EXIT", "3")
    with pytest.raises(YcsbError, match=r"(?s)YCSB ended with 3.*the end of the log"):
        server_ycsb.measure("classes", measured)


def test_the_throughput_is_ycsbs_own() -> None:
    assert server_ycsb.throughput(Export(RAN, "")) == 1500.5
    with pytest.raises(YcsbError, match="no OVERALL Throughput"):
        server_ycsb.throughput(Export(RAN[:1], "a log"))


@pytest.mark.skipif(not ROCKSDB.is_file(), reason="needs a Release build with PERDURE_BENCH")
def test_rocksdb_answers_redis_cli() -> None:
    with folder_in_memory() as folder, rocksdb(ROCKSDB, folder, "--threads", "2") as server:

        def answer(*command: str) -> str:
            call = ["redis-cli", "-p", str(server.port), *command]
            return subprocess.run(call, capture_output=True, text=True, check=True).stdout

        assert answer("set", "k", "value") == "OK\n"
        assert answer("get", "k") == "value\n"
        assert answer("mset", "a", "1", "b", "2") == "OK\n"
        assert answer("--scan").split() == ["a", "b", "k"]
        assert answer("del", "a", "nothing") == "1\n"
        assert answer("dbsize") == "2\n"
        server.process.terminate()
        assert server.process.wait(30) == 0


@pytest.mark.skipif(not ROCKSDB.is_file(), reason="needs a Release build with PERDURE_BENCH")
def test_rocksdb_server_refuses_in_one_line(tmp_path: Path) -> None:
    for flags, complaint in (
        ((), "FOLDER is required"),
        ((tmp_path / "db",), "nothing to listen on; give --redis"),
        (("/dev/null/db", "--redis", "0"), "/dev/null/db: RocksDB cannot open"),
    ):
        done = subprocess.run([ROCKSDB, *flags], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
        assert complaint in done.stderr
    assert not (tmp_path / "db").exists()
