"""What runs when a library is loaded runs before anybody asked for it: only what compilers put there may."""

from __future__ import annotations

from collections.abc import Sequence

from harness.nouns.refusal import Refusal

_SHOWN = 3


def screen_load_time(names: Sequence[str]) -> Refusal | None:
    """A refusal that names what a kernel would run at load time (`Build.load_time`); None where that is nothing."""
    if not names:
        return None
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    message = (
        f"The kernel runs code of its own when its library is loaded ({shown}). Initialize at compile time "
        "(constexpr), or inside a function: what is static there is made in the first call."
    )
    return Refusal(kind="load_time", message=message)
