"""What a run's folder holds beside its record and tells its reader more: what was said, and torch.compile's time."""

from __future__ import annotations

from pydantic import ValidationError

from graph.runs.folder import RunFolder
from graph.runs.record import RunRecord
from harness.nouns.frozen import Frozen
from harness.nouns.reading import read_bounded
from harness.nouns.verdict import Timing, Verdict
from nodes.models.conversation import Exchange
from nodes.state import Best

MOST_BYTES = 64 << 20


class Beside(Frozen):
    """`exchanges` with the models in the order of their numbers; `compiled` is the best kernel's later timing."""

    exchanges: tuple[Exchange, ...] = ()
    compiled: Timing | None = None


def found_beside(folder: RunFolder, record: RunRecord) -> Beside:
    """What lies there. What is missing, too large, or cannot be read is left out: the record stands by itself."""
    return Beside(exchanges=_exchanges(folder), compiled=compared(folder, record.best))


def compared(folder: RunFolder, best: Best | None) -> Timing | None:
    """The best kernel's timing beside torch.compile; None where there is none (yet), or it is an earlier kernel's."""
    try:
        verdict = Verdict.model_validate_json(read_bounded(folder.compiled))
    except (OSError, ValidationError):
        return None
    return verdict.timing if best and verdict.candidate == best.candidate.digest else None


def _exchanges(folder: RunFolder) -> tuple[Exchange, ...]:
    """One for each number: a run that was killed in an exchange has written it twice."""
    try:
        lines = read_bounded(folder.conversation, MOST_BYTES).splitlines()
    except OSError:
        return ()
    found: dict[int, Exchange] = {}
    for line in lines:
        try:
            exchange = Exchange.model_validate_json(line)
        except ValidationError:  # the half line that a kill left
            continue
        found[exchange.index] = exchange
    return tuple(found[index] for index in sorted(found))
