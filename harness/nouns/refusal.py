"""Why a kernel was refused before it ran."""

from __future__ import annotations

from harness.nouns.frozen import Frozen, SanitizedText


class Refusal(Frozen):
    """`kind` names the rule, `message` says in one or two sentences what was found and what to do instead.

    `line` counts from 1 in the kernel's source; what only the library shows has none.
    """

    kind: str
    message: SanitizedText
    line: int | None = None

    @property
    def check(self) -> str:
        """The name of the failed check in a verdict."""
        return f"screen:{self.kind}"

    def __str__(self) -> str:
        return self.message if self.line is None else f"kernel:{self.line}: {self.message}"
