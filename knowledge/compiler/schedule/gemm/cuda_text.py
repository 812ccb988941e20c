"""What the exemplars of the GEMM family get from a problem: its sections `header`, `problem` and `entry`.

Every exemplar of the family has these three, and reads the same names from them: M, N, K, LayoutA, LayoutB, LayoutC
and Epilogue, all static. What an exemplar's section `knobs` holds is its own recipe's affair.
"""

from __future__ import annotations

import re
from string import Template

from knowledge.compiler.emit.cuda_math import HELPERS
from knowledge.compiler.emit.source_text import argument_names, parameter_list
from knowledge.compiler.kernels.source import load
from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.gemm.form import NARROW, A, Axis, B, C, Form
from knowledge.compiler.schedule.gemm.source import bound, checks, epilogue, extents, headline, layout

ELEMENTS = {"float16": "half_t", "bfloat16": "bfloat16_t"}
"""The narrow types as CuTe calls them; float is the exemplars' own."""

ENTRY = Template("""\
namespace product {

// Shape, strides in elements and element type the kernel was written for; a dimension of 1 may have any stride.
void require(tvm::ffi::TensorView t, char const* name, std::initializer_list<int64_t> shape,
             std::initializer_list<int64_t> strides) {
  bool fits = t.ndim() == int(shape.size()) && t.dtype().code == $code && t.dtype().bits == 8 * sizeof(T);
  for (int i = 0; fits && i < t.ndim(); ++i) {
    fits = t.size(i) == shape.begin()[i] && (t.size(i) == 1 || t.stride(i) == strides.begin()[i]);
  }
  if (!fits) TVM_FFI_THROW(ValueError) << name << ": other shape, strides or element type than the kernel's";
  if (t.device().device_type != kDLCUDA) TVM_FFI_THROW(ValueError) << name << ": not in the GPU's memory";
}

T* data(tvm::ffi::TensorView t) {
  return reinterpret_cast<T*>(static_cast<char*>(t.data_ptr()) + t.byte_offset());
}

// A tensor that starts in the middle of a vector cannot be read or written by vectors.
T* aligned(tvm::ffi::TensorView t, char const* name, int elements) {
  if (reinterpret_cast<uintptr_t>(data(t)) % (elements * sizeof(T)) != 0) {
    TVM_FFI_THROW(ValueError) << name << ": its first element is not aligned to " << elements * sizeof(T) << " bytes";
  }
  return data(t);
}

}  // namespace product

void run($parameters) {
$checks
  product::launch($arguments, product::Epilogue{$bound}, $output.device()$second);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
""")


def render(problem: Problem, form: Form, plan: Plan, knobs: str, lines: tuple[str, ...]) -> str:
    """The exemplar that the plan's knob `kernel` names, for this problem. `lines` go into its header."""
    narrow = form.dtype in NARROW
    widths = (width(form, place, (8, 2) if narrow else (4, 2)) for place in (A, B, C))
    operands = zip(form.operands[:3], widths, strict=True)
    entry = ENTRY.substitute(
        code="kDLBfloat" if form.dtype == "bfloat16" else "kDLFloat",
        parameters=parameter_list(problem, argument_names(problem)),
        checks="\n".join(f"  product::require({each});" for each in checks(problem, form)),
        output=form.operands[C],
        arguments=", ".join(f'product::aligned({name}, "{name}", {elements})' for name, elements in operands),
        bound=", ".join(bound(problem, form, "product::")),
        second=_second(form),
    )
    header = "\n".join([*(f"// {line}" for line in (*headline(form), *lines)), plan.comment()])
    kernel = load(str(plan.knobs["kernel"]))
    sections = {"header": header, "problem": problem_text(problem, form), "entry": entry}
    return kernel.with_sections(**sections, **({"knobs": knobs} if knobs else {}))


def _second(form: Form) -> str:
    """The argument that only a pair of products has."""
    if form.second is None:
        return ""
    name = form.second.operand
    return f', product::aligned({name}, "{name}", {width(form, B, (8, 2))})'


def problem_text(problem: Problem, form: Form) -> str:
    """The section `problem`: extents, layouts and what follows the product."""
    rows, columns, depth = ("M", form.m), ("N", form.n), ("K", form.k)
    narrow, after = form.dtype in NARROW, epilogue(problem, form, "CUTE_HOST_DEVICE ")
    return "\n".join(
        [
            *([f"using T = {ELEMENTS[form.dtype]};"] if narrow else ()),
            *extents(form),
            f"using LayoutA = {layout(form, A, (rows, depth))};  // (M,K,L)",
            f"using LayoutB = {layout(form, B, (columns, depth))};  // (N,K,L)",
            f"using LayoutC = {layout(form, C, (rows, columns))};  // (M,N,L)",
            _quicker(after) if narrow else after,
        ]
    )


_SIGMOID = re.compile(r"(x|u|float\(1\)) / (\(float\(1\) \+ std::exp\(-[xu]\)\))")


def _quicker(text: str) -> str:
    """Sigmoids by an approximate reciprocal: exact to far more than the 16 bits that are kept."""
    quick = _SIGMOID.sub(r"\1 * reciprocal\2", text).replace("float(1) * reciprocal", "reciprocal")
    if quick == text:
        return text
    return HELPERS["reciprocal"].strip("\n") + "\n" + quick.replace("CUTE_HOST_DEVICE", "CUTE_DEVICE")


def width(form: Form, place: int, counts: tuple[int, ...] = (4, 2)) -> int:
    """Elements of an operand that one access can take: the first of `counts` that fits, wherever a tile starts, or 1.

    Along its contiguous dimension every extent, and across it every stride, must be a multiple of them.
    """
    lengthwise = contiguous(form, place)
    if lengthwise is None:
        return 1
    others = [axis.strides[place] for axis in (form.m, form.n, form.k, *form.batch) if axis is not lengthwise]
    sizes = (lengthwise.extent, *(stride for stride in others if stride))
    return next((count for count in counts if all(size % count == 0 for size in sizes)), 1)


def contiguous(form: Form, place: int) -> Axis | None:
    """The loop along which an operand's elements are neighbours, if there is one; K first, as the kernels take it."""
    own = {A: (form.k, form.m), B: (form.k, form.n), C: (form.n,)}[place]
    return next((axis for axis in own if axis.strides[place] == 1), None)
