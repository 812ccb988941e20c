"""From a request to the messages that a model gets, rendered strictly: the steadier a part, the earlier it stands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel

from harness.nouns.devices import on_gpu
from harness.profile.render import render
from knowledge import library
from knowledge.compiler.kernels.source import Exemplar
from knowledge.compiler.search.exemplars import representative
from knowledge.topics import topics_of
from nodes.assessment import Assessment, Diagnosis
from nodes.history import failed_elsewhere, led_to, optimizations, over_the_first, said_by_user, say_in_vain, tried_from
from nodes.models.prompt_cache import STEADY
from nodes.prompt_words import fenced, one_line, say_left, say_machine, say_operations, say_uncounted
from nodes.request import Request, Review, Search
from nodes.turn.judged import (
    say_arguments,
    say_callers,
    say_exactness,
    say_inputs,
    say_share,
    say_spreading,
    say_tf32,
)  # fmt: skip
from tools.patch import numbered
from tools.wording import say_progress, say_verdict

MAX_TRIED = 12
MAX_EARLIER_LINES = 200
_THE_GUIDES = '// inline Vec exponential(Vec x): that of "Functions in vectors", with Bits and Ints for its integers.'
MAX_KERNELS_CHARS = 24_000
"""Of a kernel and an exemplar beside it."""


@dataclass(frozen=True)
class Parts:
    """A prompt in the order in which it is sent, the steadiest part first.

    `rules` say what a kernel is: the same for every role and question of a target. `task` is the task and the machine,
    the same for every role and question of a run. `guide` tells how a kernel is written, to all but the repairer, who
    is told what to write. `role` says what the role does; `question` is what changes from call to call.
    """

    rules: str
    task: str
    guide: str
    role: str
    question: str

    @property
    def shared(self) -> str:
        """What all roles of a run have in common, as far as each is sent it."""
        return self.rules + self.task + self.guide

    @property
    def text(self) -> str:
        """All of it."""
        return self.shared + self.role + self.question


def messages_for(request: Request) -> tuple[BaseMessage, ...]:
    """The rules as the system's message, all else as the human's, with the request attached.

    A server's prompt cache keeps what stands before the first difference to an earlier prompt: so all roles share their
    beginning, to the byte, and what changes from call to call comes last.
    """
    parts = parts_of(request)
    return (
        SystemMessage(parts.rules),
        HumanMessage(
            (parts.task + parts.guide + parts.role + parts.question).strip() + "\n",
            additional_kwargs={"request": request, STEADY: (len(parts.task), len(parts.task + parts.guide))},
        ),
    )


def parts_of(request: Request) -> Parts:
    """The rendered prompt. Raises jinja2's `UndefinedError` where a template names what nobody gives."""
    facts = _facts(request)
    template = _templates().get_template(f"{request.role}.md.j2")
    context = template.new_context(facts)
    rules, task = (_templates().get_template(f"_{name}.md.j2").render(facts).strip() for name in ("rules", "task"))
    role, question = ("".join(template.blocks[name](context)).strip() for name in ("role", "question"))
    guide = "" if request.role == "repairer" else facts["how_to_write"].strip()
    told = (f"\n{part}\n" if part else "" for part in (guide, role, question))
    return Parts(f"{rules}\n", f"{task}\n", *told)


def _facts(request: Request) -> dict[str, Any]:
    """Everything a template may name."""
    return {
        "task": request.task,
        "works": request.task.workloads,
        "operations": say_operations(request.task.program),
        "uncounted": say_uncounted(request.task.program),
        "machine": say_machine(request.device, request.task, request.precision),
        "compiled_with": request.compiled_with,
        "inputs": say_inputs(request.task),
        "arguments": say_arguments(request.task),
        "callers": say_callers(request.target),
        "tf32": say_tf32(request.task, request.target, request.precision),
        "spreading": say_spreading(request.task),
        "exactness": say_exactness(request.task, request.tolerance),
        "left": say_left(request.left) if request.left else "",
        "target": request.target,
        "stub": request.stub,
        "max_sweep": request.max_sweep,
        "profile": render(request.profile) if request.profile else "",
        "diagnosis_text": _said_of(request.diagnosis) if request.diagnosis else "",
        "diagnosis_form": _form(Diagnosis),
        "compared": request.compared,
        "critique": request.critique,
        "lessons": request.lessons,
        **_review(request.review),
        **_kernel(request),
        **_knowledge(request),
        **_search(request.search or Search(operator="translation")),
    }


def _search(search: Search) -> dict[str, Any]:
    """What an evolution tells its proposers."""
    return {
        "operator": search.operator,
        "second": numbered(search.second.source) if search.second else "",
        "best_kernels": search.best,
        "errors": search.errors,
        "inspiration": search.inspiration,
        "recommendations": search.recommendations,
    }


def _review(review: Review | None) -> dict[str, Any]:
    """What a verifier looks for, and what it said before."""
    return {
        "aspect": review.aspect if review else "",
        "before": review.before.model_dump_json(indent=1) if review and review.before else "",
        "assessment_form": _form(Assessment),
    }


def _kernel(request: Request) -> dict[str, Any]:
    """The kernel at hand, what was said of it, and what was tried."""
    candidate, verdict = request.candidate, request.verdict
    report = _report(request)
    digest = candidate.digest if candidate else ""
    unbuilt = verdict is not None and verdict.status == "build_failed"
    share = say_share(request.task, request.device, verdict) if verdict else ""
    tried = tried_from(request.history, digest)[-MAX_TRIED:] if candidate else ()
    return {
        "source": candidate.source if candidate else "",
        "beginning": _beginning(candidate.source) if candidate else "",
        "numbered": numbered(candidate.source) if candidate else "",
        "report": report,
        "share": share,
        "unbuilt": unbuilt,
        "undiagnosed": request.role == "repairer" and unbuilt and request.diagnosis is None,
        "likely": library.likely_causes(report),
        "remarks": verdict.build.remarks if verdict and verdict.build else (),
        "led_here": led_to(request.history, digest)[-MAX_TRIED:],
        "tried": tried,
        "in_vain": say_in_vain(tried),
        "turned_down": verdict is not None and verdict.passed,
        "said_by_user": said_by_user(request.history)[-MAX_TRIED:],
        "failed": failed_elsewhere(request.history, digest)[-MAX_TRIED:],
    }


def _report(request: Request) -> str:
    """What the judge said last; of a kernel that moves have led to, its gain over where the run began."""
    verdict = request.verdict
    if verdict is None:
        return ""
    gain = over_the_first(request.history, request.candidate.digest) if request.candidate else None
    if verdict.timing is None or gain is None:
        return say_verdict(verdict, request.target)
    return say_progress(verdict.timing, *gain)


def _beginning(source: str) -> str:
    """Enough of a kernel to see its structure."""
    lines = source.splitlines()
    left_out = len(lines) - MAX_EARLIER_LINES
    return "\n".join([*lines[:MAX_EARLIER_LINES], *([f"// ({left_out} more lines)"] if left_out > 0 else [])])


def _knowledge(request: Request) -> dict[str, Any]:
    """The guides that the role reads, and a finished kernel for those who write whole ones."""
    return {
        "how_to_write": library.writing(request.target, topics_of(request.task)),
        "how_to_begin": library.beginning(request.target) if _begins(request) else "",
        "how_to_debug": _page(request) if request.role == "diagnoser" else "",
        "moves": library.moves(request.task.op_class, request.target, topics_of(request.task)),
        "metrics": library.metrics(request.target),
        "exemplar": _exemplar(request),
    }


def _page(request: Request) -> str:
    """What the guides say of the kind of failure at hand."""
    verdict = request.verdict
    if verdict is None or verdict.status == "passed":
        return library.debugging(request.target, "wrong")
    named: dict[str, library.Failure] = {"sanitizer": "sanitizer", "memory": "memory"}
    trials = verdict.correctness.trials if verdict.correctness else ()
    moving = any(trial.repeatable is False for trial in trials)
    return library.debugging(request.target, named.get(verdict.check, verdict.status), moving=moving)


def _exemplar(request: Request) -> str:
    """A finished kernel: a plain one for who begins, the best one for the first move on a kernel that does not descend
    from it. What the guide shows already it leaves to the guide."""
    if request.role not in ("generator", "optimizer", "proposer"):
        return ""
    shown = _chosen(request, plain=_begins(request))
    if shown is None or (request.role == "optimizer" and _known(request, shown)):
        return ""
    if on_gpu(request.target) or "functions" not in topics_of(request.task) or "exponential" not in shown.sections:
        return shown.shown
    return replace(shown, text=shown.with_sections(exponential=_THE_GUIDES)).shown


def _known(request: Request, shown: Exemplar) -> bool:
    """Whether an author of this run has seen the exemplar, or the two are too long for one prompt."""
    source = request.candidate.source if request.candidate else ""
    seen = shown == _chosen(request, plain=True) or optimizations(request.history)
    return bool(seen) or len(source) + len(shown.shown) > MAX_KERNELS_CHARS


def _begins(request: Request) -> bool:
    """Whether a kernel is asked for that starts from none."""
    return request.role == "generator" or (request.role == "proposer" and request.candidate is None)


def _chosen(request: Request, *, plain: bool) -> Exemplar | None:
    match request.exemplar:
        case "none":
            return None
        case "representative":
            topics = topics_of(request.task)
            if "windows" in topics:
                return None  # none of a class is near; the guide has its loops
            if on_gpu(request.target) and "attention" in topics:
                return representative("gemm", request.architecture, plain=True)  # two products in a block
            return representative(request.task.op_class, request.architecture, plain=plain)
        case "retrieved":
            return library.retrieved(request.task.op_class, request.architecture, _words(request))


def _words(request: Request) -> str:
    """What the task is about: its name, its source, and its operations."""
    operations = request.task.program.ops if request.task.program else ()
    return " ".join([request.task.name, request.task.source, *(op.target for op in operations)])


def _said_of(diagnosis: Diagnosis) -> str:
    return "\n".join(f"{name}: {said}" for name, said in diagnosis.model_dump().items())


def _form(kind: type[BaseModel]) -> str:
    """The fields of an answer, each with what belongs there."""
    lines = (f' "{name}": "<{field.description}>"' for name, field in kind.model_fields.items())
    return "{\n" + ",\n".join(lines) + "\n}"


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(str(files("knowledge") / "prompts")),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["fenced"] = fenced
    environment.filters["one_line"] = one_line
    return environment
