"""The nodes of the model graph, each a function of the state and of what surrounds it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from graph.driving.loop import drive
from graph.model.assembly import FILE, REGIONS, assembled, cuts_of
from graph.model.budget import LEAST_REGION_S, End, affordable, by_gain_a_second, too_small
from graph.model.plan import plan_of
from graph.model.report import told_of
from graph.model.state import NOT_BEGUN, ModelState, RegionOutcome, RegionState, RegionTask
from graph.model.turns import NotBegunError, Phase, allowance_of, phase_of, places_for, turn
from graph.model.workbench import OpenWorkbench, Workbench
from graph.runs.folder import Manifest, RunFolder, create, reopen, replace_file
from graph.runs.interrupts import raise_if_stopped, wakes
from graph.runs.record import RunRecord
from harness.machine.system import cache_dir
from harness.nouns.devices import on_gpu
from harness.nouns.errors import UserError
from harness.nouns.model_budget import ENDING_S, refused
from harness.nouns.reading import read_bounded
from harness.nouns.verdict import precision_on
from harness.wire.deadline import Deadline
from harness.wire.stopping import Stop, StoppedError, TimeIsOverError, limited, present, stoppable
from harness.wire.telling import tell
from nodes.events import RegionBegun, RegionEnded
from nodes.progress import apart
from nodes.settings import Settings
from nodes.state import Usage, require
from nodes.thread_settings import kept_by
from nodes.turn.node import NodeContext, Update

Step = Callable[[ModelState, NodeContext, Workbench, Deadline], Update]
STOPPING_S = 2.0
"""Until a region's run that is ended has written what it has."""
CUT_OFF = "ended by the budget, in the middle of a step"


def capture(state: ModelState, _: NodeContext, bench: Workbench, deadline: Deadline) -> Update:
    """Run the model once with every operation clocked.

    Raises `UserError` where the budget is too small for more, and on a thread of another model, whose folder it is.
    """
    if state.capture is not None and state.settings is not None and kept_by(state) is None:
        raise UserError("This thread holds another model.", "Begin a new one.")
    with _in_time(deadline, state.name, "one call of it, with every operation clocked,"):
        captured = bench.capture(state.model, deadline)
    error = refused(state.name, deadline.budget_s, deadline.spent_s, captured.costs, bench.target)
    if error and not state.only_plan:
        raise error
    return {"capture": captured, "target": bench.target, "tier": bench.tier}


def planner(state: ModelState, node_context: NodeContext, bench: Workbench, deadline: Deadline) -> Update:
    """Cut the model into regions, and rank them by what they can gain."""
    captured = require(state.capture, "capture")
    precision = precision_on(bench.target, node_context.settings.precision)
    with _in_time(deadline, state.name, "its plan"):
        return {"plan": plan_of(captured, bench.target, bench.facts(), precision)}


def cutter(state: ModelState, node_context: NodeContext, bench: Workbench, deadline: Deadline) -> Update:
    """Make a task of each region that is worth a kernel, and that there is time for."""
    captured, plan = require(state.capture, "capture"), require(state.plan, "plan")
    end = end_of(state, bench, deadline)
    worth = by_gain_a_second(plan.worthwhile(playbook_alone=by_playbook(node_context.settings)))
    costs = captured.costs
    left_s = deadline.left_s - costs.made_s - costs.exported_s
    chosen = worth[: affordable(left_s, end, len(worth), places_for(bench.target), LEAST_REGION_S)]
    sources: dict[str, str] = {}
    try:
        with deadline.before(end.kept_s(0)).limiting():
            sources = bench.cut(state.model, cuts_of(captured, chosen)) if chosen else {}
    except TimeIsOverError:
        chosen = ()
    return {
        "tasks": tuple(
            RegionTask(name=region.name, source=sources[region.name], gain_ms=region.gain_ms) for region in chosen
        ),
        "until_s": deadline.budget_s - end.kept_s(len(chosen)) - STOPPING_S,
        "outcomes": tuple(
            RegionOutcome(name=region.name, improved=False, reason=NOT_BEGUN) for region in worth[len(chosen) :]
        ),
    }


def end_of(state: ModelState, bench: Workbench, deadline: Deadline) -> End:
    """What is kept for the end of this model's budget."""
    costs = require(state.capture, "capture").costs
    asked = state.model
    return End(costs, bench.target, deadline.budget_s, bench.models(), asked.compile_baseline, asked.compiled)


def region(state: RegionState, node_context: NodeContext) -> Update:
    """Take one region through the agents' graph, in a run folder of its own; an ended run is only read."""
    began, folder = time.monotonic(), folder_of(node_context) / REGIONS
    with phase_of(state, folder, node_context.settings.max_wall_s) as phase:
        try:
            with _ended_with_all(), turn(state, phase, folder):
                outcome, usage = _driven(state, folder, phase, node_context)
        except NotBegunError:
            outcome, usage = RegionOutcome(name=state.region.name, improved=False, reason=NOT_BEGUN), Usage()
        except UserError as error:
            outcome, usage = RegionOutcome(name=state.region.name, improved=False, reason=str(error)), Usage()
        tell(RegionEnded.model_validate(outcome.model_dump(exclude={"name"})))
        return {
            "outcomes": (outcome,),
            "usage": usage,
            "seconds": phase.counted_s() - (time.monotonic() - began),
        }


def _driven(state: RegionState, folder: Path, phase: Phase, node_context: NodeContext) -> tuple[RegionOutcome, Usage]:
    """The region's run to its end, or to that of its time: then what was verified by then counts."""
    run = RunFolder(folder / state.region.name)
    allowed = allowance_of(state, folder, phase)
    known = run.manifest_file.exists()
    begun = reopen(run.path) if known else _begin(run, state, allowed.soft_s, node_context.settings)
    tell(RegionBegun(budget_s=begun[1].settings.max_wall_s))
    try:
        with limited(allowed.hard_s):
            record = apart(partial(drive, *begun, open_judge=node_context.open_judge))
    except TimeIsOverError:
        return _cut_off(state.region.name, run)
    return outcome_of(state.region.name, record), record.usage


def _cut_off(name: str, run: RunFolder) -> tuple[RegionOutcome, Usage]:
    """What a run left that was ended in the middle of a step."""
    try:
        record = RunRecord.model_validate_json(read_bounded(run.record))
    except (OSError, ValueError):
        return RegionOutcome(name=name, improved=False, reason=CUT_OFF), Usage()
    timing = record.timing
    return outcome_of(name, record, improved=timing is not None and timing.wins, reason=CUT_OFF), record.usage


@contextmanager
def _in_time(deadline: Deadline, name: str, doing: str) -> Iterator[None]:
    """What an answer needs at all. Raises `UserError` where it takes the whole budget."""
    try:
        with deadline.before(ENDING_S).limiting():
            yield
    except TimeIsOverError as over:
        raise too_small(name, deadline.budget_s, doing) from over


@contextmanager
def _ended_with_all() -> Iterator[None]:
    """Regions run in threads beside the one that a signal interrupts; on a server their node has its stop already."""
    stop = present() or Stop()
    with wakes(stop.ask), stoppable(stop):
        try:
            yield
        except StoppedError:
            raise_if_stopped()  # as what it was: the other thread waits for this one, and hands on what it raises
            raise


def assembler(state: ModelState, node_context: NodeContext, _: Workbench, __: Deadline) -> Update:
    """Write the model with every region whose kernel is faster by itself."""
    write_assembled(state, folder_of(node_context), won(state), graphs=replayed(state))
    return {}


def replayed(state: ModelState) -> bool:
    """Whether calls may be replayed as CUDA graphs, of the model with kernels or without; Inductor makes its own."""
    return on_gpu(state.target) and not state.model.compiled


def acceptor(state: ModelState, node_context: NodeContext, bench: Workbench, deadline: Deadline) -> Update:
    """Hold the whole against eager; what does not gain inside it goes."""
    folder = folder_of(node_context)
    names = won(state)
    due = deadline.before(ENDING_S)
    compile_s = end_of(state, bench, deadline).compile_s(due.left_s, len(names))
    acceptance = bench.accept(state.model, folder, FILE, names, due, compile_s)
    write_assembled(
        state,
        folder,
        acceptance.kept,
        graphs=acceptance.accepted and acceptance.graphs,
        mode=acceptance.mode if acceptance.form == "compiled" else "",
        told=told_of(acceptance),
        gpu=acceptance.gpu,
    )
    return {"acceptance": acceptance.model_copy(update={"device": bench.facts().device})}


def won(state: ModelState) -> tuple[str, ...]:
    """The regions whose kernels may gain inside the model, in the plan's order.

    By themselves they were faster; where Inductor compiles the model around them, not shown to be slower.
    """
    found = {each.name for each in state.outcomes if each.improved or (state.model.compiled and each.undecided)}
    return tuple(task.name for task in state.tasks if task.name in found)


def write_assembled(
    state: ModelState,
    folder: Path,
    names: tuple[str, ...],
    *,
    graphs: bool,
    mode: str = "",
    told: Mapping[str, str] | None = None,
    gpu: str = "",
) -> None:
    """Write the model with these regions, compiled where there is a `mode`, with what is `told` of each, and the `gpu`.

    With neither regions in it nor CUDA graphs none lies there. Raises `MachineError`.
    """
    if names or graphs:
        captured, plan = require(state.capture, "capture"), require(state.plan, "plan")
        text = assembled(captured, plan, names, graphs=graphs, mode=mode, told=told or {}, gpu=gpu)
        replace_file(folder / FILE, text)
    else:
        (folder / FILE).unlink(missing_ok=True)


def outcome_of(name: str, record: RunRecord, *, improved: bool | None = None, reason: str = "") -> RegionOutcome:
    """What a run's record says of its region; of a run that was cut off somebody else says whether it `improved`."""
    improved = record.outcome == "improved" if improved is None else improved
    headline = record.timing.headline if record.timing else None
    return RegionOutcome(
        name=name,
        improved=improved,
        speedup=headline.speedup if headline else None,
        interval=headline.interval if headline else None,
        reason=reason or ("" if improved else record.degenerate or record.stop_reason),
    )


def by_playbook(settings: Settings) -> bool:
    """Whether nobody but the playbook writes."""
    return all(getattr(settings, name) in ("", "playbook") for name in settings.model_settings())


def folder_of(node_context: NodeContext) -> Path:
    """The model's folder; where nobody named one, one of the cache for each thread."""
    named = node_context.settings.run_dir
    folder = Path(named) if named else cache_dir() / "models" / (node_context.thread_id or "unnamed")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _begin(run: RunFolder, state: RegionState, seconds: float, settings: Settings) -> tuple[RunFolder, Manifest]:
    own = settings.model_copy(update={"max_wall_s": seconds, "run_dir": None})
    return create(run.path, name=state.region.name, source=state.region.source, settings=own)


class Waited:
    """The seconds that somebody waited before the graph began, by the monotonic clock. Its first node counts them."""

    def __init__(self, since: float | None) -> None:
        self._since = since

    def once(self) -> float:
        """All of them at first, then none."""
        since, self._since = self._since, None
        return time.monotonic() - since if since is not None else 0.0


def opened(step: Step, open_workbench: OpenWorkbench, waited: Waited) -> Callable[[ModelState, NodeContext], Update]:
    """The step with a machine to work on, as the run's settings ask for it, and what is left of the budget."""

    def agent(state: ModelState, node_context: NodeContext) -> Update:
        before_s = waited.once()
        deadline = Deadline.of(node_context.settings.max_wall_s, state.seconds + before_s)
        bench = open_workbench(node_context.settings)
        with bench.counted():
            return step(state, node_context, bench, deadline) | {"seconds": before_s}

    agent.__name__ = step.__name__
    return agent
