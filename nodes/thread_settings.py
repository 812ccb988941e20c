"""A thread's settings: whoever goes on with a run has those that it began with, and need not send them again."""

from __future__ import annotations

import hashlib
from typing import Any

from harness.nouns.frozen import Frozen
from nodes.address import check_addresses
from nodes.settings import Settings
from tools.archive import settled


class ThreadSettings(Frozen):
    """The settings of a thread's run, as its state keeps them. `source` is the digest of the run's given source."""

    source: str
    settings: Settings


def latest(left: ThreadSettings | None, right: ThreadSettings | None) -> ThreadSettings | None:
    """The reducer: nodes that run side by side write the same settings."""
    return right or left


def kept_by(state: Any) -> Settings | None:
    """The settings that a state keeps; None where it keeps those of a run on another source, or none.

    The state of a node that is sent its work alone has no source: its settings are those of the run that sent it.
    """
    kept: ThreadSettings | None = getattr(state, "settings", None)
    source: str | None = getattr(state, "source", None)
    if kept is None or (source is not None and kept.source != _digest(source)):
        return None
    return kept.settings


def in_force(sent: Settings | None, state: Any) -> Settings:
    """The settings that a node works by: the thread's, with those that were sent along in their place."""
    kept = kept_by(state)
    if kept is None or sent is None:
        return kept or sent or Settings()
    return changed(kept, sent)


def changed(kept: Settings, sent: Settings) -> Settings:
    """The settings with those in their place that somebody has set, be it to the default."""
    return kept.model_copy(update={name: getattr(sent, name) for name in sent.model_fields_set})


def to_keep(settings: Settings, state: Any) -> ThreadSettings | None:
    """What the state has to keep of the settings in force; None where it does by now, or has no place for them.

    Raises `UserError` for an address that holds a key or a password: a state is written down, and shown.
    """
    source: str | None = getattr(state, "source", None)
    before: ThreadSettings | None = getattr(state, "settings", None)
    if "settings" not in type(state).model_fields or (source is None and before is None):
        return None
    digest = before.source if source is None and before is not None else _digest(source or "")
    # A run's folder may be moved or copied: whoever goes on with it says where it is now.
    now = ThreadSettings(source=digest, settings=settings.model_copy(update={"run_dir": None}))
    if now == before:
        return None
    for addresses in settings.addresses().values():
        check_addresses(addresses)
    settled(settings.archive)
    return now


def _digest(source: str) -> str:
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
