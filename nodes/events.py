"""The events of a run, as they are streamed: what its judge tells of, and what its agents and models do."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from harness.nouns.events import Event, JudgesEvent, Said
from harness.nouns.frozen import Frozen
from harness.nouns.verdict import Interval
from nodes.state import StopName, Usage


class AgentStarted(Event):
    """A node of the graph begins. `usage` is what the run's models had cost by then, `attempts` the kernels tested."""

    kind: Literal["agent_started"] = "agent_started"
    usage: Usage = Usage()
    attempts: int = 0
    seconds: float = 0.0
    device_seconds: float = 0.0


class AgentEnded(Event):
    """It has ended. One that is not `finished` asks somebody a question, failed, or was stopped: no update follows."""

    kind: Literal["agent_ended"] = "agent_ended"
    finished: bool = True


class Asked(Event):
    """A question was put to a model; after `failed_tries` that came to nothing."""

    kind: Literal["asked"] = "asked"
    failed_tries: Annotated[int, Field(ge=0)] = 0

    @property
    def words(self) -> str:
        return "waiting for the model"


class Answering(Event):
    """An answer comes: so many pieces by now, those of its thinking without characters."""

    kind: Literal["answering"] = "answering"
    pieces: int
    characters: int

    @property
    def words(self) -> str:
        return f"{self.characters:,} characters of an answer" if self.characters else "the model is thinking"


class Answered(Event):
    """The answer is whole, or there will be none (`failed`). `usage` is its own."""

    kind: Literal["answered"] = "answered"
    usage: Usage = Usage()
    failed: bool = False


class ToolStarted(Event):
    """A tool was called, by a model or by an agent."""

    kind: Literal["tool_started"] = "tool_started"
    tool: Said

    @property
    def words(self) -> str:
        return self.tool


class ToolEnded(Event):
    """It has answered, failed or refused."""

    kind: Literal["tool_ended"] = "tool_ended"
    tool: Said


class NewBest(Event):
    """A kernel is the best one now."""

    kind: Literal["new_best"] = "new_best"
    candidate: str
    speedup: float | None
    interval: Interval | None

    @property
    def words(self) -> str:
        return f"a new best: {self.speedup:.2f}x over eager" if self.speedup else "a new best"


class Profiled(Event):
    """What limits the kernel that was profiled."""

    kind: Literal["profiled"] = "profiled"
    bound: Said

    @property
    def words(self) -> str:
        return f"profiled: {self.bound}"


class RegionBegun(Event):
    """A region of a model has its turn, and so many seconds."""

    kind: Literal["region_begun"] = "region_begun"
    budget_s: float

    @property
    def words(self) -> str:
        return f"begun, with {self.budget_s:.0f} s"


class RegionEnded(Event):
    """Its run has ended: what its best kernel gains by itself, or why there is none."""

    kind: Literal["region_ended"] = "region_ended"
    improved: bool
    speedup: float | None = None
    interval: Interval | None = None
    reason: Said = ""

    @property
    def words(self) -> str:
        gain = f"{self.speedup:.2f}x over eager by itself" if self.speedup else "no kernel"
        return gain if self.improved else f"{gain}: {self.reason}"


class Stopping(Event):
    """A budget is spent, the target is met, or nothing is left to try: the run comes to its end."""

    kind: Literal["stopping"] = "stopping"
    reason: StopName
    message: Said

    @property
    def words(self) -> str:
        return self.message


class Working(Event):
    """Nothing has happened for a second: what was being done still is."""

    kind: Literal["working"] = "working"
    doing: Said

    @property
    def words(self) -> str:
        return self.doing


RunEvent = (
    AgentStarted | AgentEnded | Asked | Answering | Answered | ToolStarted | ToolEnded | NewBest | Profiled | Stopping
    | RegionBegun | RegionEnded | Working | JudgesEvent
)  # fmt: skip


class Progress(Frozen):
    """One item of the custom stream: an event, the node in whose time it happened, and the node's seconds by then.

    `region` names the region of a model that it is about; empty outside of those.
    """

    agent: str
    region: str = ""
    seconds: float
    event: Annotated[RunEvent, Field(discriminator="kind")]
