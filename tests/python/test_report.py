from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import fake_native
from conftest import Cli
from perdure.report import (
    measured_section,
    page,
    quality,
    simulated_section,
    verdict_matrix,
)
from perdure.results import compare
from perdure.results import query as reading
from perdure.results.record import Run
from perdure.results.verdicts import Verdict

LOADING = {"src", "srcset", "poster", "data", "action", "background"}


class Page(HTMLParser):
    """Collects what a browser would load, the ids, the links and the figures."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            if name == "href" and value:
                (self.loaded if tag == "link" else self.links).append(value)
            elif name in LOADING and value:
                self.loaded.append(value)


@pytest.fixture
def results(cli: Cli, study: Path, tmp_path: Path) -> Path:
    path = tmp_path / "results"
    assert cli("study", "run", study, "--results", path).returncode == 0
    return path


@pytest.fixture
def text(cli: Cli, results: Path) -> str:
    done = cli("report", results)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(results / "report.html")
    return (results / "report.html").read_text()


def test_the_report_loads_nothing(text: str) -> None:
    page = Page(text)
    assert [url for url in page.loaded if not url.startswith("data:")] == []
    assert not re.search(r"@import|url\((?!['\"]?data:|#|['\"]?#)", text)
    # The namespaces of SVG are names, not addresses.
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def data_of(body: str) -> str:
    """Of the first figure in it."""
    (uri,) = re.findall(r'href="data:text/csv;charset=utf-8,([^"]+)"', body)[:1]
    return unquote(html.unescape(uri))


def test_every_figure_has_its_drawing_its_data_and_its_command(text: str) -> None:
    figures = re.findall(r"<figure id=\"([^\"]+)\">(.*?)</figure>", text, re.S)
    assert {name for name, _ in figures} == {
        "throughput-integer",
        "scaling-integer",
        "latency-integer",
        "memory",
    }
    for _, body in figures:
        assert "<svg" in body
        assert "measured, native" in body
        assert "./perdure study run " in body
        assert data_of(body).count("\n") > 3
        assert "<tbody>" not in body and "base64" not in body, "drawing and data are there once"
        assert 'role="img" aria-labelledby=' in body and "aria-describedby=" in body


def test_the_data_of_a_figure_are_the_medians_of_the_records(text: str, results: Path) -> None:
    lines = data_of(text.split('<figure id="throughput-integer">')[1]).splitlines()
    rows = [dict(zip(lines[0].split(","), line.split(","), strict=True)) for line in lines[1:]]
    samples: list[float] = []
    for file in (results / "cells").glob("*.json"):
        cell = json.loads(file.read_text())
        if list(cell["labels"].values()) == ["fptree", "2", "file", "mixed"]:
            samples += [r["throughput_ops_s"] for r in cell["record"]["repetitions"]]
    assert len(samples) == 6
    ordered = sorted(samples)
    (row,) = [
        r for r in rows if (r["index"], r["threads"], r["workload"]) == ("fptree", "2", "mixed")
    ]
    assert float(row["throughput"]) == pytest.approx((ordered[2] + ordered[3]) / 2)
    assert ordered[0] <= float(row["low"]) <= float(row["high"]) <= ordered[-1]


def test_every_link_inside_the_page_leads_somewhere(text: str) -> None:
    page = Page(text)
    wanted = {link[1:] for link in page.links if link.startswith("#")}
    assert wanted <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert sum(name.startswith("cell-") for name in page.ids) == 12


def test_failed_runs_are_shown_and_text_is_escaped(cli: Cli, study: Path, tmp_path: Path) -> None:
    study.write_text(study.read_text().replace("A small study", "<script>alert(1)</script>"))
    results = tmp_path / "results"
    cli("study", "run", study, "--results", results, FAKE_FAIL="lbtree")
    assert cli("report", results).returncode == 0
    text = (results / "report.html").read_text()
    assert "8 runs failed" in text
    assert "lbtree ran out of space" in text
    assert "<script>alert" not in text
    assert Page(text).tags.count("script") == 1


def test_a_single_record_makes_a_report_as_well(cli: Cli, tmp_path: Path) -> None:
    record = tmp_path / "one.json"
    record.write_text(cli("bench", "--index", "lmdb", "--json").stdout)
    output = tmp_path / "one.html"
    done = cli("report", record, "--output", output)
    assert done.returncode == 0, done.stderr
    assert "lmdb" in output.read_text()


def run_of(index: str, rates: list[float], target: str = "native") -> Run:
    made = fake_native.record({"index": index})
    one = made["repetitions"][0]
    made["repetitions"] = [one | {"throughput_ops_s": rate} for rate in rates]
    labels = {"index": index, "workload": "lookup", "medium": "none"}
    return Run(labels, made | {"target": target}, f"./perdure bench {index}")


# Medians of which the first is the largest; who is not slower than it by `compare`.
CELLS = {
    "lbtree": ([100e3, 101e3, 102e3], True), "fptree": ([97e3, 98e3, 99e3], True),
    "dptree": ([69e3, 99e3, 141e3], True), "utree": ([80e3, 81e3, 82e3], False),
    "stdmap": ([93e3, 94e3, 95e3], False),
}  # fmt: skip


def test_whoever_compare_does_not_call_slower_is_as_bold_as_the_fastest() -> None:
    runs = [run_of(index, rates) for index, (rates, _) in CELLS.items()]
    for run in runs[1:]:
        (judged,) = compare.compare(runs[:1], [run], threshold=0.05, confidence=0.95).comparisons
        slower = judged.verdict is Verdict.SLOWER
        assert slower != CELLS[run.labels["index"]][1], run.labels["index"]
    data = reading.read(runs)
    lines = measured_section.overview(data, "integer", quick=False)["lines"]
    bold = {line["name"]: line["cells"]["lookup"]["best"] for line in lines}
    assert bold == {index: first for index, (_, first) in CELLS.items()}
    (leader,) = measured_section.leaders(data, "integer")
    assert [cell.index for cell in leader["first"]] == ["lbtree", "dptree", "fptree"]
    assert leader["against"][0]["verdict"] == "faster"
    assert (leader["against"][0]["mark"], leader["against"][0]["verdict"]) == ("▲", "faster")
    lines = measured_section.overview(data, "integer", quick=True)["lines"]
    assert not any(line["cells"]["lookup"]["best"] for line in lines)


def test_an_overview_of_many_workloads_has_a_line_for_each(tmp_path: Path) -> None:
    # Columns of 92 pixels: ten and a name are wider than a page of 1280 has room for.
    def overviews(workloads: int, indexes: tuple[str, ...]) -> list[list[str]]:
        runs = [
            replace(run, labels=run.labels | {"workload": f"w{number}"})
            for number in range(workloads)
            for run in [run_of(index, [1e6, 2e6, 3e6]) for index in indexes]
        ]
        page.write(tmp_path / "none.json", runs, tmp_path / "page.html")
        drawn = (tmp_path / "page.html").read_text()
        table = drawn.partition('<table class="overview">')[2].partition("</table>")[0]
        rows = re.findall(r"<tr.*?</tr>", table, re.DOTALL)
        return [re.findall(r"<t[hd][^>]*>(?:<a[^>]*>)?([\w. /]*)", row) for row in rows]

    few = overviews(9, ("lbtree", "stdmap"))
    assert (len(few), few[0]) == (3, ["index", *(f"w{n}" for n in range(9))])
    many = overviews(10, ("lbtree", "stdmap"))
    assert many[0] == ["workload", "lbtree", "stdmap"]
    assert many[1:] == [[f"w{n}", "2.00 M/s", "2.00 M/s"] for n in range(10)]


def test_simulated_cells_share_a_place_within_the_threshold_alone() -> None:
    rates = {"lbtree": 100e3, "fptree": 97e3, "utree": 94e3}
    runs = [run_of(index, [rate], "sim:x") for index, rate in rates.items()]
    cells = reading.read(runs).cells
    first = simulated_section.fastest(cells, quick=False)
    assert {cell.index for cell in cells if cell.number in first} == {"lbtree", "fptree"}
    assert simulated_section.fastest(cells, quick=True) == set()


def test_three_samples_are_never_called_a_95_percent_interval(text: str) -> None:
    # The study has two processes of three repetitions: six samples.
    assert "interval (95 %)" in text
    rows = [run_of(index, rates) for index, (rates, _) in CELLS.items()]
    content = page.content(Path("one.json"), rows)
    assert content["intervals"] == "range of 3" and content["ratio_intervals"] == "range of 3"
    (name, figures), *_ = content["sections"]
    assert "(range of 3)" in figures[0].caption, name
    assert "95" not in figures[0].caption
    assert {row["interval"] for row in content["cell_rows"]} == {"range of 3"}


def test_a_cell_whose_median_is_0_is_not_called_steady(tmp_path: Path) -> None:
    runs = [run_of("lbtree", [0, 0, 0, 5e6]), run_of("stdmap", [1e6, 1e6, 1e6])]
    page.write(tmp_path / "none.json", runs, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert '<td class="wide">∞ (median 0)</td>' in text and "1 threads</a>: ∞ (median 0)" in text
    assert "inf %" not in text and "nan" not in text


def test_what_else_used_the_machine_makes_no_other_host_of_it() -> None:
    runs = [run_of("lbtree", [1e6] * 3), run_of("fptree", [1e6] * 3)]
    for cores, run in enumerate(runs):
        used = {"seconds": 1, "steal_cores": 0.25, "other_cores": cores, "load_average": 2.0}
        run.record["environment"] = fake_native.ENVIRONMENT | {
            "interference": used,
            "pmdk_variables": {"PMEM_NO_CLWB": "1"},
        }
    data = reading.read(runs)
    (entry,) = quality.environments(data)
    assert ("PMDK variables", "PMEM_NO_CLWB=1") in entry["host"]
    assert "1.00 cores" in quality.interference(data) and "0.25" in quality.interference(data)
    assert quality.interference(reading.read([run_of("lbtree", [1e6])])) == ""


def test_verdicts_stand_as_ratio_word_and_mark(tmp_path: Path) -> None:
    runs = [run_of(index, rates) for index, (rates, _) in CELLS.items()]
    runs += [
        run_of("null", [1e9] * 3),
        run_of("fptree", [9e6], "sim:x"),
        run_of("hot", [9.1e6], "sim:x"),
    ]
    measured, simulated = verdict_matrix.section(runs, quick=False)
    (place,) = measured["places"]
    assert place["names"] == ["lbtree", "dptree", "fptree", "stdmap", "utree"], "fastest first"
    assert place["first"] == ["lbtree", "dptree", "fptree"]
    assert verdict_matrix.section(runs, quick=True) == []
    by_name = {row["name"]: dict(zip(place["names"], row["cells"], strict=True))
               for row in place["rows"]}  # fmt: skip
    for other in runs[1:4]:
        name = other.labels["index"]
        (judged,) = compare.compare([other], runs[:1], threshold=0.05, confidence=0.95).comparisons
        assert by_name["lbtree"][name]["word"] == judged.verdict, name
        assert by_name["lbtree"][name]["ratio"] == f"{judged.ratio.value:.2f}"
    assert by_name["lbtree"]["lbtree"] is None
    assert by_name["lbtree"]["utree"]["mark"] == "▲" and by_name["utree"]["lbtree"]["mark"] == "▼"
    (exact,) = simulated["places"]
    assert exact["rows"][0]["cells"][1] == {
        "mark": "=", "word": "same", "ratio": "1.01", "why": "exact",
    }  # fmt: skip
    page.write(tmp_path / "x.json", runs, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert re.search(r"lbtree over utree: 1\.22 to 1\.27 \(range of 3\)", text)
    assert re.search(r"<i>▼</i> 0\.80.<small>slower</small>", text)


def test_the_samples_of_a_cell_are_drawn_and_those_far_off_marked(text: str) -> None:
    cell = reading.read([run_of("lbtree", [100e3, 101e3, 102e3, 170e3])]).cells[0]
    drawn = quality.strip(cell)
    assert drawn.count("<circle") == 3, "samples"
    assert drawn.count("M123.0 4") == 1, "a triangle at the end of the axis for 67 % more"
    assert 'aria-label="4 samples, 100 k/s to 170 k/s"' in drawn
    assert quality.strip(reading.read([run_of("lbtree", [0.0])]).cells[0]) == ""
    assert text.count('class="strip"') == 12


def test_two_numbers_of_threads_become_a_ratio_and_more_of_them_lines() -> None:
    def cell(index: str, threads: int, rate: float) -> Run:
        made = run_of(index, [rate, rate * 1.01, rate * 1.02])
        return Run({**made.labels, "threads": str(threads)}, made.record | {"threads": threads})

    runs = [cell("lbtree", 1, 1e6), cell("lbtree", 4, 3e6), cell("hot", 4, 5e6)]
    (_, figures), *_ = page.content(Path("one.json"), runs)["sections"]
    (drawn,) = [one for one in figures if one.identifier == "scaling-integer"]
    assert drawn.title == "Scaling from 1 to 4 threads"
    (row,) = drawn.rows
    assert row[drawn.columns.index("speedup")] == "3", "hot ran with 4 threads alone"
    runs.append(cell("lbtree", 2, 2e6))
    (_, figures), *_ = page.content(Path("one.json"), runs)["sections"]
    (drawn,) = [one for one in figures if one.identifier == "scaling-integer"]
    assert drawn.title == "Scaling with threads" and len(drawn.rows) == 3
