"""cutegen from Python; installed as `cutegen`. What each of these does stands in `calls.py`."""

from graph.api.calls import (
    Running,
    RunResult,
    accelerate,
    aevolve,
    answer,
    aoptimize,
    evolve,
    load,
    load_task,
    optimize,
    resume,
    save_training,
)

__all__ = [
    "RunResult",
    "Running",
    "accelerate",
    "aevolve",
    "answer",
    "aoptimize",
    "evolve",
    "load",
    "load_task",
    "optimize",
    "resume",
    "save_training",
]
