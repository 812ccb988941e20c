"""What coding agents are told: by a scripted judge, over the protocol's own client."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from scripted_judge import Scripted
from softsign_script import SOURCE

from graph.mcp import desk as desk_module
from graph.mcp import server as server_module
from graph.mcp.desk import Desk
from graph.mcp.server import server_of
from harness.judging.protocol import JudgeOrder
from harness.nouns.events import Describing
from harness.nouns.verdict import Busy, Verdict
from harness.wire.telling import tell


class Agent:
    """A client that calls one tool after the other."""

    def __init__(self, desk: Desk) -> None:
        self._server = server_of(desk)
        self.said: list[str | None] = []

    def __call__(self, tool: str, **arguments: Any) -> Any:
        return asyncio.run(self.all((tool, arguments)))[0]

    async def all(self, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
        async with Client(self._server) as client:
            found = await asyncio.gather(*(client.call_tool(*call, progress_callback=self._hear) for call in calls))
            return [each.content[0].text if each.is_error else _answer(each) for each in found]

    async def _hear(self, progress: float, total: float | None, message: str | None) -> None:
        self.said.append(message)


def _answer(result: Any) -> Any:
    found = result.structured_content
    return found["result"] if set(found) == {"result"} else found


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(JudgeOrder(target="cpu"), tmp_path / "out", Scripted(), local=True)


@pytest.fixture
def agent(desk: Desk) -> Agent:
    return Agent(desk)


@pytest.fixture
def task(agent: Agent) -> str:
    return str(agent("open_task", source=SOURCE, name="softsign")["task"])


def kernel(words: str) -> str:
    return f"// judge: {words}\n"


def test_a_task_is_described_with_what_a_kernel_is_held_to(agent, task):
    card = agent("open_task", source=SOURCE, name="softsign")
    assert (card["task"], card["target"], card["op_class"]) == (task, "cpu", "elementwise")
    assert "aten.abs" in card["operations"]
    assert 'output "output"' in card["arguments"]
    assert "magnitudes" in card["compared_on"] and "160 OpenMP threads" in card["compared_on"]
    assert "TVM_FFI_DLL_EXPORT_TYPED_FUNC" in agent("entry_stub", task=task)


def test_the_best_kernel_is_who_beats_the_one_before(agent, task):
    first = agent("verify_kernel", task=task, source=kernel("passed 1.5x"))
    assert first["is_best"] and first["meeting"] is None
    slower = agent("verify_kernel", task=task, source=kernel("passed 1.2x"))
    assert not slower["is_best"]
    assert (slower["meeting"]["against"], slower["meeting"]["outcome"]) == (first["kernel"], "not faster")
    assert (slower["meeting"]["measure"], slower["meeting"]["rounds"]) == ("wall time", 9)
    faster = agent("verify_kernel", task=task, source=kernel("passed 3x"), against=slower["kernel"])
    assert faster["meeting"]["against"] == slower["kernel"]
    assert faster["is_best"]
    standing = agent("standing", task=task)
    assert standing["best"] == faster["kernel"]
    assert [each["speedup"] for each in standing["tried"]] == [1.5, 1.2, 3.0]
    assert agent("kernel_source", task=task)["source"] == kernel("passed 3x")


def test_a_meeting_of_too_few_rounds_has_no_interval(agent, task):
    agent("verify_kernel", task=task, source=kernel("passed 1.5x"))
    met = agent("verify_kernel", task=task, source=kernel("passed 1.6x 197%"))
    assert (met["meeting"]["low"], met["meeting"]["high"], met["meeting"]["outcome"]) == (None, None, "undecided")
    assert (met["low"], met["high"]) == (None, None)
    assert "open: too few rounds" in met["words"] and "0.0" not in met["words"]


def test_a_failure_says_what_a_repair_can_start_from(agent, task):
    built = agent("compile_kernel", task=task, source=kernel("build_failed expected ';'"))
    assert not built["succeeded"]
    assert "expected ';'" in built["words"]
    wrong = agent("verify_kernel", task=task, source=kernel("wrong"))
    assert (wrong["status"], wrong["check"], wrong["speedup"]) == ("wrong", "correctness", None)
    assert "whole rows" in wrong["words"]
    assert "No kernel has passed" in agent("profile_kernel", task=task)
    assert "has passed" in agent("export_kernel", task=task, kernel=wrong["kernel"])


def test_a_finding_withdraws_the_best_and_the_next_best_takes_its_place(agent, task):
    sound = agent("verify_kernel", task=task, source=kernel("passed 1.5x"))
    broken = agent("verify_kernel", task=task, source=kernel("passed 3x") + kernel("finding heap-buffer-overflow"))
    assert agent("standing", task=task)["best"] == broken["kernel"]
    watched = agent("sanitize_kernel", task=task)
    assert not watched["clean"] and "heap-buffer-overflow" in watched["words"]
    assert agent("standing", task=task)["best"] == sound["kernel"]
    assert agent("sanitize_kernel", task=task)["clean"]


def test_what_a_sanitizer_found_holds_for_every_text_of_the_same_machine_code(agent, task):
    """Judged before the finding, after it, or never before: none of them is the best, and none is exported."""
    found, code = kernel("finding heap-buffer-overflow"), kernel("passed 3x") + kernel("code 7")
    sound = agent("verify_kernel", task=task, source=kernel("passed 1.5x"))
    first = agent("verify_kernel", task=task, source=code + found)
    other = agent("verify_kernel", task=task, source=code + "// as well\n")
    assert (first["is_best"], other["earlier"]) == (True, first["kernel"])
    assert not agent("sanitize_kernel", task=task, kernel=first["kernel"])["clean"]
    third = agent("verify_kernel", task=task, source=code + "// later\n")
    assert (third["status"], third["check"]) == ("refused", "sanitizer")
    for each in (first, other, third):
        assert "has passed" in agent("export_kernel", task=task, kernel=each["kernel"])
    assert agent("standing", task=task)["best"] == sound["kernel"]


def test_a_finding_before_the_first_verdict_is_not_forgotten(agent, task):
    source = kernel("passed 3x") + kernel("finding heap-buffer-overflow")
    compiled = agent("compile_kernel", task=task, source=source)
    assert not agent("sanitize_kernel", task=task, kernel=compiled["kernel"])["clean"]
    judged = agent("verify_kernel", task=task, source=source)
    assert (judged["status"], judged["check"], judged["is_best"]) == ("refused", "sanitizer", False)
    assert "No kernel has passed" in agent("export_kernel", task=task)


def test_what_passed_is_profiled_and_exported(agent, task, tmp_path):
    agent("verify_kernel", task=task, source=kernel("passed 2x") + kernel("share 0.9"))
    assert agent("profile_kernel", task=task)["share_of_roof"] == 0.9
    exported = agent("export_kernel", task=task)
    folder = Path(exported["folder"])
    assert folder.is_relative_to(tmp_path / "out")
    assert "class ModelNew" in (folder / "model_new.py").read_text()
    assert (folder / "kernel.cu").read_text().startswith(kernel("passed 2x"))


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("open_task", {}, "source or a path"),
        ("open_task", {"source": "# judge: no task\n"}, "no class Model"),
        ("open_task", {"path": "nowhere.py"}, "no file nowhere.py"),
        ("verify_kernel", {"task": "T", "source": "x", "path": "y"}, "Give one of them"),
        ("verify_kernel", {"task": "T", "kernel": "0123"}, "no kernel '0123'"),
        ("verify_kernel", {"task": "T", "source": "x", "against": "0123"}, "no kernel '0123'"),
        ("verify_kernel", {"task": "nobody's", "source": "x"}, "no task"),
        ("verify_kernel", {"task": "T", "source": "x" * (desk_module.MOST_SOURCE_CHARS + 1)}, "at most"),
        ("verify_kernel", {"task": "T", "source": kernel("machine_error it is gone")}, "This machine, not your kernel"),
    ],
)
def test_what_a_caller_gets_wrong_is_a_sentence(agent, task, tool, arguments, told):
    assert told in agent(tool, **{name: task if value == "T" else value for name, value in arguments.items()})


def test_a_client_elsewhere_names_no_files_of_this_machine(tmp_path):
    agent = Agent(Desk(JudgeOrder(target="cpu"), tmp_path, Scripted(), local=False))
    assert "reads no files" in agent("open_task", path=__file__)
    task = agent("open_task", source=SOURCE)["task"]
    assert "reads no files" in agent("verify_kernel", task=task, path=__file__)


def test_old_kernels_are_forgotten_the_best_never(agent, task, monkeypatch):
    monkeypatch.setattr(desk_module, "MOST_KERNELS", 3)
    best = agent("verify_kernel", task=task, source=kernel("passed 9x"))["kernel"]
    others = [agent("verify_kernel", task=task, source=kernel(f"passed 1.{n}x"))["kernel"] for n in range(4)]
    standing = agent("standing", task=task)
    assert standing["best"] == best
    assert {each["kernel"] for each in standing["tried"]} == {best, *others[-2:]}
    assert "no kernel" in agent("verify_kernel", task=task, kernel=others[0])


def test_a_flood_is_turned_away_and_who_waits_hears_what_for(desk, monkeypatch):
    monkeypatch.setattr(server_module, "AT_ONCE", 1)
    monkeypatch.setattr(server_module, "MOST_WAITING", 1)
    monkeypatch.setattr(server_module, "TICK_S", 0.01)
    agent, go_on, real = Agent(desk), threading.Event(), desk.open_task

    def slow(source: str, path: str, name: str) -> Any:
        tell(Describing(name="one"))
        go_on.wait(30)
        return real(source, path, name)

    monkeypatch.setattr(desk, "open_task", slow)

    async def flood() -> list[Any]:
        calls = asyncio.create_task(agent.all(*[("open_task", {"source": SOURCE})] * 4))
        while {"tracing the reference", "waiting for other calls"} - set(agent.said):
            await asyncio.sleep(0.01)
        go_on.set()
        return await calls

    found = asyncio.run(flood())
    turned_away = [each for each in found if isinstance(each, str)]
    assert len(turned_away) == 2
    assert "waiting already" in turned_away[0]


def test_a_speed_up_from_a_busy_machine_says_so(agent, desk, task, monkeypatch):
    """Eager's threads wait for each other there: a kernel may seem thirty times as fast."""
    judged = desk.judge.evaluate

    def crowded(*given: Any, **named: Any) -> Verdict:
        verdict = judged(*given, **named)
        busy = Busy(stolen=0.0, others=2.0, threads=2, processors=2, spread=0.1)
        return verdict.model_copy(update={"timing": verdict.timing.model_copy(update={"busy": busy})})

    said = "While it was timed the machine was busy: 2 other threads wanted its 2 processors."
    assert said not in agent("verify_kernel", task=task, source=kernel("passed 2x"))["words"]
    monkeypatch.setattr(desk.judge, "evaluate", crowded)
    assert agent("verify_kernel", task=task, source=kernel("passed 3x"))["words"].endswith(said)


def test_machine_code_that_was_judged_is_not_run_again(agent, desk, task):
    """Whoever wrote it, and whatever its text; a kernel that it has not met yet it meets."""

    def ran() -> int:
        return sum(what == "evaluate" for what, _ in desk.judge.asked)

    first = agent("verify_kernel", task=task, source=kernel("passed 2x") + kernel("code A"))
    renamed = agent("verify_kernel", task=task, source=kernel("passed 2x") + kernel("code A") + "// a word\n")
    again = agent("verify_kernel", task=task, kernel=first["kernel"])
    assert ran() == 1
    for each in (renamed, again):
        assert each["earlier"] == first["kernel"] and each["words"].startswith("This machine code was judged before")
        assert each["speedup"] == first["speedup"]
    assert renamed["kernel"] != first["kernel"] and first["earlier"] is None
    assert agent("standing", task=task)["best"] == first["kernel"]
    better = agent("verify_kernel", task=task, source=kernel("passed 3x") + kernel("code B"))
    assert better["earlier"] is None and better["meeting"]["against"] == first["kernel"]
    meets = agent("verify_kernel", task=task, kernel=first["kernel"])
    assert meets["meeting"]["against"] == better["kernel"] and ran() == 3
    assert agent("verify_kernel", task=task, kernel=first["kernel"], against="none")["earlier"] and ran() == 3
    assert agent("verify_kernel", task=task, source=kernel("wrong") + kernel("code C"))["earlier"] is None
    wrong = agent("verify_kernel", task=task, source=kernel("wrong") + kernel("code C") + "// a word\n")
    assert (wrong["status"], ran()) == ("wrong", 4)
    for _ in range(2):
        agent("verify_kernel", task=task, source=kernel("timed_out") + kernel("code D"))
    assert ran() == 6, "a machine that was busy is no verdict on the code"


def test_another_task_or_another_order_judges_anew(agent, desk, task, tmp_path):
    source = kernel("passed 2x") + kernel("code A")
    agent("verify_kernel", task=task, source=source)
    other = agent("open_task", source=SOURCE + "#", name="other")["task"]
    assert agent("verify_kernel", task=other, source=source)["earlier"] is None
    strict = Agent(Desk(JudgeOrder(target="cpu", precision="ieee"), tmp_path, Scripted(), local=True))
    same = strict("open_task", source=SOURCE, name="softsign")["task"]
    assert strict("verify_kernel", task=same, source=source)["earlier"] is None


def test_who_waits_for_nobody_is_not_told_so(agent, task):
    agent.said.clear()
    agent("verify_kernel", task=task, source=kernel("passed 2x"))
    assert agent.said and "waiting for other calls" not in agent.said


def test_operations_are_counted_where_there_are_products(agent, desk, monkeypatch):
    card = agent("open_task", source=SOURCE, name="softsign")
    assert card["flops"] is None
    assert "memory bounds the task" in card["machine"]
    real = desk.judge.describe

    def with_products(source: str, *, name: str) -> Any:
        found = real(source, name=name)
        work = found.workloads[0].model_copy(update={"flops": 1 << 20})
        return found.model_copy(update={"workloads": (work,), "source": source})

    monkeypatch.setattr(desk.judge, "describe", with_products)
    assert agent("open_task", source=SOURCE + "# products", name="products")["flops"] == 1 << 20
