"""What every kernel of attention has in its text: extents, where a head's operands begin, the terms of its scores."""

from __future__ import annotations

from math import prod
from string import Template

from knowledge.compiler.emit import source_text
from knowledge.compiler.emit.elements import STORED_TYPES
from knowledge.compiler.emit.source_text import decoded, indented, static_int, tensor_names, truth
from knowledge.compiler.emit.spelling import View, Views, spelled
from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.nodes import elements, reads
from knowledge.compiler.passes.loops import Nest, Place
from knowledge.compiler.problem import Problem, Scalar, Tensor
from knowledge.compiler.schedule.attention.match import Attention, Operand

FAR = 2**31
# What `constants` gives, in the section `problem` of every kernel.
CONSTANTS = """\
constexpr int Heads = $heads;          // of Q, all batches together
constexpr int Rows = $rows;          // of Q
constexpr int Keys = $keys;          // rows of K and V
constexpr int Inner = $inner;            // columns of Q and K
constexpr int Outer = $outer;            // columns of V
constexpr float Scale = $scale;  // of the scores, above 0
constexpr bool Causal = $causal;      // a row sees the keys up to row + Diagonal
constexpr int Diagonal = $diagonal;
constexpr int Prefix = $prefix;       // the first keys, which all rows see beyond that
constexpr bool Windowed = $windowed;    // a row sees the keys from row + First on
constexpr int First = $first;
constexpr int Sinks = $sinks;        // the first keys, which all rows see before that
constexpr bool Safe = $safe;         // a row that sees no key is 0 instead of NaN
"""
# `device` marks a function that runs where the kernel does.
PROBLEM = Template(
    CONSTANTS
    + """\
constexpr bool Plain = $plain;        // there are no terms: a score is the product times the scale
constexpr bool Tested = $tested;      // the terms hide keys besides: `shown` is 0 for these
$strides

// What else the scores are made of.
struct Terms {$fields};

// Where a head's operands begin.
struct Places {
  int64_t q, k, v, o;
};
$device Places places_of([[maybe_unused]] int head) {
$places
}
"""
)


def problem_text(problem: Problem, form: Attention, names: dict[str, str], device: str) -> str:
    """The section `problem` up to the function that computes a score."""
    return PROBLEM.substitute(
        constants(form), plain=truth(form.score is None), tested=truth(form.shown is not None),
        strides="\n".join(strides(form)), device=device,
        fields=fields(problem, form, names), places="\n".join(indented(places(form))),
    )  # fmt: skip


def comment(form: Attention, tile: str) -> list[str]:
    """The header's lines: what is computed, and by which tile."""
    heads = " x ".join(str(axis.extent) for axis in form.heads) or "1"
    first, last, sinks, prefix = form.band
    mask = f", each row from key row + {first} on" if first is not None else ""
    mask += f" and all before key {sinks}" if sinks else ""
    mask += f", each row up to key row + {last}" if last is not None else ""
    mask += f" and all before key {prefix}" if prefix else ""
    mask += ", tiles left out where the terms hide all keys" if form.shown else ""
    return [
        f"softmax(q k^T) v of {heads} heads, {form.row.extent} rows, {form.key.extent} keys{mask}.",
        f"  {form.dtype}, {form.inner} columns of q and k, {form.outer} of v",
        f"  tile: {tile}",
    ]


def operands(form: Attention) -> dict[str, Operand]:
    """By the letters that the kernels have for them."""
    return {"q": form.q, "k": form.k, "v": form.v, "o": form.output}


def far(form: Attention) -> bool:
    """Whether an index among the score's terms needs 64 bits."""
    if form.score is None:
        return False
    ends = [abs(end) for read in reads(form.score) for end in nest_of(form, form.score).address(read).bounds]
    return max(ends, default=0) >= FAR


def nest_of(form: Attention, node: Node) -> Nest:
    """The loops that a score, or what is known of its key, is computed in, as a kernel's that stores it."""
    stores = (Place(form.output.tensor, form.output.start, node),)
    return Nest((*form.heads, form.row), (form.key,), (), stores, form.memory)


def constants(form: Attention) -> dict[str, str | int]:
    """Type, extents, scale and mask, by the names that templates of the section `problem` have for them."""
    first, last, sinks, prefix = form.band
    return {
        "type": STORED_TYPES[form.dtype], "heads": prod(axis.extent for axis in form.heads),
        "rows": form.row.extent, "keys": form.key.extent, "inner": form.inner, "outer": form.outer,
        "scale": f"{form.scale!r}f", "causal": truth(last is not None), "diagonal": last or 0,
        "sinks": sinks, "prefix": prefix,
        "windowed": truth(first is not None), "first": first or 0,
        "safe": truth(form.safe),
    }  # fmt: skip


def strides(form: Attention) -> list[str]:
    """Of rows and columns: of q, k, v and the result."""
    steps = {name: (static_int(each.row), static_int(each.column)) for name, each in operands(form).items()}
    return [f"using Strides{name.upper()} = Stride<{row}, {column}>;" for name, (row, column) in steps.items()]


def places(form: Attention) -> list[str]:
    """The body of `places_of`."""
    starts = ", ".join(spelled(each.start, no_data) for each in operands(form).values())
    return [*decoded(form.heads, "head"), f"return {{{starts}}};"]


def no_data(_: object) -> str:
    """What names computed numbers in the places of a head's operands: there are none."""
    raise AssertionError("an operand's start is computed from no data")


def terms_of(problem: Problem, form: Attention) -> tuple[list[Tensor], list[Scalar]]:
    """The arguments that the scores are also made of."""
    if form.score is None:
        return [], []
    tensors = {form.memory[id(read.value)].name: form.memory[id(read.value)] for read in reads(form.score)}
    used = {node.op for node in elements(form.score) if node.kind == "scalar"}
    return list(tensors.values()), [each for each in problem.inputs if isinstance(each, Scalar) and each.name in used]


def fields(problem: Problem, form: Attention, names: dict[str, str]) -> str:
    """The members of `Terms`."""
    tensors, scalars = terms_of(problem, form)
    stems = tensor_names(names)
    fields = [f"{STORED_TYPES[each.dtype]} const* p{stems[each.name]};" for each in tensors]
    fields += [f"{source_text.SCALAR_TYPES[each.type]} {names[each.name]};" for each in scalars]
    return "\n" + "\n".join(indented(fields)) + "\n" if fields else ""


def given_terms(problem: Problem, form: Attention, names: dict[str, str]) -> str:
    """`Terms` of the arguments."""
    tensors, scalars = terms_of(problem, form)
    terms = [f"static_cast<{STORED_TYPES[each.dtype]} const*>({names[each.name]}.data_ptr())" for each in tensors]
    return f"Terms{{{', '.join([*terms, *(names[each.name] for each in scalars)])}}}"


def term_tensors(made: Views, start: str) -> list[str]:
    """The tensors among the terms; `start` is how a pointer to the first element is made of `{}`."""
    return [
        f"Tensor m{view.name} = make_tensor({start.format(_first(made, view))}, {view.layout()});  // {view.comment()}"
        for view in made.made.values()
    ]


def _first(made: Views, view: View) -> str:
    return f"terms.p{made.stems[view.tensor.name]}{f' + {view.offset}' if view.offset else ''}"
