"""Tables for the terminal. Figures are rounded for reading; --json has them in full."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from perdure.format import rate
from perdure.results import stats
from perdure.results.compare import Result
from perdure.results.record import Run, group, samples_of
from perdure.results.stats import Interval
from perdure.results.verdicts import Verdict
from perdure.study import claims
from perdure.types import Json

VERDICT_STYLE = {
    Verdict.FASTER: "green",
    Verdict.SLOWER: "red",
    Verdict.SAME: "dim",
    Verdict.INCONCLUSIVE: "yellow",
}


def runs(title: str, runs_: Sequence[Run]) -> Table:
    """A campaign: a line per configuration, a column per workload; repeated labels are left out."""
    names = list(dict.fromkeys(name for run in runs_ for name in run.labels if name != "workload"))
    varying = [n for n in names if len({run.labels.get(n) for run in runs_}) > 1] or names[:1]
    workloads = list(dict.fromkeys(run.labels.get("workload", "throughput") for run in runs_))
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for repeated in group(runs_).values():
        labels = repeated[0].labels
        line = tuple(labels.get(name, "none") for name in varying)
        median = stats.median_interval(samples_of(repeated)).value
        lines.setdefault(line, {})[labels.get("workload", "throughput")] = rate(median)
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in varying:
        table.add_column(name.replace("_", " "))
    for workload in workloads:
        table.add_column(workload, justify="right")
    before: tuple[str, ...] = ()
    for line, figures in sorted(lines.items(), key=lambda item: _order(runs_, varying, item[0])):
        if before and line[0] != before[0]:
            table.add_section()
        shown = [
            "" if line[: i + 1] == before[: i + 1] else value.replace("none", "-")
            for i, value in enumerate(line)
        ]
        table.add_row(*shown, *(figures.get(workload, "") for workload in workloads))
        before = line
    return table


def comparison(result: Result) -> Table:
    table = Table(
        title="B against A: ratio of median throughput", title_justify="left", box=box.SIMPLE_HEAD
    )
    names = list(dict.fromkeys(n for c in result.comparisons for n in c.labels))
    shown = [n for n in names if len({c.labels.get(n) for c in result.comparisons}) > 1]
    shown = shown or names[:1]
    for name in shown:
        table.add_column(name.replace("_", " "))
    kinds = {c.kind_of_interval for c in result.comparisons}
    alike = f"interval ({kinds.pop()})" if len(kinds) == 1 else "interval"
    for column in ("A", "B", "B/A", alike):
        table.add_column(column, justify="right")
    table.add_column("verdict")
    for c in result.comparisons:
        kind = f" ({c.kind_of_interval})" if alike == "interval" else ""
        table.add_row(
            *(c.labels.get(name, "") for name in shown),
            rate(c.a.value),
            rate(c.b.value),
            f"{c.ratio.value:.3f}",
            interval(c.ratio) + kind,
            Text(str(c.verdict), style=VERDICT_STYLE[c.verdict])
            + Text(f" ({c.remark})" if c.remark else "", style="dim"),
        )
    return table


def findings(found: Sequence[Json]) -> Table:
    """Published findings beside ours. `found`: documents of claims.Finding."""
    spans = [one["interval"]["name"] for one in found if one["interval"]]
    title = "beside publication" + (
        f" (in brackets: {', '.join(dict.fromkeys(spans))} of the ratio)" if spans else ""
    )
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("finding")
    table.add_column("ours", justify="right")
    kinds = list(dict.fromkeys(one["kind"] for one in found))
    others = any(kind != claims.PUBLICATION for kind in kinds)
    table.add_column(" or ".join(kinds) if others else "published", justify="right")
    table.add_column("verdict")
    for one in found:
        without = f" (without {', '.join(one['missing'])})" if one["missing"] else ""
        pair = f" ({one['pair']})" if one["pair"] else ""
        verdict = one["verdict"] or "-"  # a quick run has none
        beside = one["published"] + (f" ({one['kind']})" if len(kinds) > 1 else "")
        table.add_row(one["what"], one["ours_text"] + pair, beside, verdict + without)
    return table


def interval(value: Interval) -> str:
    return f"{value.low:.3f} .. {value.high:.3f}"


def _first_seen(runs_: Sequence[Run], label: str, value: str) -> int:
    return list(dict.fromkeys(run.labels.get(label, "none") for run in runs_)).index(value)


def _order(runs_: Sequence[Run], names: Sequence[str], line: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(_first_seen(runs_, n, v) for n, v in zip(names, line, strict=True))
