"""docs/server.md against what it describes."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import get_args

import pytest
from langgraph_sdk import Auth
from starlette.requests import Request

from graph.runs.trust import TRUST_CLIENTS
from graph.server.artifacts import _MAKERS
from graph.server.auth import TOKEN, who
from graph.server.checkpoints import DEFAULT, PLACE
from nodes.events import Progress, RunEvent

CALLERS = [
    ("", ("127.0.0.1", 4), True),
    ("", ("::1", 4), True),
    ("", ("10.0.0.7", 4), False),
    ("", ("localhost.example.org", 4), False),
    ("", None, False),
    ("secret", ("127.0.0.1", 4), False),
]
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "server.md").read_text(encoding="utf-8")


def test_every_event_stands_on_the_page_with_its_fields() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    listed = {kind: row for row in rows for kind in re.findall(r"`(\w+)`", row.split("|")[1])}
    events = {each.model_fields["kind"].default: each for each in get_args(RunEvent)}
    assert set(listed) >= set(events)
    for kind, row in listed.items():
        told = set(re.findall(r"`(\w+)`", row)) - {kind}
        if kind in events:
            others = set(listed)
            assert told - others <= set(events[kind].model_fields), kind


def test_the_files_and_variables_that_the_page_names_are_those_of_the_server() -> None:
    assert set(_MAKERS) == set(re.findall(r"^\| `([\w.-]+\.\w+)` \|", PAGE, re.M))
    for name in (TOKEN, PLACE, DEFAULT, TRUST_CLIENTS):
        assert f"`{name}`" in PAGE or f"`{name}=1`" in PAGE


@pytest.mark.parametrize(("token", "client", "allowed"), CALLERS)
def test_without_a_token_only_this_machine_is_answered(
    token: str, client: tuple[str, int] | None, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, token)
    request = Request({"type": "http", "headers": [], "client": client})
    if allowed:
        asyncio.run(who(request, None))
    else:
        with pytest.raises(Auth.exceptions.HTTPException):
            asyncio.run(who(request, None))


def test_the_example_is_an_event() -> None:
    [example] = re.findall(r"```json\n(\{\"agent\".*?)\n```", PAGE, re.S)
    assert Progress.model_validate(json.loads(example)).event.words == "timing, 12 rounds: 1.31x over eager (1.28-1.34)"
