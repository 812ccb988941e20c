"""From traced operations to the IR: the playbook's lowerings over the IR's values, and those that only it has."""

from __future__ import annotations

from knowledge.compiler.ir.kept import kept
from knowledge.compiler.ir.nodes import Values
from knowledge.compiler.lower.activations import ACTIVATIONS
from knowledge.compiler.lower.choosing import CHOOSING
from knowledge.compiler.lower.contracting import CONTRACTING
from knowledge.compiler.lower.einsum import EINSUM
from knowledge.compiler.lower.gradients import GRADIENTS
from knowledge.compiler.lower.losses import LOSSES
from knowledge.compiler.lower.lowering import Lowered, by_index, lower
from knowledge.compiler.lower.moving import MOVING
from knowledge.compiler.lower.pointwise import POINTWISE
from knowledge.compiler.lower.recurrent import RECURRENT
from knowledge.compiler.lower.reductions import REDUCTIONS
from knowledge.compiler.lower.sampling import SAMPLING
from knowledge.compiler.lower.scanning import SCANNING
from knowledge.compiler.lower.scattering import SCATTERING
from knowledge.compiler.lower.sorting import SORTING
from knowledge.compiler.lower.views import COPIES, VIEWS
from knowledge.compiler.lower.windows import WINDOWS
from knowledge.compiler.problem import Problem

_OPERATIONS = {
    **POINTWISE, **ACTIVATIONS, **VIEWS, **COPIES, **REDUCTIONS, **LOSSES, **MOVING, **WINDOWS, **CONTRACTING, **EINSUM,
    **CHOOSING, **RECURRENT, **GRADIENTS, **SCATTERING, **SORTING, **SAMPLING, **SCANNING,
}  # fmt: skip
_BY_INDEX = (
    "pad", "constant_pad_nd", *(name for name in MOVING if name.endswith("d") and "_pad" in name), "roll", "diagonal",
    "diag", "diag_embed", "cdist", "einsum", *CONTRACTING, *REDUCTIONS, *SCANNING, *SCATTERING, *SORTING, "as_strided",
    "diagonal_scatter", "cat", "concat", "gather", "take", "index_select", "index", "isin", "_pdist_forward",
    "cross_entropy_loss", "embedding", *(name for name in WINDOWS if name.startswith("upsample")),
)  # fmt: skip
OPERATIONS = _OPERATIONS | {name: by_index(_OPERATIONS[name]) for name in _BY_INDEX}


@kept(8)
def traced(problem: Problem) -> Lowered:
    """The problem's outputs as values. Raises `UnwritableError` naming the first operation without a lowering."""
    return lower(problem, OPERATIONS, Values())
