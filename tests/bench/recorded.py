"""Recorded conversations under `examples/recorded`: play one through the whole graph, or record it anew.

A folder holds `task.py`, `recording.json` (the settings, and the steps that the run took) and `conversation.jsonl`.
After prompts have changed, `make recordings` puts the old answers to the prompts of today.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from brief_judge import brief_here
from pydantic import ValidationError

from graph.api.calls import RunResult, answer, load_task, optimize
from graph.cli.errors import IMPROVED, guarded
from harness.nouns.errors import UserError
from harness.nouns.frozen import Frozen
from harness.nouns.verdict import Status
from nodes.models.replay import ReplayModel
from nodes.models.written_calls import say_calls
from nodes.state import Step

TASK, RECORDING, CONVERSATION = "task.py", "recording.json", "conversation.jsonl"


class Played(Frozen):
    """What one step of a run came to, without what differs from machine to machine."""

    agent: str
    depth: int
    move: str
    status: Status | None

    @classmethod
    def of(cls, step: Step) -> Played:
        """What stays of a step."""
        return cls(agent=step.agent, depth=step.depth, move=step.move, status=step.status)


class Recording(Frozen):
    """The settings that a conversation was recorded with, and the steps of its run."""

    settings: dict[str, Any]
    steps: tuple[Played, ...] = ()


def load(folder: Path) -> Recording:
    """The recording in a folder. Raises `UserError`."""
    try:
        return Recording.model_validate_json((folder / RECORDING).read_bytes())
    except (OSError, ValidationError) as error:
        raise UserError(f"{folder} holds no recording: {error}.", f"It needs {TASK} and {RECORDING}.") from error


def play(folder: Path, out: Path) -> RunResult:
    """Run the task in `out` with the recorded answers. Raises `ReplayMismatchError` at a prompt that has changed."""
    settings = load(folder).settings
    return optimize(load_task(folder / TASK), out=out, model=f"replay:{folder / CONVERSATION}", **settings)


def steps_of(result: RunResult) -> tuple[Played, ...]:
    """What a run's steps came to."""
    return tuple(Played.of(step) for step in result.record.steps)


def record_anew(folder: Path) -> None:
    """Put the recorded answers, in their order, to the prompts of today, and keep what the run then recorded.

    Raises `UserError` where the run takes another way and asks for more or fewer answers.
    """
    recording = load(folder)
    answers = [say_calls(said.tool_calls, said.answer) for said in ReplayModel.load(folder / CONVERSATION).exchanges]
    with tempfile.TemporaryDirectory(prefix="cutegen-") as scratch:
        run = Path(scratch) / "run"
        result = optimize(load_task(folder / TASK), out=run, model="manual", **recording.settings)
        for given in answers:
            if result.question is None:
                raise UserError(f"The run of {folder} ended before its last answers were asked for.", _AGAIN)
            result = answer(run, given)
        if result.question is not None:
            raise UserError(f"The run of {folder} asks for more than its {len(answers)} answers.", _AGAIN)
        anew = recording.model_copy(update={"steps": steps_of(result)})
        shutil.copy(run / CONVERSATION, folder / CONVERSATION)
    (folder / RECORDING).write_text(anew.model_dump_json(indent=1) + "\n", encoding="utf-8")


_AGAIN = "Answer it yourself: cutegen optimize --model manual, then cutegen answer."


def main(folders: Annotated[list[Path], typer.Argument(help="Folders of examples/recorded.")]) -> None:
    """Record conversations anew. What a busy machine leaves undecided goes by its ratio: it shall not change a way."""

    def work() -> int:
        with brief_here():
            for folder in folders:
                record_anew(folder)
        return IMPROVED

    raise typer.Exit(guarded(work, as_json=False))


if __name__ == "__main__":
    typer.run(main)
