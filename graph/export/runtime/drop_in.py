"""The names that `model_new.py` uses."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .gradients import Gradients
from .kernel import Kernel, depends_on_mode
from .library import Built, Library
from .reference import constructs_one, require_same_arguments, run_reference
from .sizes import Extent, Size, Sizes
from .specs import Number, Tensor, Unfit, View, Workload


def register_backend() -> None:
    """Make `torch.compile(..., backend="cutegen", options={"kernels": FOLDER})` known, where nobody has by now."""
    from .backend import register

    register()


def compiled(module: Any, folders: Sequence[Path], mode: str, regions: Mapping[str, str]) -> Any:
    """The module compiled by Inductor in a mode, with these folders' kernels in it; `regions` says why each is."""
    from .whole import compiled

    return compiled(module, folders, mode, regions)


__all__ = [
    "Built",
    "Extent",
    "Gradients",
    "Kernel",
    "Library",
    "Number",
    "Size",
    "Sizes",
    "Tensor",
    "Unfit",
    "View",
    "Workload",
    "compiled",
    "constructs_one",
    "depends_on_mode",
    "register_backend",
    "require_same_arguments",
    "run_reference",
]
