"""`cutegen doctor`: what is here, what is missing, and the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import get_args

from pydantic import TypeAdapter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from graph.cli.errors import IMPROVED, MACHINE_ERROR
from graph.cli.options import Doctor
from graph.cli.settings import settings_of
from harness.nouns.errors import UserError
from harness.targets.prerequisites import Prerequisite, check_prerequisites
from nodes.address import find
from nodes.models.select import open_model
from nodes.roles import Speaker
from nodes.settings import Settings

ENDPOINT = "model endpoint"
"""What stands for a language model where the settings name none."""
OPTIONAL = frozenset({"OpenMP", "objdump", "nvcc", "GPU", "ncu", ENDPOINT})
"""What a run on this machine's processor with the playbook does without."""

STYLES = {"found": "green", "limited": "yellow", "missing": "red"}


def run(options: Doctor) -> int:
    """Do the command for a run with these options; its exit code."""
    checked = (*check_prerequisites(), *check_models(settings_of(options.settings)))
    if options.json:
        print(TypeAdapter(dict[str, tuple[Prerequisite, ...]]).dump_json({"prerequisites": checked}).decode())
    else:
        Console().print(_table(checked))
    return MACHINE_ERROR if blocking(checked) else IMPROVED


def blocking(checked: tuple[Prerequisite, ...]) -> tuple[Prerequisite, ...]:
    """What is missing and needed: by every run, or by a model that was named."""
    return tuple(each for each in checked if each.status == "missing" and each.name not in OPTIONAL)


def _table(checked: tuple[Prerequisite, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("what", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("found, or what to do", overflow="fold")
    for each in checked:
        remedy = f"\n{each.remedy} (needed for {each.needed_for})" if each.remedy else ""
        table.add_row(each.name, Text(each.status, style=STYLES[each.status]), Text(each.detail + remedy))
    return table


# -- What a run's models need, and whether it is there: names, recordings, keys. Nobody is asked, and no key shown ----


_SECRET = re.compile(r"//[^/@\s]*@")
_FALLBACK = "fall-back"
_LOCAL = {"playbook": "rules: needs neither key nor network", "manual": "waits for cutegen answer"}


def check_models(settings: Settings) -> tuple[Prerequisite, ...]:
    """One for each model that the settings name, in the agents' order; with the endpoint's where none is `openai:`."""
    users: dict[str, list[str]] = {}
    for role in get_args(Speaker):
        users.setdefault(settings.model_for(role), []).append(role)
    if settings.reviewer_model:
        users.setdefault(settings.reviewer_model, []).append("reviewer")
    if settings.fallback_model:
        users.setdefault(settings.fallback_model, []).append(_FALLBACK)
    named = tuple(_checked(_name(who), spec, settings) for spec, who in users.items())
    if any(spec.strip().startswith("openai:") for spec in users):
        return named
    return (*named, _checked(ENDPOINT, "openai:NAME", settings))


def _name(users: Iterable[str]) -> str:
    who = ", ".join(users)
    return f"model of {'all agents' if who == ', '.join(get_args(Speaker)) else who}"


def _checked(name: str, spec: str, settings: Settings) -> Prerequisite:
    shown = _SECRET.sub("//", spec)
    needed_for = f"--model {shown}" if name == ENDPOINT else f"the {name}"
    try:
        if _FALLBACK in name and not spec.strip().startswith("openai:"):
            raise UserError(f"{shown} cannot go on for another model.", "Name one as openai:<model>@<base URL>.")
        detail = f"{shown}: {_found(spec.strip(), settings.base_url or None)}"
    except UserError as error:
        detail, remedy = _SECRET.sub("//", error.problem), error.remedy
        return Prerequisite(name=name, status="missing", detail=detail, remedy=remedy, needed_for=needed_for)
    return Prerequisite(name=name, status="found", detail=detail, needed_for=needed_for)


def _found(spec: str, base_url: str | None) -> str:
    """What there is of a model. Raises `UserError` for what is missing or means nothing."""
    kind, _, model = spec.partition(":")
    if kind != "openai" or not model:
        open_model(spec)
        return _LOCAL.get(spec, "can be read")
    address = find(model, base_url)
    key = f"its key is in {address.variable}" if address.variable else "no key is set, and such a server seldom asks"
    return f"{_SECRET.sub('//', address.base_url)}, {key}"
