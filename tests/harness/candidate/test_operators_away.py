"""PyTorch without the operators that a module may not reach: a process of its own, since they do not come back."""

from __future__ import annotations

import json
import subprocess
import sys

from harness.screen.operators import kept_operators

SCRIPT = """
import json, sys, torch
import torch.nn.functional as F
from harness.candidate.operators_away import Operators, OperatorTakenError
torchs = Operators()
x, table = torch.rand(4, 6), torch.nn.Linear(6, 6)
where, values, rows = torch.tensor([[0, 1], [1, 3]]), torch.rand(2), torch.tensor([0, 1, 2])
thin, squeezed = torch.sparse_coo_tensor(where, values, (6, 4)), torch.sparse_csr_tensor(rows, rows[:2], values, (2, 4))
nested = torch.nested.nested_tensor([x, x])
torchs.take_away(json.loads(sys.argv[1]))
calls = {
    "elementary": lambda: ((x - x.amax(1, keepdim=True)).exp() / x[:, :1]).reshape(-1).sum() ** 2,
    "moved": lambda: torch.cat([x.t().contiguous().view(-1), torch.where(x > 0, x, 0).flatten()])[None].double(),
    "set": lambda: setattr(table.weight, "data", torch.empty(6, 6)),
    "convolution": lambda: F.conv1d(x[None], x[None]),
    "layer": lambda: table(x),
    "norm": lambda: F.group_norm(x, 2),
    "pool": lambda: F.max_pool1d(x[None], 2),
    "gate": lambda: F.glu(x),
    "handle": lambda: torch.ops.aten.mm.default(x, x.t()),
    "sparse": lambda: torch.zeros(4, 4, layout=torch.sparse_coo),
    "sparse from parts": lambda: torch.sparse_coo_tensor(where, values, (6, 4)),
    "sparse product": lambda: thin @ x,
    "sparse rows": lambda: squeezed @ x,
    "nested": lambda: nested * 2,
    "the library's layout": lambda: torch.empty(3, layout=torch._mkldnn),
    "activations": lambda: F.gelu(F.silu(F.leaky_relu(x))),
    "losses": lambda: F.mse_loss(x, x) + F.cross_entropy(x, torch.tensor([0, 1, 2, 3])) + F.kl_div(x, x.exp()),
    "scans": lambda: x.cumsum(1).topk(2),
    "sorts": lambda: x.sort(),
    "the task's": lambda: x.relu(),
}
got = {}
with torch.no_grad():
    for name, call in calls.items():
        try:
            got[name] = call() is not OperatorTakenError
        except OperatorTakenError:
            got[name] = False
print(json.dumps([got, torchs.refused]))
"""


KEPT = ["elementary", "moved", "set"]
GLUE = ["activations", "losses", "scans"]


def working(task: set[str]) -> tuple[list[str], str]:
    """Which of the calls get through where the task computes with these operators, and the last that was refused."""
    kept = json.dumps(sorted(kept_operators(frozenset(task))))
    done = subprocess.run([sys.executable, "-c", SCRIPT, kept], capture_output=True, text=True, check=True, timeout=120)
    got, refused = json.loads(done.stdout)
    return [name for name, works in got.items() if works], refused


def test_what_is_not_kept_is_gone_by_every_name() -> None:
    assert working({"relu"}) == (KEPT, "aten::relu")


def test_glue_is_kept_where_the_task_is_about_something_else() -> None:
    works, _ = working({"convolution", "conv2d"})
    assert sorted(works) == sorted([*KEPT, *GLUE, "gate", "the task's"])


def test_glue_that_is_another_form_of_the_tasks_operator_goes_with_it() -> None:
    """Sigmoid by silu, a row's sum by a loss, a maximum by topk."""
    assert not {"silu", "glu", "softmax", "topk"} & kept_operators(frozenset({"sigmoid"}))
    assert not {"cumsum", "mseloss", "topk"} & kept_operators(frozenset({"amax"}))
    assert not {"leakyrelu", "threshold"} & kept_operators(frozenset({"clamp"}))
    assert "gelu" in kept_operators(frozenset({"amax"}))


def test_arithmetic_signs_stay_even_where_the_task_is_about_them() -> None:
    assert {"pow", "sum", "exp"} <= kept_operators(frozenset())
    assert kept_operators(frozenset({"pow", "sum"})) >= {"pow", "exp"}
    assert "sum" not in kept_operators(frozenset({"pow", "sum"}))
    assert not {"convolution", "mm", "nativegroupnorm", "sort", "embeddingbag", "maxpool2d"} & kept_operators(
        frozenset()
    )
