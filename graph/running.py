"""A run beside an event loop: its events as they happen, its result when it has ended, and an end on leaving early."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from langgraph.runtime import RunControl

from graph.api import RunResult, begin_and_run
from graph.runs.folder import Kind
from graph.runs.progress import Quiet
from nodes.events import Progress
from nodes.state import TaskInput


class Running:
    """`async with Running(task, **settings) as run`: iterate over its events, then `await run.result()`.

    `task`, `out` and `settings` are those of `graph.api.optimize`; `kind` "evolve" searches as `evolve` does. The run
    begins on entering. Who leaves the block before its end, or is cancelled in it, ends it after the present step: the
    block is left once all that was verified lies in its folder, from which `graph.api.resume` goes on.
    """

    def __init__(
        self, task: TaskInput | str | Path, *, out: str | Path | None = None, kind: Kind = "optimize", **settings: Any
    ) -> None:
        self._asked = (kind, task, out)
        self._settings = settings
        self._control = RunControl()
        self._told: asyncio.Queue[Progress | None] = asyncio.Queue()
        self._work: asyncio.Future[RunResult] | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()

        def tell(progress: Progress | None) -> None:
            loop.call_soon_threadsafe(self._told.put_nowait, progress)

        def work() -> RunResult:
            try:
                return begin_and_run(*self._asked, _Listener(tell), self._settings, self._control)
            finally:
                tell(None)

        self._work = asyncio.ensure_future(asyncio.to_thread(work))
        return self

    async def __aiter__(self) -> AsyncIterator[Progress]:
        """Every event from here on; the iteration ends with the run, which it does not fail with."""
        while (progress := await self._told.get()) is not None:
            yield progress
        self._told.put_nowait(None)  # for whoever iterates once more

    async def result(self) -> RunResult:
        """What it found, once it has ended. Raises as `optimize` does; who is cancelled here leaves the run alone."""
        if self._work is None:
            raise RuntimeError("The run has not begun: enter it by `async with`.")
        return await asyncio.shield(self._work)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._work is not None
        self._control.request_drain("left")
        await asyncio.wait([self._work])
        if kind is not None and not self._work.cancelled():
            self._work.exception()  # the block's own failure is told, and this one looked at


class _Listener(Quiet):
    def __init__(self, tell: Callable[[Progress], None]) -> None:
        self._tell = tell

    def heard(self, progress: Progress) -> None:
        """Pass it on."""
        self._tell(progress)
