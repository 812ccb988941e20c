"""The agents' names: the eight of them, and the four that speak to a model."""

from __future__ import annotations

from typing import Literal

Agent = Literal["generator", "tester", "diagnoser", "repairer", "optimizer", "sweeper", "profiler", "sanitizer"]
Speaker = Literal["generator", "diagnoser", "repairer", "optimizer"]
