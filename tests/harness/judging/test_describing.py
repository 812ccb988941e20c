"""From a task file to a Task; and every file that cannot be one."""

import re

import pytest

from harness.nouns.errors import UserError
from harness.nouns.task import Ref, ScalarSpec, Task

LINEAR = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.linear = nn.Linear(n, m)
        self.register_buffer("shift", torch.ones(m))
        self.register_buffer("hidden", torch.zeros(()), persistent=False)

    def forward(self, x):
        return torch.relu(self.linear(x) + self.shift)

def get_inputs():
    return [torch.rand(6, 4)]

def get_init_inputs():
    return [4, 3]
"""


def elementwise(body: str, inputs: str = "torch.rand(3, 4)", arguments: str = "x") -> str:
    return f"""
import torch

class Model(torch.nn.Module):
    def forward(self, {arguments}):
        {body}

def get_inputs():
    return [{inputs}]
"""


def targets(task: Task) -> list[str]:
    assert task.program is not None, task.trace_failure
    return [op.target for op in task.program.ops]


def test_the_signature_is_inputs_then_state_dict_then_outputs(bench):
    task = bench.task(LINEAR)
    assert [spec.name for spec in task.signature.arguments] == [
        "x", "shift", "linear.weight", "linear.bias", "hidden", "output",
    ]  # fmt: skip
    assert task.signature.outputs[0].shape == (6, 3)
    assert task.signature.parameters[1].strides == (4, 1)
    assert task.op_class == "gemm"
    assert task.workloads[0].flops == 2 * 6 * 4 * 3
    assert task.workloads[0].bytes_moved == 4 * (24 + 3 + 12 + 3 + 1 + 18)


def test_the_program_refers_to_signature_names(bench):
    task = bench.task(LINEAR)
    assert targets(task) == ["aten.linear.default", "aten.add.Tensor", "aten.relu.default"]
    first, second, third = task.program.ops
    assert first.args == (Ref(ref="x"), Ref(ref="linear.weight"), Ref(ref="linear.bias"))
    assert second.args == (Ref(ref=first.results[0].name), Ref(ref="shift"))
    assert task.program.outputs == (third.results[0].name,)


def test_scalar_inputs_become_operands(bench):
    task = bench.task(elementwise("return x * s + 1.5", "torch.rand(3), 1.5", "x, s: float"))
    assert task.signature.inputs[1] == ScalarSpec(
        name="s", type="float", value=1.5, others=(1.9375, 0.0, -1.5, 3.0, 7.0, 0.1875), free=True
    )
    assert [op.args[1] for op in task.program.ops] == [Ref(ref="s"), 1.5]


def test_several_scalar_inputs_become_operands(bench):
    task = bench.task(
        elementwise("return a * x ** 2 + n - b", "torch.rand(3), 0.5, 3, 2.25", "x, a: float, n: int, b: float")
    )
    assert task.trace_failure == ""
    operands = [op.args[1] for op in task.program.ops]
    assert [each for each in operands if isinstance(each, Ref)][-2:] == [Ref(ref="n"), Ref(ref="b")]
    assert Ref(ref="a") in [argument for op in task.program.ops for argument in op.args]


def test_complex_numbers_within_a_forward_are_pairs_of_reals(bench):
    body = "return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.exp(1j * y)).flatten(-2)"
    task = bench.task(elementwise(body, "torch.rand(3, 4), torch.rand(3, 2)", "x, y"))
    assert task.trace_failure == ""
    assert {result.dtype for op in task.program.ops for result in op.results} == {"float32"}
    assert {"aten.cos.default", "aten.sin.default"} <= {*targets(task)}
    tangent = bench.task(elementwise("return torch.tanh(x * 1j).imag"))
    assert tangent.program is None
    assert "aten.tanh.default of complex numbers" in tangent.trace_failure


def test_a_scalar_that_shapes_the_program_leaves_no_program(bench):
    task = bench.task(elementwise("return x.repeat(k, 1).sum(0)", "torch.rand(3), 2", "x, k: int"))
    assert task.program is None
    assert "the number k" in task.trace_failure


def test_two_results_of_one_operation(bench):
    task = bench.task(elementwise("v, i = x.max(dim=1); return v * 2, i"))
    assert [result.dtype for result in task.program.ops[0].results] == ["float32", "int64"]
    assert task.program.outputs[1] == task.program.ops[0].results[1].name
    assert [spec.name for spec in task.signature.outputs] == ["output0", "output1"]
    assert task.op_class == "reduction"


def test_tensors_that_a_forward_spells_out_are_made_of_their_numbers(bench):
    body = "return x * torch.tensor([[1.5, 2.0, -1.0]]) + torch.tensor(3) * torch.tensor([2.0, 2.0, 2.0])"
    task = bench.task(elementwise(body, "torch.rand(4, 3)"))
    ops = [(op.target.split(".")[1], op.args) for op in task.program.ops]
    assert [args[0] for name, args in ops if name == "scalar_tensor"] == [1.5, 2.0, -1.0, 3]
    assert ("full", ((3,), 2.0)) in ops
    assert [len(args[0]) for name, args in ops if name == "stack"] == [3]
    assert [args[1] for name, args in ops if name == "view"] == [(1, 3)]
    assert task.trace_failure == ""


def test_a_table_of_numbers_is_data_and_no_program(bench):
    task = bench.task(elementwise("return x.sum() + torch.tensor(list(range(65)))"))
    assert task.program is None
    assert "neither parameter nor buffer" in task.trace_failure


def test_data_dependent_branches_fall_back_to_the_second_tracer(bench):
    task = bench.task(elementwise("return x * 2 if float(x.sum()) > -1 else x"))
    assert task.program is None or task.program.tracer == "make_fx"
    assert task.program is not None or task.trace_failure


def test_an_argument_called_like_a_parameter_keeps_a_name_of_its_own(bench):
    source = LINEAR.replace("forward(self, x)", "forward(self, shift)").replace("(x) +", "(shift) +")
    names = [spec.name for spec in bench.task(source).signature.arguments]
    assert len(set(names)) == len(names)
    assert names[0] == "shift_"


def test_inputs_and_outputs_are_flat_for_the_kernel_and_keep_their_form(bench):
    body = "return {'sum': x + h[0] * h[1]['k'], 'rest': (None, x * 2)}"
    task = bench.task(elementwise(body, "torch.rand(3), (torch.rand(3), {'k': 2.5}), None", "x, h, mask=None"))
    names = [spec.name for spec in task.signature.arguments]
    assert names == ["x", "h.0", "h.1.k", "sum", "rest.1"]
    assert [part.kind for part in task.takes.parts] == ["value", "tuple", "constant"]
    assert task.returns.keys == ("sum", "rest")
    assert Ref(ref="h.1.k") in task.program.ops[0].args
    assert [op.target for op in task.program.ops] == ["aten.mul.Tensor", "aten.add.Tensor", "aten.mul.Tensor"]


@pytest.mark.parametrize(
    ("body", "inputs", "said"),
    [
        (
            "return torch.nn.functional.dropout(x)",
            "torch.rand(3, 4)",
            "two runs on the same inputs differ; .*bernoulli_",
        ),
        ("return x + torch.rand_like(x)", "torch.rand(3, 4)", "two runs on the same inputs differ; .*rand_like"),
        ("self.n = getattr(self, 'n', 0) + 1; return x * self.n", "torch.rand(3)", "keeps something from call to call"),
        ("return torch.nn.functional.dropout(x)", "torch.rand(1 << 13, 1 << 13)", r"it draws numbers \(bernoulli_\)"),
        ("return torch.nn.functional.dropout(x, training=False)", "torch.rand(1 << 13, 1 << 13)", ""),
        ("return torch.nn.functional.scaled_dot_product_attention(x, x, x)", "torch.rand(1, 2, 3, 4)", ""),
        ("torch.manual_seed(3); return x + torch.rand_like(x)", "torch.rand(1 << 13, 1 << 13)", ""),
    ],
)
def test_a_random_forward_is_a_defect_by_name(bench, body, inputs, said):
    defect = bench.task(elementwise(body, inputs)).defect
    assert re.search(f"^its forward is random: .*{said}", defect) if said else defect == ""


ATTENTION = (
    "return torch.nn.functional.scaled_dot_product_attention("
    "(%s)[None, None], (%s)[None, None], x[None, None], is_causal=True)"
)
LAYERS = {
    "torch.nn.LSTM(4, 8, 2, batch_first=True)": 2 * 6 * (32 * 4 + 32 * 8 + 2 * 32 * 8),
    "torch.nn.GRU(4, 8, bidirectional=True)": 2 * 6 * 2 * (24 * 4 + 24 * 8),
    "torch.nn.TransformerEncoderLayer(4, 2, 16, batch_first=True)": 2 * 6 * (4 * 16 + 2 * 4 * 16)
    + 2 * 2 * 2 * 2 * 9 * 2,
}


@pytest.mark.parametrize("layer", LAYERS)
def test_operations_that_torch_fuses_are_counted(bench, layer):
    source = elementwise("return self.layer(x)", "torch.rand(2, 3, 4)").replace(
        "    def forward",
        f"    def __init__(self):\n        super().__init__()\n        self.layer = {layer}\n\n    def forward",
    )
    assert bench.task(source).workloads[0].flops == LAYERS[layer]


@pytest.mark.parametrize(
    ("body", "flops"),
    [("return x @ x[0]", 24), ("return x[0] @ x[1]", 8), ("return torch.cdist(x.repeat(9, 1), x.repeat(10, 1))", 6480),
     (ATTENTION % ("x", "x"), 96), (ATTENTION % ("x.repeat(3, 1)", "x"), 384), (ATTENTION % ("x[:2]", "x"), 48)],
)  # fmt: skip
def test_products_with_vectors_and_causal_attention_are_counted(bench, body, flops):
    assert bench.task(elementwise(body)).workloads[0].flops == flops


SPELLED = "s = x @ x.T; s = {}; return s.softmax(1) @ x"


@pytest.mark.parametrize(
    ("scores", "flops"),
    [
        ("s * 0.5", 2 * 64), ("s.masked_fill(torch.ones(4, 4).triu(1) > 0, -torch.inf)", 2 * 40),
        ("s + torch.full_like(s, -1e9).triu(1)", 2 * 40),
        ("torch.where(torch.arange(4)[:, None] >= torch.arange(4), s, -1e30)", 2 * 40),
        ("(s / 2).masked_fill(torch.ones(4, 4).tril(1) == 0, -torch.inf).double().float()", 2 * 52),
        ("s.masked_fill(x[:, :1] > 0.5, -1e9)", 2 * 64), ("s + x[:, :1]", 2 * 64), ("s + torch.ones(4, 4)", 2 * 64),
        ("s.masked_fill(torch.ones(4, 4).triu(1) > 0, 5.0)", 2 * 64),
    ],
)  # fmt: skip
def test_what_a_mask_of_the_forwards_own_hides_is_not_counted(bench, scores, flops):
    assert bench.task(elementwise(SPELLED.format(scores), "torch.rand(4, 2)")).workloads[0].flops == flops


def test_linear_attention_counts_the_triangle_and_masks_from_outside_count_nothing(bench):
    assert bench.task(elementwise("return (x @ x.T).tril() @ x", "torch.rand(4, 2)")).workloads[0].flops == 2 * 40
    # Of a mask that is made of a product the triangle is known, the rest is not.
    masked = "f = torch.nn.functional.scaled_dot_product_attention; q = x[None, None]; return f(q, q, q, attn_mask={})"
    own, given = "torch.ones(4, 4).tril().bool()", "(x @ x.T > 0).tril()"
    assert bench.task(elementwise(masked.format(own), "torch.rand(4, 2)")).workloads[0].flops == 2 * 40
    assert bench.task(elementwise(masked.format(given), "torch.rand(4, 2)")).workloads[0].flops == 2 * 64 + 40


def test_a_forward_that_computes_in_16_bits_may_have_kernels_that_do(bench):
    task = bench.task(elementwise("return (x.half() * 2).float()"))
    assert task.workloads[0].computed == ("float16", "float32")
    assert bench.judge.terms.allowances(task) == {"ieee", "float16", "float32"}
    assert bench.judge.terms.allowances(bench.task(elementwise("return x * 2"))) == {"ieee", "float32"}


def test_work_on_a_copy_of_an_input_is_no_change_of_it(bench):
    task = bench.task(elementwise("y = x.clone(); y.add_(1); y[:, 0].mul_(2); return y.relu_()"))
    assert targets(task)[-1].startswith("aten.relu")
    assert task.takes is task.returns is None


@pytest.mark.parametrize(
    ("body", "op_class"),
    [
        ("return torch.sigmoid(x).view(-1) * 2", "elementwise"),
        ("return torch.softmax(x, 1)", "reduction"),
        ("return x @ x.T", "gemm"),
        ("return x.sort(1).values", "other"),
        ("return torch.nn.functional.huber_loss(x, x * 2)", "reduction"),
        ("return x.swapaxes(0, 1) * 2", "elementwise"),
        ("return torch.nn.functional.batch_norm(x, x[0], x[1].abs())", "other"),
    ],
)
def test_op_classes(bench, body, op_class):
    assert bench.task(elementwise(body)).op_class == op_class


BAD = {
    "importing it raised ModuleNotFoundError": "import no_such_module_anywhere",
    "importing it raised SyntaxError": "def broken(:",
    "there is no Model in it": "import torch\ndef get_inputs(): return []",
    "there is no get_inputs in it": "import torch\nclass Model(torch.nn.Module): pass",
    "Model is not a torch.nn.Module": "def Model(): return 3\ndef get_inputs(): return []",
    "forward raised RuntimeError": elementwise("return x @ x"),
    "forward returned a set at 1": elementwise("return [x, {3}]"),
    "forward returned no tensor": elementwise("return [None, 3]"),
    "forward changes its input x in place": elementwise("return x.mul_(2)"),
    "output has the unsupported type torch.complex64": elementwise("return x + 1j"),
    "x has the unsupported type torch.complex32": elementwise("return x.real", "torch.rand(3).chalf()"),
    "get_inputs gives a torch.sparse_coo tensor": elementwise("return x * 2", "torch.rand(3, 4).to_sparse()"),
    "get_inputs gives a nested tensor": elementwise("return x * 2", "torch.nested.nested_tensor([torch.rand(3)])"),
    "get_inputs gives a quantized tensor": elementwise(
        "return x * 2", "torch.quantize_per_tensor(torch.rand(3), 0.1, 0, torch.qint8)"
    ),
    "forward returned a torch.sparse_coo tensor": elementwise("return x.to_sparse()"),
    "x is empty": elementwise("return x", "torch.rand(0, 4)"),
    "output is empty": elementwise("return x[:0]"),
    "output 0 holds NaN": elementwise("return torch.log(x - 2)"),
    "get_inputs gives a object at 0.k": elementwise("return x", "{'k': object()}"),
    "get_inputs() raised ZeroDivisionError": elementwise("return x", "1 / 0"),
    "the shape of its output follows from the values of its inputs": elementwise("return x[x > 0.5]"),
    "what forward returns beside tensors follows from the values": elementwise("return x, float(x.sum())"),
    "get_inputs gives other shapes each time": elementwise("return x", "torch.rand(5 + (torch.initial_seed() & 1), 3)"),
    "Model(...) raised TypeError": elementwise("return x") + "\ndef get_init_inputs():\n    return [1, 2, 3]\n",
    "running it ended its process, ended with exit code 7": "import os\nos._exit(7)",
    "running it ended its process, killed by SIGSEGV": "import ctypes\nctypes.string_at(0)",
}


@pytest.mark.parametrize("cause", BAD)
def test_a_bad_file_is_named_with_its_cause(bench, cause):
    with pytest.raises(UserError) as caught:
        bench.task(BAD[cause])
    assert str(caught.value).startswith(f"task: {cause}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "op_class"),
    [
        ("return torch.softmax(x, 1) + self.shift", "reduction"),
        ("return x @ x.T.double().float()", "gemm"),
        ("return torch.func.vmap(torch.sin)(x)", "elementwise"),
    ],
)
def test_a_task_larger_than_any_memory_is_described(bench, body, op_class):
    """64 TiB of input: nothing of it may be drawn, computed or traced with real values."""
    model = f"""
    def __init__(self):
        super().__init__()
        self.register_buffer("shift", torch.ones(1 << 23))
    def forward(self, x):
        {body}
"""
    source = elementwise("").replace("    def forward(self, x):\n        \n", model.lstrip("\n"))
    task = bench.task(source.replace("torch.rand(3, 4)", "torch.rand(1 << 21, 1 << 23)"))
    assert task.op_class == op_class, task.trace_failure
    assert task.signature.inputs[0].shape == (1 << 21, 1 << 23)
    assert task.signature.inputs[0].strides == (1 << 23, 1)
    assert task.workloads[0].bytes_moved >= 2 << 43


def test_a_large_task_that_needs_values_is_described_with_them(bench):
    body = "return x * 2 if float(x[0, 0]) < 2 else x"
    task = bench.task(elementwise(body, "torch.rand(1 << 13, 1 << 13)"))
    assert task.signature.outputs[0].shape == (1 << 13, 1 << 13)


def test_a_large_file_that_is_wrong_is_named_with_its_cause(bench):
    with pytest.raises(UserError, match="forward changes its input x in place"):
        bench.task(elementwise("return x.relu_()", "torch.rand(1 << 13, 1 << 13)"))


def test_a_task_file_is_confined(bench, tmp_path):
    secret = tmp_path / "key"
    secret.write_text("do not read me")
    with pytest.raises(UserError, match=r"PermissionError|FileNotFoundError"):
        bench.task(f"print(open({str(secret)!r}).read())")
