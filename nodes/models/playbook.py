"""The embedded default: a rule-based author that needs no key and no network, and says what it cannot write."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from langchain_core.messages import AIMessage, BaseMessage

from harness.nouns.candidate import Candidate, TargetName
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.task import Program, Traced, Workload
from harness.nouns.verdict import Precision
from knowledge.compiler.plan import Decline, Draft, Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.search.first import first_draft
from knowledge.compiler.search.moves import crossings, more_exact, mutations, next_draft, translations
from nodes.assessment import Diagnosis
from nodes.history import path_to, tried_from
from nodes.models.local import LocalModel, request_of
from nodes.request import Request, Search
from nodes.state import Step, Variant
from tools.sweep import read_sweep


class PlaybookModel(LocalModel):
    """Answers every role from `knowledge.compiler`; the same request always gets the same answer."""

    @property
    def _llm_type(self) -> str:
        return "playbook"

    def respond(self, messages: Sequence[BaseMessage]) -> AIMessage:
        """The answer in the form that the role's prompt asks for."""
        request = request_of(messages)
        match request.role:
            case "generator":
                return AIMessage(_generate(request))
            case "optimizer":
                return AIMessage(_optimize(request))
            case "diagnoser":
                return AIMessage(_diagnose(request).model_dump_json(indent=2))
            case "repairer":
                return AIMessage(_repair(request))
            case "proposer":
                return AIMessage(_propose(request))
            case "verifier" | "summarizer" | "reviewer":
                return AIMessage(
                    _declined("CANNOT", Decline("The playbook writes kernels, and has no opinion on them."))
                )


def problem_of(request: Request) -> Problem | Decline:
    """The task in the playbook's own terms, at every workload's sizes; declined where the reference was not traced."""
    task = request.task
    if task.program is None:
        reason = task.trace_failure or "the tracer gave no reason"
        return Decline(f"The playbook writes from traced operations, and {task.name} could not be traced: {reason}")
    programs = (task.program, *task.other_programs)
    if len(programs) < len(task.workloads):
        return Decline(f"The playbook writes from traced operations, and not all workloads of {task.name} were traced.")
    pose = partial(posed, request.target, request.device, request.precision)
    first, *others = (pose(*each) for each in zip(task.workloads, programs, strict=True))
    apart = (pose(task.apart, task.apart.program),) if task.apart else ()
    return first.model_copy(update={"others": tuple(others), "apart": apart})


def posed(
    target: TargetName, device: DeviceFacts, precision: Precision, workload: Workload | Traced, program: Program
) -> Problem:
    """A traced forward in the playbook's own terms."""
    signature = workload.signature
    return Problem.model_validate(
        {
            "target": target,
            "inputs": signature.inputs,
            "parameters": signature.parameters,
            "outputs": signature.outputs,
            "ops": program.ops,
            "returns": program.outputs,
            "saturates": program.saturates,
            "device": device,
            "precision": precision,
        },
        from_attributes=True,
    )


def tried_moves(request: Request) -> tuple[str, ...]:
    """The moves not worth trying from the kernel at hand: those made from it, and those that ever failed the judge.

    A move made from this kernel did not help, or another kernel would be at hand now. One that failed elsewhere
    would most likely cost the same round of repairs again.
    """
    parent = request.candidate.digest if request.candidate else None
    failed = {step.candidate for step in request.history if step.status not in (None, "passed")}
    tried = (
        step.move
        for step in request.history
        if step.agent in WRITERS and step.move and (step.parent == parent or step.candidate in failed)
    )
    return tuple(dict.fromkeys(tried))


def _generate(request: Request) -> str:
    problem = problem_of(request)
    if isinstance(problem, Decline):
        return _declined("CANNOT", problem)
    if any(step.agent == "generator" for step in request.history):
        # It would write the very kernel that failed; asking a rule again cannot mend it.
        return _declined(
            "CANNOT", Decline("The playbook's only first kernel for this task was not kept; set another model.")
        )
    return _written("CANNOT", first_draft(problem))


def _optimize(request: Request) -> str:
    problem = problem_of(request)
    if isinstance(problem, Decline):
        return _declined("DONE", problem)
    source = request.candidate.source if request.candidate else ""
    bottleneck = request.profile.bottleneck if request.profile else None
    tried = tried_moves(request)
    draft = next_draft(problem, source, tried, bottleneck, max_sweep=request.max_sweep)
    if isinstance(draft, Decline) and (open_still := undecided_once(request)):
        again = tuple(move for move in tried if move not in open_still)
        draft = next_draft(problem, source, again, bottleneck, max_sweep=request.max_sweep)
    return _written("DONE", draft)


def _propose(request: Request) -> str:
    problem, search = problem_of(request), request.search
    if isinstance(problem, Decline):
        return _declined("CANNOT", problem)
    if search is None:
        raise ValueError("a proposer is asked within a search")
    fresh = (
        draft
        for draft in _drafts(problem, request, search)
        if Candidate(source=draft.source.rstrip() + "\n", target=request.target, author="").digest not in search.taken
    )
    none_left = Decline("The playbook has made every kernel that it can make of these.")
    return _written("CANNOT", next(islice(fresh, search.turn, None), none_left))


def _drafts(problem: Problem, request: Request, search: Search) -> Iterator[Draft]:
    """What the playbook can make of a proposer's parents; where that is all known, of the best kernels in turn."""
    sources = [request.candidate.source] if request.candidate else []
    if search.second is not None:
        yield from crossings(problem, sources[0], search.second.source)
        sources.append(search.second.source)
    if not sources:
        yield from translations(problem, request.max_sweep)
    for source in dict.fromkeys([*sources, *(shown.source for shown in search.best)]):
        yield from mutations(problem, source, request.max_sweep)


def undecided_once(request: Request) -> frozenset[str]:
    """The moves from the kernel at hand that one test left undecided: worth a second, when nothing else is left."""
    tried = tried_from(request.history, request.candidate.digest) if request.candidate else ()
    moves = [attempt.move for attempt in tried]
    return frozenset(attempt.move for attempt in tried if attempt.undecided and moves.count(attempt.move) == 1)


def _written(refusal: str, outcome: Draft | Decline) -> str:
    if isinstance(outcome, Decline):
        return _declined(refusal, outcome)
    return f"MOVE: {_one_line(outcome.move)} - {_one_line(outcome.why)}\n\n```cpp\n{outcome.source.rstrip()}\n```\n"


def _declined(word: str, decline: Decline) -> str:
    return f"{word}: {_one_line(decline.reason)}\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _diagnose(request: Request) -> Diagnosis:
    verdict, candidate = request.verdict, request.candidate
    plan = Plan.read(candidate.source) if candidate else None
    moves = moves_to(request.history, candidate.digest) if candidate else ()
    check = verdict.check if verdict and verdict.check else "no check by name"
    return Diagnosis(
        intent=f"{request.task.name} as one kernel"
        + (f", by the playbook's recipe {plan.recipe}." if plan else ", not written by the playbook."),
        cause=f"The check that failed is {check}."
        + (f' The kernel passed before the move "{moves[-1]}".' if moves else " No move precedes it."),
        evidence=(verdict.message if verdict else "") or "The verdict carries no message.",
        fix=_fix(plan, moves),
        proof=f"The kernel passes {check} and every check after it.",
    )


def _fix(plan: Plan | None, moves: Sequence[str]) -> str:
    if moves:
        return f'Take back the move "{moves[-1]}".'
    if plan is not None and plan.more_exact is not None:
        return "Three TF32 products instead of one: here PyTorch does not round to TF32."
    return "None that a rule can give; set a language model."


def _repair(request: Request) -> str:
    problem, candidate = problem_of(request), request.candidate
    if isinstance(problem, Decline):
        return _declined("CANNOT", problem)
    if candidate is None:
        return _declined("CANNOT", Decline("There is no kernel to repair."))
    origin = origin_of(problem, candidate.source, request.history, candidate.digest, max_sweep=request.max_sweep)
    after = origin.source if origin else more_exact(problem, candidate.source)
    if after is None:
        return _declined("CANNOT", Decline("The playbook can only take back a move, and no move of its own led here."))
    return json.dumps({"edits": line_edits(candidate.source, after)}, indent=1)


# -- How the playbook finds its own way back: the kernel that a failing one was made from -----------------------------

# A request carries the kernel at hand only. The playbook is deterministic, so the history's moves lead again from the
# first kernel, or from what a repair made of it, to any later one.


WRITERS = frozenset(("optimizer", "sweeper"))
"""The agents whose steps say which kernel a move made."""


@dataclass(frozen=True)
class Origin:
    """The move that made a kernel, and the kernel it was made from."""

    move: str
    source: str


def moves_to(history: Sequence[Step], digest: str) -> tuple[str, ...]:
    """The optimizer's moves from the first kernel to the kernel with this digest, oldest first."""
    return tuple(step.move for step in _steps_to(history, digest))


def origin_of(
    problem: Problem, source: str, history: Sequence[Step], digest: str, *, max_sweep: int = 12
) -> Origin | None:
    """Where the kernel `source` comes from; None where the history does not lead to it from the first kernel."""
    steps = _steps_to(history, digest)
    first = first_draft(problem)
    if not steps or isinstance(first, Decline):
        return None
    for begun in filter(None, (first.source, more_exact(problem, first.source))):
        parent, kernel = _replayed(problem, begun, steps, max_sweep)
        if kernel.strip() == source.strip():
            return Origin(steps[-1].move, parent.rstrip() + "\n")
    return None


def _replayed(problem: Problem, kernel: str, steps: Sequence[Step], max_sweep: int) -> tuple[str, str]:
    """The kernel before the last of the steps, and after it; empty where the playbook has no such move."""
    parent = ""
    for step in steps:
        parent, kernel = kernel, _apply(problem, kernel, step, max_sweep) or ""
    return parent, kernel


def _steps_to(history: Sequence[Step], digest: str) -> tuple[Step, ...]:
    """The steps that made the kernels on the way from the first one to that with this digest, oldest first."""
    # A sweep may be written from the values at hand: that step made nothing, the sweeper's does.
    made = {
        step.candidate: step
        for step in history
        if step.agent in WRITERS and step.candidate and step.move and step.candidate != step.parent
    }
    return path_to(made, digest)


def _apply(problem: Problem, source: str, step: Step, max_sweep: int) -> str | None:
    """The kernel after the step's move, which must be among those that the playbook has for `source`."""
    passed_over: list[str] = []
    while True:
        draft = next_draft(problem, source, tuple(passed_over), max_sweep=max_sweep)
        if isinstance(draft, Decline) or draft.move in passed_over:
            return None
        if draft.move == step.move:
            return _settled(draft.source, step.variants)
        passed_over.append(draft.move)


def _settled(source: str, variants: Sequence[Variant]) -> str:
    """A sweep's kernel with the values that were chosen; where none was, with those that went on to the test."""
    written, sweep = read_sweep(source, sys.maxsize)
    if sweep is None or not variants:
        return written
    return sweep.source(written, next((each for each in variants if each.chosen), variants[0]).values)


def line_edits(before: str, after: str) -> list[dict[str, str | int]]:
    """The edits that turn `before` into `after`, each with the text that it expects; lines count from 1.

    An insertion goes below its line; line 0 is above the first.
    """
    old, new = _lines(before), _lines(after)
    edits: list[dict[str, str | int]] = []
    for tag, start, end, new_start, new_end in difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        text = _text(new[new_start:new_end])
        span: dict[str, str | int] = {"line": start + 1, "end_line": end, "expected": _text(old[start:end])}
        if tag == "replace":
            edits.append({"kind": tag, **span, "text": text})
        elif tag == "delete":
            edits.append({"kind": tag, **span})
        elif tag == "insert":
            edits.append({"kind": tag, "line": start, "expected": old[start - 1] if start else "", "text": text})
    return edits


def _lines(text: str) -> list[str]:
    """Lines as a compiler counts them: only a newline ends one."""
    return text.removesuffix("\n").split("\n")


def _text(lines: Sequence[str]) -> str:
    """Every line ends in a newline, so that an empty last line is not lost."""
    return "".join(f"{line}\n" for line in lines)
