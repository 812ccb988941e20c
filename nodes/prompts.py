"""From a request to the messages that a model gets: rules first, then the question, rendered strictly."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from knowledge import library
from knowledge.exemplars.source import representative
from nodes.diagnosis import Diagnosis
from nodes.request import Request
from nodes.story import tried_from
from tools.patch import Patch, numbered
from tools.wording import say_profile, say_verdict

MAX_TRIED = 12


def messages_for(request: Request) -> tuple[BaseMessage, ...]:
    """The role's rules as the system's message, and the question with the request attached as the human's.

    The rules, with the guides, depend on role, target, precision and op class alone, and the question begins with the
    task: what changes from call to call comes last, so that a server's prompt cache can keep what stands before it.
    """
    template = _templates().get_template(f"{request.role}.md.j2")
    facts = _facts(request)
    rules, question = ("".join(template.blocks[block](template.new_context(facts))) for block in ("rules", "question"))
    return (
        SystemMessage(rules.strip() + "\n"),
        HumanMessage(question.strip() + "\n", additional_kwargs={"request": request.model_dump(mode="json")}),
    )


def _facts(request: Request) -> dict[str, Any]:
    """Everything a template may name."""
    candidate, verdict = request.candidate, request.verdict
    report = say_verdict(verdict) if verdict else ""
    return {
        "task": request.task,
        "target": request.target,
        "precision": request.precision,
        "device": request.device,
        "stub": request.stub,
        "source": candidate.source if candidate else "",
        "numbered": numbered(candidate.source) if candidate else "",
        "report": report,
        "remarks": verdict.build.remarks if verdict and verdict.build else (),
        "diagnosis": request.diagnosis,
        "likely": library.likely_causes(report),
        "how_to_write": library.writing(request.target),
        "how_to_debug": library.debugging(),
        "exemplar": _exemplar(request),
        "moves": library.moves(request.task.op_class, request.target),
        "metrics": library.metrics(request.target),
        "profile": say_profile(request.profile) if request.profile else "",
        "max_sweep": request.max_sweep,
        "tried": tried_from(request.history, candidate.digest)[-MAX_TRIED:] if candidate else (),
        "diagnosis_schema": json.dumps(Diagnosis.model_json_schema(), indent=1),
        "patch_schema": json.dumps(Patch.model_json_schema(), indent=1),
    }


def _exemplar(request: Request) -> str:
    """A finished kernel for a GPU: a plain one for who begins, the best one for who optimizes."""
    if request.target == "cpu":
        return ""
    plain = request.role == "generator"
    shown = representative(request.task.op_class, request.device.architecture or "sm_80", plain=plain)
    return shown.text if shown else ""


@cache
def _templates() -> Environment:
    return Environment(
        loader=FileSystemLoader(str(files("knowledge") / "prompts")),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
