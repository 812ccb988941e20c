"""The task file brought to life: what it may give, what its failures are called, whose memory its model computes on."""

from __future__ import annotations

import re

import pytest
import torch

from harness.nouns.errors import UserError
from harness.nouns.task import ScalarSpec, Variant
from harness.trusted.facts.specs import input_names, parameter_specs, value_spec
from harness.trusted.reference import Reference, writable

FILE = """
import torch

class Inner(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(features))
        self.register_buffer("steps", torch.tensor([3]))
        self.register_buffer("offset", torch.ones(features), persistent=False)

class Model(torch.nn.Module):
    def __init__(self, features=4):
        super().__init__()
        self.inner = Inner(features)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x, shift, *rest):
        return self.drop(x * self.inner.weight + shift)

def get_inputs(rows=2):
    return [torch.rand(rows, 4), 0.5]

def get_init_inputs():
    return [4]
"""


def changed(old, new):
    assert old in FILE
    return FILE.replace(old, new)


def refused(source, words, use=lambda reference: None):
    with pytest.raises(UserError, match=re.escape(words)) as error:
        use(Reference(source, "task"))
    assert error.value.problem.startswith("task: ")
    return error.value


def test_weights_follow_from_the_seed_and_inputs_from_theirs():
    one, same, other = Reference(FILE, "t"), Reference(FILE, "t"), Reference(FILE, "t", seed=1)
    weights = [each.parameters()["inner.weight"] for each in (one, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert torch.equal(one.inputs(5)[0], other.inputs(5)[0])
    assert not torch.equal(one.inputs(5)[0], one.inputs(6)[0])


def test_a_model_is_evaluated_not_trained():
    reference = Reference(FILE, "t")
    inputs = reference.inputs(0)
    (once,), (again,) = reference.run(inputs), reference.run(inputs)
    assert torch.equal(once, again)
    assert not once.requires_grad


def test_parameters_come_before_buffers_that_no_checkpoint_keeps():
    reference = Reference(FILE, "t")
    assert [*reference.parameters()] == ["inner.weight", "inner.steps", "inner.offset"]
    assert not any(tensor.requires_grad for tensor in reference.parameters().values())


def test_a_model_computes_on_the_memory_that_it_is_given():
    reference = Reference(FILE, "t")
    weight = torch.zeros(4)
    reference.load(reference.model, {"inner.weight": weight})
    x = torch.ones(1, 4)
    assert reference.run([x, 0.5])[0].tolist() == [[0.5] * 4]
    weight += 2
    assert reference.run([x, 0.5])[0].tolist() == [[2.5] * 4]


def test_the_copy_in_float64_leaves_the_model_alone():
    reference = Reference(FILE, "t")
    wide = reference.double()
    assert reference.parameters()["inner.weight"].dtype == torch.float32
    (output,) = reference.run([torch.ones(1, 4, dtype=torch.float64), 0.5], wide)
    assert output.dtype == torch.float64


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_variant_casts_what_has_a_fraction(dtype):
    source = changed("[torch.rand(rows, 4), 0.5]", "[torch.rand(rows, 4), 0.5, torch.arange(3)]")
    reference = Reference(source, "t", variant=Variant(dtype=dtype, arguments={"rows": 7}))
    x, shift, whole = reference.inputs(0)
    assert (tuple(x.shape), x.dtype, shift, whole.dtype) == ((7, 4), getattr(torch, dtype), 0.5, torch.int64)
    kinds = {name: tensor.dtype for name, tensor in reference.parameters().items()}
    narrow = getattr(torch, dtype)
    assert kinds == {"inner.weight": narrow, "inner.steps": torch.int64, "inner.offset": narrow}


def test_inputs_keep_no_graph_of_how_they_were_made():
    source = changed("torch.rand(rows, 4), 0.5", "torch.rand(rows, 4, requires_grad=True) * 2, 0.5")
    x, _ = Reference(source, "t").inputs(0)
    assert (x.requires_grad, x.grad_fn) == (False, None)


def test_names_of_inputs_are_the_forwards_own_as_far_as_it_has_any():
    assert input_names(Reference(FILE, "t"), [("0",), ("1",), ("2",), ("3", "k")]) == [
        "x",
        "shift",
        "input2",
        "input3.k",
    ]


@pytest.mark.parametrize(("value", "kind"), [(True, "bool"), (3, "int"), (3.0, "float")])
def test_a_number_has_its_own_kind(value, kind):
    assert value_spec(Reference(FILE, "t"), "n", value) == ScalarSpec(name="n", type=kind, value=value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.zeros(2, 2).to_sparse(), "x is a torch.sparse_coo tensor"),
        (torch.zeros(2, dtype=torch.complex64), "x has the unsupported type torch.complex64"),
        (torch.zeros(2, 0), "x is empty, of shape (2, 0)"),
    ],
)
def test_a_tensor_of_a_kind_that_no_kernel_is_given_is_named(value, words):
    refused(FILE, words, lambda reference: value_spec(reference, "x", value))


def test_inputs_that_no_memory_holds_are_told_in_gib():
    source = "import torch\nModel = torch.nn.Identity\ndef get_inputs(): return [torch.empty(1 << 60)]\n"
    refused(source, "get_inputs() asked for a tensor of 4294967296.0 GiB, and this machine has ", lambda r: r.inputs(0))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import absent_module", "importing it raised ModuleNotFoundError: No module named 'absent_module'"),
        ("class Model(:", "importing it raised SyntaxError"),
        ("from .parts import Part", "Put all of it into one file."),
        ("open('weights.pt')", "without a network, and with no files but the packages that are installed"),
        ("x = 1", "there is no Model in it"),
        ("Model = 3", "there is no Model in it"),
        ("def Model(): return 3", "Model is not a torch.nn.Module"),
        (
            "import torch\ndef Model(): return torch.nn.Sequential(torch.nn.LazyLinear(3))",
            "the shape of 0.weight is not known",
        ),
        (changed("return [4]", "return 4"), "get_init_inputs returned int, not a list"),
        (changed("return [4]", "return [1, 2, 3]"), "Model(...) raised TypeError"),
    ],
)
def test_a_file_that_makes_no_model_is_the_users_error(source, words):
    refused(source, words)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("return torch.rand(2)", "get_inputs returned Tensor, not a list"),
        ("return [torch.rand(2), [{1.0}]]", "get_inputs gives a set at 1.0"),
        ("return 1 / 0", "get_inputs() raised ZeroDivisionError: division by zero"),
    ],
)
def test_inputs_are_tensors_and_numbers(given, words):
    refused(changed("return [torch.rand(rows, 4), 0.5]", given), words, lambda reference: reference.inputs(0))


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ("None", "forward returned no tensor"),
        ("(x, {'y': object()})", "forward returned a object at 1.y"),
        ("x.view(77)", "forward raised RuntimeError: shape '[77]' is invalid"),
    ],
)
def test_a_forward_returns_tensors(returned, words):
    source = changed("self.drop(x * self.inner.weight + shift)", returned)
    refused(source, words, lambda reference: reference.run(reference.inputs(0)))


def test_a_message_is_one_line_of_bounded_length():
    source = changed("self.drop(x * self.inner.weight + shift)", "int('a line\\n' * 999)")
    error = refused(source, "ValueError", lambda reference: reference.run(reference.inputs(0)))
    assert "\n" not in error.problem
    assert len(error.problem) < 400


def test_want_of_memory_is_not_the_files_fault():
    full = changed("self.drop(x * self.inner.weight + shift)", "(_ for _ in ()).throw(torch.OutOfMemoryError('full'))")
    reference = Reference(full, "t")
    with pytest.raises(torch.OutOfMemoryError):
        reference.run(reference.inputs(0))


def test_arguments_of_the_constructor_can_be_written_down_or_not():
    assert Reference(FILE, "t").plain_arguments() == [4]
    odd = changed("return [4]", "return [torch.tensor(4)]")
    refused(odd, "get_init_inputs gives more than numbers and texts", lambda reference: reference.plain_arguments())
    assert Reference(changed("def get_init_inputs", "def other"), "t").plain_arguments() == []


def test_a_declaration_that_cannot_be_used_says_how_one_is_written():
    with pytest.raises(UserError, match="task: its workloads are not a list of dicts") as error:
        Reference.variants("WORKLOADS = [3]", "task")
    assert "keyword arguments of get_inputs" in error.value.remedy


@pytest.mark.parametrize(
    ("output", "own"),
    [
        (torch.zeros(3, 4), True),
        (torch.zeros(3, 4).T, True),
        (torch.zeros(2, 3, 4).permute(2, 0, 1), True),
        (torch.zeros(4).expand(3, 4), False),
        (torch.zeros(6, 8)[::2, ::2], False),
        (torch.zeros(3, 1).expand(3, 1), True),
        (torch.tensor(1.0), True),
    ],
)
def test_what_shares_or_skips_memory_is_copied_before_a_kernel_has_to_write_it(output, own):
    kept = writable(output)
    assert (kept is output) is own
    assert torch.equal(kept, output)
    assert kept.stride() == torch.empty_like(kept).stride()


TIED = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(6, 4)
        self.head = nn.Linear(4, 6, bias=False)
        self.head.weight = HOW

    def forward(self, index):
        return self.head(self.embed(index))

def get_inputs():
    return [torch.arange(6)]
"""


@pytest.mark.parametrize("how", ["self.embed.weight", "nn.Parameter(self.embed.weight.data)"])
def test_tied_weights_are_one_argument_and_one_value(how):
    reference = Reference(TIED.replace("HOW", how), "t")
    (spec,) = parameter_specs(reference)
    assert (spec.name, spec.also) == ("embed.weight", ("head.weight",))
    model = reference.double()
    weight = torch.randn(6, 4, dtype=torch.float64)
    reference.load(model, {"embed.weight": weight})
    assert torch.allclose(reference.run(reference.inputs(0), model)[0], weight @ weight.T)


def test_equal_weights_in_memory_of_their_own_are_not_tied():
    apart = Reference(TIED.replace("HOW", "nn.Parameter(self.embed.weight.detach().clone())"), "t")
    assert [(spec.name, spec.also) for spec in parameter_specs(apart)] == [("embed.weight", ()), ("head.weight", ())]


def test_a_lazy_module_that_was_called_once_is_like_others():
    source = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.LazyLinear(3), torch.nn.ReLU(), torch.nn.LazyLinear(2))
        self.net(torch.zeros(1, 4))

    def forward(self, x):
        return self.net(x)

def get_inputs():
    return [torch.rand(5, 4)]
"""
    reference = Reference(source, "task")
    shapes = {spec.name: spec.shape for spec in parameter_specs(reference)}
    assert shapes == {"net.0.weight": (3, 4), "net.0.bias": (3,), "net.2.weight": (2, 3), "net.2.bias": (2,)}
    (output,) = reference.run(reference.inputs(0))
    assert output.shape == (5, 2)
