"""The tool by which agents read up in the guides."""

from __future__ import annotations

from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, ConfigDict, Field

from knowledge import library

MAX_SECTIONS = 2


class Query(BaseModel):
    """What to look for."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(description="A few words: a CuTe function, a compiler's message, a metric, a symptom.")


def look_up(query: str) -> str:
    """The guides' sections that fit best, or that there is none."""
    found = library.look_up(query, MAX_SECTIONS)
    return "\n".join(section.text for section in found) or "The guides say nothing about that."


LOOK_UP: BaseTool = StructuredTool.from_function(
    func=look_up,
    name="look_up",
    description="Sections of the guides on CuTe, debugging, optimization and profiler metrics.",
    args_schema=Query,
)
