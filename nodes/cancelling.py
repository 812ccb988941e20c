"""A node that a server may cancel: its builds, kernels and questions end with it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any

from langchain_core.runnables import Runnable
from langchain_core.runnables.config import merge_configs, var_child_runnable_config

# What LangGraph makes of a function; with two of them, one for each of its ways to be run, it has no public name.
from langgraph._internal._runnable import RunnableCallable
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.runtime import Runtime

from harness.wire.stopping import Stop, stoppable
from nodes.protocols import Clock
from nodes.settings import Settings

_SAVER = "__pregel_checkpointer"
"""Where LangGraph hands a node's graph its saver."""
GRACE_S = 10.0
"""How long a cancelled node is waited for; ending takes it fractions of a second."""
_AT_ONCE = 256
"""Nodes of all runs of a server that work side by side; most of them wait for a model or for the device."""

_threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="node")


def cancellable(node: Any) -> Runnable[Any, dict[str, Any]]:
    """The node for a graph. Run by `ainvoke` and the like, it works in a thread, which ends when the run is cancelled.

    A node that is run without an event loop is ended by the exception that is raised in its thread, as ever.
    """

    async def beside(state: Clock, *, runtime: Runtime[Settings]) -> dict[str, Any]:
        stop = Stop()
        context = copy_context()
        context.run(_usable_by_threads)
        work = asyncio.get_running_loop().run_in_executor(
            _threads, context.run, partial(_stoppable, stop, node, state, runtime)
        )
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            stop.ask()
            await asyncio.wait([work], timeout=GRACE_S)
            if work.done():
                work.exception()  # it was asked for, and is nobody's surprise
            raise

    return RunnableCallable(node, beside, name=node.__name__)


def _usable_by_threads() -> None:
    """Have the graph within the node keep its checkpoints by the saver itself.

    A LangGraph server wraps one that `langgraph.json` names, and of the wrapper only the asynchronous methods work.
    """
    config = var_child_runnable_config.get() or {}
    wrapper = config.get("configurable", {}).get(_SAVER)
    if not isinstance(wrapper, BaseCheckpointSaver) or type(wrapper).get_tuple is not BaseCheckpointSaver.get_tuple:
        return
    saver = vars(wrapper).get("_inner")
    if isinstance(saver, BaseCheckpointSaver):
        own = {**config.get("configurable", {}), _SAVER: saver}
        var_child_runnable_config.set(merge_configs(config, {"configurable": own}))


def _stoppable(stop: Stop, node: Any, state: Clock, runtime: Runtime[Settings]) -> dict[str, Any]:
    with stoppable(stop):
        update: dict[str, Any] = node(state, runtime=runtime)
        return update
