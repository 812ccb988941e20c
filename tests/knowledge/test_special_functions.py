"""Functions that C++ has none for, compiled: over poles, ends and signs, PyTorch's values in double."""

from __future__ import annotations

import torch
from goldens import Golden
from gpu_kernels import H200, compiled, for_nvcc
from traced import Compiler, call, trace

from knowledge.compiler.plan import Plan
from knowledge.compiler.schedule.loops.recipe import LoopsRecipe

X = torch.cat((torch.linspace(-7.3, 40.0, 61), torch.tensor([0.0, -0.0, -3.0, 1.0, -1.0, 0.7, 0.999999, 1e-6, 1e6])))
WHOLE = torch.tensor([0, 1, -1, 12, -18, 2**40, 7, 63, 64, -5])


def reals(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x.double()
    orders = tuple(torch.polygamma(n, y.abs() + 0.01) for n in (2, 3, 4))
    return y.digamma(), y.lgamma(), y.erfinv(), *orders, torch.copysign(y, -y), torch.nextafter(x, x + 1)


def integers(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    other = x.flip(0)
    small = x.int()
    return torch.gcd(x, other), torch.lcm(x, other), x << 3, x >> 3, small << 31, small >> 40, x << (other & 127)


def test_processors_compute_what_pytorch_does(golden: Golden, compiler: Compiler) -> None:
    problems = [trace(reals, X), trace(integers, WHOLE)]
    sources = [LoopsRecipe().render(problem, Plan("loops")) for problem in problems]
    if golden.holds(sources, *compiler.flags):
        return
    for kernel, problem, function, x in zip(
        compiler.build_all(sources), problems, (reals, integers), (X, WHOLE), strict=True
    ):
        for number, (mine, theirs) in enumerate(zip(call(kernel, problem, (x,)), function(x), strict=True)):
            torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-13, equal_nan=True, msg=f"{number}: {mine}")


def test_nvcc_takes_them(golden: Golden, compiler: Compiler) -> None:
    problems = [trace(function, x, device=H200) for function, x in ((reals, X), (integers, WHOLE))]
    cuda = [problem.model_copy(update={"target": "cuda"}) for problem in problems]
    sources = [LoopsRecipe().render(problem, Plan("loops")) for problem in cuda]
    if golden.holds(for_nvcc(sources, "sm_90a")):
        return
    assert compiled(compiler.folder, sources, "sm_90a") == ""
