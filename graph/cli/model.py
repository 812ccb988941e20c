"""`cutegen model`: a whole model, the regions of it that are worth a kernel, and the model with those that gain."""

from __future__ import annotations

import shlex

from rich.console import Console
from rich.text import Text

from graph.cli.errors import IMPROVED, NOTHING_FASTER, note_way_on
from graph.cli.optimize import require_models, short
from graph.cli.options import Model
from graph.cli.settings import none_with_resume, option_of, require_same, settings_of
from graph.cli.suite import TABLE_WIDTH
from graph.model.door import plan_model
from graph.model.plan import Plan
from graph.model.plan_table import sentences_of, sheet_of
from graph.model.report import HEAD, region_rows, verdict_of
from graph.model.run import ModelFolder, ModelManifest, ModelRecord, create_model, drive_model, reopen_model
from graph.model.sources import load_model
from graph.model.steps import by_playbook
from graph.model.terminal import ModelTerminal
from graph.runs.tables import Sheet, drawn
from harness.machine.system import process_began
from harness.nouns.errors import CutegenError, UserError
from tools.judges import choose_target


def run(options: Model) -> int:
    """Do the command; its exit code."""
    console = Console(stderr=options.json)
    if not console.is_terminal:  # a file or a pipe has no width of its own
        console.width = TABLE_WIDTH
    return _plan(options, console) if options.plan else _optimize(options, console)


def _plan(options: Model, console: Console) -> int:
    if options.file is None or options.resume or options.out:
        raise UserError("--plan takes a file, and writes no folder.", "Leave --resume and --out out.")
    settings = settings_of(options.settings)
    model = load_model(options.file, batch=options.batch, tokens=options.tokens)
    plan = plan_model(model, settings, since=process_began())
    alone = by_playbook(settings)
    if options.json:
        print(plan.model_dump_json())
    else:
        show_plan(plan, console, playbook_alone=alone)
    return IMPROVED if plan.worthwhile(playbook_alone=alone) else NOTHING_FASTER


def _optimize(options: Model, console: Console) -> int:
    folder, manifest = _fresh(options) if options.resume is None else _again(options)
    console.print(Text(f"{manifest.model.name} in {short(folder.path)}"), soft_wrap=True)
    alone = by_playbook(manifest.settings)

    def planned(plan: Plan) -> None:
        show_plan(plan, console, playbook_alone=alone)

    try:
        with ModelTerminal(console) as terminal:
            record = drive_model(folder, manifest, terminal, planned=planned, since=process_began())
    except (CutegenError, KeyboardInterrupt) as error:
        if folder.manifest_file.exists():
            note_way_on(error, f"Go on with: cutegen model --resume {shlex.quote(short(folder.path))}")
        raise
    _finish(record, folder, console, as_json=options.json)
    return IMPROVED if record.accepted else NOTHING_FASTER


def _fresh(options: Model) -> tuple[ModelFolder, ModelManifest]:
    if options.file is None:
        raise UserError("No file was given.", "Name a model, or an earlier folder with --resume.")
    settings = settings_of(options.settings)
    require_models(settings, option_of(options.settings), unattended="A model")
    choose_target(settings.target, settings.device)  # before there is a folder
    model = load_model(options.file, batch=options.batch, tokens=options.tokens)
    asked = {"compile_baseline": options.compile_baseline, "assembly": options.assembly}
    model = model.model_copy(update=asked)
    return create_model(options.out, model, settings)


def _again(options: Model) -> tuple[ModelFolder, ModelManifest]:
    assert options.resume is not None
    none_with_resume(options.settings)
    if options.file is not None or options.out is not None or options.batch or options.tokens:
        raise UserError("A resumed model has its source and its folder already.", "Give --resume alone.")
    folder, manifest = reopen_model(options.resume)
    require_same(options.settings, manifest.settings)
    return folder, manifest


def _finish(record: ModelRecord, folder: ModelFolder, console: Console, *, as_json: bool) -> None:
    if as_json:
        print(record.model_dump_json())
        return
    console.print()
    if record.plan is not None and record.outcomes:
        console.print(drawn(Sheet("", HEAD, region_rows(record.plan, record.outcomes, record.acceptance))))
    for sentence in verdict_of(record.acceptance, record.outcomes):
        console.print(Text(sentence), soft_wrap=True)
    written = [file.name for file in (folder.assembled, folder.tree, folder.report, folder.record) if file.exists()]
    console.print(Text(f"In {short(folder.path)}: {' '.join(written)}"), soft_wrap=True)


def show_plan(plan: Plan, console: Console, *, playbook_alone: bool) -> None:
    """The table, and what it comes to."""
    console.print(drawn(sheet_of(plan)))
    console.print()
    for sentence in sentences_of(plan, playbook_alone=playbook_alone):
        console.print(Text(sentence), soft_wrap=True)
