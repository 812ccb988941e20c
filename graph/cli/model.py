"""`cutegen model`: a whole model, and which of its regions are worth a kernel."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from graph.cli.errors import IMPROVED, NOTHING_FASTER
from graph.cli.options import Model
from graph.cli.settings import settings_of
from graph.cli.suite import TABLE_WIDTH
from graph.model.door import plan_model
from graph.model.plan import Plan
from graph.model.plan_table import sentences_of, sheet_of
from graph.model.sources import load_model
from graph.pages.sheet import drawn


def run(options: Model) -> int:
    """Do the command; its exit code."""
    settings = settings_of(options.settings)
    given = load_model(options.file, batch=options.batch, tokens=options.tokens)
    console = Console(stderr=options.json)
    if not console.is_terminal:  # a file or a pipe has no width of its own
        console.width = TABLE_WIDTH
    plan = plan_model(given, settings)
    alone = settings.model == "playbook"
    if options.json:
        print(plan.model_dump_json())
    else:
        show_plan(plan, console, playbook_alone=alone)
    return IMPROVED if plan.worthwhile(playbook_alone=alone) else NOTHING_FASTER


def show_plan(plan: Plan, console: Console, *, playbook_alone: bool) -> None:
    """The table, and what it comes to."""
    console.print(drawn(sheet_of(plan)))
    console.print()
    for sentence in sentences_of(plan, playbook_alone=playbook_alone):
        console.print(Text(sentence), soft_wrap=True)
