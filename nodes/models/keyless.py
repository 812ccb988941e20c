"""The key, which some endpoints repeat, out of an answer's pieces before anybody sees them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from nodes.models.address import NO_KEY
from nodes.models.endpoint_errors import without
from nodes.models.streaming import CallPart, Piece


class _Text:
    """A text in parts, of which each is given on without the key. What may be a key's beginning waits for the rest."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._kept = ""

    def take(self, part: str) -> str:
        text = without(self._key, self._kept + part)
        end = self._begins(text)
        self._kept = text[end:]
        return text[:end]

    def rest(self) -> str:
        return self._kept

    def _begins(self, text: str) -> int:
        """Where an unfinished key at the end of the text begins; the text's end where none does."""
        at = text.find(self._key[0], max(0, len(text) - len(self._key) + 1))
        while at >= 0 and not self._key.startswith(text[at:]):
            at = text.find(self._key[0], at + 1)
        return at if at >= 0 else len(text)


def keyless(pieces: Iterable[Piece], key: str) -> Iterator[Piece]:
    """The pieces without the key, also where it is cut between them. Names and ids are cleaned whole, later."""
    if key == NO_KEY:
        yield from pieces
        return
    text, refusal = _Text(key), _Text(key)
    arguments: dict[int, _Text] = {}
    for piece in pieces:
        yield replace(
            piece,
            text=text.take(piece.text),
            refusal=refusal.take(piece.refusal),
            calls=tuple(_call(call, arguments, key) for call in piece.calls),
        )
    rests = (CallPart(index=index, args=held.rest()) for index, held in arguments.items())
    last = Piece(text=text.rest(), refusal=refusal.rest(), calls=tuple(part for part in rests if part.args))
    if last != Piece():
        yield last


def _call(call: CallPart, arguments: dict[int, _Text], key: str) -> CallPart:
    held = _Text(key) if call.index is None else arguments.setdefault(call.index, _Text(key))
    told = held.take(call.args)
    return replace(
        call,
        id=without(key, call.id),
        name=without(key, call.name),
        args=told + (held.rest() if call.index is None else ""),
    )
