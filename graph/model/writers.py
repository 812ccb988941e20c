"""Who can write a window as one kernel: the playbook, told by asking its recipes, or nobody but a language model."""

from __future__ import annotations

from dataclasses import dataclass, field

from graph.model.window import Window
from harness.nouns.candidate import TargetName
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.verdict import Precision
from knowledge.playbook.author import SINGLE
from knowledge.playbook.problem import Problem
from knowledge.playbook.recipe import Plan


@dataclass
class Writers:
    """Asks once for each canonical form: a model's layers are alike."""

    target: TargetName
    facts: DeviceFacts
    precision: Precision = "ieee"
    _known: dict[str, str] = field(default_factory=dict)

    def recipe(self, window: Window) -> str:
        """The name of the playbook's recipe that writes the window as a single kernel; empty where none does."""
        if not window.given or any(each.hindrance for each in window.operations):
            return ""
        if not window.inputs:  # weights alone: a constant, which is computed once
            return ""
        if window.digest not in self._known:
            self._known[window.digest] = self._asked(window)
        return self._known[window.digest]

    def _asked(self, window: Window) -> str:
        problem = problem_of(window, self.target, self.facts, self.precision)
        return next((each.name for each in SINGLE if isinstance(each.first_plan(problem), Plan)), "")


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
