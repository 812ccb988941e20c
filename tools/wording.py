"""Builds and verdicts in words: what a tool says to a model, and what prompts repeat."""

from __future__ import annotations

import re
from collections.abc import Iterable

from harness.nouns.build import Build, Diagnostic, Resources
from harness.nouns.candidate import TargetName
from harness.nouns.devices import on_gpu
from harness.nouns.sanitizer_run import SanitizerRun, Smaller
from harness.nouns.verdict import Headline, HeadToHead, OutputError, Status, Timing, Trial, Verdict

MAX_DIAGNOSTICS = 20
MAX_REMARKS = 12
MAX_MESSAGE_CHARS = 2000
UNDECIDED = ", which decides nothing: the machine was too busy"

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_FAILED: dict[Status, str] = {
    "refused": "was refused",
    "crashed": "crashed",
    "timed_out": "ran out of time",
    "wrong": "gives wrong results",
}


def say_build(build: Build) -> str:
    """Whether it compiled; the errors where it did not, the optimizer's remarks and the resources where it did."""
    if not build.succeeded:
        errors = [diagnostic for diagnostic in build.diagnostics if diagnostic.severity != "warning"]
        return "\n".join(["The kernel does not compile:", *_diagnostics(errors, MAX_DIAGNOSTICS)])
    lines = ["The kernel compiles.", *say_resources(build)]
    return "\n".join([*lines, *_diagnostics(build.remarks, MAX_REMARKS)])


def say_resources(build: Build) -> list[str]:
    """What each kernel takes of a multiprocessor; nothing on a processor."""
    return [
        f"{use.kernel}: {use.registers} registers a thread, {use.shared_bytes} bytes of shared memory, "
        f"{use.spill_bytes} bytes spilled{_say_frame(use)}"
        for use in build.resources
    ]


def _say_frame(use: Resources) -> str:
    """What of local memory is no spill, as far as ptxas tells: it counts spills by their stores and loads."""
    if not use.stack_bytes:
        return ""
    whose = (
        "spills among them: ptxas does not tell how many are its local arrays"
        if use.spill_bytes
        else "none of them spills: local arrays, which an index known only at run time puts there, or calls"
    )
    return f", {use.stack_bytes} bytes of stack frame, {whose}"


def say_verdict(verdict: Verdict, target: TargetName) -> str:
    """The status, then what a repair or an optimization can start from."""
    if verdict.timing is not None:
        return f"The kernel is right. {say_timing(verdict.timing, target)}"
    if verdict.status == "build_failed" and verdict.build is not None:
        return say_build(verdict.build)
    what = _FAILED.get(verdict.status, verdict.status)
    lines = [f"The kernel {what} (check {verdict.check}): {verdict.message[:MAX_MESSAGE_CHARS]}"]
    if verdict.correctness is not None:
        lines += [line for trial in verdict.correctness.trials for line in _trial(trial)]
    if verdict.check == "sanitizer":
        lines += [f"- {line}" for line in say_sanitizers(verdict.sanitizers).splitlines()]
        lines.append("Its results were right on every input: what is wrong is what it touches on the way.")
    return "\n".join(lines)


def say_headline(timing: Timing) -> str:
    """The speed-up that counts, with its interval, the two times that it is the quotient of, and whose clock's they
    are."""
    return f"{_said(timing.headline, timing.baseline)}."


def say_other_clocks(timing: Timing) -> list[str]:
    """The same by each other clock, a sentence each; and why the drop-in could not be timed, where it could not."""
    said = [f"{_capital(each.whose)}: {_said(each, timing.baseline, whose=False)}." for each in timing.other_clocks]
    caller = timing.caller
    if caller and caller.graphed:
        graphed = Headline(clock="back to back", rounds=caller.rounds, **dict(caller.graphed))
        said.append(f"In a CUDA graph, without its launches: {_said(graphed, timing.baseline, whose=False)}.")
    if caller and caller.ungraphed:
        said.append(f"It could not be timed in a CUDA graph: {caller.ungraphed.rstrip('.')}.")
    return [*said, *filter(None, [timing.caller_failure])]


def _said(headline: Headline, baseline: str, *, whose: bool = True) -> str:
    words = (
        f"{headline.speedup:.2f}x over {baseline} (95 % interval {headline.interval.said()}): "
        f"{headline.ms:.4g} ms against {headline.baseline_ms:.4g} ms"
    )
    return f"{words}, {headline.whose}" if whose else words


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def first_sentence(words: str) -> str:
    """The first sentence of a reason, on one line."""
    flat = " ".join(words.split())
    return _SENTENCE.split(flat, maxsplit=1)[0]


def say_duel(met: HeadToHead) -> str:
    """How a kernel did against the best one of its time."""
    if met.identical:
        return "identical machine code to the best"
    return f"{met.speedup:.2f}x over the best, {met.interval.said()}{met.by}"


def say_compiled(timing: Timing) -> str:
    """How the kernel does against torch.compile, or why that is no baseline; nothing where nobody asked."""
    compiled = timing.compiled
    if compiled is None:
        return timing.compiled_failure
    return f"{compiled.speedup:.2f}x over torch.compile ({compiled.interval.said()}): {compiled.ms:.3g} ms."


def say_timing(timing: Timing, target: TargetName) -> str:
    """Medians and speed-up with its interval. On a GPU the processor's threads say nothing of PyTorch's time."""
    threads = "" if on_gpu(target) else f" on {timing.threads} threads"
    words = (
        f"{timing.candidate_ms:.4g} ms a call against {timing.baseline_ms:.4g} ms of {timing.baseline} PyTorch"
        f"{threads}: {timing.speedup:.3f}x (95 % interval {timing.speedup_interval.said(3)})."
    )
    return words if timing.head_to_head is None else f"{words} {_met(timing.head_to_head, 'the best kernel before it')}"


def say_progress(timing: Timing, over_first: float, first_over_baseline: float) -> str:
    """The time of a kernel that others led to, and its gains over the first of them and over the baseline, which was
    measured once, beside that one: they tell of the kernel alone."""
    words = (
        f"The kernel is right: {timing.candidate_ms:.4g} ms a call. By the head-to-heads that led to it, it is "
        f"{over_first:.3f}x this run's first right kernel, which was {first_over_baseline:.3f}x {timing.baseline} "
        f"PyTorch: {over_first * first_over_baseline:.3f}x."
    )
    return f"{words} {_met(timing.head_to_head, 'the best kernel before it')}" if timing.head_to_head else words


def say_against(timing: Timing, target: TargetName) -> str:
    """How a kernel did against the one at hand; where the two did not meet, all that the timing says."""
    met = timing.head_to_head
    return _met(met, "the present kernel") if met else say_timing(timing, target)


def _met(met: HeadToHead, other: str) -> str:
    if met.identical:
        return f"It is the machine code of {other}: no gain, and no head-to-head was run."
    return (
        f"Against {other}, in the same rounds: {met.speedup:.3f}x "
        f"({met.interval.said(3)}){met.by}{UNDECIDED if met.outcome == 'undecided' else ''}."
    )


def say_tolerance(tolerance: float) -> str:
    """What errors were accepted beyond the judge's own measure; empty where none were."""
    return "" if tolerance == 1 else f"Tolerance {tolerance:g}: errors so many times what PyTorch's own allows passed."


def say_oracle(verdict: Verdict) -> str:
    """Why there was no float64 oracle, and what stood in its place; empty where there was one."""
    if not verdict.no_oracle:
        return ""
    return (
        f"No float64 oracle: {verdict.no_oracle.rstrip('.')}. Errors are held against how far PyTorch's own result "
        "moves when its roundings do."
    )


def say_trials(verdict: Verdict) -> str:
    """The families of inputs that were tried, then each that was not, with the reason; empty where nothing was."""
    every = (verdict.correctness, *(each.correctness for each in verdict.workloads))
    held = [correctness for correctness in every if correctness]
    tried = dict.fromkeys(_family(trial) for correctness in held for trial in correctness.trials)
    not_tried = dict.fromkeys(
        f"Not tried: {left.distribution}: {left.reason.rstrip('.')}." for each in held for left in each.untried
    )
    return "\n".join([f"Tried on: {', '.join(tried)}.", *not_tried]) if tried else ""


def _family(trial: Trial) -> str:
    return f"{trial.distribution} (milder)" if trial.mild else trial.distribution


def say_sanitizers(runs: Iterable[SanitizerRun]) -> str:
    """One line a tool: clean, what it found, or why it could not look. Then at which sizes, where not at the task's."""
    said = tuple(runs)
    return "\n".join([*(f"{_place(run)}: {_sanitizer(run)}" for run in said), *say_smaller(said)])


def say_smaller(runs: Iterable[SanitizerRun]) -> list[str]:
    """The sizes at which a kernel was watched where the task's own take too long, a sentence for each workload."""
    told = dict.fromkeys((run.workload, run.smaller) for run in runs if run.smaller)
    return [_smaller(workload, smaller) for workload, smaller in told if smaller]


def _smaller(workload: str, smaller: Smaller) -> str:
    shapes = ", ".join(f"({', '.join(map(str, shape))})" for shape in smaller.shapes)
    numbers = ", ".join(f"{new} for {old}" for old, new in smaller.numbers)
    whose = f"The source was compiled for them: {numbers}." if numbers else "The source was the same."
    of = f"{workload}: w" if workload else "W"
    return f"{of}atched at smaller sizes than the task's, at which it is right, too: {shapes}. {whose}"


def _place(run: SanitizerRun) -> str:
    return f"{run.tool}, {run.workload}" if run.workload else run.tool


def _sanitizer(run: SanitizerRun) -> str:
    if run.status == "found":
        return " ".join(finding.message for finding in run.findings)
    if run.status == "clean":
        return f"clean after {run.seconds:.1f} s{f', but {run.unwatched}' if run.unwatched else ''}"
    return f"not checked: {run.note}"


def _diagnostics(diagnostics: Iterable[Diagnostic], limit: int) -> list[str]:
    lines = [
        f"{found.file}:{found.line}:{found.column}: {found.severity}: {found.message[:MAX_MESSAGE_CHARS]}"
        for found in diagnostics
    ]
    return lines[:limit] + ([f"({len(lines) - limit} more left out)"] if len(lines) > limit else [])


def _trial(trial: Trial) -> list[str]:
    """What went wrong in one comparison; nothing where all of its outputs were right."""
    wrong = [output for output in trial.outputs if output.first_bad is not None]
    return [f"- inputs {trial.distribution!r}, seed {trial.seed}: {_output_error(output)}" for output in wrong]


def _output_error(output: OutputError) -> str:
    words = (
        f"output {output.output}: {output.bad_fraction:.2%} of the elements are wrong; relative error "
        f"{output.relative_l2:.3g} (the reference's own: {output.reference_relative_l2:.3g})"
    )
    if output.first_bad is not None:
        bad = output.first_bad
        words += f"; first at {list(bad.index)}: expected {bad.expected:.9g}, got {bad.got:.9g}"
    return f"{words}; {output.pattern}" if output.pattern else words
