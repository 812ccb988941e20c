"""The model graph from Python."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graph.export.live_drop_in import load_drop_in
from graph.model.plan import Plan
from graph.model.run import ModelFolder, ModelRecord, create_model, drive_model
from graph.model.sources import load_model
from graph.model.state import ModelInput, ModelState
from graph.model.terminal import ModelTerminal
from graph.model.workbench import LocalWorkbench, OpenWorkbench
from graph.model.workflow import build_model_graph
from graph.runs.progress import Callback, Observer, watching
from nodes.settings import Settings
from nodes.state import require


class ModelResult:
    """What was found of a model: `record` holds all of it, `folder` the artifacts, `plan` the ranked regions."""

    def __init__(
        self,
        folder: ModelFolder,
        record: ModelRecord,
        module: Any = None,
        inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    ) -> None:
        self.folder, self.record, self.plan = folder.path, record, record.plan
        self._assembled, self._module, self._inputs = folder.assembled, module, inputs

    @property
    def improved(self) -> bool:
        """Whether the model with kernels in it is right, and faster than its baselines beyond the noise."""
        return self.record.accepted

    @property
    def speedup(self) -> float | None:
        """Eager / assembled, of the whole; None where nothing was assembled that is faster."""
        return self.record.acceptance.speedup if self.record.acceptance and self.improved else None

    def module(
        self,
        module: Any = None,
        args: Sequence[Any] | Mapping[str, Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """The live module, or this one like it, with the kernels in it, over its tensors; as it was without a gain."""
        module, args = module if module is not None else self._module, args if args is not None else self._inputs
        if not self.improved:
            return module
        named = args if isinstance(args, Mapping) else kwargs
        return load_drop_in(self._assembled).accelerate(module, () if named is args else args or (), named)


def plan_model(
    given: ModelInput,
    settings: Settings,
    open_workbench: OpenWorkbench = LocalWorkbench,
    *,
    since: float | None = None,
) -> Plan:
    """Capture a model and rank its regions; no kernel is written. Raises `UserError` and `MachineError`.

    The budget counts from `since` on, by the monotonic clock.
    """
    asked = given.model_copy(update={"only_plan": True})
    found = build_model_graph(open_workbench, since=since).compile().invoke(asked, context=settings)
    return require(ModelState.model_validate(found).plan, "plan")


def accelerate_model(
    source: Any,
    inputs: Sequence[Any] | Mapping[str, Any] | None,
    settings: Settings,
    out: str | Path | None,
    *,
    observer: Observer | Callback | None = None,
    compile_baseline: bool = True,
    assembly: bool = False,
) -> ModelResult:
    """From a model as people have it to the model with kernels in it. Raises `UserError` and `MachineError`.

    Without an `observer` a terminal or a notebook shows what happens.
    """
    since = time.monotonic()
    asked = {"compile_baseline": compile_baseline, "assembly": assembly}
    model = load_model(source, inputs).model_copy(update=asked)
    folder, manifest = create_model(Path(out) if out is not None else None, model, settings)
    live = source if inputs is not None else None
    with watching(observer, ModelTerminal) as watch:
        record = drive_model(folder, manifest, watch, since=since)
    return ModelResult(folder, record, live, inputs)
