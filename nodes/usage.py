"""What an answer cost, read off the message."""

from __future__ import annotations

from typing import Self

from langchain_core.messages import AIMessage, BaseMessage

from harness.nouns.frozen import Frozen
from nodes.state import FellBack, Usage

_PLACE = "cutegen"


class Bill(Frozen):
    """What an endpoint's answer carries beside its text. `dollars` is absent where nobody knows the price.

    `finish` is why the answer ended, in the protocol's words ("stop", "length", "content_filter"), `refusal` what the
    model said in the place that the protocol has for refusals. `lost` is what the attempts before it cost that were
    billed and then broke: they are no calls, for nobody was answered.
    """

    dollars: float | None
    fell_back: FellBack | None = None
    finish: str = ""
    refusal: str = ""
    lost: Usage = Usage()

    @classmethod
    def of(cls, message: BaseMessage) -> Self:
        """What the message carries. An answer that was given inside this process cost nothing."""
        told = message.response_metadata.get(_PLACE)
        return cls.model_validate(told) if told is not None else cls(dollars=0.0)

    def attach(self, message: BaseMessage) -> None:
        """Put it where `of` finds it."""
        message.response_metadata[_PLACE] = self.model_dump(mode="json")


def usage_of(message: AIMessage, seconds: float = 0.0) -> Usage:
    """One call's usage: tokens as the endpoint counted them, dollars as its model found them out.

    `seconds` is the caller's clock.
    """
    tokens = message.usage_metadata
    bill = Bill.of(message)
    cached = (tokens.get("input_token_details") or {}).get("cache_read") if tokens else None
    return bill.lost + Usage(
        calls=1,
        input_tokens=max(0, tokens["input_tokens"]) if tokens else 0,
        cached_tokens=max(0, cached or 0),
        output_tokens=max(0, tokens["output_tokens"]) if tokens else 0,
        dollars=bill.dollars or 0.0,
        unpriced_calls=int(bill.dollars is None),
        seconds=seconds,
        fell_back=(bill.fell_back,) if bill.fell_back else (),
    )
