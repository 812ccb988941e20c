"""The tool by which agents read up in the guides for their target."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import get_args

from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, ConfigDict, Field

from harness.nouns.candidate import TargetName
from knowledge import library

MAX_SECTIONS = 2


class Query(BaseModel):
    """What to look for."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(description="A few words: a CuTe function, a compiler's message, a metric, a symptom.")


def look_up(query: str, target: TargetName) -> str:
    """The guides' sections that fit best, and which words of the query none holds; or that there is none."""
    found = library.look_up(query, target, MAX_SECTIONS)
    if not found:
        return "The guides say nothing about that."
    unknown = library.unknown_words(query, target)
    missing = [f"The guides say nothing about: {', '.join(unknown)}."] if unknown else []
    return "\n".join([*(section.text for section in found), *missing])


def _tool(target: TargetName) -> BaseTool:
    return StructuredTool.from_function(
        func=partial(look_up, target=target),
        name="look_up",
        description="Sections of the guides on CuTe, debugging, optimization and profiler metrics.",
        args_schema=Query,
    )


LOOK_UP: Mapping[TargetName, BaseTool] = MappingProxyType({target: _tool(target) for target in get_args(TargetName)})
"""For each target its own: who writes for a processor is not told of a GPU's instructions."""
