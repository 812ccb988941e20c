"""`cutegen optimize`: start a run or go on with one, show it, and say what came out."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal, get_args

from rich.console import Console
from rich.text import Text

from graph.api.calls import RunResult, begin, carry_on
from graph.cli.errors import IMPROVED, INTERRUPTED, NOTHING_FASTER, WAITING, note_way_on
from graph.cli.options import Optimize
from graph.cli.settings import option_of, raised_by, settings_of
from graph.loading import load_task
from graph.runs.folder import Kind, Manifest, RunFolder, compared, reopen
from graph.runs.progress import Terminal, spent, table
from graph.runs.record import Outcome, RunRecord
from harness.nouns.errors import CutegenError, UserError, at_fault
from harness.nouns.frozen import Frozen, printable
from harness.nouns.verdict import Status, Timing, Verdict
from nodes.models.manual import ManualModel
from nodes.models.select import open_model
from nodes.roles import Speaker
from nodes.settings import Settings
from nodes.state import Usage
from nodes.turn.node import options_of
from tools.judges import choose_target
from tools.wording import say_compiled, say_headline, say_other_clocks

_JUDGED_BEFORE = (
    "This kernel was judged in an earlier go, not now: its verdict is what the folder holds. "
    "`cutegen verify {} FILE` judges it again."
)
_EARLY: dict[str, int] = {"interrupted": INTERRUPTED, "waiting": WAITING}


class Summary(Frozen):
    """What --json prints. `speedup` and `verdict` are the best kernel's; without one, `verdict` is the last.

    `judged_now` is false where neither a test nor a final of this go ran the best kernel's trials: its verdict is what
    the folder holds.
    """

    schema_version: Literal[1] = 1
    outcome: Outcome
    task: str
    run: Path
    stop_reason: str
    speedup: float | None
    judged_now: bool
    status: Status | None
    verdict: Verdict | None
    authors: tuple[str, ...]
    kernels_judged: int
    seconds: float
    usage: Usage
    artifacts: tuple[Path, ...]


def run(options: Optimize) -> int:
    """Do the command; its exit code."""
    return work("optimize", options)


def work(kind: Kind, options: Optimize) -> int:
    """Begin a run or go on with one; the exit code."""
    if options.resume is None:
        return show_run(*_fresh(kind, options), as_json=options.json, compile_baseline=options.compile_baseline)
    folder, manifest = _again(kind, options, options.resume)
    changed = folder.rewrite(manifest, raised_by(options.settings, manifest.settings))
    deeper, beside = changed != manifest, options.compile_baseline
    return show_run(folder, changed, as_json=options.json, deeper=deeper, compile_baseline=beside)


def show_run(
    folder: RunFolder,
    manifest: Manifest,
    *,
    as_json: bool,
    answer: str | None = None,
    deeper: bool = False,
    compile_baseline: bool | None = None,
) -> int:
    """Carry the run on before the user's eyes; its exit code. An error has a note on how to go on."""
    terminal = Terminal(Console(stderr=as_json))
    terminal.console.print(Text(f"{manifest.name} in {short(folder.path)}"), soft_wrap=True)
    try:
        result = carry_on(folder, manifest, terminal, answer=answer, deeper=deeper, compile_baseline=compile_baseline)
    except BaseException as error:
        terminal.stop()
        _note_way_on(folder, manifest.kind, error)
        raise
    terminal.stop()
    return _finish(result, terminal, manifest.kind, as_json=as_json, compile_baseline=bool(compile_baseline))


def _fresh(kind: Kind, options: Optimize) -> tuple[RunFolder, Manifest]:
    if options.file is None:
        raise UserError("No file was given.", "Name a Python file with class Model, or a run with --resume.")
    settings = settings_of(options.settings)
    task = load_task(options.file, direction=settings.direction)
    if kind == "evolve":
        require_proposers(settings, option_of(options.settings))
    else:
        require_models(settings, option_of(options.settings))
    choose_target(settings.target, settings.device)  # before there is a folder
    return begin(task, settings, options.out, kind)


def _again(kind: Kind, options: Optimize, run: Path) -> tuple[RunFolder, Manifest]:
    if options.out is not None:
        raise UserError("--out and --resume exclude each other.", "A resumed run stays in its folder.")
    folder, manifest = reopen(run, trust=options.trust, kind=kind)
    direction = manifest.settings.direction
    if options.file is not None and load_task(options.file, direction=direction).source != manifest.source:
        raise UserError(
            f"{options.file} is not the file that {run} began with.",
            "Leave the file out, or start a new run.",
        )
    return folder, manifest


def require_models(settings: Settings, said: Callable[[str], str], *, unattended: str = "") -> None:
    """Open each model once, so that a wrong name or a missing key is said before there is a run's folder.

    `said` is how the user names a setting, `unattended` what cannot wait for a person's answers.
    """
    _require_unasked(settings, unattended)
    for setting in sorted({settings.model_setting(role) for role in (*get_args(Speaker), "reviewer")}):
        _require_model(settings, setting, getattr(settings, setting), said, unattended)
    for racing in settings.optimizer_ensemble:
        _require_model(settings, "optimizer_ensemble", racing, said, unattended)


def require_proposers(settings: Settings, said: Callable[[str], str]) -> None:
    """Open the model of each proposer, and of who else has one of its own, once, as `require_models` does."""
    _require_unasked(settings, "An evolution")
    setting = "proposers" if settings.proposers else "model"
    for proposer in settings.ensemble():
        _require_model(settings, setting, proposer.model, said, "An evolution")
    for own in ("verifier_model", "summarizer_model", "reviewer_model"):
        if spec := getattr(settings, own):
            _require_model(settings, own, spec, said, "An evolution")


def _require_model(settings: Settings, setting: str, spec: str, said: Callable[[str], str], unattended: str) -> None:
    options = options_of(settings)
    with at_fault(said(setting)):
        model = open_model(spec, options.model_copy(update={"fallback": None}))
    if options.fallback:
        with at_fault(said("fallback_model")):
            open_model(spec, options)
    if unattended and isinstance(model, ManualModel):
        raise UserError(f"{unattended} does not stop for answers.", "Use --model manual with cutegen optimize.")


def _require_unasked(settings: Settings, unattended: str) -> None:
    if unattended and settings.approve_best:
        raise UserError(f"{unattended} does not stop for answers.", "Use approve_best with cutegen optimize.")


def _note_way_on(folder: RunFolder, kind: Kind, error: BaseException) -> None:
    """What is kept, and the command that goes on, where there is something to go on with; that nothing is, else."""
    if not folder.path.exists():
        error.add_note(f"Nothing was kept: {short(folder.path)} was removed.")
    if isinstance(error, CutegenError | KeyboardInterrupt) and folder.record.exists():
        kept = f"The best kernel so far is {short(folder.kernel)}. " if folder.kernel.exists() else ""
        note_way_on(error, f"{kept}Go on with: cutegen {kind} --resume {shlex.quote(short(folder.path))}")


def _finish(result: RunResult, terminal: Terminal, kind: Kind, *, as_json: bool, compile_baseline: bool) -> int:
    record, console = result.record, terminal.console
    best = record.best.candidate.digest if record.best else None
    judged_now = best in terminal.judged or (terminal.reported and record.final.timing(best) is not None)
    if record.outcome == "waiting" and not as_json:
        console.print(Text(_waiting(result, kind, compile_baseline=compile_baseline)), soft_wrap=True)
        return WAITING
    if as_json:
        print(summary(result, judged_now=judged_now))
    else:
        console.print()
        console.print(table(record.steps, record.final))
        console.print()
        for sentence in sentences(result, judged_before=best is not None and not judged_now):
            console.print(Text(sentence), soft_wrap=True)
    if record.outcome in _EARLY:
        return _EARLY[record.outcome]
    return IMPROVED if result.improved else NOTHING_FASTER


def _waiting(result: RunResult, kind: Kind, *, compile_baseline: bool) -> str:
    folder = RunFolder(result.folder)
    run = shlex.quote(short(folder.path))
    then = "\ntorch.compile is timed when the run has ended: cutegen {} --resume {} --compile-baseline"
    return (
        f"A question waits in {short(folder.question)}.\n"
        f"Read it:   cutegen answer {run}\n"
        f"Answer it: cutegen answer {run} FILE   (- for stdin, --edit for $EDITOR)"
        f"{then.format(kind, run) if compile_baseline else ''}"
    )


def summary(result: RunResult, *, judged_now: bool) -> str:
    """The run in one JSON object."""
    record = result.record
    return Summary(
        outcome=record.outcome,
        task=record.name,
        run=result.folder,
        stop_reason=record.stop_reason,
        speedup=result.speedup,
        judged_now=judged_now,
        status=result.verdict.status if result.verdict else None,
        verdict=result.verdict,
        authors=record.authors,
        kernels_judged=len(record.verdicts),
        seconds=round(record.seconds, 3),
        usage=record.usage,
        artifacts=_artifacts(result),
    ).model_dump_json()


def sentences(result: RunResult, *, judged_before: bool) -> list[str]:
    """What is said of a run at its end."""
    record = result.record
    return [
        _headline(record),
        *(say_other_clocks(record.timing) if record.timing else []),
        *filter(None, [record.views, record.served, record.final.note, record.degenerate, record.influence]),
        *([_JUDGED_BEFORE.format(shlex.quote(short(RunFolder(result.folder).kernel)))] if judged_before else []),
        *_over_compile(compared(RunFolder(result.folder), record.best)),
        f"Ended because: {record.stop_reason}",
        *(fell_back.sentence for fell_back in record.usage.fell_back),
        *([f"The models: {used}."] if (used := spent(record.usage)) else []),
        *(["Written by the playbook, not by a language model."] if record.by_playbook else []),
        f"In {short(result.folder)}: {' '.join(file.name for file in _artifacts(result))}",
    ]


def _headline(record: RunRecord) -> str:
    timing = record.timing
    if timing is None:
        return _no_kernel(record)
    return say_headline(timing)


def _over_compile(timing: Timing | None) -> list[str]:
    """The second baseline, where it was timed."""
    return [say_compiled(timing)] if timing and (timing.compiled or timing.compiled_failure) else []


def _no_kernel(record: RunRecord) -> str:
    """Kernels that passed and were withdrawn at the end are not told like kernels that never passed."""
    found = [step.message for step in record.steps if step.agent == "sanitizer" and step.status == "refused"]
    return (
        f"No kernel is left: the sanitizers found fault with each that passed. The last: {found[-1]}"
        if found
        else ("No kernel passed.")
    )


def _artifacts(result: RunResult) -> tuple[Path, ...]:
    return RunFolder(result.folder).artifacts


def short(path: Path) -> str:
    """The path as seen from here, where it lies below."""
    with suppress(ValueError):
        path = path.relative_to(Path.cwd())
    return printable(str(path))
