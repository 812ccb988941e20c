"""The verifiers that are models, outside of a run: for a corpus."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from harness.judging.protocol import Judge
from harness.nouns.candidate import Candidate
from harness.nouns.task import Task
from nodes.evolution.state import Brief, Order, Proposal
from nodes.evolution.verifier import by_models, require_verifiers
from nodes.models.select import open_model
from nodes.node_context import ModelCache, NodeContext
from nodes.settings import Settings
from nodes.state import Usage
from tools.opinions import Opinion


class ModelVerifiers:
    """Asks the settings' verifiers about one kernel after the other. Raises `UserError` where they have no model."""

    def __init__(self, settings: Settings, judge: Judge) -> None:
        require_verifiers(settings)
        self._judge = judge
        self._context = NodeContext(settings, ModelCache(open_model), open_judge=lambda _: judge)
        self._looked = count()

    def __call__(self, task: Task, candidate: Candidate) -> Iterator[Opinion]:
        """Their opinions; a model that gives no answer has none."""
        order = Order(number=next(self._looked), generation=0, operator="translation", model="verifiers")
        brief = Brief(
            order=order,
            task=task,
            target=self._judge.device.target,
            tier=self._judge.tier,
            pool=(Proposal(order=order, candidate=candidate),),
            attempts=0,
            usage=Usage(),
            seconds=0.0,
            device_seconds=0.0,
        )
        for opinion, _ in by_models(brief, brief.pool[0], self._context):
            yield from [opinion] if opinion else []
