"""Every elementwise operation that the playbook writes, as functions of two float32 tensors of one shape."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F

Case = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
aten = torch.ops.aten

ARITHMETIC: dict[str, Case] = {
    "add": lambda x, y: x + y,
    "add alpha": lambda x, y: torch.add(x, y, alpha=2.5),
    "add scalar": lambda x, y: x + 0.1,
    "sub": lambda x, y: x - y,
    "sub alpha": lambda x, y: torch.sub(x, y, alpha=3),
    "rsub": lambda x, y: 1.0 - x,
    "rsub alpha": lambda x, y: torch.rsub(x, y, alpha=2),
    "mul": lambda x, y: x * y,
    "mul scalar": lambda x, y: 3 * x,
    "div": lambda x, y: x / y,
    "div scalar": lambda x, y: x / 3,
    "div floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "div trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "floor_divide": lambda x, y: x // 0.3,
    "remainder": lambda x, y: torch.remainder(x, y),
    "remainder scalar": lambda x, y: x % 0.7,
    "fmod": lambda x, y: torch.fmod(x, y),
    "neg": lambda x, y: -x,
    "abs": lambda x, y: x.abs(),
    "sign": lambda x, y: x.sign(),
    "reciprocal": lambda x, y: x.reciprocal(),
    "sqrt": lambda x, y: x.sqrt(),
    "rsqrt": lambda x, y: x.rsqrt(),
    "square": lambda x, y: x.square(),
    "pow 2": lambda x, y: x**2,
    "pow 3": lambda x, y: x**3,
    "pow 0": lambda x, y: x**0,
    "pow half": lambda x, y: x**0.5,
    "pow -0.5": lambda x, y: x**-0.5,
    "pow -1": lambda x, y: x**-1,
    "pow -2": lambda x, y: x**-2,
    "pow 2.5": lambda x, y: x**2.5,
    "pow tensor": lambda x, y: x.abs() ** y,
    "pow of scalar": lambda x, y: 1.5**x,
    "minimum": lambda x, y: torch.minimum(x, y),
    "maximum": lambda x, y: torch.maximum(x, y),
    "fmin": lambda x, y: torch.fmin(x, y),
    "fmax": lambda x, y: torch.fmax(x, y),
    "clamp": lambda x, y: x.clamp(-0.5, 2.0),
    "clamp_min": lambda x, y: x.clamp_min(0.25),
    "clamp_max": lambda x, y: x.clamp_max(0.25),
    "clamp tensor": lambda x, y: torch.clamp(x, min=y),
    "clip": lambda x, y: torch.clip(x, 0.0, 1.0),
    "floor": lambda x, y: x.floor(),
    "ceil": lambda x, y: x.ceil(),
    "round": lambda x, y: x.round(),
    "trunc": lambda x, y: x.trunc(),
    "frac": lambda x, y: x.frac(),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "lerp tensor": lambda x, y: torch.lerp(x, y, x.sigmoid()),
    "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.5),
    "addcdiv": lambda x, y: torch.addcdiv(x, x, y, value=0.5),
    "atan2": lambda x, y: torch.atan2(x, y),
    "hypot": lambda x, y: torch.hypot(x, y),
}

LOGIC: dict[str, Case] = {
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= 0,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= 0.5,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != 1,
    "where": lambda x, y: torch.where(x > y, x, y * 2),
    "where scalar": lambda x, y: torch.where(x > 0, x, 0.5),
    "masked_fill": lambda x, y: x.masked_fill(y > 0, -1.5),
    "logical_and": lambda x, y: torch.logical_and(x > 0, y > 0),
    "logical_or": lambda x, y: torch.logical_or(x > 0, y),
    "logical_not": lambda x, y: torch.logical_not(x),
    "logical_xor": lambda x, y: torch.logical_xor(x > 0, y > 0),
    "bitwise_and": lambda x, y: (x > 0) & (y > 0),
    "bitwise_or": lambda x, y: (x > 0) | (y > 0),
    "bitwise_xor": lambda x, y: (x > 0) ^ (y > 0),
    "bitwise_not": lambda x, y: ~(x > 0),
    "isnan": lambda x, y: x.isnan(),
    "isinf": lambda x, y: x.isinf(),
    "isfinite": lambda x, y: x.isfinite(),
    "bool to float": lambda x, y: (x > 0).float() * y,
    "bool times": lambda x, y: (x > 0) * y,
    "to double": lambda x, y: x.double() * y,
    "to int": lambda x, y: x.clamp(-9, 9).nan_to_num().to(torch.int32),
    "to long and back": lambda x, y: x.clamp(-9, 9).nan_to_num().long() / 3,
    "to bool": lambda x, y: x.bool(),
    "zeros_like": lambda x, y: torch.zeros_like(x) + y,
    "ones_like": lambda x, y: torch.ones_like(x) - y,
    "full_like": lambda x, y: torch.full_like(x, 2.5),
    "nan_to_num": lambda x, y: x.nan_to_num(0.5, 7.0, -7.0),
    "in place": lambda x, y: (x * 1).add_(1).mul_(y).relu_(),
    "xlogy": lambda x, y: torch.xlogy(x, y),
}

NAMES = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc",
)  # fmt: skip
FUNCTIONS: dict[str, Case] = {name: (lambda function: lambda x, y: function(x))(getattr(torch, name)) for name in NAMES}

ACTIVATIONS: dict[str, Case] = {
    "sigmoid": lambda x, y: torch.sigmoid(x),
    "relu": lambda x, y: F.relu(x),
    "relu6": lambda x, y: F.relu6(x),
    "leaky_relu": lambda x, y: F.leaky_relu(x, 0.2),
    "elu": lambda x, y: F.elu(x, 0.7),
    "selu": lambda x, y: F.selu(x),
    "celu": lambda x, y: F.celu(x, 1.3),
    "gelu": lambda x, y: F.gelu(x),
    "gelu tanh": lambda x, y: F.gelu(x, approximate="tanh"),
    "silu": lambda x, y: F.silu(x),
    "mish": lambda x, y: F.mish(x),
    "softplus": lambda x, y: F.softplus(x),
    "softplus beta": lambda x, y: F.softplus(x, 2.0, 10.0),
    "softsign": lambda x, y: F.softsign(x),
    "hardtanh": lambda x, y: F.hardtanh(x, -0.7, 1.2),
    "hardsigmoid": lambda x, y: F.hardsigmoid(x),
    "hardswish": lambda x, y: F.hardswish(x),
    "logsigmoid": lambda x, y: F.logsigmoid(x),
    "threshold": lambda x, y: F.threshold(x, 0.1, 20.0),
    "tanhshrink": lambda x, y: F.tanhshrink(x),
    "softshrink": lambda x, y: F.softshrink(x),
    "hardshrink": lambda x, y: F.hardshrink(x),
    "logit": lambda x, y: torch.logit(x, 1e-3),
    "logaddexp": lambda x, y: torch.logaddexp(x, y),
    "dropout": lambda x, y: F.dropout(x, 0.5, training=False),
    "swish by hand": lambda x, y: x * torch.sigmoid(x),
    "gelu by hand": lambda x, y: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}

LOSSES: dict[str, Case] = {
    "smooth_l1": lambda x, y: F.smooth_l1_loss(x, y, reduction="none", beta=0.7),
    "smooth_l1 without an edge": lambda x, y: F.smooth_l1_loss(x, y, reduction="none", beta=0.0),
    "huber": lambda x, y: F.huber_loss(x, y, reduction="none", delta=1.5),
    "kl_div": lambda x, y: F.kl_div(x, y.abs(), reduction="none"),
    "kl_div of logarithms": lambda x, y: F.kl_div(x, y, reduction="none", log_target=True),
    "bce with logits": lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none"),
    "weighted bce with logits": lambda x, y: F.binary_cross_entropy_with_logits(
        x, y, weight=y.abs(), pos_weight=torch.sigmoid(x), reduction="none"
    ),
    "soft margin": lambda x, y: F.soft_margin_loss(x, y, reduction="none"),
    "hinge embedding": lambda x, y: F.hinge_embedding_loss(x, y.sign(), 0.5, reduction="none"),
    "margin ranking": lambda x, y: F.margin_ranking_loss(x, y, y.sign(), 0.1, reduction="none"),
    "poisson": lambda x, y: F.poisson_nll_loss(x, y.abs(), reduction="none"),
    "poisson in full": lambda x, y: F.poisson_nll_loss(x.abs(), y.abs(), False, full=True, reduction="none"),
}

PATTERNS: dict[str, Case] = {
    "flip": lambda x, y: x.flip(1) + y,
    "flip both": lambda x, y: torch.flip(x * y, (0, -1)),
    "repeat": lambda x, y: x.repeat(2, 1, 3) * 2,
    "repeat_interleave": lambda x, y: (x + y).repeat_interleave(3, dim=1),
    "outer": lambda x, y: torch.outer(x[0], y[1]),
    "nearest": lambda x, y: F.interpolate(x[None, None], scale_factor=2),
    "pixel_shuffle": lambda x, y: F.pixel_shuffle(x[:3, :64].reshape(3, 4, 4, 4) * 2, 2),
    "max_pool1d": lambda x, y: F.max_pool1d(x, 4, 3, dilation=2),
    "max_pool2d": lambda x, y: F.relu(F.max_pool2d((x + y)[None], (2, 3))),
    "avg_pool2d": lambda x, y: F.avg_pool2d(x[None], 2, stride=1),
    "avg_pool3d": lambda x, y: F.avg_pool3d(x[:3, :60].reshape(1, 3, 3, 4, 5), (1, 2, 3), divisor_override=5),
    "copied": lambda x, y: x.t().reshape(-1) * 2,
}

GROUPS = {
    "arithmetic": ARITHMETIC, "logic": LOGIC, "functions": FUNCTIONS, "activations": ACTIVATIONS, "losses": LOSSES,
    "patterns": PATTERNS,
}  # fmt: skip


class Many(torch.nn.Module):
    """All cases of a group at once: one trace and one compilation."""

    def __init__(self, cases: dict[str, Case]) -> None:
        super().__init__()
        self.cases = list(cases.values())

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(case(x, y) for case in self.cases)


def operands(kind: str, shape: tuple[int, ...] = (3, 67)) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors: "normal", "wide" (+-1e3), "tiny" (1e-30 to 1e-4) or "special" (zeros, infinities and NaN too)."""
    generator = torch.Generator().manual_seed(7)
    x, y = (torch.randn(shape, generator=generator) for _ in range(2))
    if kind == "wide":
        return x * 1e3, y * 1e3
    if kind == "tiny":
        powers = 10 ** torch.linspace(-30, -4, x.numel()).view(shape)
        return x * powers, y * powers.flip(0)
    if kind == "special":
        values = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1.0, -1.0, 0.5, 20.0, -20.0, 88.0, 104.0])
        x.view(-1)[: 12 * 12] = values.repeat_interleave(12)
        y.view(-1)[: 12 * 12] = values.repeat(12)
    return x, y
