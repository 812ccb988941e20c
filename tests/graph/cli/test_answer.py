"""A person as the model: questions wait, and answers come from a file, from stdin or from an editor."""

import stat
from pathlib import Path

import pytest
from click.testing import Result
from command_line import one_object
from scripted_judge import judging_here
from softsign_script import DOES_NOT_COMPILE, FASTER, KERNEL, RIGHT, SOURCE, WRONG, diagnosed, edited, written
from typer.testing import CliRunner

from graph.api.calls import RunResult, answer, load_task, optimize, resume
from graph.cli.errors import NOTHING_FASTER, USER_ERROR, WAITING
from graph.cli.main import app
from harness.nouns.errors import UserError
from nodes.models.replay import ReplayModel
from nodes.state import TaskInput

TASK = TaskInput(source=SOURCE, name="softsign")


def begun(folder: Path, **settings: object) -> RunResult:
    return optimize(TASK, out=folder, model="manual", target="cpu", **settings)


def asked(result: RunResult) -> str:
    assert result.record.outcome == "waiting"
    assert result.question is not None
    return result.question


@pytest.mark.usefixtures("scripted")
def test_a_whole_run_is_answered_one_question_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert "You write the first kernel" in asked(begun(folder))

    assert "You find out why a kernel fails" in asked(answer(folder, written(WRONG)))
    assert "You mend a kernel by editing lines" in asked(answer(folder, diagnosed("the constant is 2")))
    mended = edited(WRONG, "2.0f + std::fabs(v)", _line_with(RIGHT, "1.0f + std::fabs(v)"))
    assert "exactly one move" in asked(answer(folder, mended))

    ended = answer(folder, "DONE: it is right, and that was the point")

    assert ended.question is None
    assert ended.record.outcome in ("improved", "nothing_faster")
    assert ended.kernel == RIGHT
    assert not (folder / "question.md").exists()
    assert {candidate.author for candidate in ended.record.candidates.values()} == {
        "generator:manual",
        "repairer:manual",
    }
    again = optimize(TASK, out=tmp_path / "again", model=f"replay:{folder / 'conversation.jsonl'}", target="cpu")
    assert again.kernel == RIGHT


def _line_with(source: str, part: str) -> str:
    [line] = [line for line in source.splitlines() if part in line]
    return line


@pytest.mark.usefixtures("scripted")
def test_an_unusable_answer_comes_back_with_what_is_wrong_and_is_not_asked_for_twice(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    begun(folder)

    question = asked(answer(folder, "I would rather not."))

    assert "I would rather not." in question
    assert "There is no fenced code block" in question
    assert asked(resume(folder)) == question  # a resume waits on; it neither asks again nor loses the answer before
    ended = answer(folder, "CANNOT: softsign is beyond me")
    assert ended.record.stop_reason == "softsign is beyond me"
    assert ended.record.usage.calls == 2


@pytest.mark.usefixtures("scripted")
def test_whoever_answers_may_call_tools_first_and_a_replay_calls_them_again(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = asked(begun(folder, max_depth=0, max_tool_calls=3))
    assert "TOOL: compile_kernel" in first
    assert "- `look_up`" in first
    assert "run_kernel" not in first  # the generator has no such tool, by hand or not

    calls = (
        (called("compile_kernel", DOES_NOT_COMPILE), "The kernel does not compile:"),
        ("TOOL: compile_kernel", "There is no code block below the line `TOOL: compile_kernel`."),
        (called("run_kernel", KERNEL), "There is no tool 'run_kernel'. There are: look_up, compile_kernel."),
    )
    for call, said in calls:
        question = asked(answer(folder, call))
        assert said in question.partition("<!-- tools -->")[0].rpartition("<!-- tool -->")[2]
    assert "<!-- tools -->" not in question  # three are all that were allowed
    assert DOES_NOT_COMPILE in question  # as it was written, not as a line of JSON
    late = asked(answer(folder, called("look_up", "tile")))
    assert "No tool call is left in this turn. Give your answer now." in late

    ended = answer(folder, written(KERNEL))
    assert ended.kernel == KERNEL
    assert (ended.record.usage.calls, ended.record.usage.builds) == (5, 1)
    again = optimize(TASK, out=tmp_path / "again", model=f"replay:{folder / 'conversation.jsonl'}", target="cpu",
                     max_depth=0, max_tool_calls=3)  # fmt: skip
    assert again.kernel == KERNEL
    assert prompts(tmp_path / "again") == prompts(folder)


def called(tool: str, argument: str) -> str:
    return f"TOOL: {tool}\n\n```\n{argument}```\n" if argument.endswith("\n") else f"TOOL: {tool}\n```\n{argument}\n```"


def prompts(run: Path) -> list[str]:
    return [said.prompt_sha256 for said in ReplayModel.load(run / "conversation.jsonl").exchanges]


@pytest.mark.usefixtures("scripted")
def test_from_the_command_line(tmp_path: Path) -> None:
    task, run = tmp_path / "softsign.py", tmp_path / "run"
    task.write_text(SOURCE, encoding="utf-8")

    options = ("--model", "manual", "--target", "cpu", "--depth", "0", "--out", str(run))
    begins = said("optimize", str(task), *options)

    assert begins.exit_code == WAITING, begins.output
    assert "A question waits in" in begins.stdout and "torch.compile" not in begins.stdout
    resumed = said("optimize", "--resume", str(run), "--compile-baseline")
    later = f"torch.compile is timed when the run has ended: cutegen optimize --resume {run} --compile-baseline"
    assert resumed.exit_code == WAITING and later in resumed.stdout
    shown = said("answer", str(run))
    assert shown.exit_code == 0
    assert shown.stdout.rstrip() == (run / "question.md").read_text(encoding="utf-8").rstrip()

    reply = tmp_path / "reply.md"
    reply.write_text("No idea.", encoding="utf-8")
    repeated = said("answer", str(run), str(reply), "--json")
    assert repeated.exit_code == WAITING, repeated.output
    assert one_object(repeated.stdout)["outcome"] == "waiting"

    ended = said("answer", str(run), "--edit", EDITOR=str(_editor(tmp_path, written(KERNEL))), VISUAL="")
    assert ended.exit_code in (0, NOTHING_FASTER), ended.output
    assert (run / "kernel.cu").read_text(encoding="utf-8") == KERNEL
    late = said("answer", str(run), str(reply))
    assert late.exit_code == USER_ERROR
    assert "No question waits" in late.stderr


@pytest.mark.usefixtures("scripted")
def test_the_end_of_a_run_says_what_was_judged_in_an_earlier_go_alone(tmp_path: Path) -> None:
    alone = given(tmp_path / "alone", written(RIGHT), "DONE: enough")
    kernel = tmp_path / "alone" / "kernel.cu"
    assert "judged in an earlier go, not now" in alone.stdout and f"`cutegen verify {kernel} FILE`" in alone.stdout

    together = given(tmp_path / "together", written(RIGHT), written(FASTER, "a vector loop"), "DONE: enough")
    assert "timed in the same rounds at the end" in " ".join(together.stdout.split())
    assert "earlier go" not in together.stdout, "the final ran its trials, and timed it, in this go"
    later = said("optimize", "--resume", str(tmp_path / "together"))
    assert "judged in an earlier go, not now" in later.stdout


def given(run: Path, *answers: str) -> Result:
    """What the last command prints where each answer is a command of its own."""
    begun(run)
    for number, text in enumerate(answers):
        reply = run.with_name(f"reply{number}.md")
        reply.write_text(text, encoding="utf-8")
        ended = said("answer", str(run), str(reply))
    return ended


def said(*arguments: str, **environment: str) -> Result:
    return CliRunner(env=environment).invoke(app, arguments)


def _editor(folder: Path, text: str) -> Path:
    """A program that writes `text` in front of what it is given to edit."""
    (folder / "text").write_text(text, encoding="utf-8")
    editor = folder / "editor"
    editor.write_text(f'#!/bin/sh\ncat "{folder}/text" "$1" > "$1.new" && mv "$1.new" "$1"\n', encoding="utf-8")
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    return editor


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("waiting") / "run"
    with judging_here():
        begun(folder)
    return folder


@pytest.mark.parametrize(
    ("arguments", "editor", "said"),
    [
        (("no-such-file",), "", "cannot be read"),
        (("reply", "--edit"), "", "exclude each other"),
        (("--edit",), "true", "The answer is empty"),
        (("--edit",), "false", "The editor false failed"),
        (("--edit",), "no-such-editor-anywhere", "The editor no-such-editor-anywhere failed"),
    ],
)
def test_what_is_no_answer_is_said(waiting: Path, arguments: tuple[str, ...], editor: str, said: str) -> None:
    refused = CliRunner(env={"EDITOR": editor, "VISUAL": ""}).invoke(app, ["answer", str(waiting), *arguments])

    assert refused.exit_code == USER_ERROR
    assert said in refused.stderr
    assert (waiting / "question.md").exists()


@pytest.mark.usefixtures("scripted")
def test_an_answer_nobody_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no run"):
        answer(tmp_path / "nowhere", "hello")
    declined = optimize(load_task(SOURCE), out=tmp_path / "run", model="playbook", target="cpu", max_depth=0)
    with pytest.raises(UserError, match="No question waits"):
        answer(declined.folder, "hello")


@pytest.mark.usefixtures("scripted")
def test_a_kernel_that_the_sanitizer_withdraws_is_told_apart_from_one_that_never_passed(tmp_path: Path) -> None:
    run, reply = tmp_path / "run", tmp_path / "reply.md"
    begun(run, max_depth=0, max_repairs=0)
    reply.write_text(written(KERNEL.replace("// LOOP", "// judge: finding heap-buffer-overflow")), encoding="utf-8")

    ended = said("answer", str(run), str(reply))

    assert ended.exit_code == NOTHING_FASTER, ended.output
    assert "No kernel is left: the sanitizers found fault with each that passed." in ended.stdout
    assert "heap-buffer-overflow" in ended.stdout
    assert not (run / "kernel.cu").exists()
