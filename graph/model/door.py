"""The model graph from Python."""

from __future__ import annotations

from graph.model.plan import Plan
from graph.model.state import ModelInput, ModelState
from graph.model.workbench import LocalWorkbench, OpenWorkbench
from graph.model.workflow import build_model_graph
from nodes.settings import Settings
from nodes.state import require


def plan_model(given: ModelInput, settings: Settings, open_workbench: OpenWorkbench = LocalWorkbench) -> Plan:
    """Capture a model and rank its regions; no kernel is written. Raises `UserError` and `MachineError`."""
    found = build_model_graph(open_workbench).compile().invoke(given, context=settings)
    return require(ModelState.model_validate(found).plan, "plan")
