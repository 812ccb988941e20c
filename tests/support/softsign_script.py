"""A small task and the kernels that scripted models write for it: one of every kind that a run can meet.

The markers in them say to a scripted judge what a real one finds out.
"""

from __future__ import annotations

import json

SOURCE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x / (1 + torch.abs(x))


def get_inputs():
    return [torch.randn(64, 256)]


def get_init_inputs():
    return []
"""

KERNEL = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <cstdint>

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView output) {
    const float* in = static_cast<const float*>(x.data_ptr());
    float* out = static_cast<float*>(output.data_ptr());
    const int64_t count = 64 * 256;
    // LOOP
    for (int64_t i = 0; i < count; ++i) {
        const float v = in[i];
        out[i] = v / (1.0f + std::fabs(v));
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""

_BODY = "        const float v = in[i];\n        out[i] = v / (1.0f + std::fabs(v));\n"


def serial(times: int) -> str:
    """A right kernel that does its work `times` times over."""
    body = (
        f"        // judge: passed {20 / times:g}x\n"
        f"        for (volatile int again = 0; again < {times}; again = again + 1) {{\n"
        "            const volatile float v = in[i];\n"
        "            out[i] = v / (1.0f + std::fabs(v));\n"
        "        }\n"
    )
    assert _BODY in KERNEL
    return KERNEL.replace(_BODY, body)


# Factors of ten apart, and too small a task for PyTorch to use threads on: what is faster stays so on a busy machine.
RIGHT = serial(20)
SLOWER = serial(300)
FASTER = KERNEL.replace("// LOOP", "#pragma omp simd  // judge: passed 3x")
WRONG = RIGHT.replace("1.0f + std::fabs(v));", "2.0f + std::fabs(v));  // judge: wrong")
UNKNOWN = "= rows * 256;  // judge: build_failed 'rows' was not declared in this scope"
DOES_NOT_COMPILE = WRONG.replace("= 64 * 256;", UNKNOWN)


def written(source: str, move: str = "") -> str:
    """A generator's or optimizer's answer."""
    return f"{f'MOVE: {move} - it should help' if move else 'Here it is.'}\n\n```cpp\n{source}```\n"


def line_of(source: str, part: str) -> int:
    """The number of the only line that contains `part`."""
    [number] = [number for number, line in enumerate(source.splitlines(), start=1) if part in line]
    return number


def edited(source: str, part: str, text: str) -> str:
    """A repairer's answer that puts `text` in the place of the line that contains `part`."""
    number = line_of(source, part)
    expected = source.splitlines()[number - 1]
    return json.dumps({"edits": [{"kind": "replace", "line": number, "expected": expected, "text": text}]})


def diagnosed(cause: str) -> str:
    """A diagnoser's answer."""
    return json.dumps(
        {"intent": "softsign", "cause": cause, "evidence": "the report", "fix": "one line", "proof": "it passes"}
    )


def with_constant(value: int) -> str:
    """The right kernel with another number in the place of its 1."""
    return RIGHT.replace("            out[i] = v / (1.0f + std::fabs(v));", constant_line(value))


def constant_line(value: int) -> str:
    """The line of `with_constant` that holds the number."""
    return f"            out[i] = v / ({value}.0f + std::fabs(v));{'' if value == 1 else '  // judge: wrong'}"
