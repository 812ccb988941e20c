"""`python -m bench.hopper_products`: 16-bit and small products and attention on Hopper, every side in the same rounds.

Sides are our plans, eager PyTorch, cuBLASLt's fastest algorithm, attention's backends, and with `--compile`
torch.compile (default; max-autotune without and with CUDA graphs). A round writes 256 MB, so that the L2 cache is
cold, and calls each side once between two CUDA events; medians count. Needs nvcc and PYTHONPATH=tests:tests/knowledge.
"""

from __future__ import annotations

import argparse
import math
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
import tvm_ffi
from gpu_kernels import H200, built, traced  # type: ignore[import-not-found]
from torch.nn.attention import SDPBackend, sdpa_kernel

from bench.cublaslt import tuned
from knowledge.compiler.plan import Draft, Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.search.first import first_draft
from knowledge.compiler.search.recipes import recipes

Call = Callable[[], Any]
B16, F32 = torch.bfloat16, torch.float32


@dataclass(frozen=True)
class Case:
    """A forward, the shapes (and strides) of its inputs, and knobs of ours to try beside the first plan's."""

    name: str
    function: Callable[..., torch.Tensor]
    shapes: tuple[tuple[int, ...], ...]
    dtype: torch.dtype = B16
    variants: tuple[dict[str, int | str], ...] = ()
    attention: bool = False
    turned: bool = False  # the last input lies transposed in memory
    sources: dict[str, str] = field(default_factory=dict)


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def gated(x: torch.Tensor, g: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    return F.silu(F.linear(x, g)) * F.linear(x, u)


def linear_relu(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.relu(F.linear(x, w, b))


def linear_silu(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.silu(F.linear(x, w))


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1])


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


SEVEN = (
    (4096, 4096, 4096), (8192, 8192, 8192), (4096, 11008, 4096), (8192, 4096, 11008), (1024, 4096, 4096),
    (256, 4096, 4096), (16, 4096, 4096),
)  # fmt: skip
_SHARED: dict[str, int | str] = {"pingpong": 0, "panels": 2, "group": 8, "swept": 0}


def _tile(bm: int, bn: int, stages: int, cluster: int, splits: int, pingpong: int = 0) -> dict[str, int | str]:
    return _SHARED | {
        "kernel": "gemm_wgmma_16bit", "bm": bm, "bn": bn, "stages": stages, "cluster": cluster, "splits": splits,
        "pingpong": pingpong,
    }  # fmt: skip


def _clusters(bn: int, stages: int, cluster: int) -> dict[str, int | str]:
    return {"kernel": "gemm_decode_16bit", "bn": bn, "stages": stages, "cluster": cluster}


def _by_memory(splits: int) -> dict[str, int | str]:
    """64 x 64 tiles of float32 whose K is shared through memory, and added by a second kernel."""
    return {
        "kernel": "gemm_3xtf32", "bm": 64, "bn": 64, "bk": 32, "wm": 32, "wn": 32, "stages": 3, "blocks": 4,
        "splits": splits, "group": 8, "spans": 0, "products": 3,
    }  # fmt: skip


CASES: tuple[Case, ...] = (
    Case("linear + relu float32 64 x 1600 -> 128", linear_relu, ((64, 1600), (128, 1600), (128,)), F32,
         ({"splits": 4}, _by_memory(25))),
    *(Case(f"linear float32 64 x {k} -> {n}", F.linear, ((64, k), (n, k), (n,)), F32, ({"splits": 2}, _by_memory(1)))
      for k, n in ((128, 10), (128, 4096), (512, 128))),
    Case("float32 512 cubed", product, ((512, 512), (512, 512)), F32, ({"splits": 8}, {"splits": 2}, _by_memory(4))),
    Case("float32 128 x 1000 x 4096", product, ((128, 4096), (4096, 1000)), F32,
         (_by_memory(8), {"kernel": "gemm_wgmma_fused", "bn": 128, "stages": 3, "producers": 256, "group": 8,
                          "splits": 16, "spans": 0})),
    *(Case(f"bfloat16 {m} x {n} x {k}", product, ((m, k), (k, n)), turned=True,
           variants=(_tile(128, 128, 6, 2, 2), _tile(128, 128, 6, 1, 2)) if m == 256 else ())
      for m, n, k in SEVEN),
    Case("bfloat16 256 x 256 x 65536", product, ((256, 65536), (65536, 256)), turned=True,
         variants=(_clusters(64, 10, 8), _tile(128, 256, 4, 2, 64))),
    *(Case(f"bfloat16 {m} x {n} x {k}", product, ((m, k), (k, n)), turned=True,
           variants=(_clusters(64, 10, 2), _clusters(128, 6, 4), _tile(64, 64, 8, 2, 1, 1)))
      for m, n, k in ((512, 512, 4096), (256, 1024, 4096), (128, 128, 8192))),
    Case("linear + silu bfloat16 4096 x 4096 -> 11008", linear_silu, ((4096, 4096), (11008, 4096)),
         variants=(_tile(128, 256, 4, 2, 1),)),
    Case("gated bfloat16 4096 x 4096 -> 11008", gated, ((4096, 4096), (11008, 4096), (11008, 4096)),
         variants=(_tile(128, 128, 6, 2, 1, 1), _tile(64, 256, 4, 2, 1, 1), _tile(256, 128, 4, 2, 1))),
    Case("decode 32 of 8 heads, 8192 keys of 128", attention, ((1, 32, 1, 128), (1, 8, 8192, 128), (1, 8, 8192, 128)),
         attention=True, variants=({"splits": 16}, {"splits": 64})),
    Case("decode 32 heads, 8192 keys of 128", attention, ((1, 32, 1, 128), (1, 32, 8192, 128), (1, 32, 8192, 128)),
         attention=True, variants=({"splits": 8}, {"splits": 32},
                                   {"warps": 2, "stages": 2, "blocks": 1, "splits": 20})),
    Case("decode 16 x 32 of 8 heads, 4096 keys of 128", attention,
         ((16, 32, 1, 128), (16, 8, 4096, 128), (16, 8, 4096, 128)), attention=True,
         variants=({"splits": 8}, {"keys": 64, "stages": 2}, {"stages": 2, "splits": 6}, {"stages": 4, "splits": 3})),
    Case("8 heads, 16 rows, 65536 keys of 256", attention, ((1, 8, 16, 256), (1, 8, 65536, 256), (1, 8, 65536, 256)),
         attention=True, variants=({"splits": 16},)),
    Case("attention 2 x 16, 4096, 256", attention, ((2, 16, 4096, 256),) * 3, attention=True,
         variants=({"turn": 0}, {"keys": 80})),
    Case("attention 2 x 16, 4096, 256, causal", causal, ((2, 16, 4096, 256),) * 3, attention=True),
)  # fmt: skip


def made(case: Case, scale: float = 1.0) -> tuple[torch.Tensor, ...]:
    """The inputs, normal."""
    generator = torch.Generator("cuda").manual_seed(1)
    given = [torch.randn(shape, generator=generator, device="cuda").mul_(scale).to(case.dtype) for shape in case.shapes]
    if case.turned:
        given[-1] = given[-1].t().contiguous().t()
    return tuple(given)


def sources(case: Case) -> dict[str, str]:
    """Our kernels by the knobs that each changes."""
    shapes = [torch.empty(shape, dtype=case.dtype, device="meta") for shape in case.shapes]
    if case.turned:
        shapes[-1] = torch.empty(case.shapes[-1][::-1], dtype=case.dtype, device="meta").t()
    problem = traced(case.function, *shapes, device=H200)
    draft = first_draft(problem)
    assert isinstance(draft, Draft), draft
    plan = Plan.read(draft.source)
    assert plan is not None
    return {"ours": draft.source} | {
        f"ours, {', '.join(f'{knob} {value}' for knob, value in each.items() if knob not in _SHARED)}": rendered(
            problem, plan, each
        )
        for each in case.variants
    }


def rendered(problem: Problem, plan: Plan, knobs: dict[str, int | str]) -> str:
    """The kernel after a change of knobs; a plan of another kernel replaces all."""
    recipe = next(each for each in recipes() if each.name == plan.recipe)
    return recipe.render(problem, Plan(plan.recipe, dict(knobs)) if "kernel" in knobs else plan.with_knobs(**knobs))


def library_of(source: str, folder: Path) -> Path:
    """The kernel's library."""
    folder.mkdir()
    library: Path = built(folder, source, "sm_90a")
    return library


class Clock:
    """Milliseconds of calls, each with a cold L2 cache."""

    def __init__(self) -> None:
        self.spoiler = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")

    def once(self, call: Call) -> float:
        """One call's time."""
        event: Any = torch.cuda.Event
        start, end = event(enable_timing=True), event(enable_timing=True)
        self.spoiler.fill_(1)
        start.record()
        call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end))

    def few(self, call: Call) -> float:
        """The median of 5, after a first one."""
        self.once(call)
        return median(self.once(call) for _ in range(5))

    def rounds(self, sides: dict[str, Call], seconds: float) -> dict[str, float]:
        """Each side's median over rounds in which all take turns."""
        times: dict[str, list[float]] = {name: [self.once(call) * 0] for name, call in sides.items()}
        ends = time.monotonic() + seconds
        while len(next(iter(times.values()))) < 6 or (time.monotonic() < ends and len(next(iter(times.values()))) < 60):
            for name, call in sides.items():
                times[name].append(self.once(call))
        return {name: median(each[1:]) for name, each in times.items()}


def baselines(case: Case, given: tuple[torch.Tensor, ...], clock: Clock, compiles: bool) -> dict[str, Call]:
    """What honest people use."""
    sides: dict[str, Call] = {"eager": lambda: case.function(*given)}
    if case.function is product:
        out = torch.empty(given[0].shape[0], given[1].shape[1], dtype=case.dtype, device="cuda")
        sides["cuBLASLt tuned"] = tuned(given[0], given[1], out, clock.few).call
    if case.attention:
        for name, backend in (("cuDNN", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
            call = _by_backend(case, given, backend)
            if _runs(call):
                sides[name] = call
    for mode in ("default", "max-autotune-no-cudagraphs", "max-autotune") if compiles else ():
        torch.compiler.reset()
        compiled = torch.compile(case.function, mode=mode)
        call = _with(compiled, given)
        if _runs(call):
            sides[f"torch.compile, {mode}"] = call
    return sides


def _with(function: Callable[..., Any], given: tuple[torch.Tensor, ...]) -> Call:
    return lambda: function(*given)


def _by_backend(case: Case, given: tuple[torch.Tensor, ...], backend: SDPBackend) -> Call:
    def call() -> None:
        with sdpa_kernel(backend):
            case.function(*given)

    return call


def _runs(call: Call) -> bool:
    try:
        call()
        call()
        torch.cuda.synchronize()
    except RuntimeError as failure:
        print(f"  not run: {str(failure).splitlines()[0][:100]}", flush=True)
        return False
    return True


def error(got: torch.Tensor, case: Case, given: tuple[torch.Tensor, ...]) -> float:
    """Normalized L2 against float64, of the first rows of a product and the first head of an attention."""
    some = tuple(each[:1, :1] for each in given) if case.attention else (given[0][:256], *given[1:])
    exact = case.function(*(each.double() for each in some))
    mine = got[:1, :1] if case.attention else got[:256]
    return float((mine.double() - exact).norm() / exact.norm())


def measured(case: Case, libraries: dict[str, Path], clock: Clock, seconds: float, compiles: bool) -> None:
    """Print a case's table."""
    given = made(case)
    expected = case.function(*given)
    outputs = {name: torch.full_like(expected, math.nan) for name in libraries}
    ours = {
        name: _with(tvm_ffi.load_module(str(path)).run, (*given, outputs[name])) for name, path in libraries.items()
    }
    sides = ours | baselines(case, given, clock, compiles)
    times = clock.rounds(sides, seconds)
    eager = times["eager"]
    print(f"{case.name}; eager's error {error(expected, case, given):.3g}", flush=True)
    for name, ms in times.items():
        off = f"  error {error(outputs[name], case, given):.3g}" if name in outputs else ""
        print(f"  {name:64s} {ms:8.4f} ms  {eager / ms:6.3f}x{off}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Build all, then measure case after case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="of rounds, each case")
    parser.add_argument("--only", default="", help="cases whose name matches this expression")
    parser.add_argument("--compile", action="store_true", help="torch.compile as well")
    parser.add_argument("--jobs", type=int, default=8, help="compilers side by side")
    options = parser.parse_args(arguments)
    cases = [case for case in CASES if re.search(options.only, case.name)]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        started = {
            (place, name): pool.submit(library_of, source, Path(folder) / f"k{place}_{number}")
            for place, case in enumerate(cases)
            for number, (name, source) in enumerate(sources(case).items())
        }
        print(torch.cuda.get_device_name(), torch.__version__, f"CUDA {torch.version.cuda}", flush=True)
        clock = Clock()
        for place, case in enumerate(cases):
            libraries = {name: each.result() for (where, name), each in started.items() if where == place}
            measured(case, libraries, clock, options.seconds, options.compile)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
