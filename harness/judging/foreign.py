"""Judging a foreign Python file with `ModelNew`: screened by its syntax tree, run isolated, its time advisory."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.building.store import Store
from harness.isolation.policy import Limits
from harness.judging.local import Judge
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.errors import MachineError, UserError
from harness.nouns.refusal import Refusal
from harness.nouns.task import Task
from harness.nouns.verdict import Verdict
from harness.processes.runner_process import MODULE_ORDER
from harness.processes.trusted_child import JobDiedError, warm_parent
from harness.screen.operators import operators_of
from harness.screen.python_source import screen_python
from harness.screen.torch_operators import kept_operators

ADVISORY = (
    "A ModelNew carries its own Python: its calls' time includes Python's, and a copy of each output for the judge, "
    "which the baseline does not make."
)
LOAD_WITHIN_S = 300.0
"""A file may compile its kernels when it is imported; PyTorch's own builder takes a minute and more."""

_MODULES = Store("foreign")


class ModuleJudge(Judge):
    """A judge of Python files in place of kernels. Nothing is built: a build names the order that the runner reads."""

    def screen(self, task: Task, candidate: Candidate) -> Refusal | None:
        """Why the file may not run, told by its syntax tree; None where nothing speaks against it."""
        return screen_python(candidate.source, operators_of(task), self.allowances(task))

    def screen_build(self, build: Build) -> None:
        """There is no library."""
        return

    def evaluate(
        self,
        task: Task,
        candidate: Candidate,
        build: Build | None = None,
        *,
        seed: int | None = None,
        incumbent: Verdict | None = None,
        compile_baseline: bool = False,
    ) -> Verdict:
        """As a kernel's, with the timing marked advisory. Raises `MachineError`, and `UserError` for a task's fault."""
        if len(task.workloads) > 1:
            raise UserError(
                f"{task.name} has {len(task.workloads)} workloads; a file with ModelNew is judged on one.",
                "Give a task file that declares no workloads, or the kernel itself.",
            )
        if build is None and self.screen(task, candidate) is None:
            build = self._order(task, candidate)
        verdict = super().evaluate(
            task, candidate, build, seed=seed, incumbent=incumbent, compile_baseline=compile_baseline
        )
        if verdict.timing is None:
            return verdict
        return verdict.model_copy(update={"timing": verdict.timing.model_copy(update={"advisory": ADVISORY})})

    def _order(self, task: Task, candidate: Candidate) -> Build:
        """What the runner needs to make the module, in a file of its own folder."""
        began = time.perf_counter()
        signature = task.signature
        order = {
            "source": candidate.source,
            "init": self._init_arguments(task),
            "inputs": len(signature.inputs),
            "kept": sorted(kept_operators(operators_of(task))),
            "takes": task.takes.model_dump(mode="json") if task.takes else None,
            "parameters": [[spec.name, *spec.also] for spec in signature.parameters],
        }
        text = json.dumps(order)
        with _MODULES.staging() as folder:
            (folder / MODULE_ORDER).write_text(text, encoding="utf-8")
            kept = _MODULES.publish(folder, hashlib.sha256(text.encode()).hexdigest()[:32])
        return Build(library=kept / MODULE_ORDER, seconds=time.perf_counter() - began)

    def _init_arguments(self, task: Task) -> list[Any]:
        """The constructor's arguments, asked of the task file in a locked child."""
        with tempfile.TemporaryDirectory(prefix="cutegen-") as scratch:
            try:
                answer = warm_parent().run(
                    "init",
                    {"source": task.source, "name": task.name},
                    tier=self.tier,
                    cwd=Path(scratch),
                    limits=Limits(wall_s=120.0, memory_bytes=64 << 30),
                )
            except JobDiedError as died:
                raise MachineError(
                    f"Asking {task.name} for its arguments ended, {died.reason}.", "Run the command again."
                ) from died
        return list(answer["arguments"])

    @contextmanager
    def _stage(self, task: Task, library: Path, seed: int) -> Iterator[Any]:
        with super()._stage(task, library, seed) as stage:
            stage.payload["load_within_s"] = LOAD_WITHIN_S
            yield stage
