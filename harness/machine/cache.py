"""Where builds, headers and measured ceilings are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """$CUTEGEN_CACHE, else `cutegen` under $XDG_CACHE_HOME or ~/.cache. Not created here."""
    explicit = os.environ.get("CUTEGEN_CACHE")
    if explicit:
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cutegen"
