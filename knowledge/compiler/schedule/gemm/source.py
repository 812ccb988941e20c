"""What every kernel of the GEMM family shares: header, types, layouts, the epilogue and the entry point."""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import Template

from knowledge.compiler.emit.source_text import argument_names, integers, parameter_list
from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Problem, Scalar, Tensor
from knowledge.compiler.schedule.gemm import lanes as gemm_lanes
from knowledge.compiler.schedule.gemm.form import BYTES, NARROW, SCALAR_PREFIX, Axis, Form

PLACES = ("A", "B", "C")

FRAME = Template("""\
$header
$plan
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <new>
$includes
#include <cute/tensor.hpp>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#define UNROLL _Pragma("GCC unroll 64")

namespace {

using namespace cute;

$types
$layouts

$epilogue

$kernel

// Shape, strides in elements and element type the kernel was written for; a dimension of 1 may have any stride.
void require(tvm::ffi::TensorView t, char const* name, std::initializer_list<int64_t> shape,
             std::initializer_list<int64_t> strides) {
  bool fits = t.ndim() == int(shape.size()) && t.dtype().code == kDLFloat && t.dtype().bits == 8 * sizeof(T);
  for (int i = 0; fits && i < t.ndim(); ++i) {
    fits = t.size(i) == shape.begin()[i] && (t.size(i) == 1 || t.stride(i) == strides.begin()[i]);
  }
  if (!fits) TVM_FFI_THROW(ValueError) << name << ": other shape, strides or element type than the kernel's";
}

T* data(tvm::ffi::TensorView t) {
  return reinterpret_cast<T*>(static_cast<char*>(t.data_ptr()) + t.byte_offset());
}

}  // namespace

void run($parameters) {
$checks
  kernel($arguments);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
""")

VECTOR = """\
using T = {element};
constexpr int V = {lanes};  // elements in one SIMD register
using Vec = T __attribute__((vector_size(V * sizeof(T))));
// The same at any address.
using VecU = T __attribute__((vector_size(V * sizeof(T)), aligned(alignof(T)), may_alias));"""

SINGLE = """\
using T = {element};
constexpr int V = 1;  // one element at a time
using Vec = T;
using VecU = T;"""

WORKSPACE = """\
// A thread's own aligned buffer.
struct Workspace {
  explicit Workspace(size_t count) : data(static_cast<T*>(std::aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64))) {
    if (data == nullptr) throw std::bad_alloc();
  }
  ~Workspace() { std::free(data); }
  Workspace(Workspace const&) = delete;
  T* data;
};"""


@dataclass(frozen=True)
class Body:
    """What a kernel adds to the frame: its header lines below the first, its layouts and its functions.

    `kernel(A, B, C, epilogue)` is the function the entry point calls. `lane_steps`: it calls `epilogue.lanes`.
    """

    lines: tuple[str, ...]
    lanes: int
    layouts: str
    code: str
    includes: tuple[str, ...] = ()
    lane_steps: bool = False


def element(form: Form) -> str:
    """The element type in C++."""
    return "float" if form.dtype == "float32" else "double"


def integer(value: int) -> str:
    """A static integer as CuTe spells it."""
    return f"_{value}" if value in (0, 1) else f"Int<{value}>"


def layout(form: Form, place: int, axes: tuple[tuple[str, Axis], ...]) -> str:
    """The operand's static layout over the named axes and, where there are any, the batch loops."""
    shape = [name for name, _ in axes]
    stride = [integer(axis.strides[place]) for _, axis in axes]
    if form.batch:
        shape.append("L")
        inner = [integer(axis.strides[place]) for axis in reversed(form.batch)]
        stride.append(inner[0] if len(inner) == 1 else f"Stride<{', '.join(inner)}>")
    else:
        shape.append("_1")
        stride.append("_0")
    return f"Layout<Shape<{', '.join(shape)}>, Stride<{', '.join(stride)}>>"


def extents(form: Form) -> list[str]:
    """`using` lines for M, N, K and L (the batch loops, the fastest first)."""
    lines = [f"using {name} = Int<{axis.extent}>;" for name, axis in (("M", form.m), ("N", form.n), ("K", form.k))]
    if len(form.batch) == 1:
        lines.append(f"using L = Int<{form.batch[0].extent}>;")
    elif form.batch:
        lines.append(f"using L = Shape<{', '.join(f'Int<{axis.extent}>' for axis in reversed(form.batch))}>;")
    return lines


def render_frame(problem: Problem, form: Form, plan: Plan, body: Body) -> str:
    """The whole source file."""
    arguments = [*(f"data({name})" for name in form.operands[:3]), f"Epilogue{{{', '.join(bound(problem, form))}}}"]
    vector = VECTOR if body.lanes > 1 else SINGLE
    return FRAME.substitute(
        header="\n".join(f"// {line}".rstrip() for line in (*headline(form), *body.lines)),
        plan=plan.comment(),
        includes="".join(f"#include <{name}>\n" for name in body.includes),
        types=vector.format(element=element(form), lanes=body.lanes),
        layouts=body.layouts,
        epilogue=epilogue(problem, form, lanes=body.lanes if body.lane_steps else 1),
        kernel=body.code,
        parameters=parameter_list(problem, argument_names(problem)),
        checks="\n".join(f"  require({each});" for each in checks(problem, form)),
        arguments=", ".join(arguments),
    )


def checks(problem: Problem, form: Form) -> list[str]:
    """For every tensor that is read or written the arguments of `require`: itself, its name, its shape, its strides.

    Not for the others: they may be of any type, as a batch norm's counter is.
    """
    names = argument_names(problem)
    tensors = [(names[each.name], each) for each in problem.arguments if isinstance(each, Tensor)]
    tensors = [(name, tensor) for name, tensor in tensors if name in form.operands]
    return [f'{name}, "{name}", {integers(tensor.shape)}, {integers(tensor.strides)}' for name, tensor in tensors]


def bound(problem: Problem, form: Form, scope: str = "") -> list[str]:
    """What the epilogue is made with: its operands' pointers, then its scalars. `scope` stands before our names."""
    names = argument_names(problem)
    pointers = [f"{scope}data({name})" for name in form.extras]
    number = "float" if form.dtype in NARROW else f"{scope}T"
    return pointers + [f"{number}({names[scalar.name]})" for scalar in _used(problem, form)]


def headline(form: Form) -> tuple[str, ...]:
    """What a kernel computes, of which sizes, with how many FLOPs and bytes."""
    a, b, c = form.operands[:3]
    sizes = f"M={form.m.extent} N={form.n.extent} K={form.k.extent}"
    what = f"{c}(m,n,l) = sum over k of {a}(m,k,l) * {b}(n,k,l)"
    if form.second:
        what += f", u = sum over k of {a}(m,k,l) * {form.second.operand}(n,k,l)"
        what += "".join(f"; {code}" for code in form.second.codes)
    what += "".join(f"; {code}" for code in form.codes)
    if form.triangle:
        sign = ">=" if form.triangle.half == "upper" else "<="
        what += f"; kept where n - m {sign} {form.triangle.offset}, else 0"
    size = BYTES[form.dtype]
    moved = sum(_touched(form, place) for place in range(len(form.operands))) * size
    return (
        what,
        f"{sizes} L={form.batches}, {form.dtype}: {form.flops} FLOPs, {moved} bytes (every operand once)",
    )


def _touched(form: Form, place: int) -> int:
    """Elements of an operand: the product of the extents along which it moves."""
    count = 1
    for axis in form.axes:
        count *= axis.extent if axis.strides[place] else 1
    return count


def _used(problem: Problem, form: Form) -> list[Scalar]:
    """The scalars that the steps name."""
    text = " ".join((*form.codes, *(form.second.codes if form.second else ())))
    names = argument_names(problem)
    scalars = [argument for argument in problem.inputs if isinstance(argument, Scalar)]
    return [scalar for scalar in scalars if re.search(rf"\b{SCALAR_PREFIX}{names[scalar.name]}\b", text)]


def epilogue(problem: Problem, form: Form, qualifier: str = "", lanes: int = 1) -> str:
    """A functor: what follows the product, on one element. `qualifier` stands before its call operator.

    With `lanes` it has a member for a register of so many elements, too.

    On narrow types it takes the sum in float32, and rounds once at its end. A second product's comes as the last one.
    """
    names = argument_names(problem)
    scalars = [SCALAR_PREFIX + names[scalar.name] for scalar in _used(problem, form)]
    places = range(3, len(form.operands))
    narrow = form.dtype in NARROW
    number = "float" if narrow else "T"
    layouts = [f"using LayoutD{i - 3} = {layout(form, i, (('M', form.m), ('N', form.n)))};  // (M,N,L)" for i in places]
    members = [f"  T const* D{i - 3};  // {form.operands[i]}" for i in places]
    members += [f"  {number} {name};" for name in scalars]
    loads = [f"    {number} const d{i - 3} = D{i - 3}[LayoutD{i - 3}{{}}(m, n, l)];" for i in places]
    steps = [f"    {code};" for code in form.second.codes] if form.second else []
    steps += [f"    {code};" for code in form.codes]
    if narrow:
        steps = [re.sub(r"\bT\(", "float(", step) for step in steps]
    last = "    return T(x);" if narrow else "    return x;"
    if form.triangle:
        sign = ">=" if form.triangle.half == "upper" else "<="
        last = f"    return n - m {sign} {form.triangle.offset} ? {'T(x)' if narrow else 'x'} : T(0);"
    coordinates = ", ".join(f"[[maybe_unused]] int {name}" for name in "mnl")
    both = f", {number} u = 0" if form.second else ""
    head = f"  {qualifier}T operator()({number} x, {coordinates}{both}) const {{"
    struct = ["// What follows the product, on one element.", "struct Epilogue {", *members, head, *loads, *steps, last]
    before = [gemm_lanes.functions(form, lanes)] if lanes > 1 else []
    more = gemm_lanes.member(form) if lanes > 1 else []
    return "\n".join([*before, *layouts, *struct, "  }", *more, "};"])
