"""Fidelity: statistics on cases computed by hand, and the command against a stand-in."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.memory import fidelity, reference
from perdure.memory.fidelity import Pair
from perdure.programs import native

Cli = Callable[..., subprocess.CompletedProcess[str]]
TABLE = """# title: Streaming stores
# paper: somebody
# figure: 1
# platform: optane100-8260-2s
# goal_median: 0.30
# memory: pm
# op: ntstore
pattern,access_size,threads,metric,unit,value
"""


def table(folder: Path, rows: str, head: str = TABLE, name: str = "mine") -> Path:
    file = folder / f"{name}.csv"
    file.write_text(head + rows)
    return file


def pairs(folder: Path, curve: list[tuple[int, float, float]]) -> list[Pair]:
    """(threads, measured, simulated) of one curve of bandwidths."""
    rows = "".join(f"seq,256,{t},bandwidth,GiB/s,{m}\n" for t, m, _ in curve)
    points = reference.load(table(folder, rows)).points
    return [Pair(p, s) for p, (_, _, s) in zip(points, curve, strict=True)]


def test_error_is_relative_to_the_measured_value(tmp_path: Path) -> None:
    found = pairs(tmp_path, [(1, 2.0, 3.0), (2, 4.0, 3.0), (3, 5.0, 5.0)])
    assert [p.error for p in found] == [0.5, 0.25, 0.0]


def test_figures_are_median_and_ninetieth_percentile(tmp_path: Path) -> None:
    found = pairs(tmp_path, [(t, 10.0, 10.0 + t) for t in range(1, 12)])  # errors 0.1 ... 1.1
    experiment = fidelity.Experiment(reference.load(tmp_path / "mine.csv"), found)
    document = fidelity.figures(found, [experiment])
    assert document["points"] == 11
    assert document["median_error"] == pytest.approx(0.6)
    assert document["p90_error"] == pytest.approx(1.0)


def test_a_trend_counts_only_where_the_measured_value_moves(tmp_path: Path) -> None:
    # Up, flat within noise, down, up: the simulation goes up, down, up, up.
    curve = [(1, 1.0, 1.0), (2, 2.0, 1.5), (3, 2.02, 1.0), (4, 1.5, 1.2), (5, 2.0, 1.4)]
    found = fidelity.trends(pairs(tmp_path, curve))
    assert (found.steps, found.right) == (3, 2)
    assert found.agreement == pytest.approx(2 / 3)


def test_a_metric_measured_less_exactly_has_a_noise_of_its_own(tmp_path: Path) -> None:
    rows = "".join(
        f"seq,256,{t},{metric},{unit},{value}\n"
        for metric, unit in (("bandwidth", "GiB/s"), ("ewr", "ratio"))
        for t, value in ((1, 0.50), (2, 0.54), (4, 0.62))  # by 8 and by 15 percent
    )
    for head, steps in ((TABLE, 4), ("# noise_ewr: 0.1\n" + TABLE, 3)):
        found = reference.load(table(tmp_path, rows, head))
        pairs = [Pair(p, p.value) for p in found.points]
        assert fidelity.trends(pairs, found.noise).steps == steps


def test_a_simulation_that_stays_flat_has_no_right_trend(tmp_path: Path) -> None:
    found = fidelity.trends(pairs(tmp_path, [(1, 1.0, 5.0), (2, 2.0, 5.0)]))
    assert (found.steps, found.right) == (1, 0)


def test_trends_follow_one_axis_at_a_time(tmp_path: Path) -> None:
    rows = (
        "seq,64,1,bandwidth,GiB/s,1\nseq,64,2,bandwidth,GiB/s,2\n"
        "seq,128,1,bandwidth,GiB/s,3\nseq,128,2,bandwidth,GiB/s,4\n"
    )
    points = reference.load(table(tmp_path, rows)).points
    found = fidelity.trends([Pair(p, p.value) for p in points])
    assert (found.steps, found.right) == (4, 4)  # two curves over threads, two over sizes


def test_trends_ignore_the_software_cost_that_goes_with_the_threads(tmp_path: Path) -> None:
    head = TABLE.replace("threads,", "threads,op_cost_ns,op_cost,op_state,")
    rows = "seq,64,1,190,waits,,bandwidth,GiB/s,1\nseq,64,2,195,overlaps,stored,bandwidth,GiB/s,2\n"
    points = reference.load(table(tmp_path, rows, head)).points
    assert fidelity.trends([Pair(p, p.value) for p in points]).steps == 1


def test_peaks_agree_where_the_measured_curve_is_as_high(tmp_path: Path) -> None:
    flat_top = [(1, 2.0, 2.0), (8, 8.0, 7.0), (16, 7.9, 7.5), (28, 5.0, 5.0)]
    assert [p.agrees for p in fidelity.peaks(pairs(tmp_path, flat_top))] == [True]
    elsewhere = [(1, 2.0, 2.0), (8, 8.0, 7.0), (16, 7.0, 7.1), (28, 5.0, 8.0)]
    (peak,) = fidelity.peaks(pairs(tmp_path, elsewhere))
    assert (peak.axis, peak.measured_at, peak.simulated_at, peak.agrees) == (
        "threads",
        8,
        28,
        False,
    )


def test_a_flat_curve_has_no_peak(tmp_path: Path) -> None:
    assert not fidelity.peaks(pairs(tmp_path, [(1, 2.0, 1.0), (2, 2.02, 2.0), (3, 2.0, 3.0)]))


def test_thinning_keeps_the_ends_and_four_values_an_axis(tmp_path: Path) -> None:
    rows = "".join(
        f"seq,{64 * s},{t},bandwidth,GiB/s,1\n" for s in range(1, 11) for t in (1, 2, 4, 8, 16, 28)
    )
    kept = fidelity.thinned(reference.load(table(tmp_path, rows)).points)
    assert {p.input["access_size"] for p in kept} == {64, 256, 448, 640}
    assert {p.input["threads"] for p in kept} == {1, 4, 8, 28}
    assert len(kept) == 16


def test_one_process_answers_a_list_of_sizes(tmp_path: Path, sim_cli: Cli) -> None:
    rows = "".join(f"seq,{s},{t},bandwidth,GiB/s,4\n" for s in (256, 512, 64) for t in (2, 4))
    done = sim_cli("fidelity", "--reference", table(tmp_path, rows), "--dry-run")
    assert done.returncode == 0, done.stderr
    commands = done.stdout.splitlines()
    assert len(commands) == 2
    assert all(
        "--sizes 64,256,512" in c and "--target sim:optane100-8260-2s" in c for c in commands
    )


def test_a_table_says_whether_the_software_waits_for_misses(tmp_path: Path, sim_cli: Cli) -> None:
    head = TABLE.replace("threads,", "threads,op_cost_ns,")
    row = "seq,64,1,2.5,bandwidth,GiB/s,1\n"
    overlaps = table(tmp_path, row, "# op_cost: overlaps\n" + head)
    done = sim_cli("fidelity", "--reference", overlaps, "--dry-run")
    assert "--op-cost-ns 2.5 --op-cost overlaps" in done.stdout
    wrong = table(tmp_path, row, "# op_cost: perhaps\n" + head)
    done = sim_cli("fidelity", "--reference", wrong, "--dry-run")
    assert done.returncode == 2
    assert "unknown op_cost" in done.stderr and "overlaps" in done.stderr


def test_a_table_names_the_benchmark_whose_loops_it_was_measured_with(
    tmp_path: Path, sim_cli: Cli
) -> None:
    head = TABLE.replace("# op: ntstore\n", "").replace("pattern,", "op,pattern,stride,")
    rows = (
        ("load,seq,,1024", ""),
        ("load,seq,,2048", "--op-cost-ns 7 --op-cost waits"),
        ("load,rand,,8192", ""),
        ("load,rand,,16384", "--op-cost-ns 7 --op-cost waits"),
        ("load,stride,64,4096", ""),
        ("store,seq,,64", ""),
        ("store+clwb,rand,,64", "--op-state stored"),
        ("ntstore,rand,,64", ""),
    )
    for row, flags in rows:
        one = table(tmp_path, f"{row},1,bandwidth,GiB/s,1\n", "# benchmark: lattester\n" + head)
        done = sim_cli("fidelity", "--reference", one, "--dry-run")
        assert done.returncode == 0, done.stderr
        assert flags in done.stdout and ("--op-" in done.stdout) == bool(flags), row
    wrong = table(tmp_path, "load,seq,,64,1,bandwidth,GiB/s,1\n", "# benchmark: latester\n" + head)
    done = sim_cli("fidelity", "--reference", wrong, "--dry-run")
    assert done.returncode == 2
    assert "unknown benchmark 'latester'" in done.stderr and "lattester" in done.stderr


def test_a_readers_own_table_is_compared(tmp_path: Path, sim_cli: Cli) -> None:
    # The stand-in says min(8, 2 * threads) GiB/s: 4 and 8.
    file = table(tmp_path, "seq,256,2,bandwidth,GiB/s,5\nseq,256,4,bandwidth,GiB/s,8\n")
    done = sim_cli("fidelity", "--reference", file, "--json", "--results", tmp_path / "r")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    (experiment,) = document["experiments"]
    assert experiment["name"] == "mine"
    assert experiment["platform"] == "optane100-8260-2s"
    assert experiment["points"] == 2
    assert experiment["median_error"] == pytest.approx(0.1)
    assert experiment["trend_agreement"] == 1.0
    assert experiment["reached"] is True
    assert [v["simulated"] for v in experiment["values"]] == [4.0, 8.0]
    assert document["summary"]["points"] == 2
    assert json.loads((tmp_path / "r" / "fidelity.json").read_text()) == document


def test_answers_are_kept_until_the_simulation_changes(tmp_path: Path, sim_cli: Cli) -> None:
    file = table(tmp_path, "seq,256,2,bandwidth,GiB/s,5\nseq,256,4,bandwidth,GiB/s,8\n")
    log = tmp_path / "log"
    arguments = ["fidelity", "--reference", file, "--results", tmp_path / "r"]
    for expected in (2, 2):
        assert sim_cli(*arguments, FAKE_SIM_LOG=str(log)).returncode == 0
        assert len(log.read_text().splitlines()) == expected
    sim_cli(*arguments, "--ablate", "no-directory", FAKE_SIM_LOG=str(log))
    assert len(log.read_text().splitlines()) == 4
    assert '"ablate": "no-directory"' in log.read_text()


def test_what_cannot_be_compared_is_said_and_not_counted(tmp_path: Path, sim_cli: Cli) -> None:
    head = TABLE.replace("pattern,", "node,pattern,")
    file = table(
        tmp_path,
        "local,seq,256,2,bandwidth,GiB/s,4\nremote,seq,256,2,bandwidth,GiB/s,1\n"
        "local,seq,256,2,err,ratio,0.9\n",
        head,
    )
    done = sim_cli("fidelity", "--reference", file, "--results", tmp_path / "r", "--json",
                   FAKE_SIM_SKIP="remote")  # fmt: skip
    assert done.returncode == 0, done.stderr
    (experiment,) = json.loads(done.stdout)["experiments"]
    assert experiment["points"] == 1
    reasons = [s["reason"] for s in experiment["skipped"]]
    assert reasons == ["no second node", "the probe tells no err"]


def test_a_probe_that_fails_ends_in_exit_1_with_its_reason(tmp_path: Path, sim_cli: Cli) -> None:
    file = table(tmp_path, "seq,256,2,bandwidth,GiB/s,5\n")
    done = sim_cli("fidelity", "--reference", file, "--results", tmp_path / "r", "-q",
                   FAKE_SIM_FAIL="ntstore")  # fmt: skip
    assert done.returncode == 1
    assert "ntstore broke" in done.stdout
    assert "1 points have no answer" in done.stderr
    again = sim_cli("fidelity", "--reference", file, "--results", tmp_path / "r", "-q")
    assert again.returncode == 0, "a failure must not be kept"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--experiments", "i99"], "unknown experiment 'i99'"),
        (["--reference", "/nowhere.csv"], "/nowhere.csv: No such file"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(sim_cli: Cli, arguments: list[str], what: str) -> None:
    done = sim_cli("fidelity", *arguments)
    assert done.returncode == 2
    assert what in done.stderr and done.stderr.count("\n") == 1


def test_an_unknown_platform_is_one_line(tmp_path: Path, sim_cli: Cli) -> None:
    head = TABLE.replace("optane100-8260-2s", "nowhere")
    file = table(tmp_path, "seq,64,1,ewr,ratio,1\n", head)
    done = sim_cli("fidelity", "--reference", file, "--results", tmp_path / "r")
    assert done.returncode == 2
    assert "unknown platform" in done.stderr and done.stderr.count("\n") == 1


def test_sets_are_labelled_by_what_was_fitted(tmp_path: Path, sim_cli: Cli) -> None:
    done = sim_cli("fidelity", "--quick", "--experiments", "u-fence,i4-remote,i3,i7",
                   "--json",
                   "--results", tmp_path / "r", "--plot", tmp_path / "plots")  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    roles = {e["name"]: e["role"] for e in document["experiments"]}
    assert roles == {
        "u-fence": "calibration",
        "i4-remote": "unexplained",
        "i3": "prediction",
        "i7": "selection",
    }
    assert {r["name"] for r in document["summary"]["roles"]} == set(roles.values())
    drawn = {p.name: p.read_text() for p in (tmp_path / "plots").iterdir()}
    assert {"i4-remote.svg", "u-fence.svg", "i7-ewr.svg"} <= set(drawn)
    assert all(re.search(r">dots measured: \w+.*; lines simulated: \w+", text, re.S)
               for text in drawn.values())  # fmt: skip


@pytest.mark.skipif(not native.is_built("sim"), reason="needs the Release build")
def test_a_state_that_each_operation_stores_delays_its_misses() -> None:
    def bandwidth(*arguments: str) -> float:
        command = (
            *(
                str(native.program("sim")),
                "probe",
                "bandwidth",
                "--memory",
                "dram",
                "--op",
                "store",
            ),
            *("--target", "sim:optane100-8260-2s", "--pattern", "rand", "--sizes", "64"),
            *("--threads", "1", "--prefetch", "off", "--quick", "--json", *arguments),
        )
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        (point,) = json.loads(done.stdout)["points"]
        return float(point["bandwidth_gib_s"])

    stored = ("--op-state", "stored")
    kept = bandwidth()
    assert bandwidth(*stored) < 0.6 * kept
    assert bandwidth(*stored, "--ablate", "no-hit-places") > 0.9 * kept
