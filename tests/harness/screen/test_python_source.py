"""The screen of foreign Python files: each rule with a file that it refuses and an honest one beside it."""

import time

import pytest
from python_texts import IEEE, LOAD_INLINE, SOFTMAX, TRITON, inline, module

from harness.screen.python_source import screen_python

MATMUL = frozenset({"matmul", "mm", "linear", "einsum"})

REFUSED = {
    "unreadable": ["def f(:", "x = 1\n\0"],
    "entry": ["import torch\n", "class Other:\n    pass\n"],
    "process": [module(top="import os"), module(top="import subprocess as s"), module("exit(0)")],
    "process ": [module("torch.os.system('ls')"), module("torch.utils.cpp_extension.subprocess.run('ls')")],
    "thread": [module(top="from threading import Thread"), module("torch.set_num_threads(1)")],
    "clock": [module(top="import time")],
    "file": [module("open('x')"), module("torch.save(x, 'x')"), module(top="from torch import load as l")],
    "introspection": [
        module(top="import sys"), module("return x.__class__"), module("return nn.Module.__subclasses__()"),
        module("return torch._C"), module("return x._cdata"),
        module(top="class A(nn.Module, metaclass=type):\n    pass"),
        module(top="class A:\n    def __getattr__(self, n):\n        return 1"), module("return __spec__"),
        module(top="from torch.testing import assert_close"),
    ],
    "loading": [module(top="import ctypes"), module(top="from torch.utils.cpp_extension import load")],
    "random": [module("torch.manual_seed(1)"), module(top="import random"), module("s = torch.manual_seed\ns(0)")],
    "vendor_library": [module(top="import numpy as np"), inline('"cublasCreate(&h);"')],
    "fallback": [module("try:\n    pass\nfinally:\n    pass"), module(top="import contextlib")],
    "stream": [
        module("s = torch.cuda.Stream()"), module(top="from torch.cuda import Event as E"),
        module("c = torch.cuda\nc.Event()"), module("getattr(torch.cuda, 'Stream')()"),
        module("x.record_stream(torch.cuda.current_stream())"),
    ],
    "compiler": [module(top="@torch.compile\ndef f(x):\n    return x"), module(top="import torch.fx"),
                 module("self.compile()")],
    "device_state": [module(top="torch.backends.cudnn.allow_tf32 = True"), module("torch.set_default_dtype(1)")],
    "lazy": [
        module(top="class T(torch.Tensor):\n    pass"), module("return x.as_subclass(torch.Tensor)"),
        module(top="from torch import Tensor as B\nclass T(B):\n    pass"),
        module(top="class A:\n    def __torch_function__(self):\n        return 1"),
    ],
    "dynamic": [
        module("'{0.b}'.format(x)"), module("'{a[0]}'.format_map(x)"), module("text.format(x)"),
        module("from functools import partial\nf = partial(getattr, torch)"), inline("*sources"),
        module(top="import functools\nf = functools.partial(getattr, 'softmax')"), inline(functions="['f), g(']"),
        module(top="from torch.utils.cpp_extension import load_inline as l\nf = [l]"),
        module(top="import typing\ntyping.get_type_hints(1)"), inline(functions="{'f': 'a\", 1)'}"),
        module(top="from torch.utils.cpp_extension import load_inline as l\nl('k', TEXT)"), module("exec('1')"),
        module("return getattr(torch, 'a' + 'b')(x)"), module("f = eval\nf('1')"),
        inline(functions="{'f': 'a word', 'g': 'a\", 1)'}"), inline(functions="{'f), g(': 'a word'}"), inline("3"),
        inline("'int x;', '', 'f), g('"),
        module("return globals()"), inline("'int ' + 'x;'"), inline("open_source"), module("return getattr"),
    ],
    "patch": [
        module(top="torch.allclose = print"), module(top="nn.Module.eval = print"), module("F.relu = print"),
        module("setattr(torch, 'a', 1)"), module(top="del torch.allclose"), module(top="torch.a, b = 1, 2"),
        module("x.register_hook(print)"), module(top="for torch.a in (1,):\n    pass"),
    ],
    "cache": [
        module("list(map(KEPT.append, [x]))", top="KEPT = []"), module("k = self.weight\nk.mul_(2)"),
        module(top="CALLS = iter(range(9))"), module(top="def g():\n    yield 1\nCALLS = g()"),
        module("self.kept = x"), module("self.kept[0] = x"), module("self.seen.append(x)"),
        module("KEPT[0] = x", top="KEPT = {}"), module("KEPT.setdefault(1, x)", top="KEPT = {}"),
        module("global a\na = x"), module("key = x.data_ptr()"), module("return {x.data_ptr(): 1}"),
        module("if id(x): return x"), module(top="def f(x, kept={}):\n    return kept"),
        module(top="from functools import cache"), module(top="import functools\n@functools.cache\ndef f():\n    pass"),
        module("self.calls += 1"),
    ],
    "reference": [
        module(bases="Model", top="class Model(nn.Module):\n    pass"), module(bases="nn.Linear"),
        module("return Model()(x)", top="class Model(nn.Module):\n    pass"),
    ],
    "precision": [module("return x.half()"), module("return x.to(torch.bfloat16)"), inline('"at::Half h; __half g;"')],
    "import": [module(top="import requests_like"), module(top="from torch import *"), module(top="from . import a")],
    "operator": [
        module("return torch.softmax(x, 1)"), module("return x.softmax(1)"), module("return F.softmax(x, 1)"),
        module("f = F.softmax\nreturn f(x, 1)"), module("return nn.Softmax(1)(x)"), module("return x.softmax_(1)"),
        module("return self.act(x)", init="self.act = nn.Softmax(1)"), module("return torch.special.softmax(x, 1)"),
        module("return softmax(x, 1)", top="from torch import softmax"),
        module("return torch.ops.aten.add(x, x)"),
        inline('"at::softmax(x, 1);"'), inline('"x.softmax(1);"'), inline('"torch::nn::functional::softmax(x);"'),
        module("return (x + 1).softmax(1)"), module("return type(x).softmax(x, 1)"),
        module("for f in self.all:\n    x = f(x)\nreturn x", init="self.all = [nn.Softmax(1)]"),
        module("return self.act(x)", init="made = nn.Softmax(1)\nself.act = made"),
        module("return self.act.forward(x)", init="self.act = nn.Softmax(1)"),
        inline('"auto f = &at::Tensor::softmax;"'),
        inline('"#define GO softmax\\nauto y = x.GO(1);"'), inline('"auto y = softmax(x, 1);"'),
        inline('"namespace n = at; n::softmax(x, 1);"'), inline('"using namespace at;"'),
        inline('"return softmax(x, 1);"'),
    ],
    "option": [
        module(top=LOAD_INLINE + "load_inline(**OPTIONS)"),
        inline(extra_ldflags="['-lcublas']"), inline(extra_cflags="['-DX=1']"), inline(build_directory="'/'")],
    "fast_math": [inline(extra_cuda_cflags="['--use_fast_math']"), inline('"__expf(x);"')],
    "assembly": [inline('"asm(TEXT);"')],
}  # fmt: skip

USUAL = """
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

softmax_source = '''
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_runtime.h>

template <typename scalar_t>
__global__ void softmax_kernel(const scalar_t* in, scalar_t* out, int columns) { out[0] = expf(in[0]); }

torch::Tensor softmax_cuda(torch::Tensor x) {
  TORCH_CHECK(x.is_contiguous(), "contiguous");
  auto out = torch::zeros_like(x);
  auto stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "softmax", ([&] {
    softmax_kernel<scalar_t><<<x.size(0), 256, 0, stream>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), 1);
  }));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
'''

softmax = load_inline(
    name="softmax", cpp_sources="torch::Tensor softmax_cuda(torch::Tensor x);", cuda_sources=softmax_source,
    functions=["softmax_cuda"], verbose=True, extra_cflags=[""], extra_ldflags=[""],
)


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.softmax = softmax

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.softmax.softmax_cuda(x.contiguous())


def get_inputs():
    return [torch.randn(16, 16384).cuda()]
"""

HONEST = {
    "parameters called as functions of Python": module(top="def f(input, dir, id):\n    return input * id"),
    "an input called so": module("return input * 2").replace("(self, x)", "(self, input)"),
    "locals called as functions of Python": module("hash = 3\nfor id in range(3):\n    x = x + id * hash\nreturn x"),
    "the same in a comprehension": module("return sum([id for id in range(3)]) * x"),
    "the same at the top": module(top="def compile(x):\n    return x\ndef f(x):\n    return compile(x)"),
    "a main program": module() + "\nif __name__ == '__main__':\n    input = torch.randn(3)\n"
    "    print(ModelNew()(input))",
    "a sum by name": module("return torch.add(x, 1)"),
    "in place on what was just made": module("return torch.mul(x, 3).mul_(2)"),
    "a local with an import's name": module("N, F = x.shape\nreturn x * F"),
    "inputs with gradients": module() + "\ndef get_inputs():\n    x = torch.randn(3)\n    x.requires_grad = True\n"
    "    return [x]",
    "a tuned triton kernel": module(
        "k[lambda meta: (triton.cdiv(x.numel(), meta['B']),)](x)\nreturn x",
        top=TRITON + "@triton.autotune(configs=[triton.Config({'B': 64}, num_warps=4)], key=['n'])\n@triton.jit\n"
        "def k(x, n, B: tl.constexpr):\n    a = tl.exp(x - tl.max(x, 0))\n    tl.store(x, tl.softmax(a))",
    ),
    "triton's own name for it": module(top="from triton import jit\nimport triton.language as tl\n@jit\ndef h(a):\n"
                                       "    return tl.softmax(a)"),
    "a module's alias": module(top="cpp = torch.utils.cpp_extension\nk = cpp.load_inline('k', 'int x;')"),
    "an extension made in __init__": module(
        "return self.ops.softmax(x)", top=LOAD_INLINE,
        init="self.ops = load_inline('k', 'int x;', functions=['softmax'])",
    ),
    "a closure of one call": module("rows = []\ndef add(y):\n    rows.append(y)\nadd(x)\nreturn rows[0]"),
    "a closure that reads": module("k = 3\ndef g(y):\n    return y * k\nreturn g(x)"),
    "own lists": module("a = [1]\nb = a\nb.append(2)\nreturn x"),
    "what cannot be changed as a default": module(
        top="DEVICE = torch.device('cpu')\ndef f(x, device=DEVICE):\n    return x"
    ),
    "weights of all modules": module(
        "return x * self.w.weight", init="self.w = nn.Linear(2, 2)\nfor m in self.modules():\n    print(m.weight)"
    ),
    "a lambda's own list": module("f = lambda rows: rows.append(x)\nf([])\nreturn x"),
    "a list without a name": module("[1].append(2)\nreturn next(iter([x]))"),
    "a module that is made and never called": module(init="self.act = nn.Softmax(1)"),
    "private methods of one's own": module("return self._go(x)\n\ndef _go(self, x):\n    return x"),
    "a triton kernel's methods": module(top=TRITON + "@triton.jit\ndef k(x):\n    tl.store(x, x.softmax(0))"),
    "a list of sources by its name": module(top=LOAD_INLINE + "S = ['int a;', 'int b;']\nload_inline('k', S)"),
    "a source used twice": module(top=LOAD_INLINE + "S = 'int a;'\nload_inline('k', S)\nload_inline('l', S)"),
    "functions with their words": inline(functions="{'f': 'What it does, in words.'}"),
    "no functions": inline(functions="None"),
    "a triton kernel's own lists": module(top=TRITON + "@triton.jit\ndef k(x):\n    a = [1, 2]\n    a[0] = 2"),
    "numbers as defaults": module(top="EPS = 1e-5\ndef f(x, eps=EPS):\n    return x + eps"),
    "the reference with its super": module(
        top="class Model(nn.Module):\n    def __init__(self):\n        super(Model, self).__init__()\n"
        "        self.s = nn.Softmax(1)"
    ),
    "the current stream": module(
        "kernel(x.data_ptr(), torch.cuda.current_stream().cuda_stream)\nreturn x", top="def kernel(*a):\n    pass"
    ),
    "buffers": module("return x * self.b", init="self.register_buffer('b', torch.zeros(3))"),
    "the usual form of such answers": USUAL,
    "weights in a module that is never called": module("return x * self.w.weight", init="self.w = nn.Linear(2, 2)"),
    "a method of that name": module("return self.softmax(x)\n\ndef softmax(self, x):\n    return x"),
    "a kernel of that name": inline('"void softmax(torch::Tensor x) { auto p = x.data_ptr<float>(); }"'),
    "an extension kept by the module": module(
        "return self.k.softmax(x)",
        top="from torch.utils.cpp_extension import load_inline\nk = load_inline('k', 'int x;', functions=['softmax'])",
        init="self.k = k",
    ),
    "a triton kernel": module(
        "y = torch.empty_like(x)\nkernel[(1,)](x, y)\nreturn y",
        top="import triton\nimport triton.language as tl\n"
        "@triton.jit\ndef kernel(x, y, N: tl.constexpr):\n    tl.store(y, tl.softmax(tl.load(x)))",
    ),
    "an address for a kernel": module("kernel(x.data_ptr(), x.numel())\nreturn x", top="def kernel(*a):\n    pass"),
    "autograd": module(
        "return Twice.apply(x)",
        top="class Twice(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        ctx.n = 1\n"
        "        return x * 2",
    ),
    "local state": module("kept = {}\nkept[0] = x\nrows = []\nrows.append(x)\nreturn kept[0]"),
    "the reference beside it": module(
        top="class Model(nn.Module):\n    def forward(self, x):\n        return F.softmax(x, 1)"
    ),
    "typing and math": module(
        "return x * math.pi", top="import math\nfrom typing import Optional\nfrom functools import partial"
    ),
    "words in texts": module('return x  # exec("softmax")', top='"""try: import os"""'),
    "options": inline(
        extra_cflags="['-O3', '-march=native']", with_cuda="False", verbose="True", functions="['softmax']"
    ),
    "torch in C++": inline('"#include <torch/extension.h>\\nTORCH_CHECK(true); auto y = torch::empty_like(x);"'),
    "a list of sources": inline("[A, B]").replace("import torch\n", "import torch\nA = 'int a;'\nB = 'int b;'\n", 1),
    "sleeping parameters": module("self.w.data\nreturn x", init="self.w = nn.Parameter(torch.empty(2))"),
}  # fmt: skip


def cases(table):
    return [
        pytest.param(kind.strip(), source, id=f"{kind}-{k}") for kind in table for k, source in enumerate(table[kind])
    ]


@pytest.mark.parametrize(("kind", "source"), cases(REFUSED))
def test_refused_by_its_kind(kind, source):
    refusal = screen_python(source, SOFTMAX, IEEE)
    assert refusal is not None
    assert refusal.kind == kind, refusal


@pytest.mark.parametrize("name", HONEST)
def test_its_honest_twin_passes(name):
    assert screen_python(HONEST[name], SOFTMAX, IEEE) is None


def test_the_first_offence_by_its_line_is_told():
    refusal = screen_python(module("exec('1')\nreturn x.half()", top="import os"), SOFTMAX, IEEE)
    assert (refusal.kind, refusal.line) == ("process", 4)


def test_what_changes_a_fresh_result_in_place_keeps_nothing():
    source = module("return F.linear(x, x).relu_()")
    refusal = screen_python(source, frozenset({"linear"}), IEEE)
    assert (refusal.check, "linear" in refusal.message) == ("screen:operator", True)


def test_only_the_tasks_own_operators_are_its_own():
    source = module("return torch.relu(x) @ x")
    assert screen_python(source, SOFTMAX, IEEE) is None
    assert screen_python(source, MATMUL, IEEE).kind == "operator"


def test_types_that_the_task_has_may_be_used():
    source = module("return x.half()")
    assert screen_python(source, SOFTMAX, frozenset({"float16", "ieee"})) is None


def test_the_line_is_that_of_the_file_inside_an_inline_source_too():
    source = module(top='from torch.utils.cpp_extension import load_inline\nSOURCE = """\n\nsystem(0);\n"""\n'
                    "load_inline('k', SOURCE)")  # fmt: skip
    refusal = screen_python(source, SOFTMAX, IEEE)
    assert refusal.kind == "process"
    assert source.splitlines()[refusal.line - 1] == "system(0);"


def test_it_is_quick():
    source = module("\n".join(f"x = x + {i} * x" for i in range(2000)) + "\nreturn x")
    started = time.process_time()
    assert screen_python(source, SOFTMAX, IEEE) is None
    assert time.process_time() - started < 10.0  # 0.2 s on an idle machine


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("self.mean.mul_(0.9).add_(x[0], alpha=0.1)", False),
        ("self.mean.copy_(x[0])", False),
        ("self.mean = self.mean + x[0]", False),
        ("self.mean *= 0.9", False),
        ("self.mean[1:] = x[0, 1:]", False),
        ("self.norm.count += 1", False),
        ("self.other.copy_(x[0])", True),
        ("self.other = x", True),
        ("self.mean.kept = x", True),
        ("self.mean.set_(x)", True),
        ("self.rows[self.mean] = x", True),
        ("self.mean.setdefault(1, x)", True),
        ("self.an.copy_(x[0])", True),
    ],
)
def test_a_forward_may_store_what_the_task_s_forward_writes_and_nothing_else(line, refused):
    """Those buffers are outputs, and are set anew before each call: nothing can be kept in them."""
    source, state = module(f"{line}\nreturn x"), frozenset({"mean", "norm.count"})
    found = screen_python(source, SOFTMAX, IEEE, state)
    assert (found.kind if found else "") == ("cache" if refused else "")
    assert screen_python(source, SOFTMAX, IEEE).kind == "cache"
