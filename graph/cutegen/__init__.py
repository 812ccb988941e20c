"""CuTeGen from Python: give it a PyTorch module; get back a verified, faster drop-in made of CuTe kernels.

Installed under the name `cutegen`; what each of these does stands in `graph/api.py`.
"""

from graph.api import (
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
from graph.running import Running

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
