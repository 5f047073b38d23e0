"""Types that every layer knows."""

from __future__ import annotations

from typing import Any

# An object as JSON or TOML has it: what programs print, and what files hold. What the code works
# with has a type of its own, and becomes such an object where it is written.
Json = dict[str, Any]
