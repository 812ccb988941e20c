"""Judging a foreign Python file with `ModelNew`: screened by its syntax tree, run isolated, its time advisory."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from harness.building.store import Store
from harness.isolation.policy import Limits
from harness.isolation.scratch import scratch_folder
from harness.judging.evaluation import Opponent, TargetJudge, own_build
from harness.judging.outcome import Case
from harness.judging.terms import Terms
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.errors import MachineError, UserError
from harness.nouns.refusal import Refusal
from harness.nouns.task import Task, TensorSpec
from harness.nouns.verdict import Verdict
from harness.processes.runner_process import MODULE_ORDER
from harness.processes.trusted_child import JobDiedError, warm_parent
from harness.screen.operators import kept_operators, operators_of
from harness.screen.python_source import screen_python
from harness.targets.target import Target

ADVISORY = (
    "A ModelNew carries its own Python: its calls' time includes Python's, and a copy of each output for the judge, "
    "which the baseline does not make."
)
NOT_WATCHED = "A file with ModelNew is Python, whose memory no sanitizer watches.", "Leave --sanitize out."
NO_DROP_IN = "A foreign module has no drop-in to time as a caller would.", "Leave --caller and --batches out."
LOAD_WITHIN_S = 300.0
"""A file may compile its kernels when it is imported; PyTorch's own builder takes a minute and more."""

_MODULES = Store("foreign")


class ModuleJudge(TargetJudge):
    """Judges Python files in place of kernels. A build names the order that the runner reads."""

    def __init__(self, target: Target, terms: Terms) -> None:
        super().__init__(target, replace(terms, load_within_s=LOAD_WITHIN_S))

    def screen(self, task: Task, candidate: Candidate) -> Refusal | None:
        """By the file's syntax tree."""
        state = frozenset(task.signature.state)
        return screen_python(candidate.source, operators_of(task), self.terms.allowances(task), state)

    def evaluate(
        self,
        task: Task,
        candidate: Candidate,
        build: Build | None = None,
        *,
        seed: int | None = None,
        incumbent: Candidate | None = None,
        compile_baseline: bool = False,
    ) -> Verdict:
        """As a kernel's, with the timing marked advisory. Raises `UserError` where workloads need different modules."""
        case = Case.of(task, candidate, self.terms, seed)
        if refusal := self.screen(task, candidate):
            return case.refused(refusal, build)
        build = own_build(build, partial(self.build, task, candidate))
        if build.digest is None:
            return case.not_built(build)
        opponent = self._opponent(task, incumbent)
        order = _order_of(build.digest)
        verdict = self._evaluation.verdict(case, build, order, opponent, compile_baseline=compile_baseline)
        if verdict.timing is None:
            return verdict
        return verdict.model_copy(update={"timing": verdict.timing.model_copy(update={"advisory": ADVISORY})})

    def build(self, task: Task, candidate: Candidate) -> Build:
        """Nothing is compiled: what the runner needs to make the module, in a file of its own folder."""
        began = time.perf_counter()
        signature = task.signature
        order = {
            "source": candidate.source,
            "init": self._init_arguments(task),
            "inputs": len(signature.inputs),
            "kept": sorted(kept_operators(operators_of(task))),
            "takes": task.takes.model_dump(mode="json") if task.takes else None,
            "parameters": [[spec.name, *spec.also] for spec in signature.parameters],
            "pairs": [
                place
                for place, spec in enumerate((*signature.inputs, *signature.parameters))
                if isinstance(spec, TensorSpec) and spec.pairs
            ],
            "state": [[spec.name for spec in signature.parameters].index(name) for name in signature.state],
        }
        text = json.dumps(order)
        with _MODULES.staging() as folder:
            (folder / MODULE_ORDER).write_text(text, encoding="utf-8")
            kept = _MODULES.publish(folder, hashlib.sha256(text.encode()).hexdigest()[:32])
        return Build(digest=kept.name, seconds=time.perf_counter() - began)

    def _opponent(self, task: Task, incumbent: Candidate | None) -> Opponent | None:
        if incumbent is None or self.screen(task, incumbent):
            return None
        digest = self.build(task, incumbent).digest
        return Opponent(incumbent.digest, _order_of(digest)) if digest else None

    def _init_arguments(self, task: Task) -> list[Any]:
        """The constructor's arguments, asked of the task file in a locked child. Raises `UserError` where its workloads
        have different ones: one module is called on all of them."""
        variants = [workload.variant.model_dump(mode="json") for workload in (*task.workloads, *task.held_out)]
        with scratch_folder() as scratch:
            try:
                asked = {"source": task.source, "name": task.name, "variants": variants}
                limits = Limits(wall_s=120.0, memory_bytes=64 << 30)
                answer = warm_parent().run("init", asked, tier=self.tier, cwd=scratch, limits=limits)
            except JobDiedError as died:
                raise MachineError(
                    f"Asking {task.name} for its arguments ended, {died.reason}.", "Run the command again."
                ) from died
        first, *others = answer["arguments"]
        if any(each != first for each in others):
            raise UserError(
                f"{task.name} makes its module from other arguments for each workload; one ModelNew is judged on all.",
                "Give a task file whose get_init_inputs takes nothing from a workload, or the kernel itself.",
            )
        return list(first)


def _order_of(digest: str) -> Path:
    return _MODULES.entry(digest) / MODULE_ORDER
