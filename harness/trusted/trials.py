"""Right or wrong: trials over distributions and seeds, each against a float64 oracle."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from harness.checks.emptiness import all_finite, emptiness
from harness.checks.errors import UNDEFINED, scale_of
from harness.checks.families import FAMILIES, MASKED, NOTHING, SHARED, SINGLE, SUBNORMAL, plan_of
from harness.nouns.caller import USUAL, Caller
from harness.nouns.devices import on_gpu
from harness.nouns.errors import UserError
from harness.nouns.task import OpClass, TensorSpec
from harness.nouns.verdict import Trial, Untried
from harness.trusted.bench import Bench
from harness.trusted.comparison import errors_of
from harness.trusted.link import CandidateFailedError
from harness.trusted.memory import FILLINGS
from harness.trusted.reference import writable

STEPS = 4
"""Calls in a row of a kernel that writes state."""
CANCELLED = 1 / 16
"""Of the file's own: smaller outputs are what rounding leaves of differences, each kernel's in its own way."""
MOST_TERMS = 1 << 15
"""A mean that divides each term first has terms of 2**23 / so many units there, and is off by a hundredth at most."""


def plan_trials(
    seed: int,
    op_class: OpClass,
    *,
    multiplies: bool = False,
    given_seed: int | None = None,
    backward: bool = False,
    without: Collection[str] = (),
) -> Iterator[tuple[str, int]]:
    """Family and seed of each trial; all seeds follow from the verdict's own, but the file's `given_seed`.

    Under that one `get_inputs` gives a live module's own inputs, and the first trial is on them.
    """
    if given_seed is not None:
        yield "given", given_seed
    plan = plan_of(op_class, multiplies=multiplies, backward=backward)
    for position, family in enumerate(each for each in plan if each not in without):
        yield family, (seed + 7919 * position) % (1 << 31)


def not_asked(bench: Bench) -> frozenset[str]:
    """Families on which honest kernels differ from PyTorch, by what the task computes."""
    kept = {
        SUBNORMAL: hands_on_subnormals(bench), SINGLE: bench.facts.hands_on,
        NOTHING: not bench.arguments.ambiguous and bench.reference.direction == "forward",  # else all is a tie
        SHARED: bool(bench.arguments.shared()),
    }  # fmt: skip
    return frozenset(family for family, asked in kept.items() if not asked)


def hands_on_subnormals(bench: Bench) -> bool:
    """Whether whoever computes honestly has subnormals in his results, nearly as PyTorch has them.

    Pointwise operations round each of them once. Reductions may lose some: to squares, to a division of very many terms
    before they are added, to a GPU's atomic sums in global memory.
    """
    if bench.facts.op_class == "elementwise":
        return True
    inputs = (spec.numel for spec in bench.signature.inputs if isinstance(spec, TensorSpec))
    terms = max(inputs, default=1) // max(1, min(spec.numel for spec in bench.signature.outputs))
    return bench.facts.adds and not on_gpu(bench.device.kind) and terms <= MOST_TERMS


def run_trial(
    bench: Bench, slot: int, distribution: str, seed: int, timeout_s: float, caller: Caller = USUAL
) -> Trial | None:
    """Run one trial, called by `caller`. The oracle is computed after the call.

    A draw on which the reference has no results to hold anybody to is drawn once more, milder. None where that does not
    help either: `bench.untried` then says why.
    """
    reason = ""
    for mild in range(FAMILIES[distribution].mildest + 1):
        planned = Trial(distribution=distribution, seed=seed, mild=mild, caller=caller, outputs=())
        outcome = _run_once(bench, slot, planned, timeout_s)
        if isinstance(outcome, Trial):
            return outcome
        reason = outcome
    bench.untried.append(Untried(distribution=distribution, seed=seed, reason=reason))
    return None


def run_steps(bench: Bench, slot: int, first: Trial, timeout_s: float) -> Iterator[Trial]:
    """The calls after a trial on the file's own inputs, each on more of them and the state that the one before left.

    None where the forward writes no state, or from where on it refuses what the file gives.
    """
    for steps in range(1, STEPS if bench.reference.state and first.distribution == "given" else 1):
        seed = (first.seed + steps) % (1 << 31)
        planned = first.model_copy(update={"seed": seed, "steps": steps, "outputs": ()})
        outcome = _run_once(bench, slot, planned, timeout_s)
        if isinstance(outcome, str):
            bench.untried.append(Untried(distribution=f"step {steps + 1}", seed=seed, reason=outcome))
            return
        yield outcome


def _run_once(bench: Bench, slot: int, planned: Trial, timeout_s: float) -> Trial | str:
    """The trial with its errors, or why the reference has no results on these inputs."""
    if planned.steps:
        bench.step(slot, planned.seed)
    else:
        bench.arguments.fill(slot, planned.seed, planned.distribution, planned.mild)
    # Outputs of the first trial, and of workloads by turns, hold NaN: what is never written is told as such. So do they
    # where all places are one, which leaves the most unwritten.
    ways = bench.arguments.discrete.ways(planned.distribution).values()
    plain = planned.distribution in ("given", "normal") or "alone" in ways
    bench.memory.poison(slot, "nan" if plain else FILLINGS[planned.seed % len(FILLINGS)])
    before = digest(bench, slot)
    beside = [(slot + 1) % min(2, bench.memory.slots)] if planned.caller.together else []
    for other in beside:
        bench.arguments.stir(other)
    bench.device.finish()
    try:
        bench.call([slot, *beside], planned, timeout_s)
    except CandidateFailedError:
        if refusal := _refusal(bench, slot):
            return refusal
        raise
    require_same_inputs(bench, slot, before)
    broken = bench.memory.broken_guard(slot)
    if broken:
        raise CandidateFailedError("crashed", "out_of_bounds", f"Memory outside an output was written: {broken}.")
    try:
        return compared(bench, slot, planned)
    except UserError as error:
        return str(error)


def compared(bench: Bench, slot: int, planned: Trial) -> Trial | str:
    """What lies in a slot's outputs against the oracle; in words why that is no trial. Raises `UserError`."""
    results = [writable(output) for output in bench.arguments.results(slot)]
    given, family, empty = planned.distribution == "given", FAMILIES[planned.distribution], emptiness(results)
    if given:
        bench.usual = empty
    elif empty and not bench.usual and not family.empties:
        return empty
    if planned.distribution == MASKED and any(bool(result.isnan().any()) for result in results):
        return "PyTorch's outputs are NaN among them"
    if planned.distribution in (NOTHING, SHARED) and not all_finite(results):
        return "PyTorch's outputs are not finite there"
    sizes = [scale_of(result) for result in results if result.is_floating_point()]
    if given:
        bench.sizes = sizes
    elif family.shares and any(size < CANCELLED * usual for size, usual in zip(sizes, bench.sizes, strict=False)):
        return "PyTorch's outputs cancel there"
    trial = planned.model_copy(update={"outputs": errors_of(bench, slot, planned, results)})
    off = min((error.reference_relative_l2 for error in trial.outputs), default=0.0)
    if off > UNDEFINED and not family.puts:
        if not given and not bench.usual:
            return f"PyTorch's own outputs are off by {off:.0%} there"
        bench.usual = "PyTorch's own outputs are off"
    return trial


def digest(bench: Bench, slot: int) -> int:
    """A checksum of a slot's inputs where the device needs one, else always the same number."""
    return 0 if bench.device.seals else bench.memory.digest(slot)


def require_same_inputs(bench: Bench, slot: int, before: int) -> None:
    """Raise `CandidateFailedError` where a slot's inputs are not as they were when their digest was taken."""
    if digest(bench, slot) != before:
        raise CandidateFailedError("crashed", "inputs", "The kernel changed its inputs: they are not its to write.")


def _refusal(bench: Bench, slot: int) -> str:
    """Why the forward does not accept the values at all; empty where it does."""
    try:
        bench.arguments.results(slot)
    except UserError as error:
        return str(error)
    return ""
