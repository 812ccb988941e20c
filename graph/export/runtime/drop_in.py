"""The names that `model_new.py` uses."""

from .gradients import Gradients
from .kernel import Kernel, depends_on_mode
from .library import Built, Library
from .reference import require_same_arguments, run_reference
from .specs import Number, Tensor, Unfit, Workload


def register_backend() -> None:
    """Make `torch.compile(..., backend="cutegen", options={"kernels": FOLDER})` known, where nobody has by now."""
    from .backend import register

    register()


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
    "register_backend",
    "require_same_arguments",
    "run_reference",
]
