"""The desk's methods as tools of a Model Context Protocol server: progress, bounds on many at once, and who may ask."""

from __future__ import annotations

import hmac
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeVar

import anyio
import anyio.to_thread
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import BaseModel, Field, ValidationError
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from graph.fields import unknown, what_is_wrong
from graph.mcp import answers
from graph.mcp.desk import BEST, Desk
from graph.runs.machine import cutegen_version
from graph.server.port import require_free
from harness.nouns.errors import CutegenError, MachineError
from harness.nouns.events import Event
from harness.wire.stopping import Stop, StoppedError, stoppable
from harness.wire.telling import telling

AT_ONCE = 4
"""Calls that are worked on; the device takes one of them at a time."""
MOST_WAITING = 32
TICK_S = 1.0
MOST_BODY_BYTES = 4 << 20

INSTRUCTIONS = """\
cutegen judges kernels that you write for a PyTorch module: it compiles them in isolation, compares them with a float64
oracle on many kinds of inputs, and times them in turns with eager PyTorch. Begin with open_task, write from entry_stub,
compile, verify; a failure's words say where to look. Each further pass is timed against the best kernel so far. Change
one thing at a time, profile once tiling and parallelism stand, sanitize before you export, stop near the floor.
"""

Answer = TypeVar("Answer")
TaskDigest = Annotated[str, Field(description="A task's digest, from open_task.")]
Kernel = Annotated[str, Field(description='A kernel\'s digest, or "best".')]
Named = Annotated[str, Field(description='A kernel that was sent before, by its digest, or "best".')]
Source = Annotated[str, Field(description="The kernel's whole C++ or CUDA source, where it is not named.")]
KernelPath = Annotated[str, Field(description="A file with it instead (only where the server runs on your machine).")]
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)


class Door:
    """A desk's methods for clients that wait: each call works in a thread, and says every second what it does."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._limiter: anyio.CapacityLimiter | None = None
        self._calls = 0

    async def open_task(
        self,
        ctx: Context,
        source: Annotated[str, Field(description="The text of a file with class Model and get_inputs().")] = "",
        path: Annotated[str, Field(description="That file instead, where the server runs on your machine.")] = "",
        name: Annotated[str, Field(description="What to call a task given as text.")] = "",
    ) -> answers.TaskCard:
        """Describe a PyTorch module as a task: what a kernel gets and gives, what it costs, what it is held to."""
        return await self._served(ctx, lambda: self._desk.open_task(source, path, name))

    async def entry_stub(self, ctx: Context, task: TaskDigest) -> str:
        """The C++ that a kernel for the task starts from: headers, the contract, the entry point and its export."""
        return await self._served(ctx, lambda: self._desk.entry_stub(task))

    async def compile_kernel(
        self, ctx: Context, task: TaskDigest, kernel: Named = "", source: Source = "", path: KernelPath = ""
    ) -> answers.Compiled:
        """Compile a kernel in isolation: the compiler's errors by line, or its remarks, registers and spills."""
        return await self._served(ctx, lambda: self._desk.compile(task, kernel, source, path))

    async def verify_kernel(
        self,
        ctx: Context,
        task: TaskDigest,
        kernel: Named = "",
        source: Source = "",
        path: KernelPath = "",
        against: Annotated[
            str, Field(description='Whom it is timed against beside PyTorch: a digest, "best" or "none".')
        ] = BEST,
    ) -> answers.Judged:
        """Compile, compare with the reference, and time a kernel. A pass that beats the best one becomes the best."""
        return await self._served(ctx, lambda: self._desk.verify(task, kernel, source, path, against))

    async def profile_kernel(self, ctx: Context, task: TaskDigest, kernel: Kernel = BEST) -> answers.Profiled:
        """What limits the speed of a kernel that passed: its bound, its distance to the roof, the bottlenecks."""
        return await self._served(ctx, lambda: self._desk.profile(task, kernel))

    async def sanitize_kernel(self, ctx: Context, task: TaskDigest, kernel: Kernel = BEST) -> answers.Watched:
        """Watch every access of a kernel for memory errors and races. A finding withdraws a kernel that passed."""
        return await self._served(ctx, lambda: self._desk.sanitize(task, kernel))

    async def standing(self, ctx: Context, task: TaskDigest) -> answers.Standing:
        """The task's best kernel, and every one that was judged."""
        return await self._served(ctx, lambda: self._desk.standing(task))

    async def kernel_source(self, ctx: Context, task: TaskDigest, kernel: Kernel = BEST) -> answers.KernelText:
        """A kernel's text."""
        return await self._served(ctx, lambda: self._desk.kernel_source(task, kernel))

    async def look_up(
        self, ctx: Context, query: Annotated[str, Field(description="A CuTe function, a message, a metric, a symptom.")]
    ) -> answers.Guides:
        """Sections of the guides on CuTe, debugging, optimization and profiler metrics."""
        return await self._served(ctx, lambda: self._desk.look_up(query))

    async def export_kernel(self, ctx: Context, task: TaskDigest, kernel: Kernel = BEST) -> answers.Exported:
        """Write a kernel that passed and its drop-in, model_new.py, into a folder."""
        return await self._served(ctx, lambda: self._desk.export(task, kernel))

    async def _served(self, ctx: Context, work: Callable[[], Answer]) -> Answer:
        """Raises `ToolError` with the sentence of an error of ours, and where too many wait already."""
        if self._calls >= AT_ONCE + MOST_WAITING:
            raise ToolError(f"{self._calls} calls are waiting already. Ask again when some are answered.")
        self._limiter = self._limiter or anyio.CapacityLimiter(AT_ONCE)
        self._calls += 1
        phase = ["waiting for other calls" if self._calls > AT_ONCE else "working"]
        stop = Stop()
        try:
            async with anyio.create_task_group() as beside:
                beside.start_soon(_tell, ctx, phase)
                beside.start_soon(_ask_when_cancelled, stop)
                # Not abandoned where the client has gone: it is asked to end, and takes its children with it.
                answer = await anyio.to_thread.run_sync(partial(_worked, work, phase, stop), limiter=self._limiter)
                beside.cancel_scope.cancel()
        finally:
            self._calls -= 1
        if isinstance(answer, CutegenError):
            whose = "This machine, not your kernel: " if isinstance(answer, MachineError) else ""
            raise ToolError(f"{whose}{answer}")
        return answer


class BearerToken(BaseHTTPMiddleware):
    """Lets in who knows the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        super().__init__(app)
        self._expected = f"Bearer {token}".encode()

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        """Answers 401 to everybody else."""
        if not hmac.compare_digest(request.headers.get("authorization", "").encode(), self._expected):
            return JSONResponse({"error": "unauthorized"}, status_code=401, headers={"WWW-Authenticate": "Bearer"})
        return await call_next(request)


class _Server(MCPServer):
    """Whose refusals of a call are sentences; an argument that no tool takes is one of them, not left out."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context | None = None
    ) -> CallToolResult | InputRequiredResult:
        """As the protocol's library does it. Raises `ToolError`."""
        takes = {tool.name: list(tool.input_schema["properties"]) for tool in await self.list_tools()}
        if name not in takes:
            raise ToolError(unknown(name, name, list(takes), "tool"))
        for given in arguments.keys() - takes[name]:
            raise ToolError(unknown(given, given, takes[name], f"argument of {name}"))
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, ValidationError):
                raise ToolError(what_is_wrong(cause, BaseModel, "The arguments are", "argument")) from None
            if isinstance(cause, ToolError):  # a sentence of ours, without the library's words before it
                raise cause from None
            raise


def server_of(desk: Desk) -> MCPServer:
    """The server whose tools are the desk's methods."""
    server = _Server("cutegen", instructions=INSTRUCTIONS, version=cutegen_version(), log_level="WARNING")
    door = Door(desk)
    for look in (door.open_task, door.entry_stub, door.standing, door.kernel_source, door.look_up):
        server.tool(annotations=READS)(look)
    for act in (
        door.compile_kernel, door.verify_kernel, door.profile_kernel, door.sanitize_kernel, door.export_kernel,
    ):  # fmt: skip
        server.tool(annotations=WRITES)(act)
    return server


def serve_stdio(server: MCPServer) -> bool:
    """Answer over stdin and stdout until the client closes them; whether it did so with nothing left to tell it."""
    try:
        server.run()
    except BaseExceptionGroup as group:
        gone, other = group.split((BrokenPipeError, anyio.BrokenResourceError, anyio.ClosedResourceError))
        if gone is None or other is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left in its buffer goes nowhere
        return False
    return True


def serve_http(server: MCPServer, host: str, port: int, token: str) -> None:
    """Answer at http://HOST:PORT/mcp until the process is told to end. Without a token whoever reaches it may ask.

    Raises `MachineError` where the port is taken.
    """
    import uvicorn

    require_free(host, port)
    app = server.streamable_http_app(host=host, max_request_body_size=MOST_BODY_BYTES)
    if token:
        app.add_middleware(BearerToken, token=token)
    uvicorn.run(app, host=host, port=port, log_level="warning")


def _worked(work: Callable[[], Answer], phase: list[str], stop: Stop) -> Answer | CutegenError:
    """An error of ours is an answer: within a task group it would come out wrapped. `phase` says what is done now."""

    def note(event: Event) -> None:
        phase[0] = event.words or phase[0]

    phase[0] = "working"
    try:
        with telling(note), stoppable(stop):
            return work()
    except CutegenError as error:
        return error
    except StoppedError:
        return MachineError("Nobody waits for this call any more.", "Call again.")


async def _ask_when_cancelled(stop: Stop) -> None:
    """Asked of work that has ended it does nothing."""
    try:
        await anyio.sleep_forever()
    finally:
        stop.ask()


async def _tell(ctx: Context, phase: list[str]) -> None:
    begun = time.monotonic()
    while True:
        await ctx.report_progress(round(time.monotonic() - begun, 1), message=phase[0])
        await anyio.sleep(TICK_S)
