"""How hard a model is asked to think."""

from __future__ import annotations

from typing import Literal

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
