"""A run beside an event loop: its events, an early end that keeps what was found, and the notebook that shows it."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from softsign_script import SOURCE

from graph.api.calls import Running, RunResult, resume
from harness.nouns.errors import UserError
from nodes.state import TaskInput

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "first_kernel.ipynb"
TASK = TaskInput(source=SOURCE, name="softsign")


@pytest.mark.usefixtures("scripted")
def test_its_events_come_as_they_happen_and_end_with_it(tmp_path: Path) -> None:
    async def run() -> tuple[list[str], RunResult]:
        async with Running(TASK, out=tmp_path / "run", target="cpu", max_depth=0) as running:
            kinds = [told.event.kind async for told in running]
            assert [told async for told in running] == [], "a second look ends at once"
            return kinds, await running.result()

    kinds, result = asyncio.run(run())
    assert kinds[0] == "agent_started" and {"verdict", "new_best", "stopping"} <= set(kinds)
    assert result.kernel is not None and result.record.stop_reason.startswith("Depth 0 is reached")


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize("how", ["left", "failed", "cancelled"])
def test_who_leaves_early_finds_what_was_verified_and_goes_on_later(how: str, tmp_path: Path) -> None:
    """Left at the first new best: the step that found it ends, is kept, and no further one begins."""
    folder = tmp_path / "run"

    async def run() -> None:
        async with Running(TASK, out=folder, target="cpu", max_depth=3) as running:
            async for told in running:
                if told.event.kind == "new_best":
                    if how == "failed":
                        raise ZeroDivisionError
                    if how == "cancelled":
                        task = asyncio.current_task()
                        assert task is not None
                        task.cancel()
                        await asyncio.Event().wait()
                    return

    expected = {"left": None, "failed": ZeroDivisionError, "cancelled": asyncio.CancelledError}[how]
    if expected is None:
        asyncio.run(run())
    else:
        with pytest.raises(expected):
            asyncio.run(run())
    assert (folder / "kernel.cu").exists() and json.loads((folder / "record.json").read_text())["outcome"] in (
        "interrupted", "improved", "nothing_faster",
    )  # fmt: skip
    again = resume(folder)
    assert again.record.outcome in ("improved", "nothing_faster")


def test_what_is_wrong_is_told_by_the_result(tmp_path: Path) -> None:
    async def run() -> None:
        async with Running(tmp_path / "nowhere.py") as running:
            assert [told async for told in running] == []
            await running.result()

    with pytest.raises(UserError, match="nowhere"):
        asyncio.run(run())


@pytest.mark.usefixtures("brief")
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}

    async def cells() -> None:
        for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                code = compile("".join(cell["source"]), NOTEBOOK.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                if inspect.iscoroutine(left := eval(code, names)):
                    await left

    asyncio.run(cells())
    assert names["result"].verdict.passed
    assert (tmp_path / "first-kernel" / "report.html").exists()
