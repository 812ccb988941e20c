"""Which settings a command has options for, and how the command line spells a setting.

`--help` needs this module, so that nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args


class Offer:
    """Which settings a command has options for, with the defaults that differ from the settings' own."""

    def __init__(self, *names: str, others: bool = False, **defaults: object) -> None:
        """With `others` the command reaches every other setting by `--set`."""
        self.names, self.others, self.defaults = names, others, defaults


@dataclass(frozen=True)
class Given:
    """What the command line says of the settings.

    `values` has every setting that the command offers, `typed` are those of them that the user did type, and `more` is
    what `--set` says.
    """

    values: Mapping[str, Any]
    typed: frozenset[str] = frozenset()
    more: tuple[str, ...] = ()


def offer_of(hint: Any) -> Offer:
    """What a command's settings are annotated with."""
    return next(each for each in get_args(hint) if isinstance(each, Offer))


RunSettings = Annotated[
    Given, Offer("target", "direction", "model", "base_url", "max_depth", "isolation", "seed", others=True)
]
EvolutionSettings = Annotated[
    Given,
    Offer(
        "target",
        "direction",
        "model",
        "base_url",
        "generations",
        "proposals",
        "archive",
        "isolation",
        "seed",
        others=True,
    ),
]
SuiteSettings = Annotated[
    Given, Offer("target", "direction", "model", "base_url", "max_depth", "isolation", "patience", others=True)
]
AblationSettings = Annotated[
    Given, Offer("target", "model", "base_url", "max_depth", "isolation", others=True, max_depth=14)
]
VerdictSettings = Annotated[Given, Offer("target", "direction", "isolation", "seed", "tolerance", "max_describe_s")]


def spelt(name: str) -> str:
    """The option of a setting that has one."""
    from nodes.settings import SHORT_NAMES

    return f"--{SHORT_NAMES.get(name, name).replace('_', '-')}"
