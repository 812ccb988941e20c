"""What follows a product, as C++ on one number: every activation against torch, at its bends and at special values."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from knowledge.compiler.lower.activations import ACTIVATIONS
from knowledge.compiler.problem import Argument, Op, Problem, Ref, Tensor
from knowledge.compiler.schedule.gemm.product import form_of

Step = tuple[Op, Callable[[torch.Tensor], torch.Tensor]]


def op(target: str, *args: Argument, **kwargs: Argument) -> Op:
    return Op(target=f"aten.{target}", args=(Ref(ref="made"), *args), kwargs=kwargs, results=(matrix("output"),))


def matrix(name: str) -> Tensor:
    return Tensor(name=name, shape=(4, 4), strides=(4, 1), dtype="float64")


def codes(step: Op) -> tuple[str, ...]:
    """What follows a product that this operation follows."""
    made = Op(target="aten.mm.default", args=(Ref(ref="a"), Ref(ref="b")), results=(matrix("made"),))
    problem = Problem(
        target="cpu", inputs=(matrix("a"), matrix("b")), outputs=(matrix("output"),), ops=(made, step),
        returns=("output",),
    )  # fmt: skip
    return form_of(problem).codes


STEPS: dict[str, Step] = {
    "relu": (op("relu.default"), torch.relu),
    "relu6": (op("relu6.default"), F.relu6),
    "neg": (op("neg.default"), torch.neg),
    "sigmoid": (op("sigmoid.default"), torch.sigmoid),
    "tanh": (op("tanh.default"), torch.tanh),
    "silu": (op("silu.default"), F.silu),
    "square": (op("square.default"), torch.square),
    "abs": (op("abs.default"), torch.abs),
    "exp": (op("exp.default"), torch.exp),
    "sqrt": (op("sqrt.default"), torch.sqrt),
    "mish": (op("mish.default"), F.mish),
    "log_sigmoid": (op("log_sigmoid.default"), F.logsigmoid),
    "hardsigmoid": (op("hardsigmoid.default"), F.hardsigmoid),
    "hardswish": (op("hardswish.default"), F.hardswish),
    "selu": (op("selu.default"), F.selu),
    "clamp": (op("clamp.default", -0.5, 2), lambda x: torch.clamp(x, -0.5, 2)),
    "clamp, crossed": (op("clamp.default", 3.0, -1.0), lambda x: torch.clamp(x, 3.0, -1.0)),
    "clamp from above": (op("clamp.default", None, 0.75), lambda x: torch.clamp(x, max=0.75)),
    "clamp by name": (op("clamp.default", max=0.75), lambda x: torch.clamp(x, max=0.75)),
    "clamp from below": (op("clamp.default", -1.5), lambda x: torch.clamp(x, min=-1.5)),
    "clamp_min": (op("clamp_min.default", 0.25), lambda x: torch.clamp_min(x, 0.25)),
    "clamp_max": (op("clamp_max_.default", 0.25), lambda x: torch.clamp_max(x, 0.25)),
    "hardtanh": (op("hardtanh.default"), F.hardtanh),
    "hardtanh, wide": (op("hardtanh.default", -2.0, 3.0), lambda x: F.hardtanh(x, -2.0, 3.0)),
    "leaky_relu": (op("leaky_relu.default"), F.leaky_relu),
    "leaky_relu, steep": (op("leaky_relu.default", 2.5), lambda x: F.leaky_relu(x, 2.5)),
    "elu": (op("elu.default"), F.elu),
    "elu, scaled": (op("elu.default", 0.7, 1.3, 0.4), lambda x: torch.ops.aten.elu(x, 0.7, 1.3, 0.4)),
    "softplus": (op("softplus.default"), F.softplus),
    "softplus, sharp": (op("softplus.default", 3.0, 1.5), lambda x: F.softplus(x, 3.0, 1.5)),
    "softplus, bent late": (op("softplus.default", threshold=2.0), lambda x: F.softplus(x, threshold=2.0)),
    "celu": (op("celu.default", 0.7), lambda x: F.celu(x, 0.7)),
    "threshold": (op("threshold.default", 0.5, -2.0), lambda x: F.threshold(x, 0.5, -2.0)),
    "hardshrink": (op("hardshrink.default"), F.hardshrink),
    "softshrink": (op("softshrink.default"), F.softshrink),
    "logit": (op("logit.default", 1e-3), lambda x: torch.logit(x, 1e-3)),
    "nan_to_num": (op("nan_to_num.default", 0.5), lambda x: torch.nan_to_num(x, 0.5)),
    "erf": (op("erf.default"), torch.erf),
    "reciprocal root": (op("rsqrt.default"), torch.rsqrt),
    "to a power": (op("pow.Tensor_Scalar", 3), lambda x: x**3),
    "from": (op("rsub.Scalar", 2.0), lambda x: 2.0 - x),
    "gelu": (op("gelu.default"), F.gelu),
    "gelu by tanh": (op("gelu.default", approximate="tanh"), lambda x: F.gelu(x, approximate="tanh")),
}
SPECIAL = [0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1e-30, -1e-30, 1.0, -1.0, 3.0, -3.0, 6.0, 2.0, 20.0, -20.0]
X = torch.cat([torch.linspace(-12, 12, 4001, dtype=torch.float64), torch.tensor(SPECIAL, dtype=torch.float64)])


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Every step as a function over an array, in double."""
    lines = ["#include <cmath>", "using T = double;"]
    for number, (each, _) in enumerate(STEPS.values()):
        lines.append(
            f'extern "C" void step{number}(T const* from, T* to, long n) {{\n'
            f"  for (long i = 0; i < n; ++i) {{ T x = from[i]; {'; '.join(codes(each))}; to[i] = x; }}\n}}"
        )
    folder: Path = tmp_path_factory.mktemp("steps")
    (folder / "steps.cpp").write_text("\n".join(lines))
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "steps.cpp", "-o", "steps.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "steps.so"))


@pytest.mark.parametrize("name", STEPS)
def test_an_activation_is_torch_s(library: ctypes.CDLL, name: str) -> None:
    got = torch.empty_like(X)
    step = library[f"step{list(STEPS).index(name)}"]
    step(ctypes.c_void_p(X.data_ptr()), ctypes.c_void_p(got.data_ptr()), ctypes.c_long(X.numel()))
    torch.testing.assert_close(got, STEPS[name][1](X), rtol=1e-13, atol=1e-15, equal_nan=True)


def test_every_activation_of_one_tensor_is_tried() -> None:
    tried = {each.target.split(".")[1].rstrip("_") for each, _ in STEPS.values()}
    of_more = {"prelu", "xlogy", "logaddexp", "batch_norm", "_native_batch_norm_legit_no_training"}
    assert tried >= ACTIVATIONS.keys() - of_more - {"log_sigmoid_forward"}
