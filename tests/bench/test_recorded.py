"""The recorded conversations go through the whole graph again: the same answers, the same moves, the same verdicts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from brief_judge import brief_here
from command_line import REPOSITORY
from scripted_judge import judging_here
from softsign_script import KERNEL, SOURCE, written

from bench.recorded import CONVERSATION, RECORDING, TASK, load, play, record_anew, steps_of
from harness.nouns.errors import UserError
from nodes.models.errors import ReplayMismatchError
from nodes.models.replay import Exchange, ReplayModel
from nodes.turn.prompt_size import estimated_tokens

FOLDER = REPOSITORY / "examples" / "recorded"
NAMES = sorted(folder.name for folder in FOLDER.iterdir() if folder.is_dir())


def answers(file: Path) -> list[tuple[str, str]]:
    return [(said.role, said.answer) for said in ReplayModel.load(file).exchanges]


def copied(name: str, to: Path) -> Path:
    shutil.copytree(FOLDER / name, to)
    return to


def test_there_is_one_of_each_kind() -> None:
    assert NAMES == ["channel_norm", "gated_tanh", "matmul_relu", "rms_norm"]
    statuses = {step.status for name in NAMES for step in load(FOLDER / name).steps}
    assert {"build_failed", "crashed", "wrong", "passed"} <= statuses
    called = ReplayModel.load(FOLDER / "channel_norm" / CONVERSATION).exchanges
    assert [call.name for said in called for call in said.tool_calls] == [
        "look_up", "compile_kernel", "compile_kernel", "sanitize_kernel", "run_kernel",
    ]  # fmt: skip


def test_a_question_has_less_than_6000_tokens_on_average_and_a_fix_less_than_4000() -> None:
    """Of first questions: what is asked again, or after a tool's answer, repeats what a cache holds."""
    asked = [
        said.prompt for name in NAMES for said in ReplayModel.load(FOLDER / name / CONVERSATION).exchanges
        if len(said.prompt) == 2
    ]  # fmt: skip
    sizes = [sum(estimated_tokens(part.content) for part in prompt) for prompt in asked]
    assert sum(sizes) / len(sizes) <= 6_000
    repairs = [prompt for prompt in asked if "# Your part: the repairer" in prompt[1].content]
    fresh = [estimated_tokens(prompt[1].content.partition("# Your part")[2]) for prompt in repairs]
    assert len(repairs) == 4 and max(fresh) <= 2_000
    assert max(size for size, prompt in zip(sizes, asked, strict=True) if prompt in repairs) <= 4_000


@pytest.mark.parametrize("name", NAMES)
def test_any_two_questions_of_a_recorded_run_begin_alike(name: str) -> None:
    """The repairer, which is told what to write, without the guide that all others have next."""
    exchanges = ReplayModel.load(FOLDER / name / CONVERSATION).exchanges
    beginnings = {
        (said.role == "repairer", f"{said.prompt[0].content}{said.prompt[1].content.partition('# Your part')[0]}")
        for said in exchanges
    }
    (_, whole), *repairer = sorted(beginnings)
    assert estimated_tokens(whole) >= 3_500
    assert all(whole.startswith(begun) and estimated_tokens(begun) >= 1_400 for _, begun in repairer)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_conversation_is_had_again(name: str, tmp_path: Path) -> None:
    run = tmp_path / "run"

    with brief_here():
        result = play(FOLDER / name, run)

    assert answers(run / CONVERSATION) == answers(FOLDER / name / CONVERSATION)
    assert steps_of(result) == load(FOLDER / name).steps
    assert result.verdict is not None and result.verdict.passed
    assert result.record.authors


def test_a_prompt_that_has_changed_is_shown_with_its_difference(tmp_path: Path) -> None:
    folder = copied("rms_norm", tmp_path / "rms_norm")
    task = folder / TASK
    task.write_text(task.read_text(encoding="utf-8").replace("1e-6", "1e-5"), encoding="utf-8")

    with pytest.raises(ReplayMismatchError) as caught:
        play(folder, tmp_path / "run")

    assert "The generator asked something" in str(caught.value)
    changed = [line for line in caught.value.difference.splitlines() if "keepdim=True) + 1e-" in line]
    assert [line[0] for line in changed] == ["-", "+"]


def recording(folder: Path, *said: str) -> Path:
    """A recording of softsign whose prompts are yet to be recorded."""
    folder.mkdir()
    (folder / TASK).write_text(SOURCE, encoding="utf-8")
    settings = {"target": "cpu", "seed": 1, "max_depth": 0, "sanitize": False}
    (folder / RECORDING).write_text(json.dumps({"settings": settings}), encoding="utf-8")
    lines = (
        Exchange(index=index, role="generator", prompt_sha256="", prompt=(), answer=answer).line()
        for index, answer in enumerate(said)
    )
    (folder / CONVERSATION).write_text("".join(lines), encoding="utf-8")
    return folder


def test_old_answers_are_put_to_the_prompts_of_today(tmp_path: Path) -> None:
    folder = recording(tmp_path / "softsign", "I would rather not.", written(KERNEL))

    with judging_here():
        record_anew(folder)
        again = play(folder, tmp_path / "run")

    assert [answer for _, answer in answers(folder / CONVERSATION)] == ["I would rather not.", written(KERNEL)]
    assert [(step.agent, step.status) for step in load(folder).steps] == [("generator", None), ("tester", "passed")]
    assert steps_of(again) == load(folder).steps


@pytest.mark.parametrize(
    ("said", "problem"),
    [(["CANNOT: no"] * 2, "ended before its last answers"), (["What?"], "asks for more than its 1 answers")],
)
def test_answers_that_do_not_fit_the_run_leave_the_recording_as_it_was(
    said: list[str], problem: str, tmp_path: Path
) -> None:
    folder = recording(tmp_path / "softsign", *said)
    before = (folder / CONVERSATION).read_bytes()

    with judging_here(), pytest.raises(UserError, match=problem):
        record_anew(folder)

    assert (folder / CONVERSATION).read_bytes() == before


def test_a_folder_without_a_recording_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no recording") as caught:
        play(tmp_path, tmp_path / "run")
    assert TASK in caught.value.remedy
