from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import fake_native
from conftest import Cli, alive, numbers_in, wait_for
from perdure.errors import InputError
from perdure.results import record

# arguments, words in the one line on stderr
MISTAKES = [
    (["stduy", "run", "x.toml"], "unknown command 'stduy'; did you mean 'study'?"),
    (["study", "rn"], "perdure study: unknown command 'rn'; did you mean 'run'?"),
    (["frobnicate"], "unknown command 'frobnicate'; perdure --help lists what there is"),
    (["study", "run", "x.toml", "--resluts", "y"], "unknown flag '--resluts'; did you mean '--re"),
    (["demo", "--quikc"], "unknown flag '--quikc'; did you mean '--quick'?"),
    (["study", "run", "none.toml"], "none.toml: No such file"),
    (["study", "run"], "missing argument"),
    (["compare", "a"], "write compare A B"),
    (["compare", "nowhere", "nowhere"], "nowhere: no such file or directory"),
    (["compare", "a", "b", "--threshold", "much"], "invalid value for '--threshold'"),
    (["report", "nowhere"], "nowhere: no such file or directory"),
    (["list", "idexes"], "unknown list 'idexes'; did you mean 'indexes'?"),
    (["list", "xyz"], "use one of indexes, queues, workloads, heaps, options"),
    (["bench", "--index", "fptre"], "unknown index; did you mean 'fptree'?"),
    (["bench", "--flamegraph"], "--flamegraph: needs a file; write --flamegraph out.svg"),
    (["probe", "--plot"], "--plot: needs a file; write --plot out.svg"),
    (["study", "run", sys.executable], "is not UTF-8 text"),
    (["report", sys.executable], "is not UTF-8 text"),
    (
        ["advise", "--records", "1", "--mix", "lookup=1", "--target", "moon"],
        "--target: unknown target 'moon'",
    ),
]


@pytest.mark.parametrize(("arguments", "words"), MISTAKES)
def test_a_mistake_is_one_line_on_stderr_and_exit_2(
    cli: Cli, arguments: list[str], words: str
) -> None:
    done = cli(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert words in done.stderr


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("not json\n{}", "bad:1: not JSON"),
        ("{}", "not a run record"),
        ("[]", "no finished cells"),
        ('{"schema": "perdure-run/1"}', "not a whole run record: $: 'index' is a required"),
    ],
)
def test_a_file_that_is_no_record_is_refused(
    cli: Cli, tmp_path: Path, content: str, words: str
) -> None:
    bad = tmp_path / "bad"
    bad.write_text(content)
    done = cli("compare", bad, bad)
    assert done.returncode == 2
    assert words in done.stderr


@pytest.mark.parametrize("name", ["index", "threads", "repetitions", "environment"])
def test_a_record_that_lacks_something_is_one_line(tmp_path: Path, name: str) -> None:
    document = fake_native.record({"index": "fptree"})
    for broken in ({n: v for n, v in document.items() if n != name}, document | {name: 1.5}):
        file = tmp_path / "one.json"
        file.write_text(json.dumps(broken))
        with pytest.raises(InputError, match=f"one.json: not a whole run record: .*{name}"):
            record.load(file)


def test_a_broken_manifest_is_one_line(cli: Cli, tmp_path: Path) -> None:
    for text in ("{", "[]", "{}"):
        (tmp_path / "manifest.json").write_text(text)
        done = cli("report", tmp_path)
        assert done.returncode == 2
        assert "manifest.json: not " in done.stderr and done.stderr.count("\n") == 1


def test_a_missing_program_says_how_to_get_it(cli: Cli) -> None:
    done = cli("list", PERDURE_NATIVE="/nonexistent")
    assert done.returncode == 2
    assert "PERDURE_NATIVE=/nonexistent: not an executable file; unset it" in done.stderr


def test_bench_prints_what_the_program_prints(cli: Cli, stand_in: Path) -> None:
    for more in ((), ("--json",)):
        flags = ("--index", "fptree", "--mix", "lookup=0.5,scan=0.5", *more)
        ours, its = (
            cli("bench", *flags),
            subprocess.run([stand_in, "bench", *flags], capture_output=True, text=True, check=True),
        )
        assert ours.returncode == 0
        assert bool(more) == ours.stdout.startswith("{")
        assert bool(more) or ours.stdout == its.stdout


@pytest.mark.parametrize("command", ["bench", "probe", "crash"])
def test_a_program_without_flags_ends_as_the_program_does(sim_cli: Cli, command: str) -> None:
    done = sim_cli(command)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"perdure: {command} needs flags\n"


@pytest.mark.parametrize("command", ["bench", "probe", "crash"])
def test_a_killed_command_leaves_no_program_behind(
    environment: dict[str, str], sim_stand_in: Path, tmp_path: Path, command: str
) -> None:
    pids = tmp_path / "pids"
    variables = {
        "PERDURE_SIM": str(sim_stand_in),
        "FAKE_PIDS": str(pids),
        "FAKE_SLEEP_SECONDS": "60",
    }
    flags = ["--index", "fptree", "--target", "sim:x"]
    process = subprocess.Popen(
        [sys.executable, "-m", "perdure", command, *flags],
        env={**environment, **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    (number,) = wait_for(lambda: numbers_in(pids))
    process.kill()
    process.wait(timeout=30)
    wait_for(lambda: not alive(number))


def test_bench_hands_on_the_exit_code_and_help(cli: Cli) -> None:
    assert cli("bench", "--index", "fptree", FAKE_FAIL="fptree").returncode == 1
    help_text = cli("bench", "--help")
    assert help_text.returncode == 0
    assert "--index NAME" in help_text.stdout, "the flags of perdure-native"
    assert "Example: perdure bench" in help_text.stdout


def test_list_and_doctor_speak_json(cli: Cli) -> None:
    names = [entry["name"] for entry in json.loads(cli("list", "--json").stdout)]
    assert "fptree" in names
    done = cli("doctor", "--json")
    assert done.returncode == 0
    findings = json.loads(done.stdout)["findings"]
    assert {"RTM", "NUMA", "/dev/shm", "perf access"} <= {f["subject"] for f in findings}
    assert all(f["remedy"] for f in findings if f["level"] == "mend")


def test_no_colour_and_no_escape_codes_when_piped(cli: Cli) -> None:
    done = cli("doctor")
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.slow
def test_demo_runs_every_index_and_writes_the_report(sim_cli: Cli, tmp_path: Path) -> None:
    results = tmp_path / "demo"
    done = sim_cli("demo", "--results", results, "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["failed"] == 0
    assert summary["report"] == str(results / "report.html")
    manifest = json.loads((results / "manifest.json").read_text())
    records = [json.loads((results / "cells" / f"{k}.json").read_text()) for k in manifest["cells"]]
    assert {r["labels"]["index"] for r in records} == {
        "fptree",
        "lbtree",
        "linetree",
        "stdmap",
        "abslbtree",
        "artolc",
        "tbbmap",
        "null",
        "lmdb",
        "rocksdb",
        "btreeolc",
        "masstree",
        "utree",
        "dptree",
        "pactree",
        "hot",
        "roart",
    }
    assert {r["labels"]["key_kind"] for r in records} == {"integer", "bytes"}
    assert {r["labels"]["medium"] for r in records} == {"tmpfs", "file", "none"}
    assert summary["simulated"]["failed"] == 0
    text = (results / "report.html").read_text()
    assert "simulated, sim:optane100-8280l-2s" in text and 'id="fidelity"' in text
    explored = summary["crash"]["explored"]
    assert [(e["index"], e["violation"]) for e in explored] == [("fptree", None)]
    assert summary["crash"]["planted"]["violation"]["text"] == "violation: of toy:missing_flush"


@pytest.mark.slow
def test_demo_exits_with_5_when_the_explorer_finds_something(sim_cli: Cli, tmp_path: Path) -> None:
    done = sim_cli("demo", "--results", tmp_path, "--quick", FAKE_SIM_FOUND="fptree")
    assert done.returncode == 5, done.stderr
    assert "100 states at 10 moments, 1 violation\n" in done.stdout
    (file,) = (tmp_path / "crash-quick").glob("toy-missing_flush-*.counterexample.json")
    assert f"--replay {file}" in done.stdout
    page = (tmp_path / "report-quick.html").read_text()
    assert "A power cut may damage fptree:" in page and str(file) in page


def test_help_names_every_command_and_the_exit_codes(cli: Cli) -> None:
    text = " ".join(cli("--help").stdout.split())
    for word in (
        "bench",
        "list",
        "doctor",
        "study",
        "report",
        "compare",
        "demo",
        "probe",
        "fidelity",
        "classify",
        "flamegraph",
        "130",
    ):
        assert word in text
