"""Requests and prompts for tests of the models."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from harness.nouns.candidate import Candidate
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.task import Program, Ref, Signature, Task, TensorSpec, TracedOp, Workload
from harness.nouns.verdict import Verdict
from nodes.request import Request
from nodes.roles import Speaker

DEVICE = DeviceFacts(
    device="a processor", threads=2, simd_floats=8, l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=8 << 20,
    peak_gb_s=20.0, peak_gflop_s=100.0, source="made up for a test",
)  # fmt: skip


def tensor(name: str) -> TensorSpec:
    return TensorSpec(name=name, shape=(4096, 4096), strides=(4096, 1), dtype="float32")


def task(*targets: str, traced: bool = True, trace_failure: str = "") -> Task:
    """x through unary operations, `aten.abs.default` and the like."""
    targets = targets or ("aten.abs.default",)
    values = ["x", *(f"v{i}" for i in range(len(targets)))]
    ops = tuple(
        TracedOp(target=target, args=(Ref(ref=values[i]),), results=(tensor(values[i + 1]),))
        for i, target in enumerate(targets)
    )
    signature = Signature(inputs=(tensor("x"),), outputs=(tensor("output"),))
    return Task(
        name="absolute",
        source="class Model: ...\n",
        workloads=(Workload(name="given", signature=signature, flops=1 << 24, bytes_moved=1 << 27),),
        op_class="elementwise",
        program=Program(tracer="export", ops=ops, outputs=(values[-1],)) if traced else None,
        trace_failure=trace_failure,
    )


def request(role: Speaker, **facts: Any) -> Request:
    given: dict[str, Any] = {"task": task(), "target": "cpu", "precision": "ieee", "device": DEVICE, "stub": ""}
    return Request(role=role, **given | facts)


def candidate(source: str, parent: str | None = None) -> Candidate:
    return Candidate(source=source, target="cpu", author="optimizer:playbook", parent=parent)


def crashed(kernel: Candidate) -> Verdict:
    found: dict[str, Any] = {"status": "crashed", "check": "run", "message": "signal 11 at line 3"}
    return Verdict(candidate=kernel.digest, task="t", seed=1, tier="none", **found)


def prompt(question: Request, text: str = "Write it.") -> list[BaseMessage]:
    """A system message and a human one that carries the request, as an agent sends them."""
    carried = HumanMessage(text, additional_kwargs={"request": question})
    return [SystemMessage("You write kernels."), carried]
