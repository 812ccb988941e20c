"""PyTorch without the operators that a module may not reach: a process of its own, since they do not come back."""

from __future__ import annotations

import json
import subprocess
import sys

from harness.screen.torch_operators import kept_operators

SCRIPT = """
import json, sys, torch
import torch.nn.functional as F
from harness.worker.operators_away import Operators, OperatorTakenError
torchs = Operators()
x, table = torch.rand(4, 6), torch.nn.Linear(6, 6)
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


def test_what_is_not_kept_is_gone_by_every_name() -> None:
    kept = json.dumps(sorted(kept_operators(frozenset({"relu"}))))
    done = subprocess.run([sys.executable, "-c", SCRIPT, kept], capture_output=True, text=True, check=True, timeout=120)
    got, refused = json.loads(done.stdout)
    assert [name for name, works in got.items() if works] == ["elementary", "moved", "set"]
    assert refused == "aten::relu"


def test_arithmetic_signs_stay_even_where_the_task_is_about_them() -> None:
    assert {"pow", "sum", "exp"} <= kept_operators(frozenset())
    assert kept_operators(frozenset({"pow", "sum"})) >= {"pow", "exp"}
    assert "sum" not in kept_operators(frozenset({"pow", "sum"}))
    assert not {"convolution", "mm", "nativegroupnorm", "glu", "embeddingbag"} & kept_operators(frozenset())
