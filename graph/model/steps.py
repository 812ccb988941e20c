"""The nodes of the model graph, each a function of the state and of what surrounds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from graph.model.assembly import FILE, REGIONS, assembled, cuts_of
from graph.model.plan import plan_of
from graph.model.state import ModelState, RegionOutcome, RegionState, RegionTask
from graph.model.turns import allowance_s, beginning, turn
from graph.model.workbench import OpenWorkbench, Workbench
from graph.runs.folder import Manifest, RunFolder, create, reopen, replace_file
from graph.runs.interrupts import raise_if_stopped, wakes
from graph.runs.loop import drive
from graph.runs.record import RunRecord
from harness.machine.cache import cache_dir
from harness.nouns.errors import UserError
from harness.nouns.verdict import precision_on
from harness.wire.stopping import Stop, StoppedError, present, stoppable
from harness.wire.telling import tell
from nodes.events import RegionBegun, RegionEnded
from nodes.node import Update
from nodes.node_context import NodeContext
from nodes.progress import apart
from nodes.settings import Settings
from nodes.state import Usage, require

Step = Callable[[ModelState, NodeContext, Workbench], Update]


def capture(state: ModelState, _: NodeContext, bench: Workbench) -> Update:
    """Run the model once with every operation clocked."""
    return {"capture": bench.capture(state.model), "target": bench.target, "tier": bench.tier}


def planner(state: ModelState, node_context: NodeContext, bench: Workbench) -> Update:
    """Cut the model into regions, and rank them by what they can gain."""
    captured = require(state.capture, "capture")
    precision = precision_on(bench.target, node_context.settings.precision)
    return {"plan": plan_of(captured, bench.target, bench.facts(), precision)}


def cutter(state: ModelState, node_context: NodeContext, bench: Workbench) -> Update:
    """Make a task of each region that is worth a kernel."""
    captured, plan = require(state.capture, "capture"), require(state.plan, "plan")
    chosen = plan.worthwhile(playbook_alone=by_playbook(node_context.settings))
    sources = bench.cut(state.model, cuts_of(captured, chosen)) if chosen else {}
    return {
        "tasks": tuple(
            RegionTask(name=region.name, source=sources[region.name], gain_ms=region.gain_ms) for region in chosen
        )
    }


def region(state: RegionState, node_context: NodeContext) -> Update:
    """Take one region through the agents' graph, in a run folder of its own; an ended run is only read."""
    folder = folder_of(node_context) / REGIONS
    task, run = state.region, RunFolder(folder / state.region.name)
    try:
        with _ended_with_all(), turn(state.target):
            with beginning:
                known = run.manifest_file.exists()
                begun = reopen(run.path) if known else _begin(run, state, folder, node_context.settings)
            tell(RegionBegun(budget_s=begun[1].settings.max_wall_s))
            record = apart(partial(drive, *begun, open_judge=node_context.open_judge))
    except UserError as error:
        return _ended(RegionOutcome(name=task.name, improved=False, reason=str(error)), Usage())
    return _ended(outcome_of(task.name, record), record.usage)


def _ended(outcome: RegionOutcome, usage: Usage) -> Update:
    tell(RegionEnded.model_validate(outcome.model_dump(exclude={"name"})))
    return {"outcomes": (outcome,), "usage": usage}


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


def assembler(state: ModelState, node_context: NodeContext, _: Workbench) -> Update:
    """Write the model with every region whose kernel is faster by itself."""
    write_assembled(state, folder_of(node_context), won(state), graphs=replayed(state))
    return {}


def replayed(state: ModelState) -> bool:
    """Whether calls may be replayed as CUDA graphs, of the model with kernels or without."""
    return state.target == "cuda"


def acceptor(state: ModelState, node_context: NodeContext, bench: Workbench) -> Update:
    """Hold the whole against eager; what does not gain inside it goes."""
    folder = folder_of(node_context)
    acceptance = bench.accept(state.model, folder, FILE, won(state))
    write_assembled(state, folder, acceptance.kept, graphs=acceptance.accepted and acceptance.graphs)
    return {"acceptance": acceptance}


def won(state: ModelState) -> tuple[str, ...]:
    """The regions whose kernels are faster by themselves, in the plan's order."""
    improved = {outcome.name for outcome in state.outcomes if outcome.improved}
    return tuple(task.name for task in state.tasks if task.name in improved)


def write_assembled(state: ModelState, folder: Path, names: tuple[str, ...], *, graphs: bool) -> None:
    """Write the assembled model; with neither regions in it nor CUDA graphs none lies there. Raises `MachineError`."""
    if names or graphs:
        text = assembled(require(state.capture, "capture"), require(state.plan, "plan"), names, graphs=graphs)
        replace_file(folder / FILE, text)
    else:
        (folder / FILE).unlink(missing_ok=True)


def outcome_of(name: str, record: RunRecord) -> RegionOutcome:
    """What a run's record says of its region."""
    headline = record.timing.headline if record.timing else None
    return RegionOutcome(
        name=name,
        improved=record.outcome == "improved",
        speedup=headline.speedup if headline else None,
        interval=headline.interval if headline else None,
        reason="" if record.outcome == "improved" else record.degenerate or record.stop_reason,
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


def _begin(run: RunFolder, state: RegionState, folder: Path, settings: Settings) -> tuple[RunFolder, Manifest]:
    seconds = allowance_s(state, folder, settings.max_wall_s)
    own = settings.model_copy(update={"max_wall_s": seconds, "run_dir": None})
    return create(run.path, name=state.region.name, source=state.region.source, settings=own)


def opened(step: Step, open_workbench: OpenWorkbench) -> Callable[[ModelState, NodeContext], Update]:
    """The step with a machine to work on, as the run's settings ask for it."""

    def agent(state: ModelState, node_context: NodeContext) -> Update:
        return step(state, node_context, open_workbench(node_context.settings))

    agent.__name__ = step.__name__
    return agent
