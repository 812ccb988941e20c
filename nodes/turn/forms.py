"""The schemas of answers that are one JSON object, for endpoints that hold an answer to one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.nouns.frozen import Frozen
from nodes.assessment import Assessment, Critique, Diagnosis, Recommendations
from nodes.roles import Voice

FORMS: Mapping[Voice, type[Frozen]] = {
    "diagnoser": Diagnosis, "verifier": Assessment, "summarizer": Recommendations, "reviewer": Critique,
}  # fmt: skip
"""Of those whose every answer is one JSON object."""
_KEPT = ("type", "description", "items", "properties", "required")


def response_format(role: Voice) -> dict[str, Any] | None:
    """The `response_format` of a role's request; None for one that may answer otherwise.

    Strict schemas know no lengths and no bounds: these are checked when the answer is read.
    """
    form = FORMS.get(role)
    if form is None:
        return None
    return {"type": "json_schema", "json_schema": {"name": role, "strict": True, "schema": _strict(form)}}


def _strict(form: type[Frozen]) -> dict[str, Any]:
    schema = form.model_json_schema()
    return _plain({**schema, "description": "", "required": [*schema["properties"]]}) | {"additionalProperties": False}


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    if "prefixItems" in schema:
        schema = {**schema, "items": schema["prefixItems"][0]}
    kept = {name: schema[name] for name in _KEPT if schema.get(name)}
    if "items" in kept:
        kept["items"] = _plain(kept["items"])
    if "properties" in kept:
        kept["properties"] = {name: _plain(each) for name, each in kept["properties"].items()}
    return kept
