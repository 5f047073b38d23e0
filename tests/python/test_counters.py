"""The report's section about what the processor counted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import fake_native
from perdure.report import counters_section, page
from perdure.results import query, schemas
from perdure.results.record import Run

NAMES = ("cycles", "instructions", "llc_misses", "branch_misses", "dtlb_misses", "page_faults")
FEW = "cycles: this machine has no such counter"


def run(index: str, threads: int, *repetitions: dict[str, int] | None, missing: str = "") -> Run:
    """A run whose repetitions had these counts for each of their attempted operations."""
    made = fake_native.record({"index": index, "threads": str(threads), "repetitions": "3"})
    made["repetitions"] = made["repetitions"][: len(repetitions)]
    for one, counts in zip(made["repetitions"], repetitions, strict=True):
        if counts is None:
            continue
        attempted = one["operations"]["lookup"]["attempted"]
        counters: dict[str, Any] = dict.fromkeys(NAMES)
        counters |= {name: count * attempted for name, count in counts.items()}
        one["hardware"] = {"counters": counters, "missing": missing or None}
    assert schemas.problem("run record", made) == ""
    labels = {"index": index, "workload": "lookup", "threads": str(threads), "medium": "none"}
    return Run(labels, made, f"./perdure bench --index {index}")


def test_counts_are_medians_per_operation_at_the_most_threads() -> None:
    runs = [
        run("lbtree", 1, {"cycles": 1, "instructions": 1}),
        run("lbtree", 4, *({"cycles": n, "instructions": 2 * n, "llc_misses": 3}
                           for n in (100, 500, 300))),
        run("hot", 4, {"cycles": 200, "instructions": 100, "page_faults": 0}),
        run("null", 4, {"cycles": 7}),
    ]  # fmt: skip
    found = counters_section.section(query.read(runs))
    assert found["headings"] == [
        "cycles", "instructions", "LLC misses", "page faults", "instructions per cycle",
    ]  # fmt: skip
    lines = {line["name"]: line["values"] for line in found["lines"]}
    assert lines == {
        "lbtree": ["300", "600", "3", "–", "2"],  # noqa: RUF001
        "hot": ["200", "100", "–", "0", "0.5"],  # noqa: RUF001
    }
    assert {line["workload"] for line in found["lines"]} == {"lookup, 4 threads"}
    assert found["missing"] == []


def test_what_was_not_counted_is_said_in_one_line(tmp_path: Path) -> None:
    page.write(tmp_path / "x", [run("hot", 1, None, None)], tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    section = text.split('<section id="counters">')[1].split("</section>")[0]
    assert "Not counted: the records are of a version that did not count" in section
    assert "<table" not in section and 'href="#counters"' not in text
    runs = [run("hot", 1, {"page_faults": 2}, {"page_faults": 2}, missing=FEW)]
    page.write(tmp_path / "x", runs, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    section = text.split('<section id="counters">')[1].split("</section>")[0]
    assert section.count("Not counted") == 1 and f"Not counted: {FEW}." in section
    assert re.findall(r'<th scope="col">([^<]*)</th>', section)[2:] == ["page faults"]
    assert 'href="#counters"' in text and 'href="#cell-1"' in section


@pytest.mark.parametrize(
    "hardware",
    [
        {"counters": {}, "missing": None},
        {"counters": dict.fromkeys(NAMES, -1), "missing": None},
        {"counters": dict.fromkeys(NAMES), "missing": 1},
        {"counters": dict.fromkeys((*NAMES, "watts"), 1), "missing": None},
    ],
)
def test_counts_of_another_form_are_refused(hardware: dict[str, Any]) -> None:
    made = fake_native.record({"index": "hot"})
    made["repetitions"][0]["hardware"] = hardware
    assert schemas.problem("run record", made).startswith("$.repetitions[0].hardware")
