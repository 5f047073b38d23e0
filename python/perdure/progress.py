"""Progress on stderr: a live bar with the time left on a terminal, a line per cell elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as Bar


def duration(seconds: float) -> str:
    """`48 s`, `3 min 20 s` or `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


class Progress:
    """Prints nothing when quiet, except warnings."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self.console, self.quiet = console, quiet

    def say(self, text: str) -> None:
        if not self.quiet:
            self.console.print(text, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def warn(self, text: str) -> None:
        """Prints what a user must know, quiet or not."""
        self.console.print(text, highlight=False, markup=False, emoji=False, soft_wrap=True)

    @contextmanager
    def cells(self, pending: int, reused: int) -> Iterator[Advance]:
        found = f", {reused} already finished" if reused else ""
        self.say(f"{pending} cells to run{found}")
        if self.quiet or not self.console.is_terminal or not pending:
            yield Advance(self, pending)
            return
        columns = (
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.description}"),
        )
        with Bar(*columns, console=self.console, transient=True) as bar:
            yield Advance(self, pending, bar, bar.add_task("", total=pending, left=""))


class Advance:
    def __init__(
        self, progress: Progress, pending: int, bar: Bar | None = None, task: TaskID | None = None
    ) -> None:
        self.progress, self.pending, self.bar, self.task = progress, pending, bar, task
        self.count, self.began = 0, time.monotonic()

    def start(self, title: str) -> None:
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, description=title)

    def skip(self) -> None:
        """One cell less to run, because another process ran it."""
        self.pending -= 1
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, total=self.pending)

    def done(self, title: str, failure: str | None) -> None:
        self.count += 1
        spent = time.monotonic() - self.began
        left = duration(spent / self.count * (self.pending - self.count))
        if failure:
            self.progress.say(f"failed: {title}: {failure}")
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, advance=1, left=f"{left} left")
        elif not failure:
            self.progress.say(f"[{self.count}/{self.pending}] {title} ({left} left)")
