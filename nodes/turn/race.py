"""Models that race on one move, the cheapest first: a dearer one is asked only where the cheaper ones won nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from harness.judging.device_lock import held_s
from harness.nouns.candidate import Candidate
from harness.nouns.errors import UserError
from harness.nouns.verdict import HeadToHead
from nodes.address import find, price_of
from nodes.settings import Settings
from nodes.state import RunState, Usage
from nodes.turn.answers import Declined, Written
from nodes.turn.node import NodeContext
from nodes.turn.speak import Spoken, TurnEndedError
from tools.kernel_tools import call_tool

Said = Spoken[Written | Declined]
TOKENS_IN, TOKENS_OUT = 6000, 1500
"""Of a move, about: by these models are put in order."""


@dataclass(frozen=True)
class Won:
    """The answer that is the move, the `model` that gave it ("" where there was no race), and what all of it cost."""

    said: Said
    usage: Usage
    model: str = ""
    device_seconds: float = 0.0


def raced(ask: Callable[[str, int], Said], present: Candidate, state: RunState, node_context: NodeContext) -> Won:
    """The first answer whose kernel surely beats the present one; of others the one with the best ratio.

    A sweep is settled by the sweeper: it ends the race. Raises `TurnEndedError` where no model has answered by then.
    """
    models, before = cheapest_first(node_context.settings) or ("",), held_s()
    usage, left = Usage(), list[tuple[float, Said, str]]()
    for model in models:
        try:
            said = ask(model, state.usage.calls + usage.calls)
        except TurnEndedError as error:
            if not left:
                raise TurnEndedError(error.stop, usage + error.usage) from error
            usage += error.usage
            break
        usage += said.usage
        if len(models) == 1 or (isinstance(said.answer, Written) and said.answer.sweep):
            return Won(said, usage, model, held_s() - before)
        met = _met(said.answer, present, state, node_context)
        usage += Usage(builds=int(isinstance(said.answer, Written)))
        if met is not None and met.outcome == "faster":
            return Won(said, usage, model, held_s() - before)
        # What declines comes after what failed, for the others may still be mended; what nobody timed is in between.
        rank = met.speedup if met else -math.inf if isinstance(said.answer, Declined) else 0.0
        left.append((rank, said, model))
    _, said, model = max(left, key=lambda each: each[0])
    return Won(said, usage, model, held_s() - before)


def cheapest_first(settings: Settings) -> tuple[str, ...]:
    """The models of the ensemble by what a move costs; what has no price comes last."""
    return tuple(sorted(settings.optimizer_ensemble, key=lambda spec: _dollars(spec, settings)))


def _dollars(spec: str, settings: Settings) -> float:
    kind, _, name = spec.partition(":")
    if kind != "openai":
        return 0.0
    try:
        address = find(name, settings.base_url or None)
    except UserError:
        return math.inf
    price = price_of(address.model, address.host, tuple(settings.prices.items()))
    return price.dollars(input_tokens=TOKENS_IN, cached_tokens=0, output_tokens=TOKENS_OUT) if price else math.inf


def _met(
    answer: Written | Declined, present: Candidate, state: RunState, node_context: NodeContext
) -> HeadToHead | None:
    """How the answer's kernel did against the present one after a brief check; None where it is wrong, or none."""
    if isinstance(answer, Declined):
        return None
    tools = node_context.tools(state, quick=True, incumbent=present, present=present)
    verdict = call_tool(tools.time_kernel, answer.source)
    return verdict.timing.head_to_head if verdict.timing else None
