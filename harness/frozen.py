"""The base of every noun: immutable, closed, compared by value."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """An immutable value object. Unknown fields are errors; infinities and NaN survive JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")
