"""Which tools an agent may call while it thinks."""

from __future__ import annotations

from langchain_core.tools import BaseTool

from nodes.node_context import NodeContext
from nodes.protocols import JudgedRun
from nodes.roles import Voice
from nodes.state import require
from tools.library_tool import LOOK_UP


def tools_for(
    role: Voice, state: JudgedRun, node_context: NodeContext, *, profiled: bool = False
) -> tuple[BaseTool, ...]:
    """The role's tools; profiling only where the depth gate is open. None where the settings allow no call."""
    if node_context.settings.max_tool_calls == 0:
        return ()
    kernel, look_up = node_context.tools(state), LOOK_UP[require(state.target, "target")]
    match role:
        case "generator" | "repairer" | "proposer":
            return (look_up, kernel.compile_kernel)
        case "diagnoser":
            return (look_up, kernel.compile_kernel, kernel.run_kernel, kernel.sanitize_kernel)
        case "verifier" | "summarizer" | "reviewer":
            return ()
        case "optimizer":
            return (look_up, kernel.compile_kernel, kernel.run_kernel, *([kernel.profile_kernel] if profiled else []))
