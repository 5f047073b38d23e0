"""Reference tables: ours are sound, a reader's own is read, and a bad one names line and remedy."""

from __future__ import annotations

import csv
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from perdure.errors import InputError
from perdure.memory import reference
from perdure.tree import ROOT

HEAD = """# title: Mine
# paper: me
# platform: optane100-8260-2s
# memory: pm
op,pattern,access_size,threads,metric,unit,value
"""
MEASURED = Path(__file__).resolve().parents[3] / "shared" / "reference"


def write(folder: Path, text: str, name: str = "mine.csv") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_every_table_of_ours_says_where_it_comes_from() -> None:
    tables = reference.load_all()
    assert len({t.name for t in tables}) == len(tables) >= 20
    for table in tables:
        assert table.description["paper"], table.name
        assert table.description["figure"], table.name
        assert table.description["measured"], table.name
        assert table.role in reference.ROLES


def test_the_page_on_fidelity_gives_each_table_the_role_of_its_header() -> None:
    page = ROOT / "docs" / "fidelity.md"
    said: dict[str, str] = {}
    for row in page.read_text().splitlines():
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        if len(cells) == 3 and cells[1] in reference.ROLES:
            said |= dict.fromkeys(re.findall(r"`([^`]+)`", cells[0]), cells[1])
    for table in reference.load_all():
        roles = {role for name, role in said.items() if fnmatch(table.name, name)}
        assert roles == {table.role}, table.name


def test_units_become_those_of_probes(tmp_path: Path) -> None:
    rows = "load,seq,64,1,bandwidth,MiB/s,2048\nload,seq,64,2,bandwidth,GB/s,1.073741824\n"
    points = reference.load(write(tmp_path, HEAD + rows)).points
    assert [p.probe_value for p in points] == [pytest.approx(2.0), pytest.approx(1.0)]
    assert points[0].input["fence"] == "none" and points[0].input["memory"] == "pm"


def test_a_cell_wins_over_the_header(tmp_path: Path) -> None:
    text = HEAD.replace("op,", "memory,op,") + "dram,load,seq,64,1,bandwidth,MiB/s,1\n"
    assert reference.load(write(tmp_path, text)).points[0].input["memory"] == "dram"
    text = HEAD.replace("op,", "memory,op,") + ",load,seq,64,1,bandwidth,MiB/s,1\n"
    assert reference.load(write(tmp_path, text)).points[0].input["memory"] == "pm"


ROW = "load,seq,64,1,bandwidth,MiB/s,100\n"


@pytest.mark.parametrize(
    ("text", "line", "what", "remedy"),
    [
        (HEAD + "load,seq,64,1,bandwith,MiB/s,1\n", 6, "unknown metric", "did you mean 'bandw"),
        (HEAD + "load,seq,64,1,bandwidth,ns,1\n", 6, "unit 'ns' is none of", "GiB/s"),
        (HEAD + "lod,seq,64,1,bandwidth,MiB/s,1\n", 6, "unknown op", "did you mean 'load'"),
        (HEAD + "load,seq,64,0,bandwidth,MiB/s,1\n", 6, "threads '0'", "plain digits"),
        (HEAD + "load,seq,64,1,bandwidth,MiB/s,nan\n", 6, "value 'nan'", "decimal point"),
        (HEAD + "load,seq,64,1,bandwidth,MiB/s,\n", 6, "value ''", "decimal point"),
        (HEAD + "load,seq,64,1,bandwidth,MiB/s,0\n", 6, "not above 0", "leave the row out"),
        (HEAD + "load,seq,64,1,bandwidth,MiB/s\n", 6, "6 cells for 7 columns", "every column"),
        (HEAD + "load,stride,64,1,bandwidth,MiB/s,1\n", 6, "needs a stride", "add the column"),
        (HEAD + "pstore,seq,64,1,bandwidth,MiB/s,1\n", 6, "pstore", "fence each"),
        (HEAD + ROW + ROW, 7, "the same point as line 6", "keep one"),
        (HEAD, 5, "has no points", "add a row"),
        (HEAD.replace("threads", "thread") + ROW, 5, "unknown column 'thread'", "'threads'"),
        (HEAD.replace("# paper: me\n", "") + ROW, 1, "does not say its paper", "# paper:"),
        (HEAD.replace("# title", "# tittle") + ROW, 1, "unknown name 'tittle'", "'title'"),
        (HEAD.replace("pm", "pmem") + ROW, 4, "unknown memory 'pmem'", "pm"),
        (HEAD.replace("optane100-8260-2s", "mine.toml") + ROW, 3, "no platform file", "path"),
        ("# role: guess\n" + HEAD + ROW, 1, "unknown role", "calibration"),
        ("", 1, "no row of column names", "op,access_size"),
    ],
)
def test_a_bad_table_names_line_and_remedy(
    tmp_path: Path, text: str, line: int, what: str, remedy: str
) -> None:
    file = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        reference.load(file)
    message = str(caught.value)
    assert message.startswith(f"{file}:{line}: ")
    assert what in message and remedy in message


def test_a_file_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        reference.load(file)
    with pytest.raises(InputError, match="No such file"):
        reference.load(tmp_path / "none.csv")


def test_two_tables_of_one_name_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    files = [write(tmp_path / folder, HEAD + ROW) for folder in ("a", "b")]
    with pytest.raises(InputError, match="two tables are called 'mine'"):
        reference.load_all(files)


@pytest.mark.skipif(not MEASURED.is_dir(), reason="the measured files are not here")
def test_our_tables_repeat_the_measured_values() -> None:
    """Restated, not altered: every value of platform O that we keep is one that was measured."""
    ours = {t.name: t for t in reference.load_all()}
    operation = {"store_noflush": "store"}
    for source, names in (
        ("pmidio_i2.csv", ("i2", "i2-dram")),
        ("pmidio_i3.csv", ("i3",)),
        ("pmidio_i4.csv", ("i4-local", "i4-remote", "i4-local-dram", "i4-remote-dram")),
    ):
        with (MEASURED / source).open() as handle:
            measured = {
                (
                    operation.get(r["op"], r["op"]),
                    r["pattern"],
                    int(r["access_size"]),
                    int(r["threads"]),
                    r["metric"],
                    float(f"{float(r['value']):.5g}"),
                )
                for r in csv.DictReader(handle)
            }
        for name in names:
            for point in ours[name].points:
                i = point.input
                assert (
                    i["op"],
                    i["pattern"],
                    i["access_size"],
                    i["threads"],
                    point.metric,
                    point.value,
                ) in measured
