"""Who can write a window: a recipe of the playbook, its compiler, told by asking them; else a language model."""

from __future__ import annotations

from dataclasses import dataclass, field

from graph.model.window import Window
from harness.judging.roofline_bound import exact_gflop_s, products_of
from harness.nouns.candidate import TargetName
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.verdict import Precision
from harness.wire.stopping import raise_if_stopped
from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.loops.estimate import estimate_ms
from knowledge.compiler.schedule.parts.stages import StagesRecipe
from knowledge.compiler.search.recipes import SINGLE

AT_RATE = 0.6
"""Of the device's rate in the product's types: a library that reaches it is hard to beat."""
_STAGES = StagesRecipe(SINGLE)


@dataclass
class Writers:
    """Asks once for each canonical form: a model's layers are alike.

    `around_inductor`: windows' times are those within what Inductor makes of the model.
    """

    target: TargetName
    facts: DeviceFacts
    precision: Precision = "default"
    around_inductor: bool = False
    _known: dict[str, str] = field(default_factory=dict)
    _estimates: dict[str, float | None] = field(default_factory=dict)

    def recipe(self, window: Window) -> str:
        """The name of the playbook's recipe that writes the window as a single kernel; empty where none does."""
        if not _writable(window):
            return ""
        if window.digest not in self._known:
            self._known[window.digest] = self._asked(window)
        return self._known[window.digest]

    def stages(self, window: Window) -> str:
        """The name of the recipe that writes the window as several kernels in a row; empty where one does not."""
        if not _writable(window):
            return ""
        key = f"stages {window.digest}"
        if key not in self._known:
            plan = _STAGES.first_plan(self._problem(window))
            self._known[key] = _STAGES.name if isinstance(plan, Plan) else ""
        return self._known[key]

    def single(self, recipe: str) -> bool:
        """Whether this is the name of a recipe for one kernel."""
        return any(each.name == recipe for each in SINGLE)

    def estimate_ms(self, window: Window) -> float | None:
        """What the compiler's kernels for the window would take; None where it writes none."""
        if not _writable(window):
            return None
        if window.digest not in self._estimates:
            self._estimates[window.digest] = estimate_ms(self._problem(window), self.facts)
        return self._estimates[window.digest]

    def gain_ms(self, window: Window) -> float:
        """What the compiler's kernels would save of a window's time at its place; negative where it writes none."""
        estimate = self.estimate_ms(window)
        return -1.0 if estimate is None else window.ms - estimate

    def at_rate(self, window: Window) -> bool:
        """Whether a product's library leaves a kernel too little to gain: what follows it is then a region apart."""
        if not window.flops or not window.ms:
            return False
        rate = exact_gflop_s(window.signature.dtypes, self.facts, products_of(window.program, self.precision))
        return window.flops / (window.ms * 1e6) >= AT_RATE * rate

    def _problem(self, window: Window) -> Problem:
        """What its authors are asked to write: some take seconds to read it. Raises `StoppedError` where none is to."""
        raise_if_stopped()
        return problem_of(window, self.target, self.facts, self.precision)

    def _asked(self, window: Window) -> str:
        problem = self._problem(window)
        return next((each.name for each in SINGLE if isinstance(each.first_plan(problem), Plan)), "")


def _writable(window: Window) -> bool:
    """Whether anybody may write it; of weights alone it is a constant, which is computed once."""
    return bool(window.given and window.inputs) and not any(each.hindrance for each in window.operations)


def problem_of(window: Window, target: TargetName, facts: DeviceFacts, precision: Precision) -> Problem:
    """The window in the playbook's own terms."""
    signature, program = window.signature, window.program
    return Problem.model_validate(
        {
            "target": target,
            "inputs": signature.inputs,
            "parameters": signature.parameters,
            "outputs": signature.outputs,
            "ops": program.ops,
            "returns": program.outputs,
            "device": facts,
            "precision": precision,
        },
        from_attributes=True,
    )
