"""The judging job: one candidate, checked and timed. Never loads, parses or trusts anything of the candidate's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import torch

from harness.checks.errors import MULTIPLE, own_error
from harness.checks.families import STIRRED
from harness.nouns.caller import callers
from harness.nouns.devices import on_gpu
from harness.nouns.errors import MachineError, UserError
from harness.nouns.events import Checking
from harness.nouns.task import Signature
from harness.nouns.task_filters import CONSTANT
from harness.nouns.verdict import Correctness, Timing, Trial, Untried
from harness.trusted.admission import choose_manner, choose_moving, choose_structure, choose_weights
from harness.trusted.arguments import Arguments
from harness.trusted.bench import Bench
from harness.trusted.device import Device
from harness.trusted.devices import open_device
from harness.trusted.feeding import fed_by
from harness.trusted.jobs.kept_results import require_new_results
from harness.trusted.link import CandidateFailedError, Numbers, RunnerLink, WrongError
from harness.trusted.memory import SharedMemory, slot_replica
from harness.trusted.reference import Reference
from harness.trusted.repeats import needs_repeating, repeated
from harness.trusted.scalar_arguments import slot_numbers
from harness.trusted.timing.bursts import Kernel, message_cost
from harness.trusted.timing.clock import (
    HOPELESS,
    MAX_ROUNDS,
    MIN_ROUNDS,
    Incumbent,
    IncumbentFailedError,
    set_pace,
    time_by_turns,
)
from harness.trusted.timing.compiled import CompiledReference, Model, compile_reference
from harness.trusted.timing.late_trials import LateTrials
from harness.trusted.timing.timed_outputs import TimedOutputs
from harness.trusted.trials import not_asked, plan_trials, run_steps, run_trial
from harness.wire.gate import have_device_alone
from harness.wire.job import CompileOrder, IncumbentRunner, JudgeAnswer, JudgeJob, KernelJob
from harness.wire.layout import lay_out, slot_bytes
from harness.wire.telling import tell

MAX_SLOTS = 256
"""A burst calls each slot once, and takes about a millisecond for the smallest of kernels with this many."""
PATTERN_SEED = 104729
"""Beside the seeds of trials: these inputs are timed, and no trial has shown them."""
PATIENCE = 100.0
"""A call counts as hung after this many times the reference's time, and never before MIN_TIMEOUT_S."""
MIN_TIMEOUT_S = 5.0
LONG_S = 0.1
"""Where the reference's call takes longer, one late trial a round has to do."""
TOO_SLOW = "the kernel is hopelessly slow, and has had its time"
HOPELESS_TRIALS_S = 10.0
"""A kernel that takes `HOPELESS` times as long as the reference begins no further trial after so long in its calls."""

Value = TypeVar("Value")


def judge(job: JudgeJob, runner_fd: int, gauge_fd: int | None = None, incumbent_fd: int | None = None) -> JudgeAnswer:
    """Check a kernel and, where there is a gauge, time it. Raises `UserError` and `MachineError`."""
    seconds: dict[str, float] = {}
    trials: list[Trial] = []
    bench: Bench | None = None
    timing: Timing | None = None
    failed: dict[str, str] = {}
    try:
        with _phase(seconds, "load"):
            bench = prepare(job, RunnerLink(runner_fd, job.runner_pid, load_within_s=job.load_within_s))
        with _phase(seconds, "check"):
            timeout_s = check(bench, job, trials)
            bench.oracle.forget()
        if gauge_fd is not None:
            compiled = _compiled(bench, job.compile)
            if compiled:
                seconds["compile"] = compiled.seconds
            alone_for_timing(bench, RunnerLink(gauge_fd, job.gauge_pid, load_within_s=job.load_within_s))
            with _phase(seconds, "time"):
                incumbent = (
                    None
                    if job.incumbent is None or incumbent_fd is None
                    else _incumbent(bench, job.incumbent, incumbent_fd)
                )
                timing = _timed(bench, job, timeout_s, (incumbent, compiled), trials)
                told = {"hopeless": _hopeless(timing, trials)} | _influence(bench, job)
                timing = timing.model_copy(update=told)
        bench.link.require_nothing_kept()
    except CandidateFailedError as failure:
        failed, timing = failure.said, None
    except torch.OutOfMemoryError as full:
        raise no_room(job, full) from full
    return answer_of(failed, trials, [bench] if bench else [], timing, seconds)


def answer_of(
    failed: Mapping[str, str],
    trials: Sequence[Trial],
    benches: Sequence[Bench],
    timing: Timing | None,
    seconds: dict[str, float],
) -> JudgeAnswer:
    """What was found out in these trials; `failed` is what a failure says of itself."""
    correctness = None
    if trials:
        absent = next((bench.oracle.absent for bench in benches if bench.oracle.absent), "")
        untried = tuple(each for bench in benches for each in bench.untried)
        correctness = Correctness(trials=tuple(trials), no_oracle=absent, untried=untried)
    found = {"correctness": correctness, "timing": timing, "seconds": seconds}
    return JudgeAnswer.model_validate({**failed, **found})


def _influence(bench: Bench, job: JudgeJob) -> dict[str, str]:
    """What a timing says of whether the outputs depend on anything. Few trials find no task degenerate."""
    family = bench.influence.shown_by("given", bench.reference.run(bench.arguments.pattern))
    return {"influence": family, "task_defect": "" if family or job.trials is not None else CONSTANT}


def _hopeless(timing: Timing, trials: list[Trial]) -> str:
    """What was made short of a kernel that is far too slow, in words; empty for any other."""
    return f"{timing.hopeless}, after {len(trials)} trials" if timing.hopeless else ""


def no_room(job: KernelJob, full: torch.OutOfMemoryError) -> MachineError:
    """What is said where a job does not fit the device."""
    said = " ".join(str(full).split())[:200]
    return MachineError(
        f"Judging {job.name} does not fit this GPU's memory: {said}",
        "Choose smaller shapes (a suite's --scale makes them), or a GPU with more memory.",
    )


@contextmanager
def _phase(seconds: dict[str, float], name: str) -> Iterator[None]:
    began = time.perf_counter()
    try:
        yield
    finally:
        seconds[name] = time.perf_counter() - began


def prepare(job: KernelJob, link: RunnerLink, *, kernels: int = 2) -> Bench:
    """The bench of a job, whose runner has loaded its library. Up to so many kernels have outputs of their own."""
    device = open_device(job.device, job.slot_target_bytes)
    device.prepare(job.precision)
    signature = job.signature
    reference = Reference(job.source, job.name, device.place, variant=job.variant, state=job.signature.state)
    memory = SharedMemory(signature, _slot_count(signature, job, device, kernels), device)
    numbers = [slot_numbers(signature, slot) for slot in range(memory.slots)]
    replicas = [slot_replica(reference, memory, slot) for slot in range(memory.slots)]
    link.share(memory, numbers)
    link.load(job.library)
    return Bench(arguments_in(memory, job, reference, signature, numbers, replicas), link, tolerance=job.tolerance)


def arguments_in(
    memory: SharedMemory,
    job: KernelJob,
    reference: Reference,
    signature: Signature,
    numbers: list[Numbers],
    replicas: list[torch.nn.Module],
) -> Arguments:
    """A job's arguments of this signature."""
    return Arguments(
        device=memory.device,
        reference=reference,
        signature=signature,
        facts=job.facts,
        memory=memory,
        numbers=numbers,
        replicas=replicas,
        pattern=reference.inputs((job.seed + PATTERN_SEED) % (1 << 31)),
    )


def _slot_count(signature: Signature, job: KernelJob, device: Device, kernels: int = 2) -> int:
    """Enough slots to exceed the last-level cache, at least two (a kernel must not know where its data lies)."""
    each, more = slot_bytes(signature), (kernels - 2) * lay_out(signature, 1).output_bytes
    wanted = int(min(max(2, -(-job.slot_target_bytes // each)), MAX_SLOTS))
    return device.slots(wanted, each + more, job.memory_bytes)


def check(bench: Bench, job: KernelJob, trials: list[Trial]) -> float:
    """Run the trials, as many as are asked for, the first failing one last; returns the time a call may take.

    Raises `UserError` where the reference accepts none of the file's own inputs: there is nothing to compare then.
    """
    usual_s, seed = reference_seconds(bench), job.seed
    timeout_s = MIN_TIMEOUT_S + PATIENCE * usual_s
    bench.arguments.settle(seed)
    for refused in bench.arguments.discrete.refused:
        bench.untried.append(Untried(distribution="integers and masks", seed=seed, reason=f"{refused}: refused"))
    choose_weights(bench, seed)
    choose_structure(bench, seed)
    choose_manner(bench, seed, various=job.trials is None)
    choose_moving(bench, seed)
    own, backward = bench.reference.given_seed, bench.reference.gradients is not None
    planned = plan_trials(
        seed,
        bench.facts.op_class,
        multiplies=bench.facts.multiplies,
        given_seed=own,
        backward=backward,
        without=not_asked(bench),
    )
    plan, who, last = islice(planned, job.trials), callers(bench.device.kind), 0
    for position, (distribution, trial_seed) in enumerate(plan):
        if _spent_enough(bench.link, usual_s):
            bench.untried.append(Untried(distribution=distribution, seed=trial_seed, reason=TOO_SLOW))
            continue
        tell(Checking(distribution=distribution, trials=len(trials)))
        slot = position % min(2, bench.memory.slots)  # the same addresses with new values, again and again
        caller = who[position % len(who)]
        trial = run_trial(bench, slot, distribution, trial_seed, timeout_s, caller)
        if trial is not None:
            trials.append(repeated(bench, slot, trial, timeout_s) if needs_repeating(trial) else trial)
            raise_if_wrong(trials[-1], partial(fed_by, bench, slot))
            for later in run_steps(bench, slot, trials[-1], timeout_s):
                trials.append(later)
                raise_if_wrong(later, partial(fed_by, bench, slot))
            last = slot
    if not any(trial.distribution == "given" for trial in trials):
        raise bench.reference.error("the forward refuses inputs that get_inputs gives", "It must accept all of them.")
    whole = job.trials is None and trials[-1].distribution == STIRRED
    if whole and not _spent_enough(bench.link, usual_s):
        require_new_results(bench, TimedOutputs(bench, timed_allowances(trials)), last, timeout_s)
    return timeout_s


def _spent_enough(link: RunnerLink, usual_s: float) -> bool:
    """Whether a hopelessly slow kernel has had its share of the device: it is told right by the trials made so far."""
    return link.calling_s > max(HOPELESS_TRIALS_S, link.called * HOPELESS * usual_s)


def alone_for_timing(bench: Bench, gauge: RunnerLink) -> None:
    """The trials are over: have the device alone from here on, and measure what an order costs.

    `gauge` is a runner that loads nothing, so that the candidate has no say in it.
    """
    gauge.share(bench.memory, bench.arguments.numbers)
    bench.device.before_timing()
    have_device_alone()
    bench.message = message_cost(gauge, bench.memory)


def reference_seconds(bench: Bench) -> float:
    """A call's time, roughly. On a GPU the first one loads libraries for seconds: there the second one counts."""
    for _ in range(2 if on_gpu(bench.device.kind) else 1):
        began = time.perf_counter()
        bench.reference.run(bench.arguments.pattern)
        bench.device.finish()
    return time.perf_counter() - began


def raise_if_wrong(trial: Trial, fed: Callable[[Trial, int], str] = lambda trial, output: "") -> None:
    """Raise `WrongError`, in words with numbers, where an output of the trial is wrong.

    `fed` says of an output's first wrong element which special inputs it is made of.
    """
    for position, error in enumerate(trial.outputs):
        if error.bad_fraction == 0 or error.first_bad is None:
            continue
        bad, called = error.first_bad, f", called {trial.caller.said}" if trial.caller.said else ""
        called += f", in step {trial.steps + 1} on the state of the steps before" if trial.steps else ""
        raise WrongError(
            f"{error.output} is wrong on {trial.distribution} inputs (seed {trial.seed}){called}: "
            f"{error.bad_fraction:.3%} of it, {error.pattern}. "
            f"First at {list(bad.index)}: expected {bad.expected:.9g}, got {bad.got:.9g}{fed(trial, position)}. "
            f"Largest scaled error {error.max_scaled:.3g}, PyTorch's own {error.reference_max_scaled:.3g}."
        )


def _incumbent(bench: Bench, incumbent: IncumbentRunner, descriptor: int) -> Incumbent | None:
    """The earlier kernel over the same inputs; None where it does not even load any more."""
    link, memory = RunnerLink(descriptor, incumbent.pid), bench.memory.beside()
    try:
        link.share(memory, bench.arguments.numbers)
        link.load(incumbent.library)
    except CandidateFailedError:
        return None
    return Incumbent(incumbent.digest, Kernel(link, memory))


def _compiled(bench: Bench, order: CompileOrder | None) -> CompiledReference | None:
    """What torch.compile makes of each slot's reference; None where nobody ordered it."""
    if order is None:
        return None

    def prepare(model: Model, slot: int) -> Callable[[], Any]:
        return bench.reference.prepared(model, bench.arguments.replicas[slot], bench.arguments.inputs(slot))

    return compile_reference(bench.arguments.replicas, prepare, bench.device, order)


def _timed(
    bench: Bench,
    job: JudgeJob,
    timeout_s: float,
    others: tuple[Incumbent | None, CompiledReference | None],
    trials: list[Trial],
) -> Timing:
    """Time the candidate beside the others, then verify what its timed calls left behind. Raises `UserError`."""
    incumbent, compiled = others

    def as_chosen() -> Timing:
        fill_for_timing(bench)
        pace = set_pace(bench, timeout_s)
        outputs = TimedOutputs(bench, timed_allowances(trials))
        late = LateTrials(bench, outputs, trials, pace, within=late_within(timeout_s))
        try:
            timing = time_by_turns(bench, pace, job.timing_s, outputs, late, incumbent=incumbent, compiled=compiled)
        except IncumbentFailedError:
            timing = time_by_turns(bench, pace, job.timing_s, outputs, late, compiled=compiled)
        bench.results.clear()
        outputs.at_the_end(bench.device.verified_slots)
        return timing

    return as_the_reference_takes_it(bench, as_chosen)


def as_the_reference_takes_it(bench: Bench, timed: Callable[[], Value]) -> Value:
    """What was timed; once more on the file's own inputs where the reference refuses others. Raises `UserError`."""
    try:
        return timed()
    except UserError:  # a reference that accepted the first stirred inputs may refuse later ones
        if bench.arguments.manner == "given":
            raise
        bench.arguments.manner = "given"
        return timed()


def late_within(timeout_s: float) -> int:
    """In how many rounds all families have a turn, where a call may take so long."""
    return MAX_ROUNDS if timeout_s > MIN_TIMEOUT_S + PATIENCE * LONG_S else MIN_ROUNDS


def fill_for_timing(bench: Bench) -> None:
    """Inputs of its own in every slot, and weights."""
    for slot in range(bench.memory.slots):
        bench.arguments.stir(slot)
        bench.memory.poison(slot)


def timed_allowances(trials: Sequence[Trial]) -> list[float]:
    """For each output, how far a timed result may be from PyTorch's before the oracle is asked.

    Within this both of them are as near to the oracle as a trial asks. It follows from PyTorch's own error on such
    inputs alone: who was inexact in the trials is not held to less.
    """
    given = [trial for trial in trials if trial.distribution in ("given", STIRRED)]
    return [(MULTIPLE - 1) * max(own_error(trial.outputs[i]) for trial in given) for i in range(len(trials[0].outputs))]
