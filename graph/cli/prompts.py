"""`cutegen prompts`: what each agent's model is told for a task, or was told in a run, and how many tokens that is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import get_args

from rich.console import Console
from rich.table import Table

from graph.cli.errors import IMPROVED
from graph.cli.options import Prompts
from graph.loading import load_task
from graph.runs.folder import RunFolder
from harness.building.toolchain import compiled_with
from harness.isolation.tiers import resolve_tier
from harness.judging.roofline_bound import needed_ms
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate, TargetChoice, TargetName
from harness.nouns.device_facts import HOPPER, DeviceFacts
from harness.nouns.devices import on_gpu
from harness.nouns.errors import MachineError, UserError
from harness.nouns.frozen import Frozen, printable
from harness.nouns.task import Direction, Task
from harness.nouns.verdict import Correctness, FirstBad, Interval, OutputError, Timing, Trial, Verdict, precision_on
from harness.targets.select import resolve_target
from harness.tasks.describing import describe_task
from harness.tasks.robust_folder import is_robust_folder
from harness.wire.entry import stub
from knowledge.compiler.search.exemplars import representative
from nodes.assessment import Diagnosis
from nodes.models.playbook import PlaybookModel
from nodes.models.replay import Exchange, ReplayModel
from nodes.request import Left, Request
from nodes.roles import Voice
from nodes.settings import ExemplarChoice, Settings
from nodes.turn.agent_loop import FILE_NAME
from nodes.turn.answers import Declined, parse_kernel
from nodes.turn.prompt_size import estimated_tokens
from nodes.turn.prompts import messages_for, parts_of

LIMITS: dict[Voice, int] = {
    "generator": 12_000,
    "diagnoser": 14_000,
    "repairer": 8_000,
    "optimizer": 14_000,
}
"""Tokens that a role's prompt has at most, with a kernel of 300 lines in it"""


class Prompt(Frozen):
    """One agent's prompt and its estimated tokens; `steady_tokens` of them stay the same from call to call of a run."""

    role: Voice
    text: str
    tokens: int
    steady_tokens: int

    @property
    def steady(self) -> float:
        """The share that a server's prompt cache can keep."""
        return self.steady_tokens / max(1, self.tokens)


def run(options: Prompts) -> int:
    """Do the command; its exit code."""
    path = options.path
    found = (
        recorded(path) if path.is_dir() and not is_robust_folder(path) else rendered(path, **options.settings.values)
    )
    chosen = [prompt for prompt in found if options.role in (None, prompt.role)]
    if not chosen:
        raise UserError(f"Nobody spoke to the {options.role} in {path}.", "Leave --role out to see who was spoken to.")
    if options.json:
        left_out = {"text"} if options.tokens else set()
        print(json.dumps([prompt.model_dump(exclude=left_out) for prompt in chosen]))
    elif options.tokens:
        Console().print(_table(chosen))
    else:
        print(printable("\n".join(_shown(chosen))))
    return IMPROVED


def rendered(
    file: Path, target: TargetChoice, exemplar: ExemplarChoice, direction: Direction | None = None
) -> list[Prompt]:
    """The four prompts for a task file, with a kernel and a failure that stand in. Raises `UserError`."""
    given = load_task(file, direction=direction)
    task = describe_task(given.source, name=given.name, tier=resolve_tier("auto"))
    name = resolve_target(target).name
    return [prompt_of(request) for request in sample_requests(task, name, _facts(name), exemplar=exemplar)]


def recorded(run_folder: Path) -> list[Prompt]:
    """The last prompt that each agent's model got in a run, re-asks and tool answers included. Raises `UserError`."""
    RunFolder(run_folder).require_plain()
    exchanges = ReplayModel.load(run_folder / FILE_NAME).exchanges
    by_role = {role: [said for said in exchanges if said.role == role] for role in get_args(Voice)}
    return [_last(role, said) for role, said in by_role.items() if said]


def prompt_of(request: Request) -> Prompt:
    """A request as the prompt that it becomes."""
    parts = parts_of(request)
    return Prompt(
        role=request.role,
        text=parts.text,
        tokens=estimated_tokens(parts.text),
        steady_tokens=estimated_tokens(parts.shared + parts.role),
    )


def _facts(target: TargetName) -> DeviceFacts:
    """This machine's; an H200's where no GPU answers."""
    try:
        return resolve_target(target).facts()
    except MachineError:
        if not on_gpu(target):
            raise
        return H200


def _text(said: Exchange) -> str:
    return "\n".join(part.content for part in said.prompt)


def _last(role: Voice, said: Sequence[Exchange]) -> Prompt:
    text = _text(said[-1])
    # Between two calls the difference tells; of a single one, that what comes first, the rules, would have stayed.
    steady = _common(_text(said[0]), text) if len(said) > 1 else said[0].prompt[0].content
    return Prompt(role=role, text=text, tokens=estimated_tokens(text), steady_tokens=estimated_tokens(steady))


def _common(one: str, other: str) -> str:
    """The lines with which both begin."""
    pairs = zip(one.splitlines(), other.splitlines(), strict=False)
    return "\n".join(line for line, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _shown(prompts: Sequence[Prompt]) -> list[str]:
    if len(prompts) == 1:
        return [prompts[0].text.rstrip()]
    return [f"<!-- {prompt.role} -->\n\n{prompt.text.rstrip()}\n" for prompt in prompts]


def _table(prompts: Sequence[Prompt]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("agent")
    for name in ("about tokens", "at most", "the same in each call", "share"):
        table.add_column(name, justify="right")
    for prompt in prompts:
        table.add_row(
            prompt.role,
            f"{prompt.tokens:,}",
            f"{LIMITS[prompt.role]:,}" if prompt.role in LIMITS else "",
            f"{prompt.steady_tokens:,}",
            f"{prompt.steady:.0%}",
        )
    return table


# -- The prompts of a run that has not taken place: a task's own, with a kernel and a failure that stand in -----------


MAX_MOVES = 4
MAX_LINES = 300
"""Of the kernel that stands in: what the sizes of prompts are promised for."""
TOOLS = ("look_up", "compile_kernel", "run_kernel", "sanitize_kernel")
"""Of the agent that has the most of them."""

_BUILT = Build(digest="0" * 32, seconds=0.0)

H200 = DeviceFacts(
    device="NVIDIA H200", threads=132, simd_floats=1, l1_bytes=256 << 10, l2_bytes=60 << 20, l3_bytes=60 << 20,
    peak_gb_s=4265.0, peak_gflop_s=60_000.0, source="measured on one", architecture=HOPPER, multiprocessors=132,
    shared_bytes=232_448, memory_bytes=141 * 10**9, tf32_gflop_s=535_000.0, half_gflop_s=990_000.0,
)  # fmt: skip
"""Stands in for the GPU where none answers: prompts can be read on any machine."""

PROCESSOR = DeviceFacts(
    device="a processor of 8 cores", threads=8, simd_floats=16, l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=32 << 20,
    peak_gb_s=40.0, peak_gflop_s=600.0, source="made up for a page that is the same everywhere",
)  # fmt: skip


def sample_requests(
    task: Task, target: TargetName, device: DeviceFacts, *, exemplar: ExemplarChoice = "representative"
) -> tuple[Request, ...]:
    """One request for each agent that speaks, in the order in which a run would come to them.

    The kernel in them is the playbook's for this task, some moves on, as long as none makes it longer than 300 lines;
    where it has none, the class's exemplar; where there is none either, the stub. That it is wrong in its last element,
    and how fast it is, is made up.
    """
    first = Request(
        role="generator",
        task=task,
        target=target,
        precision=precision_on(target, "default"),
        device=device,
        stub=stub(task, target),
        compiled_with=compiled_with(target),
        left=Left(
            depth=0, max_depth=Settings().max_depth, seconds=3600.0, tools=TOOLS, calls=Settings().max_tool_calls
        ),
        exemplar=exemplar,
        max_sweep=Settings().max_sweep,
    )
    return (first, *later_requests(first, _kernel(first)))


def later_requests(first: Request, source: str) -> tuple[Request, ...]:
    """The diagnoser's, repairer's and optimizer's requests for the task of `first`, with `source` as the kernel."""
    kernel = Candidate(source=source, target=first.target, author="generator:playbook")
    wrong, passed = _wrong(first.task, kernel), _passed(first, kernel)
    diagnosis = _diagnosis(first.task)
    facts: tuple[dict[str, object], ...] = (
        {"role": "diagnoser", "candidate": kernel, "verdict": wrong},
        {"role": "repairer", "candidate": kernel, "verdict": wrong, "diagnosis": diagnosis},
        {"role": "optimizer", "candidate": kernel, "verdict": passed},
    )
    return tuple(first.model_copy(update=fact) for fact in facts)


def _kernel(first: Request) -> str:
    """The playbook's kernel after some moves, or what stands in for it: of a long one its first lines."""
    source = _answer(first)
    if source is None:
        shown = representative(first.task.op_class, first.architecture)
        return shown.text if shown else first.stub
    for _ in range(MAX_MOVES):
        kernel = Candidate(source=source, target=first.target, author="optimizer:playbook")
        moved = _answer(first.model_copy(update={"role": "optimizer", "candidate": kernel}))
        if moved is None or moved.count("\n") > MAX_LINES:
            break
        source = moved
    return "".join(source.splitlines(keepends=True)[:MAX_LINES])


def _answer(request: Request) -> str | None:
    written = parse_kernel(str(PlaybookModel().invoke(list(messages_for(request))).text), move_required=False)
    return None if isinstance(written, Declined) else written.source


def _wrong(task: Task, kernel: Candidate) -> Verdict:
    """The last element of the first output is wrong, as where a tail is forgotten."""
    output = task.signature.outputs[0]
    last = tuple(extent - 1 for extent in output.shape)
    error = OutputError(
        output=output.name, relative_l2=3e-4, max_scaled=1.0, reference_relative_l2=2e-8, reference_max_scaled=1e-7,
        bad_fraction=1 / max(1, output.numel), first_bad=FirstBad(index=last, expected=0.5, got=float("nan")),
        pattern="only the tail is wrong",
    )  # fmt: skip
    trial = Trial(distribution="normal", seed=1, outputs=(error,))
    return Verdict(
        status="wrong", candidate=kernel.digest, task=task.digest, seed=1, tier="none", build=_BUILT,
        correctness=Correctness(trials=(trial,)), check="accuracy",
        message=f"{output.name} is wrong on normal inputs (seed 1): expected 0.5, got nan.",
    )  # fmt: skip


def _passed(first: Request, kernel: Candidate) -> Verdict:
    """It is right, and takes three times as long as its bytes and FLOPs need."""
    time_ms = 3 * max(needed_ms(first.task, first.device, first.precision))
    timing = Timing(
        candidate_ms=time_ms, baseline_ms=1.5 * time_ms, speedup=1.5, speedup_interval=Interval(low=1.48, high=1.52),
        rounds=20, threads=first.device.threads, converged=True,
    )  # fmt: skip
    return Verdict(
        status="passed", candidate=kernel.digest, task=first.task.digest, seed=1, tier="none", build=_BUILT,
        correctness=Correctness(trials=()), timing=timing, precision=first.precision,
    )  # fmt: skip


def _diagnosis(task: Task) -> Diagnosis:
    return Diagnosis(
        intent=f"{task.name} in one pass over whole vectors; tiles and vector accesses stay.",
        cause="The loop over whole vectors ends before the last element, and nothing computes the rest.",
        evidence="Only the last element is wrong, and it still holds the NaN that outputs are filled with.",
        fix="Behind the loop, compute the elements that are left one by one.",
        proof="The last element is right, and the elements before it stay what they were.",
    )
