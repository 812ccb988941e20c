"""The GEMM family on a GPU: plain SIMT first, then tensor cores at float32 grade, then one move at a time."""

from __future__ import annotations

import re

from knowledge.playbook import cuda_gemm_tensor as tensor
from knowledge.playbook.cuda_gemm_text import render as render_exemplar
from knowledge.playbook.gemm_form import Form
from knowledge.playbook.problem import Device, Problem
from knowledge.playbook.recipe import Decline, Move, Plan

PLAIN = "gemm_simt"


def first_plan(form: Form) -> Plan | Decline:
    """The plain SIMT kernel, or why the form is not covered."""
    if form.kind == "scale":
        return Decline("The GEMM recipe covers products with a diagonal matrix on the cpu only.")
    if form.dtype != "float32":
        return Decline(f"On a GPU the GEMM recipe covers float32; this is {form.dtype}.")
    return Plan("gemm", {"kernel": PLAIN})


def moves(problem: Problem, form: Form, plan: Plan) -> tuple[Move, ...]:
    """The moves not yet in `plan`, the most promising first."""
    if plan.knobs["kernel"] == tensor.KERNEL:
        return tensor.moves(problem, form, plan)
    if not _has_tf32(problem.device):
        return ()
    after = tensor.first_plan(problem, form)
    if problem.precision == "tf32":
        return (Move("tensor cores", "Multiply on the tensor cores, in TF32 as the precision allows.", after),)
    why = "Split every float32 in two TF32 parts and multiply on the tensor cores: three products, float32's accuracy."
    return (Move("tensor cores, 3xTF32", why, after),)


def render(problem: Problem, form: Form, plan: Plan) -> str:
    """The kernel of this plan."""
    if plan.knobs["kernel"] == tensor.KERNEL:
        return render_exemplar(problem, form, plan, tensor.knobs_text(form, plan), tensor.describe(form, plan))
    return render_exemplar(problem, form, plan, "", ("tile: one element a load, the exemplar's own knobs",))


def _has_tf32(device: Device) -> bool:
    """From generation 8.0 on; a device that does not tell is taken for the oldest that kernels are built for."""
    number = re.fullmatch(r"sm_(\d+)[af]?", device.architecture)
    return number is None or int(number[1]) >= 80
