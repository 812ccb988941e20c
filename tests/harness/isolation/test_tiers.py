"""Choosing the isolation: by trying, and never weaker than asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from harness.isolation.tiers import resolve_tier, why_unavailable

WITHOUT_BUBBLEWRAP = "import os; os.environ['PATH'] = ''; from harness.isolation.tiers import resolve_tier; "


def answer(script: str) -> str:
    """What a fresh process prints: the probe runs once a process."""
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout.strip()


def test_auto_takes_the_strongest_that_works() -> None:
    working = [tier for tier in ("bubblewrap", "landlock") if not why_unavailable(tier)]
    if not working:
        pytest.skip("no tier works here")
    assert resolve_tier() == resolve_tier("auto") == working[0]
    assert [resolve_tier(tier) for tier in working] == working


def test_none_is_taken_by_name() -> None:
    assert resolve_tier("none") == "none"


def test_without_bubblewrap_landlock_is_next() -> None:
    if why_unavailable("landlock"):
        pytest.skip("Landlock does not work here")
    assert answer(WITHOUT_BUBBLEWRAP + "print(resolve_tier())") == "landlock"


def test_a_tier_asked_for_by_name_is_never_replaced() -> None:
    script = WITHOUT_BUBBLEWRAP + (
        "from harness.nouns.errors import MachineError\n"
        "try:\n    resolve_tier('bubblewrap')\n"
        "except MachineError as error:\n    print(error)"
    )
    text = answer(script)
    assert "bubblewrap is not installed" in text
    assert "--isolation none" in text


def test_where_nothing_works_nothing_runs() -> None:
    """A filter makes the kernel answer as one without Landlock does."""
    script = WITHOUT_BUBBLEWRAP + (
        "from harness.isolation import syscalls; import errno, struct\n"
        "syscalls.forbid_new_privileges()\n"
        "absent, allow = 0x50000 | errno.ENOSYS, 0x7FFF0000\n"
        "filter = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, absent), (0x06, 0, 0, allow)]\n"
        "syscalls.install_filter(b''.join(struct.pack('<HBBI', *line) for line in filter))\n"
        "from harness.nouns.errors import MachineError\n"
        "try:\n    print(resolve_tier())\n"
        "except MachineError as error:\n    print(error)"
    )
    text = answer(script)
    assert "No isolation works here" in text
    assert "no Landlock" in text
