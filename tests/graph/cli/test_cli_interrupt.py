"""A run that is stopped keeps what was verified and goes on later: Ctrl-C, SIGTERM, kill -9 in a build."""

import json
import signal
from pathlib import Path

from chat_server import Scripted, chat_endpoint
from command_line import (
    SCRIPTED,
    UNWATCHED,
    WITHIN_S,
    agent_began,
    here,
    never_built,
    one_object,
    softsign,
    start,
    wait_until,
)
from softsign_script import KERNEL, written

from graph.runs.record import RunRecord
from nodes.models.replay import ReplayModel


def test_a_stop_in_a_test_says_how_to_go_on(tmp_path: Path) -> None:
    """By SIGTERM, with a real judge at work; SIGINT comes below."""
    run = tmp_path / "run"
    process = start("optimize", never_built(tmp_path), "--target", "cpu", "--out", run, "--json", cwd=tmp_path)
    wait_until(lambda: agent_began(run, "tester") or process.poll() is not None, "the first test")
    process.send_signal(signal.SIGTERM)
    stdout, stderr = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 130, stderr
    assert "Go on with: cutegen optimize --resume run" in stderr
    assert one_object(stdout)["error"] == "interrupted"
    assert json.loads((run / "record.json").read_text(encoding="utf-8"))["outcome"] == "interrupted"
    assert "Traceback" not in stderr


def test_a_stop_after_the_first_pass_keeps_the_kernel_and_resumes(tmp_path: Path) -> None:
    run = tmp_path / "run"
    script = (Scripted(written(KERNEL)), Scripted("never sent"), Scripted("DONE: enough was seen"))
    with chat_endpoint("script", "hang", "script", script=script) as endpoint:
        options = ("--model", "openai:m", "--base-url", endpoint.base_url, "--target", "cpu", "--out", run, "--json")
        process = start("optimize", softsign(tmp_path), *options, cwd=tmp_path, command=SCRIPTED)
        wait_until(lambda: len(endpoint.requests) > 1 or process.poll() is not None, "the optimizer's call")
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=WITHIN_S)
        assert process.returncode == 130, stderr
        assert one_object(stdout)["error"] == "interrupted"
        assert "Traceback" not in stderr
        assert "The best kernel so far is run/kernel.cu." in stderr
        kernel = (run / "kernel.cu").read_text(encoding="utf-8")
        assert (run / "model_new.py").exists()
        before = RunRecord.model_validate_json((run / "record.json").read_bytes())
        assert before.best is not None
        assert before.best.candidate.source == kernel
        done = here("optimize", "--resume", run, "--json")
    assert done.exit_code == 0, done.stderr
    after = RunRecord.model_validate_json((run / "record.json").read_bytes())
    assert after.steps[: len(before.steps)] == before.steps, "what was done is not done again"
    assert after.outcome == "improved"


def test_kill_9_in_the_middle_of_a_build_resumes_and_finishes(tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start("optimize", never_built(tmp_path), *UNWATCHED, "--depth", 0, "--out", run, cwd=tmp_path)
    wait_until(lambda: agent_began(run, "tester") or process.poll() is not None, "the first build")
    process.kill()
    process.communicate(timeout=WITHIN_S)
    assert process.returncode == -signal.SIGKILL
    assert not (run / "kernel.cu").exists(), "it was killed before anything was verified"
    done = here("optimize", "--resume", run, "--json")
    assert done.exit_code in (0, 1), done.stderr
    assert one_object(done.stdout)["status"] == "passed"
    agents = [step.agent for step in RunRecord.model_validate_json((run / "record.json").read_bytes()).steps]
    assert agents[:2] == ["generator", "tester"]
    assert agents.count("generator") == 1, "the generator's step was checkpointed and is not repeated"


def test_kill_9_in_a_model_call_resumes_with_what_was_answered_before_it(tmp_path: Path) -> None:
    """The call hangs, the process dies; the first call and what the tool said are still there afterwards."""
    run = tmp_path / "run"
    look_up = Scripted(tool="look_up", arguments='{"query": "statistics"}')
    script = (look_up, Scripted("never sent"), Scripted("CANNOT: enough was seen"))
    with chat_endpoint("script", "hang", "script", script=script) as endpoint:
        model = ("--model", "openai:m", "--base-url", endpoint.base_url, "--target", "cpu")
        process = start("optimize", softsign(tmp_path), *model, "--out", run, cwd=tmp_path, command=SCRIPTED)
        wait_until(lambda: len(endpoint.requests) > 1 or process.poll() is not None, "the call that hangs")
        process.kill()
        process.communicate(timeout=WITHIN_S)
        assert process.returncode == -signal.SIGKILL
        done = here("optimize", "--resume", run, "--json")
    assert done.exit_code == 1, done.stderr
    assert len(endpoint.requests) == 3, "the answered call was asked for again"
    *_, killed, resumed = (request["messages"] for request in endpoint.requests)
    assert resumed == killed
    assert "## Sums and statistics" in resumed[-1]["content"]
    record = RunRecord.model_validate_json((run / "record.json").read_bytes())
    assert (record.stop_reason, record.usage.calls) == ("enough was seen", 2)
    exchanges = ReplayModel.load(run / "conversation.jsonl").exchanges
    assert [said.index for said in exchanges] == [0, 1]


def test_two_processes_do_not_work_in_one_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with chat_endpoint("hang") as endpoint:
        model = ("--model", "openai:m", "--base-url", endpoint.base_url, "--target", "cpu")
        process = start("optimize", softsign(tmp_path), *model, "--out", run, cwd=tmp_path, command=SCRIPTED)
        wait_until(lambda: bool(endpoint.requests) or process.poll() is not None, "the call that hangs")
        second = here("optimize", "--resume", run)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WITHIN_S)
    assert second.exit_code == 2
    assert "Another process is working" in second.stderr
