"""Results as tables: DuckDB queries over the JSON of finished cells, for the report."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

import duckdb

from perdure.results import naming, stats
from perdure.results.record import SAMPLES_NEEDED, Run
from perdure.results.stats import Interval
from perdure.results.verdicts import Side
from perdure.types import Json

PERCENTILES = {
    "p50": "p50",
    "p90": "p90",
    "p99": "p99",
    "p999": "p99.9",
    "p9999": "p99.99",
    "max": "max",
}

# Axes that tables and figures have a place for.
COLUMNS = ("index", "key_kind", "medium", "target", "threads", "workload")
# Reading order: what the study is about first, what it is compared with after.
CLASSES = ("persistent", "in_memory", "volatile_pm", "on_disk", "harness")

_CELL = """
CREATE TABLE cell AS SELECT
  row_number() OVER () AS run, variant, told,
  document ->> '$.key' AS key,
  document ->> '$.command' AS command,
  document ->> '$.labels.workload' AS workload,
  coalesce(document ->> '$.labels.medium', 'none') AS medium,
  document ->> '$.record.index' AS index,
  document ->> '$.record.index_class' AS class,
  coalesce(document ->> '$.record.key_kind', 'queue') AS key_kind,
  (document ->> '$.record.threads')::INTEGER AS threads,
  (document ->> '$.record.records')::UBIGINT AS records,
  (document ->> '$.record.load.throughput_ops_s')::DOUBLE AS load_ops_s,
  (document ->> '$.record.memory.pm_bytes_per_record')::DOUBLE AS pm_bytes_per_record,
  (document ->> '$.record.memory.dram_bytes_per_record')::DOUBLE AS dram_bytes_per_record,
  (document ->> '$.record.recovery.seconds')::DOUBLE AS recovery_seconds,
  document -> '$.record.repetitions[*]' AS repetitions,
  (document -> '$.record.warnings')::VARCHAR[] AS warnings
FROM input ORDER BY position
"""
_REPETITION = """
CREATE TABLE repetition AS
SELECT cell.* EXCLUDE (repetitions, warnings), number, body,
  (body ->> '$.throughput_ops_s')::DOUBLE AS throughput_ops_s,
  (body ->> '$.seconds')::DOUBLE AS seconds
FROM (SELECT run, unnest(repetitions) AS body, generate_subscripts(repetitions, 1) AS number
      FROM cell) JOIN cell USING (run)
"""
_OPERATION = """
CREATE TABLE operation AS
SELECT repetition.* EXCLUDE (body), operation,
  (part ->> '$.succeeded')::UBIGINT AS succeeded,
  (part ->> '$.failed')::UBIGINT AS failed,
  (part ->> '$.attempted')::UBIGINT AS attempted,
  part -> '$.latency_ns' AS latency
FROM (SELECT run, number, unnest(json_keys(body -> '$.operations')) AS operation FROM repetition)
JOIN repetition USING (run, number),
LATERAL (SELECT body -> '$.operations' -> operation AS part)
"""


@dataclass(frozen=True)
class Cell:
    """All repetitions of one configuration."""

    number: int
    labels: dict[str, str]
    index: str
    index_class: str
    key_kind: str
    medium: str
    name: str  # the index, with its medium where results have several: `lbtree · tmpfs`
    told: str  # whatever else tells cells of an index apart: `value bytes 16`
    workload: str  # with that: `lookup, value bytes 16`
    threads: int
    records: int
    throughput: Interval
    samples: tuple[float, ...]
    command: str
    variant: str
    simulated: bool
    quick: bool

    @property
    def side(self) -> Side:
        """For comparing it."""
        return Side(self.samples, self.simulated, self.quick)


@dataclass
class Results:
    """What a report is drawn from."""

    runs: list[Run]
    database: duckdb.DuckDBPyConnection = field(repr=False)
    cells: list[Cell]

    def rows(self, query: str) -> list[Json]:
        """The result of a query over the tables cell, repetition and operation."""
        cursor = self.database.execute(query)
        names = [column[0] for column in cursor.description or []]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def read(runs: list[Run]) -> Results:
    """Fills the tables and computes each cell's median and interval."""
    database = duckdb.connect()
    database.execute(
        "CREATE TABLE input (position INTEGER, variant VARCHAR, told VARCHAR, document JSON)"
    )
    runs = sorted(runs, key=lambda run: CLASSES.index(run.record["index_class"]))
    told = _told(runs)
    rows = [
        [i, variant(run), naming.words(run.labels, told), json.dumps(_document(run))]
        for i, run in enumerate(runs)
    ]
    database.executemany("INSERT INTO input VALUES (?, ?, ?, ?)", rows)
    for statement in (_CELL, _REPETITION, _OPERATION):
        database.execute(statement)
    results = Results(runs, database, [])
    results.cells = list(_cells(results))
    return results


def latencies(results: Results) -> list[Json]:
    """Median over the repetitions of each percentile, per cell and operation."""
    # As record.latency has it: only what the timed operations tell.
    needed = {**{p: str(n) for p, n in SAMPLES_NEEDED.items()}, "max": "attempted"}
    columns = ", ".join(
        f"median(CASE WHEN (latency ->> '$.samples')::UBIGINT < {needed[p]} THEN NULL "
        f"ELSE (latency ->> '$.{p}')::DOUBLE END) AS {p}"
        for p in PERCENTILES
    )
    return results.rows(
        f"SELECT variant, operation, {columns} FROM operation "
        "WHERE json_type(latency) = 'OBJECT' GROUP BY ALL ORDER BY min(run), operation"
    )


def operations(results: Results) -> list[Json]:
    """Attempts, successes and failures per cell and operation, over all repetitions."""
    return results.rows(
        "SELECT variant, operation, any_value(class) AS class, "
        "sum(attempted)::UBIGINT AS attempted, "
        "sum(succeeded)::UBIGINT AS succeeded, sum(failed)::UBIGINT AS failed "
        "FROM operation GROUP BY ALL ORDER BY min(run), operation"
    )


def memory(results: Results) -> list[Json]:
    """Bytes per record after the load, and the speed of loading, per index, medium, key kind and
    what else tells cells apart."""
    return results.rows(
        "SELECT index, class, key_kind, medium, told, any_value(records) AS records, "
        "median(pm_bytes_per_record) AS pm, median(dram_bytes_per_record) AS dram, "
        "median(load_ops_s) AS load_ops_s FROM cell GROUP BY ALL ORDER BY min(run)"
    )


def warnings(results: Results) -> list[Json]:
    """Every distinct warning, whatever its numbers, with the number of runs that gave it."""
    return results.rows(
        "SELECT min(warning) AS warning, count(DISTINCT warning) AS variants, count(*) AS runs "
        "FROM (SELECT unnest(warnings) AS warning FROM cell) "
        "GROUP BY regexp_replace(warning, '[0-9.]+', '#', 'g') ORDER BY runs DESC, warning"
    )


def _cells(results: Results) -> Iterable[Cell]:
    rows = results.rows(
        "SELECT variant, min(run) AS run, "
        "list(throughput_ops_s ORDER BY run, number) AS every_repetition, "
        "any_value(index) AS index, any_value(class) AS class, any_value(key_kind) AS key_kind, "
        "any_value(medium) AS medium, any_value(told) AS told, any_value(workload) AS workload, "
        "any_value(threads) AS threads, any_value(records) AS records, "
        "any_value(command) AS command "
        "FROM repetition GROUP BY variant ORDER BY run"
    )
    processes = results.rows(
        "SELECT variant, list(middle ORDER BY run) AS medians FROM (SELECT variant, run, "
        "median(throughput_ops_s) AS middle FROM repetition GROUP BY ALL) GROUP BY variant"
    )
    per_process = {row["variant"]: row["medians"] for row in processes}
    common = naming.common_medium([run.labels for run in results.runs])
    for number, row in enumerate(rows, start=1):
        medians = per_process[row["variant"]]
        # As record.samples_of: processes are the units once there are three of them.
        samples = medians if len(medians) >= 3 else row["every_repetition"]
        yield Cell(
            number=number,
            labels=json.loads(row["variant"]),
            index=row["index"],
            index_class=row["class"],
            key_kind=row["key_kind"],
            medium=row["medium"],
            name=naming.with_medium(row["index"], row["medium"], common),
            told=row["told"],
            workload=", ".join(filter(None, (row["workload"], row["told"]))),
            threads=row["threads"],
            records=row["records"],
            throughput=stats.median_interval(samples),
            samples=tuple(samples),
            command=row["command"],
            variant=row["variant"],
            simulated=results.runs[row["run"] - 1].simulated,
            quick=results.runs[row["run"] - 1].quick,
        )


def _told(runs: list[Run]) -> list[str]:
    """The axes in which cells of one index differ and that have no column of their own."""
    by_index: dict[str, list[dict[str, str]]] = {}
    for run in runs:
        by_index.setdefault(run.record["index"], []).append(run.labels)
    axes = dict.fromkeys(axis for own in by_index.values() for axis in naming.differing(own))
    return [axis for axis in axes if axis not in COLUMNS]


def variant(run: Run) -> str:
    """What a run's cell is known by."""
    return json.dumps(run.labels, sort_keys=True)


def _document(run: Run) -> Json:
    return {
        "key": run.key,
        "command": run.command,
        "labels": run.labels,
        "record": run.record,
    }
