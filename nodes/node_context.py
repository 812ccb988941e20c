"""What a node works with beside the state: the settings, the models and the judge. None of it is checkpointed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from langchain_core.language_models.chat_models import BaseChatModel

from harness.judging.protocol import Judge, JudgeOrder, OpenJudge
from harness.nouns.candidate import Candidate, TargetChoice
from harness.nouns.tier import TierChoice
from nodes.models.select import ModelOptions
from nodes.protocols import JudgedRun
from nodes.roles import Voice
from nodes.settings import Settings
from nodes.state import require
from nodes.turn.agent_loop import TURN, TurnGraph
from tools.judges import open_judge
from tools.kernel_tools import KernelTools

OpenModel = Callable[[str, ModelOptions], BaseChatModel]

_KEPT = 64


class ModelCache:
    """The opened models, one for each run and name: a replay remembers what it has already answered.

    Threads may share it. A run that goes without a thread id shares its models with other such runs of this graph.
    """

    def __init__(self, open_model: OpenModel) -> None:
        self._open_model = open_model
        self._models: OrderedDict[tuple[str | None, str, ModelOptions], BaseChatModel] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, thread_id: str | None, spec: str, options: ModelOptions) -> BaseChatModel:
        """The run's model of that name, opened on first use. Raises `UserError` for a name that means nothing."""
        key = (thread_id, spec, options)
        with self._lock:
            if key not in self._models:
                self._models[key] = self._open_model(spec, options)
            self._models.move_to_end(key)
            while len(self._models) > _KEPT:
                self._models.popitem(last=False)
            return self._models[key]


def options_of(settings: Settings) -> ModelOptions:
    """How the settings want models reached."""
    return ModelOptions(
        base_url=settings.base_url or None,
        timeout_s=settings.model_timeout_s,
        silence_s=settings.model_silence_s,
        max_retries=settings.model_retries,
        max_output_tokens=settings.max_answer_tokens,
        effort=settings.reasoning_effort,
        temperature=settings.temperature,
        requests_per_minute=settings.requests_per_minute,
        stream=settings.stream_answers,
        prices=tuple(settings.prices.items()),
        fallback=settings.fallback_model or None,
    )


@dataclass(frozen=True)
class NodeContext:
    """The surroundings of one step of one run."""

    settings: Settings
    shelf: ModelCache
    open_judge: OpenJudge = open_judge
    thread_id: str | None = None
    turn: TurnGraph = TURN

    def model(self, role: Voice) -> BaseChatModel:
        """The model that the agent speaks to."""
        return self.shelf.get(self.thread_id, self.settings.model_for(role), options_of(self.settings))

    def any_judge(self) -> Judge:
        """A judge as the settings ask for one; the run then goes on with its target and its isolation."""
        return self._opened(self.settings.target, self.settings.isolation)

    def judge(self, state: JudgedRun, *, quick: bool = False) -> Judge:
        """The run's judge; a quick one finds out less of a kernel, which is enough to rank several."""
        return self._opened(require(state.target, "target"), require(state.tier, "tier"), quick=quick)

    def _opened(self, target: TargetChoice, isolation: TierChoice, *, quick: bool = False) -> Judge:
        settings = self.settings
        order = JudgeOrder(
            target,
            isolation,
            settings.precision,
            settings.tolerance,
            quick=quick,
            ordinal=settings.device,
            describe_s=settings.max_describe_s,
        )
        return self.open_judge(order)

    def tools(self, state: JudgedRun, *, quick: bool = False, incumbent: Candidate | None = None) -> KernelTools:
        """The tools by which the run's kernels are compiled, run and profiled; against the best one, or an
        `incumbent`."""
        incumbent = incumbent or (state.best.candidate if state.best else None)
        verdicts = [state.verdict, state.best.verdict if state.best else None]
        known = tuple(verdict for verdict in verdicts if verdict is not None)
        return KernelTools(
            require(state.task, "task"),
            self.judge(state, quick=quick),
            seed=self.settings.seed,
            known=known,
            incumbent=incumbent,
        )
