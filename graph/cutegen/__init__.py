"""CuTeGen from Python: give it a PyTorch module; get back a verified, faster drop-in made of CuTe kernels.

Installed under the name `cutegen`; what each of these does stands in `graph/api/calls.py`.
"""

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
