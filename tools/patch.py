"""Line edits to a kernel: each names the text that it expects to find, and all of them land or none does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from harness.nouns.frozen import Frozen

CONTEXT_LINES = 3


class PatchError(ValueError):
    """A patch that cannot be applied; the message shows a model what stands there and how to mend its edit."""


class _Span(Frozen):
    """Lines `line` to `end_line`, both included; one line where `end_line` is absent."""

    line: int = Field(ge=1, description="First line, counted from 1.")
    end_line: int | None = Field(default=None, ge=1, description="Last line, included; leave out for a single line.")
    expected: str = Field(description="The present text of these lines, whole, without line numbers.")

    @property
    def last(self) -> int:
        """The last line touched."""
        return self.end_line or self.line

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.last < self.line:
            raise ValueError(f"end_line {self.last} lies before line {self.line}")
        return self


class Replace(_Span):
    """Put `text` in the place of the lines."""

    kind: Literal["replace"]
    text: str = Field(description="What stands there afterwards, without line numbers.")


class Delete(_Span):
    """Take the lines out."""

    kind: Literal["delete"]


class Insert(Frozen):
    """Put `text` below line `line`, whose present text is `expected`. Line 0 means above the first line."""

    kind: Literal["insert"]
    line: int = Field(ge=0, description="The line to insert below, counted from 1; 0 inserts at the very top.")
    expected: str = Field(description='The present text of that line, without its number; "" for line 0.')
    text: str = Field(description="The new lines, without line numbers.")


AnyEdit = Replace | Insert | Delete


class Patch(Frozen):
    """Edits to one source; every line number is one of the source as it stands before any of them."""

    edits: tuple[Annotated[AnyEdit, Field(discriminator="kind")], ...] = Field(min_length=1)

    def apply(self, source: str) -> str:
        """The source after all edits. Raises `PatchError` where one is stale, out of range or overlaps another.

        An edit whose lines hold other text goes where its text stands, if that is in one place alone: models count
        lines worse than they copy them.
        """
        lines = _lines(source)
        # An insertion sorts before a span that starts right where it inserts: the two do not touch.
        ordered = sorted((_placed(edit, lines) for edit in self.edits), key=_cut)
        problems = [problem for edit in ordered for problem in _check(edit, lines)]
        problems += [problem for before, after in pairwise(ordered) for problem in _check_apart(before, after)]
        if problems:
            raise PatchError("\n".join(["No edit was applied.", *problems]))
        for edit in reversed(ordered):
            first, last = _cut(edit)
            lines[first:last] = [] if isinstance(edit, Delete) else _lines(edit.text) or [""]
        patched = "\n".join(lines) + ("\n" if source.endswith("\n") and lines else "")
        if patched == source:
            raise PatchError(
                "The edits leave the source exactly as it is. Change something, or say what else is wrong."
            )
        return patched


def numbered(source: str) -> str:
    """The source with its line numbers, as a prompt shows it."""
    lines = _lines(source)
    return "\n".join(_numbered(lines, range(1, len(lines) + 1)))


def unnumbered(text: str) -> str:
    """The text without the numbers of `numbered`, where every line has its own; any other text as it is."""
    lines = _lines(text)
    marks = [f"{number}|" for number in range(1, len(lines) + 1)]
    if not lines or not all(line.startswith(mark) for line, mark in zip(lines, marks, strict=True)):
        return text
    bare = [line.removeprefix(mark).removeprefix(" ") for line, mark in zip(lines, marks, strict=True)]
    return "\n".join(bare) + ("\n" if text.endswith("\n") else "")


def _lines(text: str) -> list[str]:
    """Lines as a compiler counts them: only a newline ends one."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _cut(edit: AnyEdit) -> tuple[int, int]:
    """The slice of the list of lines that the edit replaces."""
    if isinstance(edit, Insert):
        return edit.line, edit.line
    return edit.line - 1, edit.last


def _check_apart(before: AnyEdit, after: AnyEdit) -> Iterable[str]:
    if isinstance(before, Insert) and isinstance(after, Insert) and before.line == after.line:
        yield f"- Two edits insert below line {before.line}: join them into one."
    elif _cut(after)[0] < _cut(before)[1]:
        yield f"- The {_name(before)} and the {_name(after)} overlap: join them into one edit."


def _named(edit: AnyEdit) -> tuple[int, int]:
    """The slice of the list of lines that the edit names. An insertion cuts nothing out: it names the line above."""
    return max(0, edit.line - 1), _cut(edit)[1]


def _fits(edit: AnyEdit, lines: Sequence[str]) -> bool:
    first, last = _named(edit)
    present = _bare(lines[first:last])
    # A newline at the end parts the last line from an empty one, or is that of the last line: either may be meant.
    return last <= len(lines) and present in (_bare(_lines(edit.expected)), _bare(edit.expected.split("\n")))


def _placed(edit: AnyEdit, lines: Sequence[str]) -> AnyEdit:
    """The edit where its text stands: at its own lines, or at the only others that hold as many lines of it."""
    first, last = _named(edit)
    expected = _bare(_lines(edit.expected))
    starts = _starts(expected, lines)
    if _fits(edit, lines) or len(starts) != 1 or len(expected) != max(1, last - first):
        return edit
    end = starts[0] + len(expected)
    if isinstance(edit, Insert):
        return edit.model_copy(update={"line": end})
    return edit.model_copy(update={"line": starts[0] + 1, "end_line": end})


def _check(edit: AnyEdit, lines: Sequence[str]) -> Iterable[str]:
    first, last = _named(edit)
    if last > len(lines):
        yield f"- The {_name(edit)} is out of range: the source has {len(lines)} lines."
        return
    if _fits(edit, lines):
        return
    expected = _bare(_lines(edit.expected))
    around = _numbered(lines, range(max(1, first + 1 - CONTEXT_LINES), min(len(lines), last + CONTEXT_LINES) + 1))
    yield "\n".join(
        [f"- The {_name(edit)} expects other text than stands there.{_elsewhere(expected, lines)}", *around]
    )


def _name(edit: AnyEdit) -> str:
    if isinstance(edit, Insert):
        return f"insertion below line {edit.line}"
    noun = "replacement" if isinstance(edit, Replace) else "deletion"
    return f"{noun} of line {edit.line}" if edit.last == edit.line else f"{noun} of lines {edit.line}-{edit.last}"


def _elsewhere(expected: list[str], lines: Sequence[str]) -> str:
    """Where the expected text does stand, if anywhere."""
    found = _starts(expected, lines)
    if not found:
        return " The lines are now:"
    numbers = ", ".join(str(start + 1) for start in found[:5])
    return f" That text starts at line {numbers}. The lines you named are now:"


def _starts(expected: list[str], lines: Sequence[str]) -> list[int]:
    """Where the expected lines stand, counted from 0; nowhere for blank ones."""
    size, bare = len(expected), _bare(lines)
    starts = range(len(bare) - size + 1) if any(expected) else ()
    return [start for start in starts if bare[start : start + size] == expected]


def _bare(lines: Iterable[str]) -> list[str]:
    """Lines without white space at their ends, which a model seldom copies and no kernel needs."""
    return [line.rstrip() for line in lines] or [""]


def _numbered(lines: Sequence[str], numbers: Iterable[int]) -> list[str]:
    return [f"{number}| {lines[number - 1]}" for number in numbers]
