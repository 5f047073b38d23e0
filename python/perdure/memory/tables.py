"""Tables of fidelity and classification for the terminal; --json has them in full."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.table import Table

from perdure.types import Json

WRONG_PEAKS, REASONS = 12, 5


def percent(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value * 100:.1f} %" if value < 10 else f"{value * 100:,.0f} %"


def times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def fidelity(document: Json) -> list[Table]:
    """Simulated against measured: a line per experiment, and one per set below."""
    experiments = _table(
        "simulated probes against measurements", "experiment", "platform", "compared as"
    )
    for one in document["experiments"]:
        experiments.add_row(one["name"], _short(one["platform"]), one["role"], *figures(one))
    sets = _table("in total", "set", "experiments", "")
    for one in document["summary"]["sets"]:
        sets.add_row(one["name"], str(len(one["experiments"])), "", *figures(one))
    summary = document["summary"]
    count = sum(len(one["experiments"]) for one in summary["sets"])
    sets.add_section()
    sets.add_row("all", str(count), "", *figures(summary))
    return [experiments, sets]


def fidelity_notes(document: Json) -> Iterable[str]:
    """A line for each peak at another place, and for each reason why points were not compared."""
    wrong = [(e["name"], p) for e in document["experiments"] for p in e["peaks"] if not p["agrees"]]
    for name, peak in wrong[:WRONG_PEAKS]:
        yield (
            f"peak of {name}, {peak['curve']}: simulated at {peak['axis']} {peak['simulated_at']}, "
            f"measured at {peak['measured_at']}"
        )
    if len(wrong) > WRONG_PEAKS:
        yield f"... and {len(wrong) - WRONG_PEAKS} peaks more (--json has them all)"
    reasons: dict[str, int] = {}
    for one in document["experiments"]:
        for skipped in one["skipped"]:
            reasons[skipped["reason"]] = reasons.get(skipped["reason"], 0) + 1
    for reason, count in sorted(reasons.items(), key=lambda r: -r[1])[:REASONS]:
        yield f"not compared, {count} points: {reason}"


def classes(document: Json) -> list[Table]:
    """The verdict on a memory: idiosyncrasies with causes, and the rules that pay."""
    quick = document["quick"]
    names = ", ".join(document["classes"]["names"]) or "unknown"
    title = f"{document['target']}: " + ("factors" if quick else f"class {names}")
    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("", "idiosyncrasy", "shown", "factor", "on DRAM", "at", "cause"):
        shown.add_column(column, justify="right" if column in ("factor", "on DRAM") else "left")
    for one in document["idiosyncrasies"]:
        verdict = {True: "yes", False: "no", None: "-" if quick else "unknown"}[one["shown"]]
        cause = one["cause_note"] if one["shown"] else "; ".join(one["missing"])
        shown.add_row(
            one["name"],
            one["title"],
            verdict,
            times(one["factor"]),
            times(one["factor_on_dram"]),
            " / ".join(one["at"]),
            cause,
        )
    rules = Table(title="design rules", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("", "rule", "gain", "impact", "published", "note"):
        rules.add_column(column, justify="right" if column == "gain" else "left")
    for one in document["rules"]:
        rules.add_row(
            one["rule"],
            one["title"],
            times(one["factor"]),
            one["impact"],
            one["published_impact"],
            one["note"],
        )
    return [shown, rules]


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column)
    for column in ("points", "median", "p90", "trend", "peaks", "goal"):
        table.add_column(column, justify="right")
    return table


def figures(one: Json) -> list[str]:
    peaks = "-"
    if one["peak_count"]:
        peaks = f"{round(one['peak_agreement'] * one['peak_count'])} of {one['peak_count']}"
    return [str(one["points"]), percent(one["median_error"]), percent(one["p90_error"]),
            percent(one["trend_agreement"]), peaks, _goal(one)]  # fmt: skip


def _goal(one: Json) -> str:
    goal = one.get("goal")
    if not goal:
        return ""
    words = {"median": "median", "p90": "p90", "absolute": "off by"}
    text = ", ".join(
        f"{words[kind]} {value:g}" if kind == "absolute" else f"{words[kind]} {value:.0%}"
        for kind, value in goal.items()
    )
    return text + {True: " reached", False: " missed", None: ""}[one.get("reached")]


def _short(platform: str) -> str:
    return platform.rsplit("/", 1)[-1]
