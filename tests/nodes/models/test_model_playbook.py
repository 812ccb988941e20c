"""The playbook as a chat model: its answers are read by the very parsers that read a language model's."""

from __future__ import annotations

import pytest
from model_requests import DEVICE, candidate, crashed, prompt, request, task

from harness.nouns.candidate import Candidate
from harness.nouns.task import Program, Ref, ScalarSpec, Task, TracedOp
from harness.tasks.describing import describe_task
from knowledge.compiler.plan import Decline, Plan
from knowledge.compiler.problem import Problem, Scalar
from nodes.models.playbook import PlaybookModel, moves_to, origin_of, problem_of, tried_moves
from nodes.request import Request
from nodes.state import Step, Variant
from nodes.turn.answers import Declined, Written, parse_diagnosis, parse_kernel, parse_move, parse_patch
from tools.patch import Patch

SOFT = ("aten.abs.default", "aten.exp.default")


def said(asked: Request) -> str:
    return PlaybookModel().invoke(prompt(asked)).text


def wrote(asked: Request) -> Written:
    answer = parse_kernel(said(asked), move_required=True)
    assert isinstance(answer, Written)
    return answer


def declined(asked: Request) -> str:
    answer = parse_kernel(said(asked), move_required=True)
    assert isinstance(answer, Declined)
    return answer.reason


class Run:
    """A history as the graph writes it, without the graph: which kernel came from which by what move."""

    def __init__(self, of: Task, **facts: object) -> None:
        self.task = of
        self.facts = facts
        self.max_sweep = 1
        self.history: tuple[Step, ...] = ()
        self.best = candidate(wrote(request("generator", task=of, **facts)).source)
        self._tell("generator", self.best, "first kernel")
        self.test(self.best, "passed", improved=True)

    def optimize(self) -> Candidate:
        answer = wrote(self.asked("optimizer", self.best))
        kernel = candidate(answer.source, parent=self.best.digest)
        self._tell("optimizer", kernel, answer.move)
        return kernel

    def test(self, kernel: Candidate, status: str, *, improved: bool = False, undecided: bool = False) -> None:
        facts = {"status": status, "improved": improved, "undecided": undecided}
        self._tell("tester", kernel, self.history[-1].move, **facts)
        self.best = kernel if improved else self.best

    def asked(self, role: str, kernel: Candidate) -> Request:
        facts = {"task": self.task, "candidate": kernel, "history": self.history, "max_sweep": self.max_sweep}
        return request(role, **facts | self.facts, verdict=crashed(kernel))  # type: ignore[arg-type]

    def _tell(self, agent: str, kernel: Candidate, move: str, **facts: object) -> None:
        step = {"depth": 0, "agent": agent, "candidate": kernel.digest, "parent": kernel.parent, "move": move} | facts
        self.history = (*self.history, Step.model_validate(step))


@pytest.fixture
def run() -> Run:
    return Run(task(*SOFT))


def test_the_generator_writes_a_kernel_that_carries_its_plan() -> None:
    answer = wrote(request("generator", task=task(*SOFT)))
    assert answer.move == "first kernel"
    assert Plan.read(answer.source) is not None
    assert "TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);" in answer.source


def test_the_same_question_gets_the_same_answer() -> None:
    asked = request("generator", task=task(*SOFT))
    assert said(asked) == said(asked)


def test_an_operation_that_nobody_can_write_is_named() -> None:
    reason = declined(request("generator", task=task("aten.fft_fft.default")))
    assert "fft_fft" in reason
    assert "--model" in reason


def test_a_task_that_could_not_be_traced_says_why() -> None:
    untraced = task(traced=False, trace_failure="it branches\non data")
    assert "it branches on data" in declined(request("generator", task=untraced))
    assert "could not be traced" in declined(request("optimizer", task=untraced, candidate=candidate("int x;")))


def test_a_first_kernel_that_failed_is_not_written_again(run: Run) -> None:
    assert "only first kernel" in declined(request("generator", task=run.task, history=run.history))


def test_every_move_starts_from_the_kernel_at_hand_and_is_tried_once(run: Run) -> None:
    moves = []
    while isinstance(parse_kernel(said(run.asked("optimizer", run.best)), move_required=True), Written):
        run.test(run.optimize(), "passed")
        moves.append(run.history[-1].move)
    assert moves
    assert len(set(moves)) == len(moves)
    assert tried_moves(run.asked("optimizer", run.best)) == tuple(moves)


def test_what_was_left_undecided_is_tried_once_more_when_nothing_else_is_left(run: Run) -> None:
    moves = []
    while isinstance(parse_kernel(said(run.asked("optimizer", run.best)), move_required=True), Written):
        run.test(run.optimize(), "passed", undecided=not moves or run.history[-1].move == moves[0])
        moves.append(run.history[-1].move)
    assert len(moves) > 1
    assert moves[-1] == moves[0]
    assert len(set(moves)) == len(moves) - 1


def test_a_move_that_gained_is_built_upon(run: Run) -> None:
    first = run.optimize()
    run.test(first, "passed", improved=True)
    assert tried_moves(run.asked("optimizer", first)) == ()
    assert moves_to(run.history, first.digest) == (run.history[-1].move,)


def test_a_move_that_failed_is_not_tried_from_another_kernel(run: Run) -> None:
    run.test(run.optimize(), "wrong")
    failed = run.history[-1].move
    other = candidate("// some other kernel", parent=run.best.digest)
    assert failed in tried_moves(run.asked("optimizer", other))


def test_a_kernel_of_another_author_is_left_alone(run: Run) -> None:
    assert "only kernels that it wrote" in declined(run.asked("optimizer", candidate("int main() {}")))


def test_the_diagnosis_names_check_and_move(run: Run) -> None:
    failing = run.optimize()
    move = run.history[-1].move
    run.test(failing, "crashed")
    diagnosis = parse_diagnosis(said(run.asked("diagnoser", failing)))
    assert move in diagnosis.cause
    assert move in diagnosis.fix
    assert "run" in diagnosis.proof
    assert diagnosis.evidence == "signal 11 at line 3"


def test_the_diagnosis_of_a_first_kernel_promises_nothing(run: Run) -> None:
    diagnosis = parse_diagnosis(said(run.asked("diagnoser", run.best)))
    assert "language model" in diagnosis.fix


def test_the_repair_takes_the_move_back(run: Run) -> None:
    failing = run.optimize()
    run.test(failing, "crashed")
    patch = parse_patch(said(run.asked("repairer", failing)))
    assert isinstance(patch, Patch)
    assert patch.apply(failing.source) == run.best.source


def test_the_repair_takes_back_only_the_last_of_several_moves(run: Run) -> None:
    while isinstance(parse_kernel(said(run.asked("optimizer", run.best)), move_required=True), Written):
        parent, kernel = run.best, run.optimize()
        run.test(kernel, "passed", improved=True)
        patch = parse_patch(said(run.asked("repairer", kernel)))
        assert isinstance(patch, Patch)
        assert patch.apply(kernel.source) == parent.source


def swept(run: Run, chosen: int | None) -> Candidate:
    """Keep every move up to the sweep, and settle that on a variant; on the first one where none is right."""
    run.max_sweep = 12
    while True:
        answer = parse_move(said(run.asked("optimizer", run.best)), "", max_sweep=12)
        assert isinstance(answer, Written)
        kernel = candidate(answer.source, parent=run.best.digest)
        run._tell("optimizer", kernel, answer.move)
        if answer.sweep is not None:
            break
        run.test(kernel, "passed", improved=True)
    variants = tuple(
        Variant(values=values, status="wrong" if chosen is None else "passed", chosen=index == chosen)
        for index, values in enumerate(answer.sweep.points())
    )
    kernel = candidate(answer.sweep.source(answer.source, variants[chosen or 0].values), parent=run.best.digest)
    run._tell("sweeper", kernel, answer.move, variants=variants)
    return kernel


@pytest.mark.parametrize("chosen", [0, 3, None])
def test_the_way_back_leads_over_the_variant_that_a_sweep_chose(run: Run, chosen: int | None) -> None:
    kernel = swept(run, chosen)
    patch = parse_patch(said(run.asked("repairer", kernel)))
    assert isinstance(patch, Patch)
    assert patch.apply(kernel.source) == run.best.source
    moves = moves_to(run.history, kernel.digest)
    assert moves[-1] == "tile size"
    assert len(moves) == len(set(moves)) > 1


def test_a_sweep_whose_winner_failed_is_not_tried_from_another_kernel(run: Run) -> None:
    kernel = swept(run, 2)
    run.test(kernel, "wrong")
    other = candidate("// some other kernel", parent=run.best.digest)
    assert "tile size" in tried_moves(run.asked("optimizer", other))


def test_a_repair_that_no_rule_gives_is_declined(run: Run) -> None:
    for kernel in (run.best, candidate("int main() {}", parent=run.best.digest)):
        answer = parse_patch(said(run.asked("repairer", kernel)))
        assert isinstance(answer, Declined)


CONVOLUTION = """
import torch
from torch.nn import functional

class Model(torch.nn.Module):
    def forward(self, x, w):
        return functional.conv2d(x, w).relu()

def get_inputs():
    return [torch.rand(4, 64, 66, 66), torch.rand(64, 64, 3, 3)]

def get_init_inputs():
    return []
"""


@pytest.fixture
def rounded() -> Run:
    """A convolution on a GPU at PyTorch's own precision: the first kernel multiplies in TF32."""
    gpu = DEVICE.model_copy(update={"architecture": "sm_90a", "multiprocessors": 132, "shared_bytes": 227 << 10})
    described = describe_task(CONVOLUTION, name="convolution", tier="none")
    return Run(described, target="cuda", precision="default", device=gpu)


def repaired(run: Run, kernel: Candidate) -> str:
    patch = parse_patch(said(run.asked("repairer", kernel)))
    assert isinstance(patch, Patch)
    return patch.apply(kernel.source)


def test_a_first_kernel_that_rounds_more_than_pytorch_does_goes_back_to_three_products(rounded: Run) -> None:
    assert "Products = 1;" in rounded.best.source
    assert "TF32" in parse_diagnosis(said(rounded.asked("diagnoser", rounded.best))).fix
    exact = candidate(repaired(rounded, rounded.best), parent=rounded.best.digest)
    assert "Products = 3;" in exact.source and "Products = 1;" not in exact.source
    assert isinstance(parse_patch(said(rounded.asked("repairer", exact))), Declined)
    rounded._tell("repairer", exact, "")
    rounded.test(exact, "passed", improved=True)
    moved = rounded.optimize()
    assert repaired(rounded, moved) == exact.source, "a move from the mended kernel is taken back, not the mending"


def test_a_kernel_that_was_changed_since_is_no_origin(run: Run) -> None:
    kernel = run.optimize()
    problem = problem_of(run.asked("optimizer", kernel))
    assert isinstance(problem, Problem)
    assert origin_of(problem, kernel.source, run.history, kernel.digest) is not None
    assert origin_of(problem, kernel.source + "int more;", run.history, kernel.digest) is None


def test_a_history_that_bites_its_tail_ends() -> None:
    steps = [
        Step(depth=0, agent="optimizer", candidate=kernel, parent=parent, move=f"to {kernel}")
        for kernel, parent in (("a", "b"), ("b", "a"))
    ]
    assert moves_to(steps, "a") == ("to b", "to a")


def test_a_task_becomes_the_playbooks_problem() -> None:
    plain = task("aten.abs.default")
    scaled = plain.signature.model_copy(
        update={"inputs": (*plain.signature.inputs, ScalarSpec(name="scale", type="float", value=float("inf")))}
    )
    operation = TracedOp(
        target="aten.mul.Tensor", args=(Ref(ref="x"), Ref(ref="scale")), results=plain.signature.outputs
    )
    asked = request(
        "generator",
        task=plain.model_copy(
            update={
                "workloads": (plain.workloads[0].model_copy(update={"signature": scaled}),),
                "program": Program(tracer="make_fx", ops=(operation,), outputs=("output",)),
            }
        ),
    )
    problem = problem_of(Request.model_validate(asked.model_dump(mode="json")))
    assert isinstance(problem, Problem)
    assert problem.inputs[1] == Scalar(name="scale", type="float", value=float("inf"))
    assert problem.ops[0].target == "aten.mul.Tensor"
    assert (problem.returns, problem.device.threads) == (("output",), 2)


def test_no_program_no_problem() -> None:
    assert isinstance(problem_of(request("generator", task=task(traced=False))), Decline)


def test_a_task_with_several_workloads_has_one_kernel_where_all_were_traced() -> None:
    one = task()
    (work,), program = one.workloads, one.program
    assert program is not None
    several = one.model_copy(update={"workloads": (work, work)})
    assert "not all workloads of" in declined(request("generator", task=several))
    problem = problem_of(request("generator", task=several.model_copy(update={"other_programs": (program,)})))
    assert isinstance(problem, Problem) and problem.others == (problem.model_copy(update={"others": ()}),)
