"""A run that is stopped keeps what was verified and goes on later: Ctrl-C, SIGTERM, kill -9 in a build."""

import json
import signal
from pathlib import Path

import pytest
from chat_server import Behaviour, Scripted, chat_endpoint
from command_line import (
    BRIEF,
    SCRIPTED,
    UNWATCHED,
    WITHIN_S,
    agent_began,
    cutegen,
    events,
    never_built,
    one_object,
    softsign,
    start,
    wait_until,
)

from graph.runs.record import RunRecord
from nodes.models.replay import ReplayModel


def judged(run: Path) -> bool:
    return any(event["event"] == "step" and event.get("status") == "passed" for event in events(run))


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_says_how_to_go_on(signal_number: int, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start("optimize", never_built(tmp_path), "--target", "cpu", "--out", run, "--json", cwd=tmp_path)
    wait_until(lambda: agent_began(run, "tester") or process.poll() is not None, "the first test")
    process.send_signal(signal_number)
    stdout, stderr = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 130, stderr
    assert "Go on with: cutegen optimize --resume run" in stderr
    assert one_object(stdout)["error"] == "interrupted"
    assert json.loads((run / "record.json").read_text(encoding="utf-8"))["outcome"] == "interrupted"
    assert "Traceback" not in stderr


def test_a_stop_after_the_first_pass_keeps_the_kernel_and_resumes(tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = (*UNWATCHED, "--depth", 1, "--out", run)
    process = start("optimize", never_built(tmp_path), *options, cwd=tmp_path, command=BRIEF)
    wait_until(lambda: judged(run) or process.poll() is not None, "the first pass")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=WITHIN_S)
    if process.returncode != 130:
        pytest.skip("the run ended before the signal came")
    assert "The best kernel so far is run/kernel.cu." in stderr
    kernel = (run / "kernel.cu").read_text(encoding="utf-8")
    assert (run / "model_new.py").exists()
    before = RunRecord.model_validate_json((run / "record.json").read_bytes())
    assert before.best is not None
    assert before.best.candidate.source == kernel
    done = cutegen("optimize", "--resume", run, "--json", command=SCRIPTED)
    assert done.returncode in (0, 1), done.stderr
    after = RunRecord.model_validate_json((run / "record.json").read_bytes())
    assert after.steps[: len(before.steps)] == before.steps, "what was done is not done again"
    assert after.outcome in ("improved", "nothing_faster")


def test_kill_9_in_the_middle_of_a_build_resumes_and_finishes(tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start("optimize", never_built(tmp_path), *UNWATCHED, "--depth", 0, "--out", run, cwd=tmp_path)
    wait_until(lambda: agent_began(run, "tester") or process.poll() is not None, "the first build")
    process.kill()
    process.communicate(timeout=WITHIN_S)
    assert process.returncode == -signal.SIGKILL
    assert not (run / "kernel.cu").exists(), "it was killed before anything was verified"
    done = cutegen("optimize", "--resume", run, "--json", command=SCRIPTED)
    assert done.returncode in (0, 1), done.stderr
    assert one_object(done.stdout)["status"] == "passed"
    agents = [step.agent for step in RunRecord.model_validate_json((run / "record.json").read_bytes()).steps]
    assert agents[:2] == ["generator", "tester"]
    assert agents.count("generator") == 1, "the generator's step was checkpointed and is not repeated"


@pytest.mark.parametrize("answered", [0, 1])
def test_kill_9_in_a_model_call_resumes_with_what_was_answered_before_it(answered: int, tmp_path: Path) -> None:
    """The call hangs, the process dies; the first call and what the tool said are still there afterwards."""
    run = tmp_path / "run"
    look_up = Scripted(tool="look_up", arguments='{"query": "statistics"}')
    script = (*[look_up] * answered, Scripted("never sent"), Scripted("CANNOT: enough was seen"))
    behaviours: list[Behaviour] = [*["script"] * answered, "hang", "script"]  # type: ignore[list-item]
    with chat_endpoint(*behaviours, script=script) as endpoint:
        model = ("--model", "openai:m", "--base-url", endpoint.base_url, "--target", "cpu")
        process = start("optimize", softsign(tmp_path), *model, "--out", run, cwd=tmp_path, command=SCRIPTED)
        wait_until(lambda: len(endpoint.requests) > answered or process.poll() is not None, "the call that hangs")
        process.kill()
        process.communicate(timeout=WITHIN_S)
        assert process.returncode == -signal.SIGKILL
        done = cutegen("optimize", "--resume", run, "--json", command=SCRIPTED)
    assert done.returncode == 1, done.stderr
    assert len(endpoint.requests) == answered + 2, "the answered call was asked for again"
    *_, killed, resumed = (request["messages"] for request in endpoint.requests)
    assert resumed == killed
    assert ("## Sums and statistics" in resumed[-1]["content"]) == bool(answered)
    record = RunRecord.model_validate_json((run / "record.json").read_bytes())
    assert (record.stop_reason, record.usage.calls) == ("enough was seen", answered + 1)
    exchanges = ReplayModel.load(run / "conversation.jsonl").exchanges
    assert [said.index for said in exchanges] == list(range(answered + 1))


def test_two_processes_do_not_work_in_one_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with chat_endpoint("hang") as endpoint:
        model = ("--model", "openai:m", "--base-url", endpoint.base_url, "--target", "cpu")
        process = start("optimize", softsign(tmp_path), *model, "--out", run, cwd=tmp_path, command=SCRIPTED)
        wait_until(lambda: bool(endpoint.requests) or process.poll() is not None, "the call that hangs")
        second = cutegen("optimize", "--resume", run)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WITHIN_S)
    assert second.returncode == 2
    assert "Another process is working" in second.stderr
