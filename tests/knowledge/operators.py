"""PyTorch's own databases of operators and modules, and what comes of each entry: declined, wrong, or right.

An entry is a name of `op_db` or `module_db` with the samples that PyTorch tests it on. A sample is traced as the judge
traces, and what the front makes of it is compared with what PyTorch computes; the first ones are also written, for both
targets. Nothing is compiled. Left out are linear algebra, Fourier transforms, sparse tensors, complex numbers, special
functions, what is random, and what returns no tensor of numbers whose shape is known before the call.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from ir_evaluation import meaning
from torch.utils._pytree import tree_flatten, tree_unflatten
from traced import MACHINE, assert_close, trace

from graph.cli.prompts import H200
from harness.trusted.reference import DTYPES
from knowledge.compiler.ir.expressions import UnwritableError
from knowledge.compiler.ir.verify import verify
from knowledge.compiler.passes.staging import staged
from knowledge.compiler.plan import Decline
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.search.first import first_draft

WRITTEN = 1
"""Samples of an entry that are written for both targets; all are lowered and evaluated."""

APART = (
    "linalg.", "fft.", "special.", "signal.", "sparse.", "masked.", "jiterator", "torch._scaled_mm",
    "torch.ops.aten._flash", "torch.ops.aten._efficient",
)  # fmt: skip
"""Beginnings of names that are not asked."""
_LEFT_OUT: dict[str, str] = {
    "linear algebra": """cholesky cholesky_inverse cholesky_solve geqrf lu lu_solve lu_unpack logdet matrix_exp ormqr
        pca_lowrank pinverse qr svd svd_lowrank triangular_solve norm/nuc nn.functional.linear_cross_entropy/chunked
        nn.functional.linear_cross_entropy/chunked_none""",
    "random": """bernoulli cauchy exponential geometric log_normal multinomial normal normal/in_place
        normal/number_mean nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout2d
        nn.functional.dropout3d nn.functional.feature_alpha_dropout/with_train nn.functional.fractional_max_pool2d
        nn.functional.fractional_max_pool3d nn.functional.rrelu rand_like randint randint_like randn randn_like
        uniform nn.FractionalMaxPool2d nn.FractionalMaxPool3d""",
    "memory beyond an operand": "as_strided/partial_views",
    "orders of equal elements that PyTorch leaves open": "argsort sort",
    "not initialized": "empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize_ resize_as_",
    "complex": """angle cdouble cfloat chalf complex conj conj_physical imag polar resolve_conj resolve_neg stft istft
        view_as_complex view_as_real real H mH nn.functional.silu/complex""",
    "no tensor of numbers": "allclose broadcast_shapes equal item to_sparse",
    "shapes that follow from values": """argwhere bincount histogramdd masked_select nonzero unique unique_consecutive
        nonzero_static""",
    "special functions": "i0 igamma igammac mvlgamma/mvlgamma_p_1 mvlgamma/mvlgamma_p_3 mvlgamma/mvlgamma_p_5",
}
LEFT_OUT = {name: why for why, names in _LEFT_OUT.items() for name in names.split()}


@dataclass(frozen=True)
class Sample:
    """A forward and its tensors: first the operands, then a module's parameters; and the same in double precision."""

    forward: torch.nn.Module
    tensors: tuple[Any, ...]


@dataclass(frozen=True)
class Entry:
    """A name of the database, the element type that it is asked at, and its samples, drawn anew at each call."""

    name: str
    dtype: torch.dtype
    samples: Callable[[], Iterator[Sample]]


class _Call(torch.nn.Module):
    """A function of tensors, given as they come; what else it was called with is kept."""

    def __init__(self, function: Callable[..., Any], arguments: Any) -> None:
        super().__init__()
        self.function = function
        self.leaves, self.form = tree_flatten(arguments)
        self.places = [at for at, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = tuple(self.leaves[at].detach() for at in self.places)
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self.leaves)
        for at, tensor in zip(self.places, tensors, strict=True):
            leaves[at] = tensor
        args, kwargs = tree_unflatten(leaves, self.form)
        return tuple(tree_flatten(self.function(*args, **kwargs))[0])

    def double(self) -> _Call:
        wide = copy.copy(self)
        wide.leaves = [torch.float64 if each in (torch.bfloat16, torch.float32) else each for each in self.leaves]
        if isinstance(self.function, torch.nn.Module):
            wide._modules = {"function": copy.deepcopy(self.function).double()}
        return wide


@cache
def entries(dtype: torch.dtype) -> dict[str, Entry]:
    """All entries of the main classes by name. Those that take no floats are asked at int64, with float32 alone.

    The databases take seconds to import: nobody does before they are asked for.
    """
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db

    found: dict[str, Entry] = {}
    for info in op_db:
        name = info.name + (f"/{info.variant_test_name}" if info.variant_test_name else "")
        own = dtype if dtype in info.dtypes else _other(info.dtypes, dtype)
        if own is not None and name not in LEFT_OUT and not name.startswith(APART):
            found[name] = Entry(name, own, partial(_of_operator, info, own))
    for info in module_db:
        name = info.name
        if dtype in info.dtypes and name not in LEFT_OUT and "Lazy" not in name:
            found[name] = Entry(name, dtype, partial(_of_module, info, dtype))
    return found


def _other(dtypes: Iterable[torch.dtype], wanted: torch.dtype) -> torch.dtype | None:
    whole = torch.int64 in dtypes and wanted is torch.float32 and torch.float32 not in dtypes
    return torch.int64 if whole else None


def _of_operator(info: Any, dtype: torch.dtype) -> Iterator[Sample]:
    torch.manual_seed(0)
    for sample in info.sample_inputs("cpu", dtype, requires_grad=False):
        call = _Call(info.op, ((sample.input, *sample.args), sample.kwargs))
        yield Sample(call, call.tensors)


def _of_module(info: Any, dtype: torch.dtype) -> Iterator[Sample]:
    torch.manual_seed(0)
    drawn = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=False, training=False)
    for each in drawn:
        if each.forward_input is None:
            continue
        made = info.module_cls(*each.constructor_input.args, **each.constructor_input.kwargs).to(dtype).eval()
        call = _Call(made.requires_grad_(False), (each.forward_input.args, each.forward_input.kwargs))
        yield Sample(call, call.tensors)


@dataclass(frozen=True)
class Outcome:
    """Samples that came out right, all that there are, and for each sentence of the others how many say it."""

    right: int
    samples: int
    others: Counter[str]

    @property
    def whole(self) -> bool:
        """Whether every sample came out right."""
        return self.samples > 0 and self.right == self.samples

    @property
    def wrong(self) -> str:
        """What differs from PyTorch's results, where something does."""
        return next((each for each in self.others if each.startswith("wrong: ")), "")


def outcome(entry: Entry, most: int = 0) -> Outcome:
    """What comes of an entry's samples: of `most` of them, spread over all, where that is not 0."""
    others: Counter[str] = Counter()
    drawn = list(entry.samples())
    step = -(-len(drawn) // most) if most else 1
    drawn = drawn[::step]
    for number, sample in enumerate(drawn):
        if said := judged(sample, written=number < WRITTEN):
            others[said] += 1
    return Outcome(len(drawn) - sum(others.values()), len(drawn), others)


def judged(sample: Sample, *, written: bool) -> str:
    """Nothing where a sample is right; else why it is declined, or what is wrong."""
    given = [each.clone() for each in sample.tensors]
    wanted = sample.forward(*given)
    if any(each._version for each in given):
        return "declined: it changes its inputs"
    if not wanted or not all(isinstance(each, torch.Tensor) for each in wanted):
        return "declined: it returns no tensor"
    try:
        problem = trace(sample.forward, *sample.tensors)
    except Exception as failure:  # noqa: BLE001 (the tracer raises many kinds)
        return f"not traced: {' '.join(str(failure).split())[:100]}"
    if [each.shape for each in problem.outputs] != [tuple(each.shape) for each in wanted]:
        return "declined: the parts that PyTorch writes it as give another shape"
    tensors = (*problem.arguments, *(result for op in problem.ops for result in op.results))
    strange = {each.dtype for each in tensors if each.kind == "tensor"} - set(DTYPES.values())
    if strange:
        return f"declined: elements of {min(strange)}"
    try:
        lowered = staged(problem)
    except UnwritableError as reason:
        return f"declined: {reason}"
    verify(node for _, node in lowered.outputs)
    named = dict(zip((each.name for each in problem.inputs), sample.tensors, strict=True))
    named |= dict(sample.forward.state_dict())
    try:
        oracle = sample.forward.double()(*map(_wide, sample.tensors))
    except Exception:  # noqa: BLE001 (an operation may know no double precision)
        oracle = wanted
    for got, theirs, exact in zip(meaning(problem, lowered, named), wanted, oracle, strict=True):
        try:
            assert_close(got.to(theirs.dtype), theirs, exact, "values")
        except AssertionError as difference:
            return f"wrong: {str(difference).splitlines()[0]}"
    return _unwritten(problem) if written else ""


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor.clone()


def _unwritten(problem: Problem) -> str:
    """Why some target has no first kernel."""
    for target, device in (("cpu", MACHINE), ("cuda", _gpu())):
        draft = first_draft(problem.model_copy(update={"target": target, "device": device}))
        if isinstance(draft, Decline):
            return f"declined for {target}: {draft.reason.partition(' It writes ')[0]}"
    return ""


@cache
def _gpu() -> Device:
    return Device.model_validate(H200, from_attributes=True)
