"""Task files that attack who describes them: each is named as the user's file, nothing of it reaches anybody else."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.isolation.policy import Limits
from harness.isolation.tiers import resolve_tier
from harness.nouns.errors import UserError
from harness.nouns.events import Event
from harness.nouns.task import Task
from harness.processes.trusted_child import JobDiedError, WarmParent, warm_parent
from harness.tasks.describing import LIMITS, describe_task
from harness.wire.telling import telling

FINE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2

def get_inputs():
    return [torch.rand(3, 4)]
"""
STEERS = "\x1b[2J\x1b]0;owned\x07"


def described(source: str) -> Task:
    return describe_task(source, name="task", tier=resolve_tier("auto"))


def answering(message: object, then: str = "os._exit(0)") -> str:
    """A file that answers in the describer's place: on every descriptor that it has."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return _written(struct.pack("<I", len(body)) + body, then)


def _written(data: bytes, then: str) -> str:
    return f"""
import os
for descriptor in range(3, 64):
    try:
        os.write(descriptor, {data!r})
    except OSError:
        pass
{then}
"""


SPECIMEN = {"name": "task", "source": "another file", "workloads": [], "op_class": "other"}

ENDED = {
    "exits": ("import sys\nsys.exit(3)", r"SystemExit in <task>, line 2: 3\."),
    "exits where inputs are made": (FINE.replace("torch.rand(3, 4)", "exit(4)"), "SystemExit"),
    "interrupts": ("raise KeyboardInterrupt", "KeyboardInterrupt in <task>, line 1"),
    "an exception of no kind": ("class E(BaseException): ...\nraise E('x' * 10**6)", "E in <task>, line 2: x{300}\\."),
    "cannot say what is wrong": ("class E(Exception):\n    def __str__(s): return 5\nraise E()", "__str__ returned"),
    "raises where it is read": ("def __getattr__(name): raise RuntimeError('no')\n" + FINE, "RuntimeError in <task>"),
    "fails to say what is wrong": ("class E(Exception):\n    def __str__(s): raise s\nraise E()", "exit code 1"),
    "ends when it is thrown away": ("class D:\n    def __del__(s): __import__('os')._exit(9)\nD()", "exit code 9"),
    "takes builtins away": ("import builtins\nbuiltins.len = None\n" + FINE, "exit code 1"),
    "takes a judge's function away": (
        "import harness.trusted.facts.describing as d\nd.Task = None\n" + FINE, "TypeError",
    ),
    "recurses as a module": (
        FINE.replace("    def forward", "    def __init__(self):\n        super().__init__()\n"
        "        self._modules['me'] = self\n\n    def forward"),
        "RecursionError",
    ),
    "an answer that is no task": (answering({"result": {"name": "task"}}), "no task"),
    "an answer that is another task": (answering({"result": SPECIMEN}), "no task"),
    "an answer of a patched json": ("import json\njson.dumps = lambda *a, **k: '{\"result\": {}}'\n" + FINE, "no task"),
    "an error that is none": (answering({"user_error": [["x"], {}]}), "exit code 0"),
    "half an error": (answering({"user_error": ["x"]}), "exit code 0"),
    "a status that is a text": (answering({"exit": "x"}), "with an answer that is none"),
    "a status of no signal": (answering({"exit": 70}), "with an answer that is none"),
    "a frame without end": (_written(struct.pack("<I", 60 << 20), "os._exit(0)"), "closed within a frame"),
    "a frame that is too large": (_written(b"\xff" * 100, "os._exit(0)"), "over the limit"),
    "JSON without end": (answering(b"[" * 100_000), "a frame holds no JSON"),
    "no object": (answering([1]), "something else than an object"),
    "brackets without end": ("x = " + "(" * 5000, "SyntaxError"),
    "signs without end": ("x = " + "-" * 200_000 + "1", "importing it raised"),
    "a zero byte": ("x = 1\0", "null bytes"),
}  # fmt: skip


@pytest.mark.parametrize("how", ENDED)
def test_what_a_file_does_to_its_process_is_told_in_one_sentence(how: str) -> None:
    source, told = ENDED[how]
    with pytest.raises(UserError, match=told) as caught:
        described(source)
    assert str(caught.value).startswith("task: ")
    assert len(str(caught.value)) < 1000
    assert warm_parent().alive


def test_a_file_that_answers_as_another_task_is_not_taken_for_it() -> None:
    other = described(FINE).model_copy(update={"source": "import os"})
    with pytest.raises(UserError, match="another task"):
        described(answering({"result": other.model_dump(mode="json")}))


def test_answers_without_end_are_over_in_time(tmp_path: Path) -> None:
    """Each frame of a flood comes at once: no wait for one ever times out."""
    flood = answering({"more": 1}, then="").replace("for desc", "while True:\n  for desc").replace("\n    ", "\n     ")
    started = time.monotonic()
    with pytest.raises(JobDiedError, match="over its time of 2 s"):
        warm_parent().run(
            "describe", {"source": flood, "name": "task"}, tier=resolve_tier("auto"), cwd=tmp_path,
            limits=Limits(wall_s=2.0, memory_bytes=LIMITS.memory_bytes),
        )  # fmt: skip
    assert time.monotonic() - started < 60


def test_nothing_that_a_file_says_reaches_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    loud = f"""
import os, sys
sys.stdout.write("x" * 1_000_000 + {STEERS!r})
sys.stderr.write("y" * 1_000_000 + {STEERS!r})
for descriptor in (0, 1, 2):
    try:
        os.write(descriptor, {STEERS.encode()!r})
    except OSError:
        pass
"""
    parent = WarmParent()
    try:
        for source in (loud + FINE, loud + "sys.exit(3)"):
            try:
                answer = parent.run(
                    "describe",
                    {"source": source, "name": "task"},
                    tier=resolve_tier("auto"),
                    cwd=tmp_path,
                    limits=LIMITS,
                )
                assert answer["op_class"] == "elementwise"
            except JobDiedError as died:
                assert "SystemExit" in died.reason
    finally:
        parent.close()
    assert capfd.readouterr() == ("", "")


def test_a_file_signals_nobody_outside() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        for victim in (bystander.pid, os.getpid(), "os.getppid()"):
            with pytest.raises(UserError, match="PermissionError"):
                described(f"import os, signal\nos.kill({victim}, signal.SIGTERM)\n{FINE}")
        assert bystander.poll() is None
        bystander.kill()


def test_a_file_has_nobodys_key_and_nobodys_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    secret, around = tmp_path / "secret", tmp_path / "written"
    secret.write_text("sk-secret", encoding="utf-8")
    tries = (
        "raise ValueError(repr(dict(os.environ)))",
        "raise ValueError(open(f'/proc/{os.getppid()}/environ').read())",
        f"raise ValueError(open({str(secret)!r}).read())",
        f"open({str(around)!r}, 'w')\nraise ValueError('written')",
        f"raise ValueError(os.listdir({str(Path.home())!r}))",
        "import socket\nsocket.create_connection(('127.0.0.1', 9))\nraise ValueError('connected')",
    )
    for attempt in tries:
        with pytest.raises(UserError, match="importing it raised") as caught:
            described(f"import os\n{attempt}\n")
        assert "sk-secret" not in str(caught.value)
    assert not around.exists()


@pytest.mark.parametrize("late", ["import atexit, os\natexit.register(os._exit, 9)", "import threading, time\n"
    "threading.Thread(target=time.sleep, args=[1000]).start()"], ids=["at exit", "a thread"])  # fmt: skip
def test_what_would_run_later_does_not(late: str) -> None:
    assert described(f"{late}\n{FINE}").op_class == "elementwise"


NAMED = """
import torch

WORKLOADS = [{{"n": 4, "name": {workload!r}}}, {{"n": 5}}]

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_parameter({parameter!r}, torch.nn.Parameter(torch.ones(3)))

    def forward(self, x):
        return x * 2

def get_inputs(n=3):
    return [torch.rand(2, n)]
"""


@pytest.mark.parametrize("name", ["two\nlines", "```", STEERS, "turned\u202e", "x" * 201])
def test_a_name_that_prompts_and_pages_cannot_hold_is_refused(name: str) -> None:
    """A heading, a fence or a comment's end within a name would be the file's word in the place of ours."""
    with pytest.raises(UserError, match=r"task: workload 0: name: .*one line of at most 200 printable"):
        described(NAMED.format(workload=name, parameter="w"))
    with pytest.raises(UserError, match=r"task: the tensor .*one line of at most 200 printable") as caught:
        described(NAMED.format(workload="first", parameter=name))
    assert "\x1b" not in str(caught.value)


def test_odd_names_that_are_plain_are_kept() -> None:
    task = described(NAMED.format(workload="größer <b> */ {{ 1 }}", parameter='weight "of" <i>*/'))
    assert task.workloads[0].name == "größer <b> */ {{ 1 }}"
    assert task.signature.parameters[0].name == 'weight "of" <i>*/'


def test_a_file_that_had_no_turn_is_not_the_one_that_does_not_end() -> None:
    with pytest.raises(UserError, match="was then starting PyTorch") as caught:
        describe_task(FINE, name="task", tier=resolve_tier("auto"), within_s=1e-3)
    assert caught.value.remedy == "This machine is busy, or slow: raise max_describe_s."


@pytest.mark.parametrize(
    ("where", "doing"),
    [
        ("        return x * 2", "running forward"),
        ("    return [torch.rand(3, 4)]", "making the inputs"),
        ("class Model", "importing the file"),
    ],
)
def test_a_file_that_does_not_end_is_ended_in_time_and_told_what_it_was_doing(where: str, doing: str) -> None:
    described(FINE)  # PyTorch is there from now on
    told: list[Event] = []
    indent = where[: len(where) - len(where.lstrip())]
    endless = FINE.replace(where, f"{indent}while True: pass\n{where}")
    with telling(told.append), pytest.raises(UserError, match=f"longer than 5 s, and was then {doing}") as caught:
        describe_task(endless, name="task", tier=resolve_tier("auto"), within_s=5.0)
    assert "max_describe_s" in caught.value.remedy
    assert [event.words for event in told][-1] == doing
    assert warm_parent().alive
