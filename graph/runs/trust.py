"""Settings that somebody else chose: which could harm this user, and when they are taken all the same.

A run folder may come from anywhere. Its settings could turn isolation off, or send a key to whom they like: such ones
are taken only where the manifest is, byte by byte, one that was written here. Nor are they taken of a server's clients,
unless its owner says so.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol, get_args
from urllib.parse import urlsplit

from harness.machine.system import cache_dir
from harness.nouns.errors import UserError
from harness.nouns.tier import Tier
from nodes.address import OPENAI, find
from nodes.roles import Voice
from nodes.settings import Settings
from tools.archive import NONE

TRUST_CLIENTS = "CUTEGEN_TRUST_CLIENTS"


def remember(manifest: bytes) -> None:
    """Note that this user wrote the manifest here. Without a cache to note it in, its risks are asked about again."""
    with suppress(OSError):
        _mark(manifest).parent.mkdir(parents=True, exist_ok=True)
        _mark(manifest).touch()


def require_trust(manifest: bytes, settings: Settings, file: Path, remedy: str) -> None:
    """Raises `UserError` where a manifest that was not written here asks for what may do harm."""
    risk = next(risks(settings), None)
    if risk is not None:
        require_own(manifest, file, risk, remedy)


def require_own(manifest: bytes, file: Path, risk: str, remedy: str) -> None:
    """Raises `UserError` where a manifest with this risk was not written here."""
    if not _mark(manifest).exists():
        raise UserError(f"{file} was not written by you on this machine, or changed since, and {risk}.", remedy)


class Isolated(Protocol):
    """A state that says how kernels are isolated."""

    @property
    def tier(self) -> Tier | None:
        """None before it is settled."""
        ...


class Reading(Isolated, Protocol):
    """A state that names folders of this machine."""

    @property
    def reads(self) -> tuple[str, ...]:
        """What a source may read beside itself."""
        ...


def require_harmless_files(settings: Settings, state: Reading) -> None:
    """`require_harmless`, for a state that can also name folders to be read."""
    require_harmless(settings, state)
    if state.reads and os.environ.get(TRUST_CLIENTS) != "1":
        raise UserError(
            "This run would read folders of this machine.",
            f"Whoever runs this server can allow that: {TRUST_CLIENTS}=1.",
        )


def require_harmless(settings: Settings, state: Isolated) -> None:
    """Raises `UserError` for what a server's clients may not choose, unless `CUTEGEN_TRUST_CLIENTS` is 1.

    They can edit a state, too.
    """
    if os.environ.get(TRUST_CLIENTS) == "1":
        return
    risk = next(risks(settings), None)
    if risk is None and settings.run_dir:
        risk = "would write into a folder of this machine"
    if risk is None and any(spec.strip().startswith("replay:") for spec in _models(settings)):
        risk = "would read a conversation on this machine"
    if risk is None and state.tier == "none":
        risk = "would run kernels without isolation, as the state says"
    if risk is not None:
        raise UserError(f"This run {risk}.", f"Whoever runs this server can allow that: {TRUST_CLIENTS}=1.")


def risks(settings: Settings) -> Iterator[str]:
    """What settings of somebody else's could do to this user, each as the end of a sentence."""
    if settings.isolation == "none":
        yield "would run kernels without isolation"
    if settings.archive not in ("", NONE):
        yield f"would write into the archive {settings.archive}"
    for spec in _models(settings):
        kind, _, name = spec.strip().partition(":")
        if kind == "openai" and name:
            yield from _sent(name, settings.base_url)


def _models(settings: Settings) -> list[str]:
    proposing = (*(each.model for each in settings.proposers), *settings.optimizer_ensemble)
    return sorted({settings.fallback_model, *map(settings.model_for, get_args(Voice)), *proposing})


def _sent(name: str, base_url: str) -> Iterator[str]:
    """The key that asking this model would send, where to somebody whom the environment does not name."""
    with suppress(UserError):  # no address, or no key: nothing can be sent
        address = find(name, base_url or None)
        own = {urlsplit(url).hostname for url in (OPENAI, os.environ.get("OPENAI_BASE_URL", ""))}
        if address.variable and address.host not in own:
            yield f"would send {address.variable} to {address.host}"


def _mark(manifest: bytes) -> Path:
    return cache_dir() / "begun" / hashlib.sha256(manifest).hexdigest()
