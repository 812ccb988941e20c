"""docs/server.md against what it describes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

from nodes.events import Progress, RunEvent

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


def test_the_example_is_an_event() -> None:
    [example] = re.findall(r"```json\n(\{\"agent\".*)\n```", PAGE)
    assert Progress.model_validate(json.loads(example)).event.words == "timing, 12 rounds: 1.31x (1.28-1.34)"
