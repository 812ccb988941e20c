"""The agents' names: the seven of them, and the four that speak to a model."""

from __future__ import annotations

from typing import Literal

Agent = Literal["generator", "tester", "diagnoser", "repairer", "optimizer", "profiler", "sanitizer"]
Speaker = Literal["generator", "diagnoser", "repairer", "optimizer"]
