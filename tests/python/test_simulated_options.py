"""What options of lists, and flags of workloads, change in a simulated run; and that it repeats."""

from __future__ import annotations

import json

import pytest

from test_simulation import bench


def test_think_time_passes_between_operations_and_in_no_latency() -> None:
    flags = ("--mix", "lookup=1", "--think-ns", "3000")
    text = bench("null", 2, *flags)
    document = json.loads(text)
    (repetition,) = document["repetitions"]
    assert repetition["seconds"] == pytest.approx(1400 / 2 * 3000e-9, rel=0.02)
    assert repetition["operations"]["lookup"]["latency_ns"]["max"] < 1000
    assert document["configuration"]["workload"]["think_ns"] == 3000
    assert bench("null", 2, *flags) == text


def test_a_mix_in_steps_repeats_and_has_their_shares() -> None:
    flags = ("--mix", "lookup=0.9,insert=0.1", "--mix-steps", "256", "--operations", "25600")
    text = bench("null", 2, *flags)
    document = json.loads(text)
    operations = document["repetitions"][0]["operations"]
    assert operations["insert"]["attempted"] == 2500
    assert operations["lookup"]["attempted"] == 23100
    assert document["configuration"]["workload"]["mix_steps"] == 256
    assert bench("null", 2, *flags) == text


def test_a_latency_is_that_of_a_batch() -> None:
    flags = ("--mix", "lookup=0.5,insert=0.5", "--operations", "6400")
    single = json.loads(bench("fptree", 2, *flags))
    text = bench("fptree", 2, *flags, "--batch", "16", "--verify")
    document = json.loads(text)
    assert document["configuration"]["workload"]["batch"] == 16
    assert "batch" not in single["configuration"]["workload"]
    for name in ("lookup", "insert"):
        alone, together = (
            each["repetitions"][0]["operations"][name] for each in (single, document)
        )
        assert alone["attempted"] == together["attempted"] == 3200
        assert together["latency_ns"]["p50"] > 3 * alone["latency_ns"]["p50"]
    assert document["verification"]["wrong"] == 0
    assert bench("fptree", 2, *flags, "--batch", "16", "--verify") == text


@pytest.mark.parametrize("name", ["list:soft", "list:linkfree", "list:harris"])
def test_the_options_of_lists_repeat_byte_for_byte(name: str) -> None:
    flags = ("--option", "nodes=4096", "--key-range", "256", "--records", "128",
             "--mix", "lookup=0.5,insert=0.25,remove=0.25", "--check")  # fmt: skip

    def seconds(text: str) -> float:
        return float(json.loads(text)["repetitions"][0]["seconds"])

    default = seconds(bench(name, 7, *flags))
    for option in ("stride=64", "arenas=1", "counted=1"):
        text = bench(name, 7, *flags, "--option", option)
        assert bench(name, 7, *flags, "--option", option) == text
        assert seconds(text) != default, f"{option} changes nothing"


@pytest.mark.parametrize("name", ["pactree", "dptree"])
def test_threads_in_the_background_take_work_off_the_others(name: str) -> None:
    """Without them whoever splits or fills the buffer does the rest within its own insertion."""
    small = {"pactree": "node_entries=16", "dptree": "buffer_entries=256"}[name]
    flags = ("--mix", "insert=1", "--records", "2000", "--operations", "12000", "--verify",
             "--check", "--option", small)  # fmt: skip
    text = bench(name, 3, *flags)
    assert bench(name, 3, *flags) == text
    beside = json.loads(text)
    alone = json.loads(bench(name, 3, *flags, "--option", "workers=0"))
    assert beside["platform"]["background_threads"] == 1
    assert "background_threads" not in alone["platform"]
    for document in (beside, alone):
        assert document["verification"]["wrong"] == 0
    (with_one,), (without,) = beside["repetitions"], alone["repetitions"]
    assert (
        with_one["operations"]["insert"]["latency_ns"]["p999"]
        < without["operations"]["insert"]["latency_ns"]["p999"]
    )
    # The time split is that of the three threads, to the last digit (docs/measuring.md).
    split = with_one["simulation"]["time_ns"]["total"]
    assert split == pytest.approx(3 * with_one["seconds"] * 1e9, rel=1e-6)
    # What a phase has left is no part of its time, nor of its timeline.
    assert with_one["timeline"][-1]["second"] == pytest.approx(with_one["seconds"], rel=1e-3)


@pytest.mark.parametrize("name", ["pactree", "dptree"])
def test_where_no_hardware_thread_is_left_the_others_do_that_work(name: str) -> None:
    flags = ("--mix", "insert=1", "--records", "2000", "--operations", "5600", "--verify")
    target = ("--target", "sim:optane100-8280l-2s")  # 2 x 28 cores of one thread
    documents = [
        json.loads(bench(name, 56, *flags, *target, "--option", f"workers={n}")) for n in (0, 1)
    ]
    assert documents[0]["repetitions"] == documents[1]["repetitions"]
