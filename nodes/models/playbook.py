"""The embedded default: a rule-based author that needs no key and no network, and says what it cannot write."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice

from langchain_core.messages import AIMessage, BaseMessage

from harness.nouns.candidate import Candidate
from harness.nouns.task import Program, Workload
from knowledge.compiler.plan import Decline, Draft, Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.search import crossings, first_draft, more_exact, mutations, next_draft, translations
from nodes.diagnosis import Diagnosis
from nodes.history import tried_from
from nodes.models.local import LocalModel, request_of
from nodes.models.retrace import WRITERS, line_edits, moves_to, origin_of
from nodes.turn.request import Request, Search


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
    first, *others = (_posed(request, *each) for each in zip(task.workloads, programs, strict=True))
    return first.model_copy(update={"others": tuple(others)})


def _posed(request: Request, workload: Workload, program: Program) -> Problem:
    signature = workload.signature
    return Problem.model_validate(
        {
            "target": request.target,
            "inputs": signature.inputs,
            "parameters": signature.parameters,
            "outputs": signature.outputs,
            "ops": program.ops,
            "returns": program.outputs,
            "device": request.device,
            "precision": request.precision,
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
