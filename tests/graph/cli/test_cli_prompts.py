"""What each agent's model is told: for tasks of each class on both targets, within the sizes that are promised."""

from __future__ import annotations

import json
from functools import cache
from itertools import combinations, takewhile
from pathlib import Path

import pytest
from command_line import REPOSITORY, softsign
from softsign_script import KERNEL, SOURCE
from typer.testing import CliRunner

from graph.cli.errors import USER_ERROR
from graph.cli.main import app
from graph.cli.prompts import H200, LIMITS, PROCESSOR, later_requests, prompt_of, sample_requests
from harness.nouns.candidate import TargetName
from harness.nouns.task import OpClass, Task
from harness.tasks.describing import describe_task
from knowledge.compiler.search.exemplars import load
from nodes.request import Request
from nodes.turn.prompt_size import estimated_tokens

RUN = REPOSITORY / "examples" / "recorded" / "matmul_relu"
FILES: dict[OpClass, str] = {
    "gemm": "linear_relu",
    "elementwise": "swish",
    "reduction": "softmax",
    "other": "diag_matmul",
}
# The longest kernels that there are of each class, cut to 300 lines: denser than what models write.
KERNELS: dict[OpClass, str] = {
    "gemm": "gemm_wgmma_3xtf32", "elementwise": "rms_norm", "reduction": "softmax", "other": "gemm_3xtf32",
}  # fmt: skip


@cache
def task(op_class: OpClass) -> Task:
    """One of the examples, as it is or declared to be of a class that none of them is of."""
    name = FILES[op_class]
    described = describe_task(
        (REPOSITORY / "examples" / f"{name}.py").read_text(encoding="utf-8"), name=name, tier="none"
    )
    return described.model_copy(update={"op_class": op_class})


def first_request(op_class: OpClass, target: TargetName) -> Request:
    return sample_requests(task(op_class), target, H200 if target == "cuda" else PROCESSOR)[0]


def lines(source: str, number: int) -> str:
    cut = source.splitlines()[:number]
    assert len(cut) == number
    return "\n".join(cut) + "\n"


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("op_class", FILES)
def test_no_prompt_is_longer_than_promised_with_a_kernel_of_300_lines(op_class: OpClass, target: TargetName) -> None:
    first = first_request(op_class, target)
    kernel = lines(load(KERNELS[op_class]).text, 300)
    for request in (first, *later_requests(first, kernel)):
        prompt = prompt_of(request)
        assert prompt.tokens <= LIMITS[request.role], (request.role, prompt.tokens)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("op_class", FILES)
def test_what_the_command_shows_is_within_the_sizes_that_it_promises(op_class: OpClass, target: TargetName) -> None:
    for request in sample_requests(task(op_class), target, H200 if target == "cuda" else PROCESSOR):
        assert prompt_of(request).tokens <= LIMITS[request.role], request.role


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("op_class", FILES)
def test_most_of_a_prompt_stays_the_same_from_call_to_call(op_class: OpClass, target: TargetName) -> None:
    first = first_request(op_class, target)
    kernel = lines(load("rms_norm").text, 150)
    for request in (first, *later_requests(first, kernel)):
        least = 0.35 if request.role == "repairer" else 0.6  # it is sent no guide
        assert prompt_of(request).steady >= least, (request.role, prompt_of(request).steady)


def beginning_of(one: str, other: str) -> str:
    """What both texts begin with."""
    return "".join(letter for letter, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("op_class", FILES)
def test_any_two_roles_begin_alike_for_so_many_tokens_that_providers_cache_them(
    op_class: OpClass, target: TargetName
) -> None:
    """The repairer begins with what all of them begin with, and has no guide behind it."""
    asked = sample_requests(task(op_class), target, PROCESSOR)
    for one, other in combinations(asked, 2):
        alike = estimated_tokens(beginning_of(prompt_of(one).text, prompt_of(other).text))
        assert alike >= (1_400 if "repairer" in (one.role, other.role) else 3_500), (one.role, other.role)


def test_the_stand_ins_are_a_kernel_of_the_playbook_s_and_a_failure_of_the_task_s_own_output() -> None:
    generator, diagnoser, repairer, optimizer = sample_requests(task("elementwise"), "cuda", H200)
    assert generator.candidate is None
    assert diagnoser.candidate is not None and "TVM_FFI_DLL_EXPORT_TYPED_FUNC" in diagnoser.candidate.source
    assert diagnoser.verdict is not None and diagnoser.verdict.status == "wrong"
    assert repairer.diagnosis is not None
    assert optimizer.verdict is not None and optimizer.verdict.passed


def test_where_the_playbook_declines_the_class_s_exemplar_stands_in() -> None:
    untraced = task("reduction").model_copy(update={"program": None, "trace_failure": "a loop over values"})
    assert sample_requests(untraced, "cuda", H200)[1].candidate is not None
    assert sample_requests(untraced, "cuda", H200)[1].candidate.source == load("softmax").text
    on_cpu = sample_requests(untraced, "cpu", PROCESSOR)
    assert on_cpu[1].candidate is not None and on_cpu[1].candidate.source == load("cpu_softmax").text
    of_no_class = sample_requests(untraced.model_copy(update={"op_class": "other"}), "cuda", H200)
    assert of_no_class[1].candidate is not None and of_no_class[1].candidate.source == load("pointwise").text


def test_the_estimate_stays_near_what_tokenizers_count() -> None:
    counted = 210  # by o200k_base; 209 by cl100k_base
    assert counted <= estimated_tokens(KERNEL + SOURCE) <= 1.2 * counted
    assert estimated_tokens("") == 0
    assert estimated_tokens("internationalization") == 4
    assert estimated_tokens("1234567") == 2


def test_a_task_s_prompts_from_the_command_line(tmp_path: Path) -> None:
    code, out, err = told(softsign(tmp_path), "--target", "cpu", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert [prompt["role"] for prompt in found] == list(LIMITS)
    assert all("aten.abs.default" in prompt["text"] and prompt["tokens"] > 1000 for prompt in found)


def told(path: Path, *options: str) -> tuple[int, str, str]:
    """The command's exit code and what it prints, without a process of its own."""
    done = CliRunner().invoke(app, ["prompts", str(path), *options])
    return done.exit_code, done.stdout, done.stderr


def test_sizes_alone_without_a_gpu(tmp_path: Path) -> None:
    code, out, _ = told(softsign(tmp_path), "--target", "cuda", "--exemplar", "none", "--tokens")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["agent", *LIMITS]


def test_a_run_s_prompts_are_those_that_were_asked() -> None:
    [repairer] = json.loads(told(RUN, "--role", "repairer", "--json")[1])
    assert "Your answer cannot be used." in repairer["text"]
    assert 0.5 < repairer["steady_tokens"] / repairer["tokens"] < 1
    sizes = json.loads(told(RUN, "--tokens", "--json")[1])
    assert {size["role"] for size in sizes} == set(LIMITS) and all("text" not in size for size in sizes)
    assert told(RUN, "--role", "generator")[1].startswith("# What a kernel is")
    assert "<!-- optimizer -->\n\n# What a kernel is" in told(RUN)[1]


def test_what_is_no_task_and_no_run_is_said(tmp_path: Path) -> None:
    for path, said in ((tmp_path, "cannot be read as a conversation"), (tmp_path / "none.py", "none.py")):
        code, _, error = told(path)
        assert code == USER_ERROR and said in error and "Errno" not in error


def test_a_role_that_never_spoke_is_said(tmp_path: Path) -> None:
    first, *_ = (RUN / "conversation.jsonl").read_text(encoding="utf-8").splitlines()
    (tmp_path / "conversation.jsonl").write_text(f"{first}\n", encoding="utf-8")
    code, _, error = told(tmp_path, "--role", "optimizer")
    assert code == USER_ERROR and "Nobody spoke to the optimizer" in error
