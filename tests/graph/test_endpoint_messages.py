"""What a client that streams the graph sees of an endpoint's answers, as Studio does."""

from __future__ import annotations

from typing import Any, cast

import pytest
from chat_server import chat_endpoint
from langchain_core.messages import AIMessageChunk, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from softsign_script import SOURCE

from graph.workflow import build_graph
from nodes.settings import Settings
from nodes.state import TaskInput


def test_an_answer_arrives_in_pieces_of_one_message_and_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with chat_endpoint("looks_up", answer="one\ntwo\nCANNOT: nothing to gain") as endpoint:
        endpoint.lookups = 1
        graph = build_graph().compile(checkpointer=InMemorySaver())
        told = graph.stream(
            TaskInput(source=SOURCE, name="softsign"),
            {"configurable": {"thread_id": "1"}},
            context=Settings(model="openai:m", base_url=endpoint.base_url, target="cpu"),
            stream_mode="messages",
            subgraphs=True,
        )
        messages = [message for _, (message, _) in cast("list[tuple[Any, tuple[BaseMessage, Any]]]", list(told))]
    pieces: dict[str | None, list[str]] = {}
    for message in messages:
        if isinstance(message, AIMessageChunk):
            pieces.setdefault(message.id, []).append(message.text)
    calling, answering = pieces.values()
    assert "".join(calling) == ""
    assert [piece for piece in answering if piece] == ["one\n", "two\n", "CANNOT: nothing to gain"]
    assert [message.type for message in messages if not isinstance(message, AIMessageChunk)] == ["tool"]
