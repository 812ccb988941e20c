"""What an answer cost, read off the message."""

from __future__ import annotations

from langchain_core.messages import AIMessage

from nodes.state import Usage


def usage_of(message: AIMessage, seconds: float = 0.0) -> Usage:
    """One call's usage: tokens as the endpoint counted them, dollars where it names a price, 0 where it does not.

    OpenRouter and servers like it report dollars as `cost` beside the token counts. `seconds` is the caller's clock.
    """
    tokens = message.usage_metadata
    reported = message.response_metadata.get("token_usage") or {}
    return Usage(
        calls=1,
        input_tokens=tokens["input_tokens"] if tokens else 0,
        output_tokens=tokens["output_tokens"] if tokens else 0,
        dollars=float(reported.get("cost") or 0.0),
        seconds=seconds,
    )
