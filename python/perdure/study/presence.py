"""Whether what a study names is there: indexes, their options, platforms, workloads, files of keys.

All of it is checked before the first cell runs; otherwise a typo would be one failed cell after
another.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from perdure.errors import InputError, did_you_mean, one_of
from perdure.programs import catalogue, native
from perdure.programs import target as targets
from perdure.study.document import Document
from perdure.study.model import Flags

# What `perdure list indexes` and `list queues` say of a kind of target: name -> entry.
Listing = Callable[[str], dict[str, native.Entry]]

NAMING = ("index", "mode", "option", "target", "workload")
KEY_FORMS = ("mixed", "golden", "sequential", "prefixed", "random", "file")


class Check:
    """Of one study, whose text tells the lines."""

    def __init__(self, document: Document, indexes: Listing, optional: Sequence[str]) -> None:
        self.path, self.lines = document.path, document.text.splitlines()
        self.indexes, self.optional = indexes, optional

    def cells(self, cells: Iterable[Flags], chosen_target: str | None) -> None:
        """Errors: InputError with the line. What a plug-in has is for the plug-in to know."""
        seen = set[str]()
        for flags in cells:
            text = json.dumps([flags.get(name) for name in NAMING], sort_keys=True)
            if text in seen or flags.get("plugin"):
                continue
            seen.add(text)
            target = str(flags.get("target", "native"))
            self.platform(target, chosen=target == chosen_target)
            if flags.get("index") not in self.optional:
                self.index(flags, target)
            self.workload(flags.get("workload"))

    def index(self, flags: Flags, target: str) -> None:
        if "index" not in flags:
            raise self.error("a cell has no index", "[axes]", 'add index = ["fptree"] to [axes]')
        listed, name = self.indexes(native.kind_of(target)), str(flags["index"])
        entry = native.entry_of(listed, flags)
        if entry is None:
            known = [*listed, *(each.partition(":")[0] for each in listed)]
            remedy = did_you_mean(name, known, "see perdure list indexes")
            raise self.error(f"unknown index '{name}'", name, remedy)
        has = [option["name"] for option in entry.get("options", [])]
        for option in flags.get("option", {}) if "options" in entry else ():
            if option not in has:
                remedy = did_you_mean(option, has, one_of(has) if has else "leave it out")
                raise self.error(f"{name} has no option '{option}'", option, remedy)

    def platform(self, target: str, *, chosen: bool) -> None:
        """`chosen`: by the command line, so that no line of the study has it."""
        if native.kind_of(target) == "native":
            return
        try:
            targets.describe(target.removeprefix("sim:"))
        except InputError as error:
            said = str(error).removeprefix("perdure: ")
            if chosen:
                raise InputError(said, where=f"--target {target}") from error
            raise self.error(f"target '{target}'", target, said) from error

    def workload(self, name: str | None) -> None:
        if name is None or Path(name).is_file():
            return
        known = [entry["name"] for entry in catalogue.entries("workloads")]
        if name not in known:
            remedy = did_you_mean(name, known, "see perdure list workloads")
            raise self.error(f"unknown workload '{name}'", name, remedy)

    def error(self, what: str, value: str, remedy: str) -> InputError:
        """At the first line that has `value`, be it in an axis or in a flag."""
        wanted = re.compile(r"(?<![\w.:-])" + re.escape(value) + r"(?![\w.:-])")
        numbered = enumerate(self.lines, start=1)
        found = (number for number, line in numbered if wanted.search(line.partition("#")[0]))
        return InputError(what, where=f"{self.path}:{next(found, 1)}", remedy=remedy)


def check_keys(name: str, given: str) -> None:
    """Checks that --keys NAME=FILE can be read; the program checks forms such as random:8-25."""
    form, _, rest = given.partition(":")
    if form in KEY_FORMS and form != "file":
        return
    file, reason = Path(rest if form == "file" else given), ""
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            reason = "is no regular file"
        elif status.st_size == 0:
            reason = "is empty"
        else:
            file.open("rb").close()
    except OSError as error:
        reason = error.strerror or "cannot be read"
    if reason:
        raise InputError(
            reason, where=f"--keys {name}={given}", remedy="give a file with a key a line"
        )
