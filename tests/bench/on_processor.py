"""`python -m bench.on_processor FILE...`: first kernels on this processor beside eager and torch.compile, unjudged.

All sides take turns in the same rounds. With one thread it is the thread's own processor time that counts, which other
processes take nothing of; with more, the clock's. The shortest call of each, in ms; a kernel's error is relative to the
norm of what eager gives.
"""

from __future__ import annotations

import runpy
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import torch
import tvm_ffi
import typer

from graph.model.writers import problem_of
from harness.building.compilation import library_of
from harness.judging.protocol import JudgeOrder
from harness.nouns.candidate import Candidate
from harness.targets.ceilings import cpu_facts
from knowledge.compiler.plan import Decline
from knowledge.compiler.search.first import first_draft
from tools.judges import open_judge

Call = Callable[[], Any]


def sides(file: Path) -> tuple[dict[str, Call], list[float]]:
    """The calls to compare, by name, and the kernel's error of each output."""
    judge = open_judge(JudgeOrder("cpu"))
    task = judge.describe(file.read_text(encoding="utf-8"), name=file.stem)
    assert task.program is not None, task.trace_failure
    draft = first_draft(problem_of(task, "cpu", cpu_facts(), "ieee"))  # type: ignore[arg-type]
    assert not isinstance(draft, Decline), draft
    library = library_of(judge.build(task, Candidate(source=draft.source, target="cpu", author="generator:playbook")))
    module = runpy.run_path(str(file))
    torch.manual_seed(0)
    model, inputs = module["Model"](*module["get_init_inputs"]()).eval(), module["get_inputs"]()
    held = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers(remove_duplicate=False))}
    found = model(*inputs)
    expected = list(found) if isinstance(found, tuple) else [found]
    outputs = [torch.empty_strided(each.shape, each.stride(), dtype=each.dtype) for each in expected]
    arguments = [*inputs, *(held[each.name] for each in task.signature.parameters), *outputs]
    entry = tvm_ffi.load_module(str(library)).run
    entry(*arguments)
    errors = [
        float((mine.double() - other.double()).norm() / other.double().norm().clamp_min(1e-30))
        for mine, other in zip(outputs, expected, strict=True)
    ]
    compiled: Any = torch.compile(model)
    compiled(*inputs)
    return {
        "ours": lambda: entry(*arguments), "eager": lambda: model(*inputs), "compiled": lambda: compiled(*inputs)
    }, errors  # fmt: skip


def shortest(calls: dict[str, Call], threads: int, rounds: int) -> dict[str, float]:
    """The shortest call of each, in ms."""
    torch.set_num_threads(threads)
    clock = time.thread_time if threads == 1 else time.perf_counter
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds + 1):
        for name, call in calls.items():
            start = clock()
            call()
            found[name] = min(found[name], (clock() - start) * 1e3)
    return found


def main(files: list[Path], rounds: Annotated[int, typer.Option()] = 10) -> None:
    """A line a file."""
    with torch.no_grad():
        for file in files:
            calls, errors = sides(file)
            for threads in (1, torch.get_num_threads()):
                ms = shortest(calls, threads, rounds)
                shown = ", ".join(f"{name} {each:.3f}" for name, each in ms.items())
                print(f"{file.stem}, {threads} threads: {shown}; errors {errors}", flush=True)


if __name__ == "__main__":
    typer.run(main)
