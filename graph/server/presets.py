"""Assistants of a LangGraph server that come ready-made: the graph `cutegen` under settings that belong together."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import httpx
from langgraph_sdk import get_sync_client
from langgraph_sdk.errors import APIError

from harness.nouns.errors import MachineError, UserError
from harness.nouns.frozen import Frozen
from nodes.settings import Settings


class Preset(Frozen):
    """An assistant: its name, what it is for, and the settings that differ from the defaults."""

    name: str
    description: str
    settings: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The same on every server, so that it is made once."""
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"cutegen:assistant:{self.name}"))


PRESETS = (
    Preset(name="cpu", description="Kernels for this machine's processor.", settings={"target": "cpu"}),
    Preset(name="GPU", description="Kernels for this machine's NVIDIA GPU.", settings={"target": "cuda"}),
    Preset(
        name="thorough",
        description="Many moves and hours, a profile from the first move on, every failure diagnosed.",
        settings={
            "max_depth": 40, "max_attempts": 300, "max_wall_s": 14_400.0, "max_device_s": 7200.0, "max_dollars": 100.0,
            "profile_from_depth": {"gemm": 0, "elementwise": 0, "reduction": 0, "other": 0}, "diagnose": "every",
        },
    ),
    Preset(
        name="cheap",
        description="A dollar, ten minutes, and an end after three moves in a row without a gain.",
        settings={"max_depth": 6, "patience": 3, "max_wall_s": 600.0, "max_dollars": 1.0, "max_calls": 60},
    ),
)  # fmt: skip


def make_presets(url: str, token: str = "") -> tuple[Preset, ...]:
    """Make each preset that the server does not have; one that is there stays as it is, somebody's changes included.

    Returns all of them. Raises `UserError` where the server refuses, and `MachineError` where none answers.
    """
    client = get_sync_client(url=url, headers={"authorization": f"Bearer {token}"} if token else None)
    try:
        for preset in PRESETS:
            context = Settings.model_validate(preset.settings).model_dump(mode="json", exclude_unset=True)
            client.assistants.create(
                "cutegen",
                context=context,
                assistant_id=preset.id,
                if_exists="do_nothing",
                name=preset.name,
                description=preset.description,
            )
    except httpx.TransportError as error:
        raise MachineError(f"No server answers at {url}: {error}.", "Start one: make serve.") from error
    except (httpx.HTTPStatusError, APIError) as error:
        raise UserError(f"The server at {url} refuses: {error}.", "Is CUTEGEN_SERVER_TOKEN the server's?") from error
    return PRESETS
