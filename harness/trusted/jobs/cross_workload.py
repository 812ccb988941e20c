"""The mixing job: several workloads by turns in one process of the candidate's.

Each workload passed in a process of its own before. Here a kernel fails that keeps what only fits the first one: a
buffer of its size, a plan for its shape, a result by its address.
"""

from __future__ import annotations

import time

from harness.nouns.task import TensorSpec
from harness.nouns.verdict import Trial
from harness.trusted.bench import Bench
from harness.trusted.devices import open_device
from harness.trusted.jobs.judging import (
    MIN_TIMEOUT_S,
    PATIENCE,
    answer_of,
    arguments_in,
    raise_if_wrong,
    reference_seconds,
)
from harness.trusted.link import CandidateFailedError, RunnerLink, WrongError
from harness.trusted.memory import SharedMemory, slot_replica
from harness.trusted.reference import Reference
from harness.trusted.scalar_arguments import slot_numbers
from harness.trusted.trials import run_trial
from harness.wire.job import JudgeAnswer, MixJob
from harness.wire.layout import lay_out_each

ROUNDS = 2
DISTRIBUTIONS = ("normal", "given")


def mix(job: MixJob, runner_fd: int) -> JudgeAnswer:
    """What `judge` answers, without a timing, of all workloads together."""
    began = time.perf_counter()
    trials: list[Trial] = []
    benches: list[Bench] = []
    failed: dict[str, str] = {}
    try:
        link = RunnerLink(runner_fd, job.runner_pid, load_within_s=job.load_within_s)
        benches += _benches(job, link)
        for position, bench in enumerate(benches * ROUNDS):
            _try_one(bench, position, job.seed, trials)
    except CandidateFailedError as failure:
        failed = failure.said
    return answer_of(failed, trials, benches, None, {"mix": time.perf_counter() - began})


def _try_one(bench: Bench, position: int, seed: int, trials: list[Trial]) -> None:
    """One trial on the workload whose turn it is; its slot has its own number."""
    slot = position % bench.memory.slots
    timeout_s = MIN_TIMEOUT_S + PATIENCE * reference_seconds(bench)
    distribution = DISTRIBUTIONS[position // bench.memory.slots]
    trial = run_trial(bench, slot, distribution, (seed + position) % (1 << 31), timeout_s)
    if trial is not None:
        trials.append(trial)
        try:
            raise_if_wrong(trial)
        except WrongError as wrong:
            shapes = (f"{spec.name} {spec.shape}" for spec in bench.signature.inputs if isinstance(spec, TensorSpec))
            raise WrongError(f"with {', '.join(shapes)}, {wrong}") from None


def _benches(job: MixJob, link: RunnerLink) -> list[Bench]:
    """One for each workload, over one memory and one runner."""
    device = open_device(job.device, job.slot_target_bytes)
    device.prepare(job.precision)
    signatures = [shape.signature for shape in job.shapes]
    memory = SharedMemory(signatures[0], len(signatures), device, layout=lay_out_each(signatures))
    references = [
        Reference(job.source, job.name, device.place, variant=shape.variant, state=shape.signature.state)
        for shape in job.shapes
    ]
    replicas = [slot_replica(reference, memory, slot) for slot, reference in enumerate(references)]
    numbers = [slot_numbers(signature, 0) for signature in signatures]
    link.share(memory, numbers)
    link.load(job.library)
    return [
        Bench(arguments_in(memory, job, reference, signature, numbers, replicas), link, tolerance=job.tolerance)
        for reference, signature in zip(references, signatures, strict=True)
    ]
