"""How strongly a process that nobody trusts is shut in. Standard library only: the launcher's own kin import it."""

from __future__ import annotations

from typing import Literal

Tier = Literal["bubblewrap", "landlock", "none"]
TierChoice = Literal["auto", Tier]
