"""What the groups of settings have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Group(BaseModel):
    """Settings that belong together. Studio's form, the options of the commands and their help are made of them."""

    # JSON, in which a run keeps its settings, has no infinity.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())
