"""`python -m bench.convolutions`: convolutions in float32 on a GPU, ours beside eager's at both precisions.

Each side of a convolution takes turns in the same rounds, as in `bench.hopper_products`. Needs nvcc and
PYTHONPATH=.:tests:tests/knowledge.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
import tvm_ffi
from gpu_kernels import H200, traced  # type: ignore[import-not-found]

from bench.hopper_products import Call, Clock, library_of
from knowledge.compiler.plan import Plan
from knowledge.compiler.schedule.loops.recipe import LoopsRecipe

Sizes = tuple[int, ...]
OURS: tuple[tuple[str, dict[str, int | str]], ...] = (
    ("ieee", {}),
    ("ieee", {"wgmma": 0}),
    ("tf32", {}),
    ("tf32", {"wgmma": 0}),
)


class Convolution(NamedTuple):
    """What it is called with."""

    name: str
    x: Sizes
    weight: Sizes
    options: dict[str, int] = {}  # noqa: RUF012 (nobody changes it)

    def __call__(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = getattr(F, f"conv{len(self.x) - 2}d")(x, weight, **self.options)
        return made


CASES = (
    Convolution("robust, 256 -> 128 of 16 x 16", (32, 256, 16, 16), (128, 256, 3, 3), {"padding": 1}),
    Convolution("robust, 128 -> 128 of 32 x 32", (32, 128, 32, 32), (128, 128, 3, 3), {"padding": 1}),
    Convolution("ResNet, 64 -> 64 of 56 x 56", (32, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}),
    Convolution("ResNet, 256 -> 256 of 14 x 14", (32, 256, 14, 14), (256, 256, 3, 3), {"padding": 1}),
    Convolution("1 x 1, 256 -> 512 of 28 x 28", (32, 256, 28, 28), (512, 256, 1, 1)),
    Convolution("3 -> 64 of 64 x 64 x 64", (16, 3, 64, 64, 64), (64, 3, 3, 3, 3)),
    Convolution(
        "AlexNet's first, 3 -> 96 of 224 x 224", (64, 3, 224, 224), (96, 3, 11, 11), {"stride": 4, "padding": 2}
    ),
    Convolution("64 -> 128 of 256 x 256", (16, 64, 256, 256), (128, 64, 3, 3)),
)


def rendered(case: Convolution, precision: str, knobs: dict[str, int | str]) -> str:
    """Our kernel."""
    problem = traced(case, torch.empty(case.x, device="meta"), torch.empty(case.weight, device="meta"), device=H200)
    return LoopsRecipe().render(problem.model_copy(update={"precision": precision}), Plan("loops", knobs))


def eager(case: Convolution, x: torch.Tensor, weight: torch.Tensor, rounds: bool) -> Call:
    """PyTorch's, in TF32 or without."""

    def call() -> torch.Tensor:
        torch.backends.cudnn.allow_tf32 = rounds
        return case(x, weight)

    return call


def called(library: Path, *given: torch.Tensor) -> Call:
    """One of ours on its way to the clock."""
    run: Callable[..., Any] = tvm_ffi.load_module(str(library)).run
    return lambda: run(*given)


def measured(case: Convolution, libraries: dict[str, Path], clock: Clock, seconds: float) -> None:
    """Print a convolution's table: times, speed-ups over both of eager's, and errors against float64."""
    generator = torch.Generator("cuda").manual_seed(1)
    x = torch.randn(case.x, device="cuda", generator=generator)
    weight = torch.randn(case.weight, device="cuda", generator=generator) / math.sqrt(math.prod(case.weight[1:]))
    exact = case(x[:1].double(), weight.double())
    sides = {"eager": eager(case, x, weight, rounds=False), "eager, TF32": eager(case, x, weight, rounds=True)}
    outputs = {name: call() for name, call in sides.items()}
    for name, library in libraries.items():
        outputs[name] = torch.full_like(outputs["eager"], math.nan)
        sides[name] = called(library, x, weight, outputs[name])
    times = clock.rounds(sides, seconds)
    flops = 2 * outputs["eager"].numel() * math.prod(case.weight[1:])
    print(f"{case.name}: {flops / 1e9:.1f} GFLOP", flush=True)
    for name, ms in times.items():
        off = float((outputs[name][:1].double() - exact).norm() / exact.norm())
        over = f"{times['eager'] / ms:6.2f}x of eager {times['eager, TF32'] / ms:6.2f}x of its TF32"
        print(f"  {name:24s} {ms:8.4f} ms {flops / ms / 1e9:6.1f} TFLOP/s {over}  error {off:.2g}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Build all, then measure case after case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.6, help="of rounds, each case")
    parser.add_argument("--jobs", type=int, default=8, help="compilers side by side")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        started = {
            (case.name, f"ours, {precision}{', mma.sync' if knobs else ''}"): pool.submit(
                library_of, rendered(case, precision, knobs), Path(folder) / f"k{place}_{number}"
            )
            for place, case in enumerate(CASES)
            for number, (precision, knobs) in enumerate(OURS)
        }
        print(torch.cuda.get_device_name(), torch.__version__, f"CUDA {torch.version.cuda}", flush=True)
        clock = Clock()
        for case in CASES:
            libraries = {name: each.result() for (of, name), each in started.items() if of == case.name}
            measured(case, libraries, clock, options.seconds)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
