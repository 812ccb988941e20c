"""Ceilings that are measured once on a machine and then kept on disk."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from harness.building.store import Store, write_text
from harness.errors import MachineError
from harness.frozen import Frozen
from harness.isolation.process import Completed

_RESULT = "ceilings.json"
_STORE = Store("machine")
_MEASURING = threading.Lock()

Rates = TypeVar("Rates", bound=Frozen)


def measured_once(key: str, kind: type[Rates], measure: Callable[[Path], Rates], *, again: bool) -> Rates:
    """What lies under `key`, else what `measure` finds out in a private folder, which is then kept.

    With `again` it is measured once more and the higher of each number kept: a busy machine measures too low.
    """
    kept = _STORE.entry(key) / _RESULT
    with _MEASURING, _STORE.lock(key):
        known = kind.model_validate_json(kept.read_text(encoding="utf-8")) if kept.is_file() else None
        if known and not again:
            return known
        with _STORE.staging() as folder:
            found = _highest(measure(folder), known)
            write_text(folder / _RESULT, found.model_dump_json())
            if known:
                (folder / _RESULT).replace(kept)
            else:
                _STORE.publish(folder, key)
    return found


def require_success(completed: Completed, what: str) -> None:
    """`MachineError` where a probe could not `what` ("be compiled", "run")."""
    if completed.exit_code != 0:
        said = completed.stderr.decode(errors="replace").strip()[-300:] or completed.note or completed.outcome
        problem = f"The probe of this machine's ceilings could not {what}: {said}"
        raise MachineError(problem, "Run cutegen doctor to see what is missing.")


def _highest(measured: Rates, known: Rates | None) -> Rates:
    if known is None:
        return measured
    return type(measured)(**{name: max(value, getattr(known, name)) for name, value in measured})
