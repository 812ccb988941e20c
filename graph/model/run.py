"""A model's folder, and the model graph driven in it from its start or its last checkpoint to its end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from langgraph.checkpoint.base import BaseCheckpointSaver
from pydantic import ValidationError

from graph.driving.keeping import keep
from graph.driving.thread import GraphThread
from graph.model.assembly import FILE, REGIONS
from graph.model.plan import Plan
from graph.model.report import page, verdict_of
from graph.model.state import ModelInput, ModelState, RegionOutcome
from graph.model.tree_page import tree_page
from graph.model.workbench import LocalWorkbench, OpenWorkbench
from graph.model.workflow import build_model_graph
from graph.runs.folder import RUNS, RunFolder, claimed, machine_error, new_id, replace_file
from graph.runs.progress import Observer, open_log
from graph.runs.record import RunRecord
from graph.runs.store import open_saver
from graph.runs.trust import remember, require_own, require_trust
from harness.judging.protocol import OpenJudge
from harness.nouns.acceptance import Acceptance
from harness.nouns.errors import MachineError, UserError
from harness.nouns.frozen import Frozen
from harness.nouns.reading import read_bounded
from nodes.settings import Settings
from nodes.state import Usage
from tools.judges import open_judge

MOST_MANIFEST_BYTES = 64 << 20


class ModelManifest(Frozen):
    """What was asked: enough to begin, and to go on after a kill."""

    schema_version: Literal[1] = 1
    id: str
    model: ModelInput
    settings: Settings
    created: datetime


class ModelRecord(Frozen):
    """What was found: `record.json`. `accepted`: the assembled model is right, and faster than its baselines."""

    schema_version: Literal[1] = 1
    id: str
    name: str
    plan: Plan | None
    outcomes: tuple[RegionOutcome, ...] = ()
    acceptance: Acceptance | None = None
    seconds: float
    usage: Usage = Usage()

    @property
    def outcome(self) -> Literal["improved", "nothing_faster"]:
        """As a run's record has it."""
        return "improved" if self.accepted else "nothing_faster"

    @property
    def accepted(self) -> bool:
        """Whether there is a model to hand out."""
        return self.acceptance is not None and self.acceptance.accepted


class ModelFolder:
    """`model.json`, `record.json`, `log.jsonl`, two reports, `model_fast.py`, and below `regions/` each one's run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest_file = path / "model.json"
        self.record = path / "record.json"
        self.report = path / "report.md"
        self.tree = path / "report.html"
        self.assembled = path / FILE
        self.checkpoints = path / "checkpoints.sqlite"
        self.log = path / "log.jsonl"
        self.regions = path / REGIONS

    def read_manifest(self) -> tuple[ModelManifest, bytes]:
        """What was asked, and the bytes that say so. Raises `UserError`."""
        try:
            written = read_bounded(self.manifest_file, MOST_MANIFEST_BYTES)
            return ModelManifest.model_validate_json(written), written
        except (OSError, ValidationError) as error:
            raise UserError(
                f"{self.path} holds no model: {self.manifest_file.name} cannot be read.",
                "Name the folder that was printed.",
            ) from error

    def discard(self) -> None:
        """Remove what a model left that was not captured, and the folder itself unless it holds something else."""
        for file in (self.manifest_file, self.log, *self.path.glob(f"{self.checkpoints.name}*")):
            file.unlink(missing_ok=True)
        with suppress(OSError):
            self.path.rmdir()


def create_model(out: Path | None, model: ModelInput, settings: Settings) -> tuple[ModelFolder, ModelManifest]:
    """Make a model's folder, `runs/<name>-<id>` where `out` names none. Raises `UserError` and `MachineError`."""
    now = datetime.now(UTC)
    model_id = new_id(now)
    folder = ModelFolder((out if out is not None else RUNS / f"{model.name}-{model_id}").absolute())
    if folder.path.exists() and (folder.path.is_file() or any(folder.path.iterdir())):
        raise UserError(f"{folder.path} is not empty.", "Go on with it by --resume, or name another folder with --out.")
    settings = settings.model_copy(update={"run_dir": str(folder.path)})
    manifest = ModelManifest(id=model_id, model=model, settings=settings, created=now)
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise machine_error(error, folder.path, "create the model's folder") from error
    text = manifest.model_dump_json(indent=1)
    remember(text.encode())
    replace_file(folder.manifest_file, text)
    return folder, manifest


def reopen_model(path: Path) -> tuple[ModelFolder, ModelManifest]:
    """Find an earlier one by its folder, or by its name under `runs/`. Raises `UserError`."""
    folder = ModelFolder((path if path.exists() else RUNS / path).absolute())
    manifest, written = folder.read_manifest()
    require_trust(written, manifest.settings, folder.manifest_file, "Begin anew.")
    if manifest.model.reads:
        require_own(written, folder.manifest_file, "reads folders of this machine", "Begin anew.")
    settings = manifest.settings.model_copy(update={"run_dir": str(folder.path)})
    return folder, manifest.model_copy(update={"settings": settings})


def drive_model(
    folder: ModelFolder,
    manifest: ModelManifest,
    *observers: Observer,
    open_workbench: OpenWorkbench = LocalWorkbench,
    open_judge: OpenJudge = open_judge,
    planned: Callable[[Plan], None] | None = None,
    since: float | None = None,
) -> ModelRecord:
    """To the end, with the record and the report written. Raises `UserError` and `MachineError`.

    `planned` is told the plan before any kernel is written, and by a resumed one at its end. The budget counts from
    `since` on, by the monotonic clock. A file that is no model, or whose budget is too small for any answer, leaves no
    folder. One that was timed on another device is timed anew on this one.
    """
    with (
        claimed(folder.manifest_file),
        ExitStack() as ending,
        open_log(folder.log, manifest.id) as log,
        open_saver(folder.checkpoints) as saver,
    ):
        graph = build_model_graph(open_workbench, open_judge, since=since).compile(
            checkpointer=saver, interrupt_after=["planner"] if planned else None
        )
        thread = GraphThread(graph, manifest.id)
        try:
            _time_anew_elsewhere(thread, manifest, open_workbench)
            record = _driven(thread, folder, manifest, (log, *observers), planned)
        except BaseException as error:
            with suppress(MachineError):
                log.ended("interrupted", f"{type(error).__name__}: {error}")
            if isinstance(error, UserError) and _state(thread, manifest).capture is None:
                ending.callback(folder.discard)  # once its checkpoints are closed
            raise
        _keep_kernels(folder, record, manifest.settings)
        log.ended(record.outcome, verdict_of(record.acceptance, record.outcomes)[0])
        return record


def _time_anew_elsewhere(thread: GraphThread, manifest: ModelManifest, open_workbench: OpenWorkbench) -> None:
    """Take a model that was timed on another device back to before its acceptance, with its whole budget for that."""
    state = _state(thread, manifest)
    if state.acceptance is None or not state.acceptance.device:
        return
    if open_workbench(manifest.settings).facts().device != state.acceptance.device:
        begun_anew = {"acceptance": None, "seconds": -state.seconds}
        thread.graph.update_state(thread.config, begun_anew, as_node="region")


def _keep_kernels(folder: ModelFolder, record: ModelRecord, settings: Settings) -> None:
    """Note those that gained within what Inductor compiles, so that they are found for other models, too."""
    found = record.acceptance
    if found is None or found.form != "compiled":
        return
    for each in (each for each in found.regions if each.name in found.kept):
        run = RunFolder(folder.regions / each.name)
        with suppress(OSError, ValueError):
            of_region = RunRecord.model_validate_json(read_bounded(run.record))
            keep(run, of_region, settings, each.speedup or 1.0)


def _driven(
    thread: GraphThread,
    folder: ModelFolder,
    manifest: ModelManifest,
    observers: tuple[Observer, ...],
    planned: Callable[[Plan], None] | None,
) -> ModelRecord:
    thread.take_on(manifest.model, manifest.settings, observers)
    state = _state(thread, manifest)
    if planned and state.plan is not None:
        planned(state.plan)
    if thread.graph.get_state(thread.config).next:
        thread.take_on(manifest.model, manifest.settings, observers)
    record = _record(_state(thread, manifest), manifest)
    replace_file(folder.record, record.model_dump_json(indent=1) + "\n")
    replace_file(folder.report, page(record.name, record.plan, record.outcomes, record.acceptance))
    if record.plan is not None:
        names = [file.parent.name for file in folder.regions.glob("*/report.html")]
        links = {name: f"{REGIONS}/{name}/report.html" for name in names}
        replace_file(folder.tree, tree_page(record.name, record.plan, record.outcomes, record.acceptance, links))
    return record


def kept_record(manifest: ModelManifest, saver: BaseCheckpointSaver[Any]) -> ModelRecord:
    """What the checkpoints hold by now of a model, which another process may be working on."""
    thread = GraphThread(build_model_graph().compile(checkpointer=saver), manifest.id)
    return _record(_state(thread, manifest), manifest)


def _state(thread: GraphThread, manifest: ModelManifest) -> ModelState:
    values = thread.graph.get_state(thread.config).values
    return ModelState.model_validate({"source": manifest.model.source, **values})


def _record(state: ModelState, manifest: ModelManifest) -> ModelRecord:
    return ModelRecord(
        id=manifest.id,
        name=manifest.model.name,
        plan=state.plan,
        outcomes=state.outcomes,
        acceptance=state.acceptance,
        seconds=state.seconds,
        usage=state.usage,
    )
