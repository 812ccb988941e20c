"""A suite's task files: found, chosen by id, and shrunk for a smaller card."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from graph.loading import load_task
from graph.runs.suite_record import SuiteTask
from harness.nouns.errors import UserError
from harness.nouns.task import Direction, Task
from harness.tasks.declaring import alone
from harness.tasks.numbers import span_of, with_numbers
from harness.tasks.robust_folder import is_robust_folder
from knowledge.suites import bundled
from nodes.state import TaskInput

ALIGNMENT = 64
"""A size keeps the powers of two that divide it up to this one, so that a shrunk task stays as aligned as it was."""
_NUMBER = re.compile(r"(\d+)(?:[-_]|$)")


def load_suite(
    suite: str, *, ids: str = "", scale: float = 1.0, direction: Direction | None = None
) -> tuple[str, tuple[SuiteTask, ...]]:
    """The suite's name and its tasks by id. `suite` names a bundled one or a folder of task files.

    A file's leading number is its id; files without one are numbered in the order of their names. robust-kbench folders
    are task files, too, where they have the direction that is asked for. Raises `UserError`.
    """
    bundled_files = bundled.tasks(suite)
    if bundled_files is not None:
        found: dict[str, Path | str] = dict(bundled_files)
        suite_name = suite
    else:
        folder = _folder(suite)
        found, suite_name = {file.name: file for file in _files(folder, direction)}, folder.resolve().name
    names = _numbered(list(found))
    chosen = select_ids(ids, tuple(names)) if ids else tuple(names)
    tasks = []
    for number in chosen:
        name, file = names[number], found[names[number]]
        task = load_task(file, direction=direction)
        source = scaled(task.source, scale, name) if scale != 1.0 else task.source
        tasks.append(SuiteTask(id=number, name=task.name if isinstance(file, Path) else name, source=source))
    twice = [name for name, times in Counter(task.name for task in tasks).items() if times > 1]
    if twice:
        raise UserError(f"Two files of {suite} would both be called {twice[0]}.", "Rename one of them.")
    return suite_name, tuple(tasks)


def find_task(task: str, scale: float) -> TaskInput:
    """A task file, or one of a suite by its id, as level1:8. Raises `UserError`."""
    suite, colon, number = task.rpartition(":")
    if colon and number.isdecimal():
        (found,) = load_suite(suite, ids=number, scale=scale)[1]
        return TaskInput(source=found.source, name=found.name)
    loaded = load_task(Path(task))
    if scale == 1.0:
        return loaded
    return loaded.model_copy(update={"source": scaled(loaded.source, scale, task)})


def _folder(suite: str) -> Path:
    folder = Path(suite)
    if folder.is_dir():
        return folder
    if folder.is_file():
        raise UserError(f"{suite} is a file, and a suite is a folder of them.", f"cutegen optimize {suite} runs it.")
    raise UserError(
        f"There is no suite {suite}, and no such folder.",
        f"Bundled are {', '.join(bundled.names())}; any folder of task files serves too.",
    )


def _files(folder: Path, direction: Direction | None) -> list[Path]:
    files = sorted(file for file in folder.glob("*.py") if file.name[0] not in "._" and not file.is_dir())
    files += sorted(each for each in folder.iterdir() if each.is_dir() and is_robust_folder(each, direction))
    if not files:
        raise UserError(f"There is no task file in {folder}.", "Name a folder with Python files, one task each.")
    for file in files:
        if not file.is_file() and not file.is_dir():  # a pipe would be waited for, a link may lead nowhere
            raise UserError(
                f"{file} is no file that can be read.", "A suite's folder holds Python files, one task each."
            )
    return files


def _numbered(names: list[str]) -> dict[int, str]:
    """The files' names by id. Where the names' own numbers are missing or not unique, all are counted from 1."""
    found = [_NUMBER.match(name.removesuffix(".py")) for name in names]
    own = [int(match[1]) for match in found if match]
    if len(set(own)) < len(names):
        own = list(range(1, len(names) + 1))
    return dict(sorted(zip(own, names, strict=True)))


def select_ids(wanted: str, known: tuple[int, ...]) -> tuple[int, ...]:
    """The ids that a text as "1-18,23" names, in their own order. Raises `UserError`."""
    chosen: set[int] = set()
    for part in wanted.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if match is None:
            raise UserError(f"{part.strip()!r} names no ids.", "Write them as 1-18,23.")
        low, high = int(match[1]), int(match[2] or match[1])
        inside = {number for number in known if low <= number <= high}
        if not inside:
            raise UserError(f"No task has the id {part.strip()}.", f"There are {_spoken(known)}.")
        chosen |= inside
    return tuple(number for number in known if number in chosen)


def _spoken(ids: tuple[int, ...]) -> str:
    """The ids as a reader writes them: 1-18, 23."""
    runs: list[list[int]] = []
    for number in ids:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def scaled_size(size: int, scale: float) -> int:
    """The size times `scale`, at least 1: odd stays odd, and a multiple of a power of two (up to 64) stays one."""
    if size % 2:
        return 2 * int(size * scale / 2) + 1
    aligned = math.gcd(size, ALIGNMENT)
    while aligned > 1 and size * scale < aligned:
        aligned //= 2
    return max(1, round(size * scale / aligned)) * aligned


def scaled(source: str, scale: float, name: str) -> str:
    """The task file with every number of its SIZES scaled. Raises `UserError` where there is no such mapping."""
    mapping = _sizes(source)
    if mapping is None:
        raise UserError(
            f"{name} has no SIZES to scale.", 'Give it one mapping of numbers, SIZES = {"n": 64}, or leave --scale out.'
        )
    sizes = ast.literal_eval(mapping).values()
    return with_numbers(
        source, {span_of(node): scaled_size(size, scale) for node, size in zip(mapping.values, sizes, strict=True)}
    )


def _sizes(source: str) -> ast.Dict | None:
    """The dictionary of whole numbers that the file calls SIZES."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return None
    for node in body:
        named = isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["SIZES"]
        if named and isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            values = node.value.values
            if all(isinstance(each, ast.Constant) and type(each.value) is int for each in values):
                return node.value
    return None


# -- A suite's tasks with each of their workloads as a task of its own ------------------------------------------------


MOST = 100
"""Workloads of a task: the id of its third is 100 times the task's, and 3."""


def each_workload(
    tasks: Sequence[SuiteTask], describe: Callable[[SuiteTask], Task], jobs: int
) -> tuple[SuiteTask, ...]:
    """One task for each workload, called `<task> <workload>`; as it is where there is one, or where it is no task.

    Raises `UserError` for a task with 100 workloads or more.
    """

    def split(task: SuiteTask) -> tuple[SuiteTask, ...]:
        try:
            works = describe(task).workloads
        except UserError:
            return (task,)  # its run says why
        if len(works) == 1:
            return (task,)
        if len(works) >= MOST:
            raise UserError(f"{task.name} has {len(works)} workloads.", f"A task of a suite may have {MOST - 1}.")
        return tuple(
            SuiteTask(
                id=MOST * task.id + place,
                name=f"{task.name} {work.name.replace('/', '_')}",
                source=alone(task.source, work.variant),
                whole=task.name,
            )
            for place, work in enumerate(works, 1)
        )

    with ThreadPoolExecutor(max(jobs, 1)) as pool:
        return tuple(each for found in pool.map(split, tasks) for each in found)
