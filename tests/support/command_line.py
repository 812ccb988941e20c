"""The command line as a user has it: a process of its own. And a task small enough to be judged in seconds."""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import Result
from scripted_judge import judging_here
from typer.testing import CliRunner

from graph.cli.main import app

REPOSITORY = Path(__file__).parents[2]
_BEGIN = "from graph.cli.main import app"
COMMAND = (sys.executable, "-c", f"{_BEGIN}; app()")
SCRIPTED = (sys.executable, "-c", f"from scripted_judge import judging_here; {_BEGIN}\nwith judging_here(): app()")
"""The same, judged as markers in the kernels say: for what is made of verdicts."""
BRIEF = (sys.executable, "-c", f"from brief_judge import brief_here; {_BEGIN}\nwith brief_here(): app()")
"""The same, judged for real with little time over timing."""
WITHIN_S = 240.0
UNWATCHED = ("--target", "cpu", "--set", "sanitize=false")
"""For what does not depend on how a run ends: the sanitizers' build takes longer than the kernel's."""

SOFTSIGN = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x / ({one} + torch.abs(x))


def get_inputs():
    return [torch.randn(64, 1024)]


def get_init_inputs():
    return []
"""


def softsign(folder: Path, one: float = 1.0) -> Path:
    """A task file. Another `one` makes another kernel, which no cache has built."""
    file = folder / "softsign.py"
    file.write_text(SOFTSIGN.format(one=one), encoding="utf-8")
    return file


def never_built(folder: Path) -> Path:
    return softsign(folder, one=round(1 + random.SystemRandom().random(), 12))


def cutegen(
    *arguments: object, cwd: Path = REPOSITORY, command: tuple[str, ...] = COMMAND, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, *map(str, arguments)], cwd=cwd, env=_environment(environment), capture_output=True, text=True,
        timeout=WITHIN_S, check=False,
    )  # fmt: skip


def here(*arguments: object) -> Result:
    """The same in this process, judged as markers in the kernels say: where its border is not what is asked about."""
    with judging_here():
        return CliRunner().invoke(app, [*map(str, arguments)])


def start(*arguments: object, cwd: Path, command: tuple[str, ...] = COMMAND) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*command, *map(str, arguments)], cwd=cwd, env=_environment({}), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def one_object(stdout: str) -> dict[str, Any]:
    """The one JSON object that --json prints, and nothing besides."""
    lines = stdout.splitlines()
    assert len(lines) == 1, stdout
    value = json.loads(lines[0])
    assert isinstance(value, dict)
    return value


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.02)


def events(run: Path) -> list[dict[str, Any]]:
    log = run / "log.jsonl"
    whole = log.read_text(encoding="utf-8").split("\n")[:-1] if log.exists() else []
    return [json.loads(line) for line in whole]


def agent_began(run: Path, agent: str) -> bool:
    return any(event["event"] == "started" and event["agent"] == agent for event in events(run))


def _environment(extra: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("OPENAI_API_KEY", "OPENAI_BASE_URL")}
    folders = os.pathsep.join([str(REPOSITORY), str(Path(__file__).parent)])
    return kept | {"PYTHONPATH": folders, "COLUMNS": "120"} | extra
