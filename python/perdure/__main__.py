"""Where `python -m perdure` and the command `perdure` begin."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Restarts Python in UTF-8 mode unless it is on: names and reports are UTF-8 in any locale.
    Everything else is imported after that, so that the restart costs little."""
    if not sys.flags.utf8_mode and os.environ.get("PYTHONUTF8") != "1" and sys.executable:
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    from perdure.programs import child

    try:
        with child.signals_held():
            from perdure.cli import main as command_line
    except KeyboardInterrupt:
        sys.exit(130)
    command_line.main()


if __name__ == "__main__":
    main()
