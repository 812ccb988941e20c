"""The archive of judged kernels: what all evolutions of this user have found, and what comes nearest to a new task.

What is read from it was written by whoever could write to it: bounded, validated row by row, shown as inspiration
only, and judged anew like any kernel before it counts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from harness.machine.system import cache_dir
from harness.nouns.candidate import Candidate, TargetName
from harness.nouns.frozen import Frozen, Label
from harness.nouns.task import Task, TensorSpec
from harness.nouns.verdict import Verdict
from tools.archives.in_file import InFile, Place, Row
from tools.archives.in_postgres import InPostgres, is_url, require_usable
from tools.structure import Structure

NONE = "none"
"""The setting that asks for no archive."""
WAIT_S = 30.0
MOST_SOURCE_CHARS = 16_000
"""No longer kernel is shown to anybody: a prompt has room for little more."""
MOST_TASKS = 2000
"""The latest tasks that are looked through for near ones."""


class Entry(Frozen):
    """One judged kernel on its way into the archive. `operator` says how it was made, of which `parents`."""

    candidate: Candidate
    verdict: Verdict
    operator: str
    move: str
    parents: tuple[str, ...]
    dollars: float
    seconds: float


class Kept(Frozen):
    """What the archive tells of a kernel's task, and of the move that made it."""

    task: str
    name: Label
    op_class: str
    operations: tuple[str, ...]
    sizes: tuple[int, ...]
    device: Label
    move: Label


class Found(Kept):
    """The fastest kernel of a near task. `speedup` was measured on `device`, and says nothing on another one."""

    source: str
    speedup: float


class Made(Kept):
    """What one judged move made of a right kernel, the digest of which is `parent`; `was` is that one's speed-up."""

    source: str
    before: str
    parent: str
    was: float
    verdict: Verdict


class Archive:
    """One archive, which processes share. Every method raises `MachineError` where it cannot be used just now."""

    def __init__(self, place: Place) -> None:
        self._place = place

    @classmethod
    def named(cls, setting: str, wait_s: float | None = None) -> Archive | None:
        """The archive that the setting names: a file, a database's URL, "none", or empty for that of the cache.

        Raises `UserError` for a URL that cannot be used.
        """
        wait_s = WAIT_S if wait_s is None else wait_s
        if setting == NONE:
            return None
        if is_url(setting):
            return cls(InPostgres(setting, wait_s))
        path = Path(setting).expanduser() if setting else cache_dir() / "archive.sqlite"
        return cls(InFile(path, wait_s))

    def put(self, run: str, task: Task, device: str, entries: Sequence[Entry]) -> int:
        """Write kernels of one run, or write them again; how many of that run's are there then.

        Raises `UserError` for what is no such archive.
        """
        return self._place.put(run, [_row(run, task, device, entry) for entry in entries])

    def nearest(self, task: Task, target: TargetName, most: int, *, but: str = "") -> tuple[Found, ...]:
        """The fastest kernels of the tasks most like this one, the nearest first, those of the run `but` left out.

        Near are tasks of the same class, operations and sizes; in doubt those with the larger gain.
        Raises `UserError` for what is no such archive.
        """
        rows = self._place.fastest(target, MOST_SOURCE_CHARS, but, MOST_TASKS)
        found = [each for row in rows if (each := _read(row, Found)) is not None]
        return tuple(sorted(found, key=lambda each: (apart(each, task), -each.speedup))[:most])

    def moves(self, task: Task, target: TargetName, *, but: str = "") -> tuple[Made, ...]:
        """What single moves made of right kernels, on tasks like this one, the nearest first, as in `nearest`."""
        rows = self._place.moves(target, MOST_SOURCE_CHARS, but, MOST_TASKS)
        made = [each for row in rows if (each := _read(row, Made)) is not None]
        return tuple(sorted(made, key=lambda each: apart(each, task)))


def settled(setting: str) -> str:
    """The setting as a run's folder keeps it: a file by its whole path. Raises `UserError` for a URL of no use."""
    if is_url(setting):
        require_usable(setting)
    return setting if setting in ("", NONE) or is_url(setting) else str(Path(setting).expanduser().absolute())


def apart(found: Kept, task: Task) -> float:
    """How far a task is from that of a kernel, from 0 for the same to 3: class, operations and sizes weigh alike."""
    if found.task == task.digest:
        return 0.0
    mine, theirs = set(operations_of(task)), set(found.operations)
    both = mine | theirs
    operations = 1 - len(mine & theirs) / len(both) if both else 1.0
    sizes = abs(_magnitude(sizes_of(task)) - _magnitude(found.sizes)) / 10
    return float(found.op_class != task.op_class) + operations + min(1.0, sizes)


def operations_of(task: Task) -> tuple[str, ...]:
    """The names of a task's operations; none where it could not be traced."""
    return tuple(sorted(task.program.names)) if task.program else ()


def sizes_of(task: Task) -> tuple[int, ...]:
    """How many elements each tensor of a task's first workload has."""
    return tuple(spec.numel for spec in task.signature.arguments if isinstance(spec, TensorSpec))


def _magnitude(sizes: Sequence[int]) -> float:
    """The number of all elements, as a power of two."""
    return math.log2(1 + sum(sizes))


def _row(run: str, task: Task, device: str, entry: Entry) -> Row:
    candidate, verdict = entry.candidate, entry.verdict
    structure = Structure.of(candidate.source)
    return (
        run, candidate.digest, task.digest, task.name, task.op_class, json.dumps(operations_of(task)),
        json.dumps(sizes_of(task)), candidate.target, device, candidate.source, candidate.author, entry.operator,
        entry.move, json.dumps(entry.parents), structure.model_dump_json() if structure else "{}", verdict.status,
        verdict.timing.speedup if verdict.timing else None, verdict.model_dump_json(), entry.dollars, entry.seconds,
    )  # fmt: skip


AnyKept = TypeVar("AnyKept", Found, Made)
_NAMES = TypeAdapter(tuple[str, ...])
_SIZES = TypeAdapter(tuple[int, ...])


def _read(row: dict[str, object], kind: type[AnyKept]) -> AnyKept | None:
    """A row, as far as it is one that this program could have written."""
    try:
        read: dict[str, object] = {
            "operations": _NAMES.validate_json(str(row["operations"])),
            "sizes": _SIZES.validate_json(str(row["sizes"])),
        }
        if "verdict" in row:
            read["verdict"] = Verdict.model_validate_json(str(row["verdict"]))
        return kind.model_validate(row | read)
    except ValidationError:
        return None
