"""An evolution's graph on its checkpoints: what lies in the run's folder, and what the record tells of it."""

from __future__ import annotations

from langgraph.checkpoint.sqlite import SqliteSaver

from graph.evolution.workflow import build_graph
from graph.runs.folder import Manifest, RunFolder
from graph.runs.found import Judged
from graph.runs.record import Proposed, Search
from graph.runs.session import Session
from harness.judging.protocol import OpenJudge
from nodes.evolution.state import EvolutionState
from tools.judges import open_judge


class EvolutionSession(Session):
    """One evolution. Its last state holds every kernel."""

    state_type = EvolutionState

    def __init__(
        self, folder: RunFolder, manifest: Manifest, saver: SqliteSaver, open_judge: OpenJudge = open_judge
    ) -> None:
        super().__init__(folder, manifest, build_graph(open_judge=open_judge).compile(checkpointer=saver))

    def judged(self) -> Judged:
        """The pool's kernels; of the best one its final verdict, which sanitizers and a caller have added to."""
        state: EvolutionState = self.state()
        candidates = {each.digest: each.candidate for each in state.pool if each.candidate}
        verdicts = {each.digest: each.verdict for each in state.pool if each.verdict}
        best = state.best
        profiles = {best.candidate.digest: best.profile} if best and best.profile else {}
        return candidates, verdicts | ({best.candidate.digest: best.verdict} if best else {}), profiles

    def searched(self) -> Search:
        """Every order with what came of it."""
        state: EvolutionState = self.state()
        proposals = tuple(
            Proposed(
                order=each.order,
                kernel=each.digest,
                move=each.move,
                dropped=each.dropped,
                machine_code=each.machine_code,
                opinions=each.opinions,
                usage=each.usage,
            )
            for each in state.pool
        )
        return Search(generations=state.begun, proposals=proposals, withdrawn=state.withdrawn)
