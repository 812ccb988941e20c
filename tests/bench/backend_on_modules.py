"""PyTorch's own samples of its modules, through what torch.compile's backend does to a graph before Inductor has it.

    python tests/bench/backend_on_modules.py --samples 2

Each graph is traced, searched and put together anew as if a kernel had a place in it, then run by `aot_eager`. What
differs from eager, or fails, is compiled by `aot_eager` alone, too: only where that is right it counts as ours.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch._dynamo.backends.debugging import aot_eager
from torch.testing._internal.common_modules import module_db

from graph.export.runtime import backend, placing


class Through:
    """A backend of torch.compile, and what became of its graphs."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        placing._usable = lambda *_: iter([SimpleNamespace(patterns=(), name="none")])  # type: ignore[assignment]
        placing.replace = lambda *_: ["none"]  # type: ignore[attr-defined]

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        made = backend.with_kernels(gm, [Path("/none")])
        last = backend.COMPILED[-1]
        self.seen["graphs put together anew" if last.placed else f"graphs left: {'; '.join(last.reasons)[:90]}"] += 1
        compiled: Any = aot_eager
        return compiled(made, inputs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=2, help="of each module, at most")
    most = parser.parse_args().samples
    warnings.simplefilter("ignore")
    through, bad = Through(), []
    for info in module_db:
        given = {"device": "cpu", "dtype": torch.float32, "requires_grad": False, "training": False}
        for sample in list(info.module_inputs_func(info, **given))[:most]:
            try:
                wanted, module = _eager(info, sample)
            except Exception:  # noqa: BLE001 (a sample that wants more than copies of its tensors)
                through.seen["samples that eager does not take"] += 1
                continue
            through.seen["samples"] += 1
            said = _differs(module, sample, through, wanted)
            if said and not _differs(module, sample, "aot_eager", wanted):
                bad.append(f"{info.name}: {said}")
    print("\n".join([*(f"{count} {what}" for what, count in through.seen.most_common()), f"{len(bad)} wrong", *bad]))
    return bool(bad)


def _eager(info: Any, sample: Any) -> tuple[Any, torch.nn.Module]:
    torch.manual_seed(0)
    made = sample.constructor_input
    module = info.module_cls(*made.args, **made.kwargs).eval()
    return _called(module, sample), module


def _differs(module: torch.nn.Module, sample: Any, through: Any, wanted: Any) -> str:
    torch._dynamo.reset()
    try:
        torch.testing.assert_close(_called(torch.compile(module, backend=through), sample), wanted, equal_nan=True)
    except Exception as error:  # noqa: BLE001 (counted, whatever it is)
        return f"{type(error).__name__}: {str(error)[:200]}"
    return ""


def _called(module: Any, sample: Any) -> Any:
    args = [each.clone() if isinstance(each, torch.Tensor) else each for each in sample.forward_input.args]
    return module(*args, **sample.forward_input.kwargs)


if __name__ == "__main__":
    sys.exit(main())
