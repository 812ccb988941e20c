"""A suite's folder: what was asked, the run folder of each task, and the results."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from graph.pages.suite_page import render
from graph.runs.folder import RUNS, Manifest, RunFolder, compared, create, machine_error, new_id, reopen, replace_file
from graph.runs.record import RunRecord
from graph.runs.suite_record import Row, SuiteRecord, SuiteTask, row_of
from graph.runs.tables import page
from graph.runs.trust import remember, require_trust
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.errors import UserError
from harness.nouns.frozen import Frozen
from harness.nouns.reading import read_bounded
from nodes.settings import Settings


class SuiteManifest(Frozen):
    """What a suite was asked to do, with its tasks' texts: enough to go on with it anywhere."""

    schema_version: Literal[1] = 1
    id: str
    name: str
    scale: float
    tasks: tuple[SuiteTask, ...]
    settings: Settings
    created: datetime


class SuiteFolder:
    """`suite.json`, `results.json`, `results.md`, `results.html`, and one run folder a task, called like the task."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest_file = path / "suite.json"
        self.results = path / "results.json"
        self.page = path / "results.md"
        self.html = path / "results.html"

    def write(self, record: SuiteRecord) -> None:
        """Store the results, as data, as Markdown and as a page. Raises `MachineError`."""
        replace_file(self.results, record.model_dump_json(indent=1) + "\n")
        replace_file(self.page, page(record))
        replace_file(self.html, render(record))

    def seconds(self) -> float:
        """The wall time that earlier goes at this suite took."""
        record = self.record()
        return record.seconds if record else 0.0

    def record(self) -> SuiteRecord | None:
        """The results so far; None before the first, and where the file is of another version."""
        try:
            return SuiteRecord.model_validate_json(read_bounded(self.results))
        except (OSError, ValidationError):
            return None

    def row(self, task: SuiteTask, facts: DeviceFacts) -> Row | None:
        """The row of a task whose run has ended; None where there is still something to do."""
        row = self.found(task, facts)
        return row if row and row.ended else None

    def found(self, task: SuiteTask, facts: DeviceFacts) -> Row | None:
        """The row as a task's run stands, ended or not; None where there is no record of it."""
        record = self.run_record(task)
        return self.row_from(task, record, facts) if record else None

    def run_record(self, task: SuiteTask) -> RunRecord | None:
        """What the task's run left; None where that cannot be read."""
        try:
            return RunRecord.model_validate_json(read_bounded(self._run(task).record))
        except (OSError, ValidationError):
            return None

    def row_from(self, task: SuiteTask, record: RunRecord, facts: DeviceFacts) -> Row | None:
        """The row that a run's record makes; None where it is another task's, whatever its name."""
        if record.task is not None and record.task.source != task.source:
            return None
        return row_of(task, record, facts, compared(self._run(task), record.best))

    def run_of(self, task: SuiteTask, manifest: SuiteManifest) -> tuple[RunFolder, Manifest]:
        """The task's run, as it was left or new."""
        folder = self._run(task)
        if folder.manifest_file.exists():
            return reopen(folder.path)
        return create(folder.path, name=task.name, source=task.source, settings=manifest.settings)

    def _run(self, task: SuiteTask) -> RunFolder:
        return RunFolder(self.path / task.name)


def create_suite(
    out: Path | None, *, name: str, tasks: tuple[SuiteTask, ...], scale: float, settings: Settings
) -> tuple[SuiteFolder, SuiteManifest]:
    """Make a suite's folder, `runs/<name>-<id>` where `out` names none.

    Raises `UserError` where `out` already holds a suite and `MachineError` where it cannot be written.
    """
    now = datetime.now(UTC)
    suite_id = new_id(now)
    path = (out if out is not None else RUNS / f"{name}-{suite_id}").absolute()
    folder = SuiteFolder(path)
    if path.is_file():
        raise UserError(f"{path} is a file, not a folder.", "Name another folder with --out.")
    if folder.manifest_file.exists():
        raise UserError(f"{path} already holds a suite.", f"Go on with it by --resume {path}, or name another folder.")
    manifest = SuiteManifest(id=suite_id, name=name, scale=scale, tasks=tasks, settings=settings, created=now)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise machine_error(error, path, "create the suite's folder") from error
    text = manifest.model_dump_json(indent=1)
    remember(text.encode())
    replace_file(folder.manifest_file, text)
    return folder, manifest


def reopen_suite(suite: Path) -> tuple[SuiteFolder, SuiteManifest]:
    """Find an earlier suite by its folder, or by its name under `runs/`, to go on with it. Raises `UserError`."""
    folder, manifest, written = _found(suite)
    require_trust(written, manifest.settings, folder.manifest_file, "Begin a new suite.")
    return folder, manifest


def look_at(suite: Path) -> tuple[SuiteFolder, SuiteManifest]:
    """The same, only to be read. Raises `UserError`."""
    folder, manifest, _ = _found(suite)
    return folder, manifest


def _found(suite: Path) -> tuple[SuiteFolder, SuiteManifest, bytes]:
    path = (suite if suite.exists() else RUNS / suite).absolute()
    folder = SuiteFolder(path)
    try:
        written = read_bounded(folder.manifest_file)
        manifest = SuiteManifest.model_validate_json(written)
    except OSError as error:
        raise UserError(
            f"{suite} holds no suite: {folder.manifest_file.name} cannot be read.",
            "Name the folder that an earlier suite printed.",
        ) from error
    except ValidationError as error:
        raise UserError(
            f"{folder.manifest_file} is not a suite of this version of cutegen.",
            "Start a new one, or use the version that began this one.",
        ) from error
    return folder, manifest, written
