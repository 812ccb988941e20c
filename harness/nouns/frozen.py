"""The base of every noun: immutable, closed, compared by value; and text of others that a terminal may be shown."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Frozen(BaseModel):
    """An immutable value object. Unknown fields are errors; infinities and NaN survive JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


def printable(text: str) -> str:
    """The text with every character written out that steers a terminal or turns a line's direction: ESC is \\x1b."""
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


SanitizedText = Annotated[str, AfterValidator(printable)]
"""What a kernel, a compiler, a task file or a model said: all of them choose its characters."""


def _one_line(text: str) -> str:
    return " ".join(printable(text).split())


Label = Annotated[str, AfterValidator(_one_line)]
"""A name that somebody else chose, on one line: a second one would be read as a heading or as another's words."""


def plain_name(name: str) -> str:
    """The name, which prompts and pages can hold as it is. Raises `ValueError` for any other."""
    if len(name) > LONGEST_NAME or not name.isprintable() or printable(name) != name or "`" in name:
        raise ValueError(f"a name is one line of at most {LONGEST_NAME} printable characters, without backticks")
    return name


LONGEST_NAME = 200
PlainName = Annotated[str, AfterValidator(plain_name)]
"""A name that programs look things up by, and that stands in prompts: it is refused, not changed."""
