"""Files with a `ModelNew`, written from their parts."""

import textwrap

IEEE = frozenset({"float32", "ieee"})
SOFTMAX = frozenset({"softmax", "softmin", "safesoftmax"})
LOAD_INLINE = "from torch.utils.cpp_extension import load_inline\n"
TRITON = "import triton\nimport triton.language as tl\n"


def module(body="return x * 2", top="", init="self.scale = 2", bases="nn.Module"):
    return "\n".join(
        [
            "import torch",
            "from torch import nn",
            "import torch.nn.functional as F",
            textwrap.dedent(top),
            f"class ModelNew({bases}):",
            "    def __init__(self):",
            "        super().__init__()",
            textwrap.indent(textwrap.dedent(init), "        "),
            "    def forward(self, x):",
            textwrap.indent(textwrap.dedent(body), "        "),
        ]
    )


def inline(cpp='"int x;"', **options):
    more = "".join(f", {name}={value}" for name, value in options.items())
    top = f"from torch.utils.cpp_extension import load_inline\nkernels = load_inline('k', {cpp}{more})"
    return module("return kernels.softmax(x)", top=top)
