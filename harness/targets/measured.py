"""Ceilings that a probe of our own measures once on a machine, and that are then kept on disk."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from harness.building.ninja_file import Edge, run_edges
from harness.building.store import Store, write_text
from harness.building.toolchain import Compiler
from harness.isolation.policy import Access, Limits
from harness.isolation.process import Completed, run_isolated
from harness.nouns.errors import MachineError
from harness.nouns.frozen import Frozen
from harness.nouns.tier import Tier

_RESULT = "ceilings.json"
_STORE = Store("machine")
_MEASURING = threading.Lock()
_PROGRAM = "probe"
_TIER: Tier = "none"
"""A probe is our own source: it needs the limits, not the walls."""

Rates = TypeVar("Rates", bound=Frozen)


def measured_once(key: str, kind: type[Rates], measure: Callable[[Path], Rates], *, again: bool) -> Rates:
    """What lies under `key`, else what `measure` finds out in a private folder, which is then kept.

    With `again` it is measured once more and the higher of each number kept: a busy machine measures too low.
    """
    kept = _STORE.entry(key) / _RESULT
    with _MEASURING, _STORE.lock(key):
        known = _read(kept, kind)
        if known and not again:
            return known
        with _STORE.staging() as folder:
            found = _highest(measure(folder), known)
            write_text(folder / _RESULT, found.model_dump_json())
            if kept.parent.is_dir():
                (folder / _RESULT).replace(kept)
            else:
                _STORE.publish(folder, key)
    return found


def build_probe(folder: Path, compiler: Compiler, command: tuple[str, ...], source: str) -> Path:
    """The program that `command` makes of the source in `folder`. Raises `MachineError`."""
    edge = Edge("probe", (*command, source, "-o", _PROGRAM), (source,), _PROGRAM)
    _require_success(run_edges([edge], folder, compiler=compiler, tier=_TIER), "be compiled")
    return folder / _PROGRAM


def run_probe(program: Path, *arguments: object, limits: Limits, environment: dict[str, str]) -> str:
    """What it prints. Raises `MachineError`."""
    completed = run_isolated(
        [str(program), *map(str, arguments)],
        cwd=program.parent,
        access=Access(),
        limits=limits,
        environment={"LC_ALL": "C", **environment},
        tier=_TIER,
    )
    _require_success(completed, "run")
    return completed.stdout.decode()


def _require_success(completed: Completed, what: str) -> None:
    """`MachineError` where a probe could not `what` ("be compiled", "run")."""
    if completed.exit_code != 0:
        said = completed.stderr.decode(errors="replace").strip()[-300:] or completed.note or completed.outcome
        problem = f"The probe of this machine's ceilings could not {what}: {said}"
        raise MachineError(problem, "Run cutegen doctor to see what is missing.")


def _read(kept: Path, kind: type[Rates]) -> Rates | None:
    """What was kept; None where nothing was, or where a power cut or a full disk left something else."""
    try:
        return kind.model_validate_json(kept.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _highest(measured: Rates, known: Rates | None) -> Rates:
    if known is None:
        return measured
    return type(measured)(**{name: max(value, getattr(known, name)) for name, value in measured})
