"""What is shown and logged while a run goes on."""

import io
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from chat_server import chat_endpoint
from jupyter_client.manager import start_new_kernel
from pydantic import ValidationError
from rich.console import Console

from graph.runs.progress import HEAD, Listener, Now, Quiet, Terminal, line, open_log, table, watching
from harness.nouns import events
from harness.nouns.contest import Standing
from harness.nouns.events import Describing
from harness.nouns.task import Variant
from harness.nouns.verdict import Busy, HeadToHead, Interval, Timing
from nodes.events import Answering, Asked, NewBest, Progress, RegionEnded
from nodes.models.select import ModelOptions, open_model
from nodes.progress import listening, reporting
from nodes.state import FellBack, Final, RunState, Step, Usage
from tools.library_tool import LOOK_UP

PASSED = Step(
    depth=2, agent="tester", move="streaming stores", candidate="abc", status="passed", seconds=7.123,
    candidate_speedup=1.9, speedup=1.9, improved=True,
)  # fmt: skip
MET = HeadToHead(
    incumbent="old", incumbent_ms=1.0, speedup=1.31, interval=Interval(low=1.1, high=1.67), rounds=16
)  # fmt: skip
FAILED = Step(depth=3, agent="tester", move="unroll " * 20, candidate="def", status="wrong", seconds=1, speedup=1.9)
PROFILED = Step(depth=3, agent="profiler", message="memory bound, 80% of the roof", speedup=1.9)


def timed(speedup: float) -> Timing:
    return Timing(
        candidate_ms=1 / speedup, baseline_ms=1.0, speedup=speedup,
        speedup_interval=Interval(low=speedup, high=speedup), rounds=16, threads=2, converged=True,
    )  # fmt: skip


def shown(*, terminal: bool) -> str:
    text = io.StringIO()
    display = Terminal(Console(file=text, force_terminal=terminal, width=100, color_system=None))
    for agent, step in (("tester", PASSED), ("tester", FAILED), ("profiler", PROFILED)):
        display.started(agent)
        display.stepped(step)
    display.stop()
    return text.getvalue()


def test_a_line_says_depth_agent_move_seconds_and_what_the_verdict_says() -> None:
    words = line(PASSED).plain.split()
    assert words == ["2", "tester", "streaming", "stores", "7.12", "passed,", "kept:", "1.90x", "over", "eager"]
    assert line(PROFILED).plain.split()[:4] == ["3", "profiler", "memory", "bound,"]


@pytest.mark.parametrize(
    ("met", "says"),
    [
        (MET, "passed, kept: 1.31x over the best, 1.10 to 1.67"),
        (HeadToHead.of_identical("abc", 1.0), "passed, kept: identical machine code to the best"),
    ],
)
def test_a_line_names_the_duel_that_decided(met: HeadToHead, says: str) -> None:
    """The speed-up over eager was measured in rounds of its own, and is not what a kernel is kept by."""
    assert line(PASSED.model_copy(update={"head_to_head": met})).plain.endswith(f"  {says}")


def test_a_line_says_that_others_were_on_the_machine_while_eager_was_timed() -> None:
    """Eager's threads wait for each other at every operation: beside a busy neighbour it was 28 times slower."""
    assert line(PASSED.model_copy(update={"busy": True})).plain.endswith("kept: 1.90x over eager, on a busy machine")


def test_every_ratio_that_is_shown_says_what_it_is_over_and_at_which_batch() -> None:
    rounds = {"rounds": 16, "speedup": 28.97, "interval": Interval(low=27.46, high=29.93)}
    assert events.Timing(**rounds).words == "timing, 16 rounds: 28.97x over eager (27.46-29.93)"
    assert events.Timing(**rounds, incumbent=True).words == "timing, 16 rounds: 28.97x over the best (27.46-29.93)"
    first = events.Timing(rounds=1, speedup=2.05, interval=Interval(low=2.05, high=2.05))
    assert first.words == "timing, 1 rounds: 2.05x over eager", "one round has no interval"
    batch = events.Timing(**rounds, at=Variant(name="many", batch=96000).at, busy=True)
    assert batch.words == "timing at batch 96000, 16 rounds: 28.97x over eager (27.46-29.93), busy machine"
    assert events.Timing(**rounds, at=Variant(name="wide").at).words.startswith("timing of wide, 16 rounds")
    assert Variant().at == ""
    assert events.Judged(candidate="abc", status="passed", speedup=1.5).words == "passed, 1.50x over eager"
    assert NewBest(candidate="abc", speedup=1.5, interval=None).words == "a new best: 1.50x over eager"
    assert RegionEnded(improved=True, speedup=1.5).words == "1.50x over eager by itself"


def test_a_line_names_the_step_whose_machine_code_a_kernel_has() -> None:
    """It need not be the best kernel's."""
    told = "the same machine code as step 4, threads, whose verdict stands"
    known = PASSED.model_copy(update={"head_to_head": HeadToHead.of_identical("abc", 1.0), "message": told})
    assert line(known).plain.endswith(told)


@pytest.mark.parametrize(
    ("status", "message", "says"),
    [
        ("wrong", "correctness: y is wrong on wide inputs (seed 3): 2.5% of it, whole rows. First at [0, 1]: no.",
         "wrong: correctness: y is wrong on wide inputs (seed 3): 2.5% of it, whole rows."),
        ("refused", "screen: kernel:3: a kernel opens no files.\nLeave it out.",
         "refused: screen: kernel:3: a kernel opens no files."),
        ("build_failed", "build: kernel:4: 'rows' was not declared",
         "build_failed: build: kernel:4: 'rows' was not declared"),
        ("wrong", "", "wrong"),
    ],
)  # fmt: skip
def test_a_line_of_a_failure_gives_the_first_sentence_of_the_reason(status: Any, message: str, says: str) -> None:
    assert line(FAILED.model_copy(update={"status": status, "message": message})).plain.endswith(f"  {says}")


def test_lines_are_aligned_and_long_moves_cut() -> None:
    lines = [line(step).plain for step in (PASSED, FAILED)]
    assert lines[0].index("passed") == lines[1].index("wrong") == HEAD.index("verdict")
    assert "..." in lines[1]


def test_markup_in_a_move_is_only_text() -> None:
    step = PASSED.model_copy(update={"move": "[red]bold[/red]"})
    assert "[red]bold[/red]" in line(step).plain


def test_without_a_terminal_there_are_only_lines() -> None:
    lines = shown(terminal=False).splitlines()
    assert lines[0] == HEAD
    assert len(lines) == 4
    assert "compiling" not in shown(terminal=False)


def test_on_a_terminal_the_present_work_is_shown() -> None:
    assert "compiling and judging" in shown(terminal=True)


def test_a_steps_cost_stands_behind_its_line() -> None:
    bought = PASSED.model_copy(update={"usage": Usage(calls=2, input_tokens=900, output_tokens=90, dollars=0.25)})
    assert line(bought).plain.endswith("1.90x over eager  $0.25")
    unknown = Usage(calls=2, input_tokens=900, unpriced_calls=2)
    assert line(PASSED.model_copy(update={"usage": unknown})).plain.endswith("unknown price")
    assert line(PASSED.model_copy(update={"usage": Usage(calls=1)})).plain.endswith("1.90x over eager")


def test_a_model_that_goes_on_for_another_is_told_once() -> None:
    fell_back = FellBack(model="openai:a", answered_by="openai:b", because="It is down.")
    text = io.StringIO()
    display = Terminal(Console(file=text, width=200))
    for _ in range(2):
        display.stepped(PASSED.model_copy(update={"usage": Usage(calls=1, fell_back=(fell_back,))}))
    assert text.getvalue().count("openai:b goes on for openai:a. It is down.") == 1


class Ear:
    """Listens like a terminal does."""

    def __init__(self) -> None:
        self.now = Now()
        self.told: list[str] = []

    def heard(self, progress: Progress) -> None:
        self.now.heard(progress)
        self.told.append(self.now.text())


@contextmanager
def heard_by(ear: Ear) -> Iterator[None]:
    """What a node would tell of, told to the ear."""
    state = RunState(source="", usage=Usage(calls=1, input_tokens=1000, dollars=0.5))
    with listening(ear.heard), reporting("generator", lambda _: None, state):
        yield


def test_an_answer_is_followed_while_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    ear = Ear()
    with chat_endpoint("broken", "answer", answer="one\ntwo") as endpoint, heard_by(ear):
        open_model("openai:m", ModelOptions(base_url=endpoint.base_url, max_retries=1)).invoke("Write.")
    told = [re.sub(r"no word for \d+ s", "no word", each) for each in ear.told]
    assert "no word, 1 calls, 1,000 tokens, $0.50" in told
    assert "no word, try 2, 1 calls, 1,000 tokens, $0.50" in told
    assert any("characters so far" in told for told in ear.told)
    assert ear.told[-1].endswith("2 calls, 1,018 tokens, $0.50")


def test_a_tool_is_named_while_it_runs() -> None:
    ear = Ear()
    with heard_by(ear):
        LOOK_UP["cpu"].invoke({"query": "tile"})
        with pytest.raises(ValidationError):
            LOOK_UP["cpu"].invoke({"query": 3})
    cost = "1 calls, 1,000 tokens, $0.50"
    assert ear.told == [cost, f"look_up, {cost}", cost, f"look_up, {cost}", cost, cost]


def test_a_silence_is_seen_to_last(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    display = Terminal(Console(file=text, force_terminal=True, width=100, color_system=None))
    display.started("generator")
    now, later = Now(), time.monotonic() + 42
    for heard in (now.heard, display.heard):
        heard(Progress(agent="generator", seconds=0.0, event=Asked()))
    now._silent_since = later - 42
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: later)
        assert now.text() == "no word for 42 s"
    for pieces, characters, far in ((9, 0, "thinking"), (9, 1200, "1,200 characters so far")):
        now.heard(Progress(agent="generator", seconds=0.0, event=Answering(pieces=pieces, characters=characters)))
        assert now.text() == far
        now._silent_since = later - 42
        with monkeypatch.context() as patched:
            patched.setattr(time, "monotonic", lambda: later)
            assert now.text() == f"{far}, no word for 42 s"
    display.stop()
    assert "writing a first kernel" in text.getvalue()


def test_the_table_lists_what_was_judged() -> None:
    text = io.StringIO()
    Console(file=text, width=220).print(table((PASSED, FAILED, PROFILED)))
    rows = text.getvalue().splitlines()
    assert len(rows) == 3
    assert "kept" in rows[1] and "1.90x" in rows[1]
    assert "kept" not in rows[2]


def test_of_kernels_that_were_timed_together_the_table_has_those_times() -> None:
    later = PASSED.model_copy(update={"candidate": "ghi", "head_to_head": MET, "candidate_speedup": 1.2})
    tried = later.model_copy(update={"candidate": "jkl", "improved": False})
    final = Final(
        standings=(Standing(candidate="abc", timing=timed(2.0)), Standing(candidate="ghi", timing=timed(2.6)))
    )
    text = io.StringIO()
    Console(file=text, width=220).print(table((PASSED, later, tried), final))
    _, *rows = text.getvalue().splitlines()
    assert "2.00x" in rows[0]
    assert "1.31x (1.10 to 1.67)" in rows[1] and "2.60x" in rows[1] and "1.20x" not in rows[1]
    assert "1.31x (1.10 to 1.67)" in rows[2] and "1.20x" not in rows[2], "its own rounds were others"
    assert "timed in the same rounds" in rows[3] and "disturbed" not in text.getvalue()

    crowd = Busy(stolen=0.0, others=6.0, threads=2, processors=2, spread=0.1)
    loaded = final.standings[1].timing.model_copy(update={"busy": crowd})
    last = final.standings[1].model_copy(update={"timing": loaded})
    Console(file=text, width=220).print(table((PASSED, later), Final(standings=(final.standings[0], last))))
    assert "The times were disturbed" in text.getvalue()


def test_the_log_is_one_object_a_line_and_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for _ in range(2):
        with open_log(path, "run-1") as log:
            log.started("tester")
            log.stepped(PASSED)
            log.ended("improved", "depth")
    entries = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    assert [entry["event"] for entry in entries] == ["started", "step", "ended"] * 2
    assert entries[1]["candidate_speedup"] == 1.9
    assert all(entry["run"] == "run-1" and entry["timestamp"] for entry in entries)


def test_a_run_that_no_terminal_shows_says_after_a_while_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    display = Terminal(Console(file=text, width=200))
    display.started("intake")
    later = time.monotonic() + 42
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: later)
        for _ in range(3):
            display.heard(Progress(agent="intake", seconds=0.0, event=Describing(name="a", doing="running forward")))
    assert re.fullmatch(r"reading the task, 4[12] s: running forward\n", text.getvalue()), "once, and not sooner again"


def test_a_caller_may_watch_with_a_function_or_an_observer() -> None:
    heard: list[Progress] = []
    event = Progress(agent="intake", seconds=0.0, event=Asked())
    with watching(heard.append) as watch:
        watch.started("intake")
        watch.stepped(PASSED)
        assert isinstance(watch, Listener)
        watch.heard(event)
    assert heard == [event]
    own = Quiet()
    with watching(own) as watch:
        assert watch is own


def test_from_python_a_terminal_shows_the_first_run_and_a_pipe_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with watching(None) as watch:
        watch.stepped(PASSED)
    assert capsys.readouterr().err == "", "nobody reads it"
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    with watching(None) as first, watching(None) as second:
        assert isinstance(first, Terminal)
        assert not isinstance(second, Terminal)
        first.started("tester")
        first.stepped(PASSED)
    err = capsys.readouterr().err
    assert "compiling and judging" in err and "streaming stores" in err


CELL = """
from graph.runs.progress import watching
from harness.nouns.events import Describing
from nodes.events import Progress
from nodes.state import Step

with watching(None) as watch:
    watch.started("intake")
    import time; time.sleep(0.3)
    watch.heard(Progress(agent="intake", seconds=0.0, event=Describing(name="a", doing="running forward")))
    watch.stepped(Step(depth=2, agent="tester", move="streaming stores", status="passed"))
"""


def test_a_notebook_shows_steps_and_one_line_that_is_replaced() -> None:
    """In a real kernel: what a front end is sent."""
    manager, client = start_new_kernel(kernel_name="python3")
    sent: list[tuple[str, dict[str, Any]]] = []
    try:
        client.execute_interactive(CELL, output_hook=lambda said: sent.append((said["msg_type"], said["content"])))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    shown = [(kind, content["data"]["text/plain"], content["transient"].get("display_id"))
             for kind, content in sent if kind in ("display_data", "update_display_data")]  # fmt: skip
    (first, line, place), *others = shown
    assert (first, line) == ("display_data", "reading the task")
    replaced = [text for kind, text, where in others if (kind, where) == ("update_display_data", place)]
    assert replaced == ["reading the task: running forward", ""]
    assert any("streaming stores" in text for _, text, _ in others)
    assert not [content for kind, content in sent if kind in ("stream", "error")]
