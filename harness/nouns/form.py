"""How a forward's inputs or results are put together: tuples, lists, dicts and objects around tensors.

A kernel's entry is flat. A form says where each of its arguments lies in what the caller passes, and in what he gets.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from harness.nouns.frozen import Frozen, plain_name

Path = tuple[str, ...]
"""From the outside in: indices and keys, as text."""


def _plain(value: bool | int | float | str | None) -> bool | int | float | str | None:
    return plain_name(value) if isinstance(value, str) else value


Plain = Annotated[bool | int | float | str | None, AfterValidator(_plain)]


class Form(Frozen):
    """One value. `value` is an argument of the entry, `constant` is always the same, the others hold `parts`.

    `keys` are a dict's keys, or the keywords that an object is made with. `type` names a class that Python has not
    built in, as "module:qualified name"; one of the task file's own has no module there. Such a tuple is made of its
    parts, such a dict of a dict.
    """

    kind: Literal["value", "constant", "tuple", "list", "dict", "object"]
    parts: tuple[Form, ...] = ()
    keys: tuple[str | int, ...] = ()
    constant: Plain = None
    type: str = Field("", pattern=r"^(?:[A-Za-z_][\w.]*)?(?::[A-Za-z_][\w.]*)?$", max_length=300)

    @model_validator(mode="after")
    def _keys_fit(self) -> Self:
        for key in self.keys:
            plain_name(str(key))
        if len(self.keys) != (len(self.parts) if self.kind in ("dict", "object") else 0):
            raise ValueError("dicts and objects have a key for each part, others none")
        if self.kind == "object" and not all(isinstance(key, str) and key.isidentifier() for key in self.keys):
            raise ValueError("an object's keywords are identifiers")
        return self

    @property
    def paths(self) -> tuple[Path, ...]:
        """Where each value lies, in the order of the entry's arguments."""
        if self.kind == "value":
            return ((),)
        labels = map(str, self.keys or range(len(self.parts)))
        return tuple((label, *path) for label, part in zip(labels, self.parts, strict=True) for path in part.paths)

    @property
    def flat(self) -> bool:
        """Whether it is a tuple of values, and nothing else."""
        return self.kind == "tuple" and not self.type and all(part.kind == "value" for part in self.parts)
