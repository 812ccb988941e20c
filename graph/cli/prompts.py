"""`cutegen prompts`: what each agent's model is told for a task, or was told in a run, and how many tokens that is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import get_args

from rich.console import Console
from rich.table import Table

from graph.cli.errors import IMPROVED
from graph.cli.options import Prompts
from graph.cli.prompt_samples import H200, sample_requests
from graph.loading import load_task
from graph.runs.folder import RunFolder
from harness.isolation.tiers import resolve_tier
from harness.nouns.candidate import TargetChoice, TargetName
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.errors import MachineError, UserError
from harness.nouns.frozen import Frozen, printable
from harness.nouns.task import Direction
from harness.targets.select import resolve_target
from harness.tasks.describing import describe_task
from harness.tasks.robust_folder import is_robust_folder
from nodes.models.conversation import Exchange
from nodes.models.replay import ReplayModel
from nodes.roles import Voice
from nodes.settings import ExemplarChoice
from nodes.turn.prompt_size import estimated_tokens
from nodes.turn.prompts import parts_of
from nodes.turn.recording import FILE_NAME
from nodes.turn.request import Request

LIMITS: dict[Voice, int] = {
    "generator": 12_000,
    "diagnoser": 14_000,
    "repairer": 10_000,
    "optimizer": 14_000,
}
"""Tokens that a role's prompt has at most, with a kernel of 300 lines in it"""


class Prompt(Frozen):
    """One agent's prompt and its estimated tokens; `steady_tokens` of them stay the same from call to call of a run."""

    role: Voice
    text: str
    tokens: int
    steady_tokens: int

    @property
    def steady(self) -> float:
        """The share that a server's prompt cache can keep."""
        return self.steady_tokens / max(1, self.tokens)


def run(options: Prompts) -> int:
    """Do the command; its exit code."""
    path = options.path
    found = (
        recorded(path) if path.is_dir() and not is_robust_folder(path) else rendered(path, **options.settings.values)
    )
    chosen = [prompt for prompt in found if options.role in (None, prompt.role)]
    if not chosen:
        raise UserError(f"Nobody spoke to the {options.role} in {path}.", "Leave --role out to see who was spoken to.")
    if options.json:
        left_out = {"text"} if options.tokens else set()
        print(json.dumps([prompt.model_dump(exclude=left_out) for prompt in chosen]))
    elif options.tokens:
        Console().print(_table(chosen))
    else:
        print(printable("\n".join(_shown(chosen))))
    return IMPROVED


def rendered(
    file: Path, target: TargetChoice, exemplar: ExemplarChoice, direction: Direction | None = None
) -> list[Prompt]:
    """The four prompts for a task file, with a kernel and a failure that stand in. Raises `UserError`."""
    given = load_task(file, direction=direction)
    task = describe_task(given.source, name=given.name, tier=resolve_tier("auto"))
    name = resolve_target(target).name
    return [prompt_of(request) for request in sample_requests(task, name, _facts(name), exemplar=exemplar)]


def recorded(run_folder: Path) -> list[Prompt]:
    """The last prompt that each agent's model got in a run, re-asks and tool answers included. Raises `UserError`."""
    RunFolder(run_folder).require_plain()
    exchanges = ReplayModel.load(run_folder / FILE_NAME).exchanges
    by_role = {role: [said for said in exchanges if said.role == role] for role in get_args(Voice)}
    return [_last(role, said) for role, said in by_role.items() if said]


def prompt_of(request: Request) -> Prompt:
    """A request as the prompt that it becomes."""
    parts = parts_of(request)
    return Prompt(
        role=request.role,
        text=parts.text,
        tokens=estimated_tokens(parts.text),
        steady_tokens=estimated_tokens(parts.shared + parts.role),
    )


def _facts(target: TargetName) -> DeviceFacts:
    """This machine's; an H200's where no GPU answers."""
    try:
        return resolve_target(target).facts()
    except MachineError:
        if target == "cpu":
            raise
        return H200


def _text(said: Exchange) -> str:
    return "\n".join(part.content for part in said.prompt)


def _last(role: Voice, said: Sequence[Exchange]) -> Prompt:
    text = _text(said[-1])
    # Between two calls the difference tells; of a single one, that what comes first, the rules, would have stayed.
    steady = _common(_text(said[0]), text) if len(said) > 1 else said[0].prompt[0].content
    return Prompt(role=role, text=text, tokens=estimated_tokens(text), steady_tokens=estimated_tokens(steady))


def _common(one: str, other: str) -> str:
    """The lines with which both begin."""
    pairs = zip(one.splitlines(), other.splitlines(), strict=False)
    return "\n".join(line for line, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _shown(prompts: Sequence[Prompt]) -> list[str]:
    if len(prompts) == 1:
        return [prompts[0].text.rstrip()]
    return [f"<!-- {prompt.role} -->\n\n{prompt.text.rstrip()}\n" for prompt in prompts]


def _table(prompts: Sequence[Prompt]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("agent")
    for name in ("about tokens", "at most", "the same in each call", "share"):
        table.add_column(name, justify="right")
    for prompt in prompts:
        table.add_row(
            prompt.role,
            f"{prompt.tokens:,}",
            f"{LIMITS[prompt.role]:,}" if prompt.role in LIMITS else "",
            f"{prompt.steady_tokens:,}",
            f"{prompt.steady:.0%}",
        )
    return table
