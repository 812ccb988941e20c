"""`cutegen assistants`: have a LangGraph server offer the graph under settings that belong together."""

from __future__ import annotations

import json
import os

from graph.cli.errors import IMPROVED
from graph.cli.options import Assistants
from graph.server.presets import make_presets

TOKEN = "CUTEGEN_SERVER_TOKEN"


def run(options: Assistants) -> int:
    """Do the command; its exit code."""
    made = make_presets(options.url, os.environ.get(TOKEN, ""))
    if options.json:
        print(json.dumps([{"assistant_id": each.id, **each.model_dump(mode="json")} for each in made]))
    else:
        for each in made:
            print(f"{each.name:<9} {each.id}  {each.description}")
    return IMPROVED
