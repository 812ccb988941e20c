"""The GEMM family on a GPU: plain SIMT first, then tensor cores at float32 grade, then one move at a time."""

from __future__ import annotations

from math import ceil
from typing import Protocol

from knowledge.compiler.plan import Decline, Move, Plan
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.gemm import cuda_16bit as narrow
from knowledge.compiler.schedule.gemm import cuda_decode as decode
from knowledge.compiler.schedule.gemm import cuda_fused as fused
from knowledge.compiler.schedule.gemm import cuda_hopper as hopper
from knowledge.compiler.schedule.gemm import cuda_short as short
from knowledge.compiler.schedule.gemm import cuda_simt as simt
from knowledge.compiler.schedule.gemm import cuda_tensor as tensor
from knowledge.compiler.schedule.gemm import cuda_wgmma as wgmma
from knowledge.compiler.schedule.gemm.cuda_text import render as render_exemplar
from knowledge.compiler.schedule.gemm.form import NARROW, Form

# K from which sharing it pays: below, the plain kernel is done before a second one has begun. A cluster has none.
_SHARED_K, _CLUSTERED_K = 256, 64


class Driver(Protocol):
    """A module that knows an instruction's exemplars: what stands in their section `knobs`, and in their header."""

    def knobs_text(self, problem: Problem, form: Form, plan: Plan) -> str: ...

    def describe(self, problem: Problem, form: Form, plan: Plan) -> tuple[str, ...]: ...


_DRIVERS: dict[str, Driver] = {
    narrow.KERNEL: narrow, hopper.KERNEL: hopper, decode.KERNEL: decode, tensor.KERNEL: tensor, tensor.CLUSTER: tensor,
    fused.KERNEL: fused, fused.STREAM_K: fused, wgmma.KERNEL: wgmma, short.KERNEL: short,
    simt.KERNEL: simt,
}  # fmt: skip


def first_plan(problem: Problem, form: Form) -> Plan | Decline:
    """The plain kernel of the type, on Hopper the tensor cores' own, or why the form is not covered."""
    device = problem.device
    if form.second and not hopper.suits(problem, form):
        return Decline("A pair of products in one kernel needs Hopper, 16 bits, and rows at multiples of 16 bytes.")
    if form.dtype in NARROW and _has_mma(device):
        return _hopper(problem, form) or narrow.first_plan()
    if form.dtype != "float32":
        return Decline(f"On this GPU the GEMM recipe does not cover {form.dtype}.")
    return simt.first_plan(form, device)


def moves(problem: Problem, form: Form, plan: Plan) -> tuple[Move, ...]:
    """The moves not yet in `plan`, the most promising first."""
    if plan.knobs["kernel"] == narrow.KERNEL:
        return narrow.moves(form, problem.device, plan)
    if plan.knobs["kernel"] == hopper.KERNEL:
        return hopper.moves(problem, form, plan)
    if plan.knobs["kernel"] == decode.KERNEL:
        return _of_clusters(problem, form, plan)
    if plan.knobs["kernel"] in (tensor.KERNEL, tensor.CLUSTER):
        return (*_by_wgmma(problem, form), *tensor.moves(problem, form, plan))
    if plan.knobs["kernel"] in (fused.KERNEL, fused.STREAM_K):
        other, own = _split_beforehand(problem, form), fused.moves(problem, form, plan)
        return (*other, *own) if wgmma.pays(problem, form) else (*_stores_beside(problem, form), *own, *other)
    if plan.knobs["kernel"] == short.KERNEL:
        return short.moves(plan)
    if plan.knobs["kernel"] == wgmma.KERNEL:
        return wgmma.moves(form, plan)
    return _tensor_cores(problem, form) if _has_mma(problem.device) else ()


def render(problem: Problem, form: Form, plan: Plan) -> str:
    """The kernel of this plan."""
    driver = _DRIVERS[str(plan.knobs["kernel"])]
    form = decode.turned(form) if driver is decode else form
    text, lines = driver.knobs_text(problem, form, plan), driver.describe(problem, form, plan)
    return render_exemplar(problem, form, plan, text, lines)


def _hopper(problem: Problem, form: Form) -> Plan | None:
    """By wgmma, where tensor copies can read the operands: an H200 takes half of mma.sync's time."""
    if decode.pays(problem, form):
        return decode.first_plan(problem, form)
    if not hopper.suits(problem, form):
        return None
    plan, other = hopper.first_plan(problem, form), decode.few_tiles(problem, form)
    cheaper = other and decode.cycles(form, other) < hopper.cycles(problem.device, form, plan)
    return other if other and cheaper else plan


def _of_clusters(problem: Problem, form: Form, plan: Plan) -> tuple[Move, ...]:
    """The moves of a plan whose clusters share K: where no operand is short, large tiles with a store apart, too."""
    against = ("compute", "on_chip")
    why = "Larger tiles, each element of which is read by fewer blocks; K is shared, if at all, through memory."
    larger = Move("larger tiles", why, hopper.first_plan(problem, form), against)
    return (*decode.moves(form, plan), *(() if decode.pays(problem, form) else (larger,)))


def _tensor_cores(problem: Problem, form: Form) -> tuple[Move, ...]:
    """To tensor cores, the fastest way first."""
    shared = _shared(problem, form)
    kernels = {move.plan.knobs["kernel"] for move in shared}
    return (*shared, *(move for move in _usual(problem, form) if move.plan.knobs["kernel"] not in kernels))


def _usual(problem: Problem, form: Form) -> tuple[Move, ...]:
    after = tensor.first_plan(problem, form)
    busy = ("compute", "on_chip", "latency")
    if problem.precision == "tf32":
        why = "Multiply on the tensor cores, in TF32 as the precision allows."
        return (Move("tensor cores", why, after, busy, sure=True),)
    why = "Split every float32 in two TF32 parts and multiply on the tensor cores: three products, float32's accuracy."
    slower = (Move("tensor cores, 3xTF32", why, after, busy, sure=not fused.suits(problem)),)
    if not fused.suits(problem):
        return slower
    why = "Hopper's wgmma in three TF32 products, float32's accuracy; the operands are split on their way to it."
    first = Move("tensor cores, 3xTF32 by wgmma", why, fused.first_plan(problem, form), busy, sure=True)
    return (first, *_split_beforehand(problem, form), *slower)


def is_small(problem: Problem, form: Form) -> bool:
    """Whether the plain kernel leaves most multiprocessors idle while K is long enough to be shared among them."""
    tiles = ceil(form.m.extent / 64) * ceil(form.n.extent / 64) * form.batches
    least = _CLUSTERED_K if problem.device.has.clusters else _SHARED_K
    few = 2 * tiles <= problem.device.multiprocessors and form.k.extent >= least
    return few and form.dtype == "float32" and form.triangle is None and _has_mma(problem.device)


def _shared(problem: Problem, form: Form) -> tuple[Move, ...]:
    """Tensor cores with shared K, by the kernel that should take the fewest cycles; no trial is needed.

    The plain kernel takes 0.167 ms at 64 x 128 x 1600 on an H200, eager 0.03.
    """
    if not is_small(problem, form):
        return ()
    after = tensor.small_plan(problem, form)
    if fused.suits(problem):
        other = fused.first_plan(problem, form)
        after = min(after, other, key=lambda plan: _cycles(problem, form, plan))
    why = f"There are few tiles of C: {after.knobs['splits']} blocks share each one's K, on the tensor cores."
    name = "tensor cores, K shared" if problem.precision == "tf32" else "tensor cores, 3xTF32, K shared"
    return (Move(name, why, after, ("occupancy", "latency"), sure=True),)


def _cycles(problem: Problem, form: Form, plan: Plan) -> float:
    of_wgmma = plan.knobs["kernel"] == fused.KERNEL
    own = fused.cycles(form, plan) if of_wgmma else tensor.cycles(problem.device, form, plan)
    return own + tensor.asking(plan)


def _by_wgmma(problem: Problem, form: Form) -> tuple[Move, ...]:
    """From a small product's first kernel, which had no trial, to the other one."""
    if not (is_small(problem, form) and fused.suits(problem)):
        return ()
    why = "Hopper's wgmma in three TF32 products with larger tiles, K shared among fewer blocks."
    return (Move("wgmma", why, fused.first_plan(problem, form), ("compute", "on_chip")),)


def _split_beforehand(problem: Problem, form: Form) -> tuple[Move, ...]:
    """The other way to feed wgmma: each element is split once, not once for every tile that reads it."""
    if not wgmma.suits(problem, form):
        return ()
    pays = wgmma.pays(problem, form)
    after = wgmma.first_plan() if pays else wgmma.trial_plan(form)
    why = "Split the operands in a kernel of their own, so that the product's blocks copy whole tiles by bulk copies."
    against = ("on_chip", "compute", "latency")
    return (Move("operands split beforehand", why, after, against, sure=pays),)


def _stores_beside(problem: Problem, form: Form) -> tuple[Move, ...]:
    """Where K is so short that storing C takes longest: the products run beside it."""
    if not short.suits(problem, form):
        return ()
    why = "Two warpgroups take tiles in turn, and tensor copies store one while the next is multiplied."
    return (Move("stores beside products", why, short.first_plan(), ("memory", "latency", "on_chip")),)


def _has_mma(device: Device) -> bool:
    """Whether it has tensor cores. One that does not tell what it is, is taken for the oldest built for."""
    return device.has.mma or not device.architecture
