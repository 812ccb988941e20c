"""The bundled suites: their task files as texts, written from tables of what differs.

`robust` are the tasks of robust-kbench with their workloads: eleven forward, 1 to 11, and eight backward, 12 to 19.
`level1` are 32 single operations at the shapes of KernelBench's level 1, problems 1 to 32: eighteen products of
matrices and vectors, and fourteen activations over 6.4 GB. `sixteen_bit` is what language models are made of, in
bfloat16: products from a square one to one token each of sixteen sequences, a gated pair, attention.

A text never changes: its digest is the task's in archives and in the folders of runs.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import MappingProxyType

_FORWARDS = Path(__file__).parent / "robust"
"""The files of robust's forward tasks. Those of its backward tasks are derived from them."""


def names() -> tuple[str, ...]:
    """The suites, by name."""
    return "level1", "robust", "sixteen_bit"


def tasks(suite: str) -> dict[str, str] | None:
    """A suite's task files by name, id first. None where there is no such suite."""
    if suite not in names():
        return None
    files = {"level1": _level1, "robust": _robust, "sixteen_bit": _sixteen_bit}[suite]()
    return {f"{number:02}_{name}": text for number, (name, text) in enumerate(files, 1)}


def _file(about: str, sizes: dict[str, int], unpacked: str, model: str, inputs: str) -> str:
    """One task file. `inputs` is the list that get_inputs returns, or its whole body."""
    entries = ", ".join(f'"{name}": {size}' for name, size in sizes.items())
    functional = "from torch.nn import functional\n" if " functional." in model or "(functional." in model else ""
    body = inputs if inputs.startswith("    ") else f"    return [{inputs}]"
    numbers = " | float" if re.search(r", [\d.]+\]$", body) else ""
    return (
        f'"""{about}"""\n\nimport torch\nfrom torch import nn\n{functional}\nSIZES = {{{entries}}}\n'
        f"{', '.join(sizes)} = {unpacked}\n\n\nclass Model(nn.Module):\n{model}\n\n\n"
        f"def get_inputs() -> list[torch.Tensor{numbers}]:\n{body}\n\n\n"
        "def get_init_inputs() -> list[object]:\n    return []\n"
    )


def _forward(arguments: str, result: str) -> str:
    return f"    def forward(self, {arguments}) -> torch.Tensor:\n        return {result}"


# -- level1 -----------------------------------------------------------------------------------------------------------

_SQUARE = MappingProxyType({"n": 4096})
_SIDES = MappingProxyType({"m": 2048, "k": 8192, "n": 4096})

_PRODUCTS = (  # name, about, sizes, shape of a, shape of b, result; without shapes: the body of get_inputs
    ("square_matmul", "Product of two square matrices.", _SQUARE, "n, n", "n, n", "torch.matmul(a, b)"),
    ("matmul", "Product of two matrices of different sides.", _SIDES, "m, k", "k, n", "torch.matmul(a, b)"),
    (
        "batched_matmul", "A product of two matrices for each of a batch.",
        {"batch": 128, "m": 512, "k": 1024, "n": 2048}, "batch, m, k", "batch, k, n", "torch.bmm(a, b)",
    ),
    (
        "matrix_vector", "A wide matrix times a column: bound by reading the matrix once.",
        {"m": 2048, "k": 1048576}, "m, k", "k, 1", "torch.matmul(a, b)",
    ),
    (
        "matrix_scalar", "A matrix times a number that the caller passes.", {"m": 65536, "n": 16384},
        "    return [torch.rand(m, n), 3.14]", "", "a * s",
    ),
    (
        "large_k_matmul", "A small product over a very long inner side: few output tiles, much to sum for each.",
        {"m": 256, "k": 524288, "n": 256}, "m, k", "k, n", "torch.matmul(a, b)",
    ),
    (
        "small_k_matmul", "A large product over a short inner side: bound by writing the output.",
        {"m": 32768, "k": 64, "n": 32768}, "m, k", "k, n", "torch.matmul(a, b)",
    ),
    (
        "irregular_matmul", "A product whose sides are all odd: no tile fits, no row is aligned.",
        {"m": 8205, "k": 2949, "n": 5921}, "m, k", "k, n", "torch.matmul(a, b)",
    ),
    (
        "tall_skinny_matmul", "A tall matrix times a flat one: the output is a thousand times the inputs.",
        {"m": 32768, "k": 32}, "m, k", "k, m", "torch.matmul(a, b)",
    ),
    (
        "tensor3d_matmul", "A batch of matrices times one matrix that they share.",
        {"batch": 16, "m": 1024, "k": 2048, "n": 768}, "batch, m, k", "k, n", "torch.matmul(a, b)",
    ),
    (
        "tensor4d_matmul", "The last axis of a tensor of four contracted with a matrix, as an einsum.",
        {"batch": 8, "i": 256, "j": 512, "k": 256, "n": 768}, "batch, i, j, k", "k, n",
        'torch.einsum("bijk,kn->bijn", a, b)',
    ),
    (
        "diagonal_matmul", "A diagonal matrix, given by its diagonal, times a matrix: each row is scaled.",
        {"m": 4096, "n": 4096}, "m", "m, n", "a.unsqueeze(1) * b",
    ),
    (
        "symmetric_matmul", "Product of two symmetric matrices.", _SQUARE,
        "    a, b = torch.rand(n, n), torch.rand(n, n)\n    return [(a + a.T) / 2, (b + b.T) / 2]", "",
        "torch.matmul(a, b)",
    ),
    (
        "upper_triangular_matmul", "Product of two upper triangular matrices: a sixth of the dense work is needed.",
        _SQUARE, "    return [torch.triu(torch.rand(n, n)), torch.triu(torch.rand(n, n))]", "",
        "torch.triu(torch.matmul(a, b))",
    ),
    (
        "lower_triangular_matmul", "Product of two lower triangular matrices: a sixth of the dense work is needed.",
        _SQUARE, "    return [torch.tril(torch.rand(n, n)), torch.tril(torch.rand(n, n))]", "",
        "torch.tril(torch.matmul(a, b))",
    ),
    (
        "transposed_a_matmul", "A product whose left operand is stored transposed.",
        _SIDES, "k, m", "k, n", "torch.matmul(a.T, b)",
    ),
    (
        "transposed_b_matmul", "A product whose right operand is stored transposed.",
        _SIDES, "m, k", "n, k", "torch.matmul(a, b.T)",
    ),
    (
        "transposed_both_matmul", "A product whose operands are both stored transposed.",
        _SIDES, "k, m", "n, k", "torch.matmul(a.T, b.T)",
    ),
)  # fmt: skip

_ACTIVATIONS = (  # name, about, result
    ("relu", "ReLU.", "torch.relu(x)"),
    ("leaky_relu", "Leaky ReLU with a slope of 0.01.", "nn.functional.leaky_relu(x, negative_slope=0.01)"),
    ("sigmoid", "Sigmoid.", "torch.sigmoid(x)"),
    ("tanh", "Tanh.", "torch.tanh(x)"),
    ("softmax", "Softmax over rows that are longer than a block's shared memory.", "torch.softmax(x, dim=1)"),
    (
        "log_softmax",
        "Logarithm of the softmax over rows that are longer than a block's shared memory.",
        "torch.log_softmax(x, dim=1)",
    ),
    ("swish", "Swish, which eager PyTorch computes in two passes.", "x * torch.sigmoid(x)"),
    ("gelu", "GELU in its exact form.", "nn.functional.gelu(x)"),
    ("selu", "SELU.", "torch.selu(x)"),
    ("hard_sigmoid", "Hard sigmoid.", "nn.functional.hardsigmoid(x)"),
    ("softplus", "Softplus.", "nn.functional.softplus(x)"),
    ("softsign", "Softsign, which eager PyTorch computes in three passes.", "x / (1 + torch.abs(x))"),
    ("elu", "ELU with alpha 1.", "nn.functional.elu(x, alpha=1.0)"),
    ("hard_tanh", "Hard tanh between -1 and 1.", "nn.functional.hardtanh(x, min_val=-1.0, max_val=1.0)"),
)


def _level1() -> list[tuple[str, str]]:
    files = []
    for name, about, sizes, left, right, result in _PRODUCTS:
        unpacked = "SIZES.values()" if len(sizes) > 1 else 'SIZES["n"]'
        second = "b: torch.Tensor" if name != "matrix_scalar" else "s: float"
        inputs = f"torch.rand({left}), torch.rand({right})" if right else left
        model = _forward(f"a: torch.Tensor, {second}", result)
        files.append((name, _file(about, dict(sizes), unpacked, model, inputs)))
    rows = {"rows": 4096, "columns": 393216}
    for name, about, result in _ACTIVATIONS:
        model = _forward("x: torch.Tensor", result)
        files.append((name, _file(about, rows, "SIZES.values()", model, "torch.rand(rows, columns)")))
    return files


# -- sixteen_bit ------------------------------------------------------------------------------------------------------

_LINEARS = (  # name, about, m, n, k
    ("square_linear", "A linear layer of a square weight.", 4096, 4096, 4096),
    ("large_linear", "A large linear layer.", 8192, 8192, 8192),
    ("up", "From a language model's width to its feed-forward's.", 4096, 11008, 4096),
    ("down", "From a feed-forward's width back to the language model's.", 8192, 4096, 11008),
    ("prefill", "A linear layer on a thousand tokens.", 1024, 4096, 4096),
    ("short_prefill", "A linear layer on a few hundred tokens.", 256, 4096, 4096),
    ("decode", "A linear layer on one token each of sixteen sequences.", 16, 4096, 4096),
    ("up_gelu", "A linear layer and gelu behind it.", 4096, 11008, 4096),
    (
        "gated_pair",
        "The gated pair of a feed-forward: two products of the same tokens, one of them through silu.",
        4096,
        11008,
        4096,
    ),
)
_RESULTS = {
    "up_gelu": "functional.gelu(functional.linear(x, self.weight))",
    "gated_pair": "functional.silu(functional.linear(x, self.gate)) * functional.linear(x, self.up)",
}

_ATTENTION = (  # name, about, batch, heads, tokens, width
    ("attention", "Attention of every token to every token.", 4, 32, 4096, 128),
    ("causal_attention", "Attention of every token to those before it.", 4, 32, 4096, 128),
    ("short_attention", "Causal attention over short sequences of narrow heads.", 4, 16, 1024, 64),
)


def _sixteen_bit() -> list[tuple[str, str]]:
    def file(name: str, about: str, sizes: dict[str, int], model: str, inputs: str) -> tuple[str, str]:
        return name, _file(about, sizes, ", ".join(f'SIZES["{size}"]' for size in sizes), model, inputs)

    def rows(shape: str) -> str:
        return f"torch.randn({shape}, dtype=torch.bfloat16)"

    product = _forward("a: torch.Tensor, b: torch.Tensor", "torch.matmul(a, b)")
    about = "Product of two square matrices, both row-major."
    files = [file("square", about, dict.fromkeys("mnk", 4096), product, f"{rows('m, k')}, {rows('k, n')}")]
    for name, about, m, n, k in _LINEARS:
        weights = ("gate", "up") if name == "gated_pair" else ("weight",)
        made = "".join(f"        self.{weight} = nn.Parameter({rows('n, k')} / k**0.5)\n" for weight in weights)
        forward = _forward("x: torch.Tensor", _RESULTS.get(name, "functional.linear(x, self.weight)"))
        model = f"    def __init__(self) -> None:\n        super().__init__()\n{made}\n{forward}"
        files.append(file(name, about, {"m": m, "n": n, "k": k}, model, rows("m, k")))
    for name, about, *extents in _ATTENTION:
        causal = "" if name == "attention" else ", is_causal=True"
        result = f"functional.scaled_dot_product_attention(q, k, v{causal})"
        model = _forward("q: torch.Tensor, k: torch.Tensor, v: torch.Tensor", result)
        sizes = dict(zip(("batch", "heads", "tokens", "width"), extents, strict=True))
        files.append(file(name, about, sizes, model, f"{rows('batch, heads, tokens, width')} for _ in range(3)"))
    return files


# -- robust -----------------------------------------------------------------------------------------------------------

_BACKWARDS: tuple[tuple[str, str, str, dict[str, str]], ...] = (
    # name, its forward's file, about, replaced texts of its workloads
    (
        "layer_norm",
        "01_layer_norm",
        "Gradients of a layer norm over everything but the batch, of its weight and of its bias.",
        {
            "WORKLOADS = [": "WORKLOADS = ["
            '{"batch": 32, "channels": 64, "height": 256, "width": 256, "start": "random"}]\n'
            "WORKLOADS += [",
            "(1, 8)": "(16, 64)",
            "(1, 256, 256))\n": "(32, 512, 256))\n",
        },
    ),
    ("rms_norm", "03_rms_norm", "Gradients of rows divided by their root mean square, and of the weight.", {}),
    (
        "conv_relu_pool",
        "04_conv_relu_pool",
        "Gradients through maxima of windows, a cut at zero and a convolution of 3x3.",
        {},
    ),
    (
        "cross_entropy",
        "05_cross_entropy",
        "The gradient of a classifier's mean loss: a softmax less one in a column of each row.",
        {},
    ),
    ("linear", "06_linear", "Gradients of a linear layer's rows, weight and bias.", {}),
    (
        "linear_relu",
        "07_linear_relu",
        "Gradients of a linear layer that is cut off at zero: of its rows, weight and bias.",
        {
            '[{"batch": 64, "features": 1600, "outputs": 128, "start": "kaiming"}]\nWORKLOADS += [': "[",
            '((128, "kaiming"), (256, "xavier"))': '((10, "kaiming"), (4096, "xavier"))',
            "in (128, 512)": "in (128, 4096)",
        },
    ),
    ("max_pool", "08_max_pool", "Gradients that go where each window of 2x2 has its maximum.", {}),
    (
        "small_linear",
        "06_linear",
        "Gradients of a small linear layer's rows, weight and bias.",
        {
            "WORKLOADS = [": 'WORKLOADS = [{"batch": 64, "features": 128, "outputs": 128, "start": "kaiming"}]\n'
            "WORKLOADS += [",
            "(64, 4)": "(32, 128)",
            '((10, "kaiming"), (4096, "xavier"))': '((128, "kaiming"), (64, "xavier"))',
            "(128, 4096)": "(128, 64)",
        },
    ),
)


def _robust() -> list[tuple[str, str]]:
    forwards = {file.stem: file.read_text() for file in sorted(_FORWARDS.glob("*.py"))}
    files = [(name[3:], text) for name, text in forwards.items()]
    for name, forward, about, replaced in _BACKWARDS:
        text = forwards[forward]
        for old, new in replaced.items():
            text = text.replace(old, new, 1)
        _, below = text.split("\n", 1)
        files.append((f"{name}_backward", f'"""{about}"""\n{below}\n\nDIRECTION = "backward"\n'))
    return files
