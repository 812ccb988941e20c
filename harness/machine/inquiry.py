"""Asking a tool of this machine about itself, with nothing in its environment that it need not know."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

_KEPT = ("PATH", "HOME", "LD_LIBRARY_PATH")


def ask(command: Sequence[str], *, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """What a compiler or driver tool prints. No key of a model's endpoint reaches it.

    Raises `OSError` where it cannot be run and `subprocess.TimeoutExpired`.
    """
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ} | {"LC_ALL": "C"}
    return subprocess.run([*command], env=environment, capture_output=True, text=True, timeout=timeout_s)
