"""The names that `model_new.py` uses."""

from .gradients import Gradients
from .kernel import Kernel, depends_on_mode
from .library import Built, Library
from .reference import require_same_arguments, run_reference
from .specs import Number, Tensor, Unfit, Workload

__all__ = [
    "Built",
    "Gradients",
    "Kernel",
    "Library",
    "Number",
    "Tensor",
    "Unfit",
    "Workload",
    "depends_on_mode",
    "require_same_arguments",
    "run_reference",
]
