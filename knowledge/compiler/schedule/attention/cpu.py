"""Attention for processors: the sections of the exemplar cpu_attention.cpp, from the form of `match.py`.

Knobs: `lanes` of a register, `wide` x `tall` (registers of rows x keys of a fragment), `rows` of a block, `keys` of a
tile, `threads` (0 or 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, prod
from string import Template

from knowledge.compiler.emit import source_text
from knowledge.compiler.emit.cpu_functions import helpers
from knowledge.compiler.emit.source_text import decoded, indented, tensor_names
from knowledge.compiler.emit.spelling import Views
from knowledge.compiler.ir.cost import SURELY_THREADING_FLOPS
from knowledge.compiler.ir.dtypes import BYTES
from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.nodes import elements
from knowledge.compiler.kernels.source import load
from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.attention import text
from knowledge.compiler.schedule.attention.match import SCORE, Attention
from knowledge.compiler.schedule.cpu_moves import lanes_for
from knowledge.compiler.schedule.loops.cpu import LaneStatements

TYPE = "float32"
# Keys of a fragment for so many registers of rows: sums, rows and one number take what a processor with 32 registers
# of 16 floats has, or 16 of 8.
_TALL = {32: {4: 6, 3: 8, 2: 12, 1: 12}, 16: {2: 6, 1: 12}}
# Of 8 heads of 512 x 64 and 64 of 128 x 32 on two cores with AVX-512: 48 to 96 keys are alike, 128 up to 10 % slower.
KEYS = 96
OTHER_KEYS = (48, 192)
LANES = Template("""\
$helpers
constexpr int V = kLanes;
using Vec = vfloat;
using Ints = vint;
""")
EXPONENTIAL = "inline Vec exponential(Vec x) { return math::exp(x); }"
PARAMETERS = (
    "[[maybe_unused]] int row, [[maybe_unused]] int key, [[maybe_unused]] int head,\n"
    "{indent}[[maybe_unused]] int n, [[maybe_unused]] Terms const& terms"
)
BY_ELEMENT = """\
// Of the n rows from `row` on.
inline Vec {name}(Vec s, int row, int key, int head, int n, Terms const& terms) {{
  for (int k = 0; k < n; ++k) s[k] = {name}_of(s[k], row + k, key, head, n, terms);
  return s;
}}"""


def plans(form: Attention, device: Device) -> list[Plan]:
    """The tile that is first, then the others."""
    lanes = max(device.simd_floats, 4)
    talls = _TALL[32 if lanes >= 16 else 16]
    vectors = ceil(form.row.extent / lanes)
    wide = ceil(vectors / ceil(vectors / max(talls)))
    heads = prod(axis.extent for axis in form.heads)
    flops = 2 * heads * form.row.extent * form.key.extent * (form.inner + form.outer)
    knobs: dict[str, int | str] = {
        "lanes": lanes, "wide": wide, "tall": talls[wide], "rows": wide * lanes, "keys": _keys(form, KEYS, talls[wide]),
        "threads": int(device.threads > 1 and flops >= SURELY_THREADING_FLOPS),
    }  # fmt: skip
    first = Plan("attention", knobs)
    found = [first, *(first.with_knobs(keys=_keys(form, keys, talls[wide])) for keys in OTHER_KEYS)]
    if wide * lanes < form.row.extent:
        found.append(first.with_knobs(rows=2 * wide * lanes))
    return [plan for number, plan in enumerate(found) if plan not in found[:number]]


def _keys(form: Attention, most: int, tall: int) -> int:
    """Keys of a tile: all tiles are about as long, and of whole fragments."""
    keys = form.key.extent
    even = ceil(keys / ceil(keys / most))
    return keys if keys <= most else ceil(even / tall) * tall


def render(problem: Problem, form: Attention, plan: Plan) -> str:
    """The whole source."""
    names = source_text.argument_names(problem)
    lanes = int(plan.knobs["lanes"])
    flag = form.shown and form.graph.element(
        "select", TYPE, form.shown, *(form.graph.const(each, TYPE) for each in (1.0, 0.0))
    )
    score = "\n".join(
        _function(problem, form, names, lanes, name, node) for name, node in (("score", form.score), ("shown", flag))
    )
    header = [f"// {line}" for line in [*text.comment(form, _tile(form, plan)), *_memory(form, plan)]]
    return load("cpu_attention").with_sections(
        header="\n".join([*header, plan.comment()]),
        lanes=_lanes(score, lanes),
        exponential=EXPONENTIAL,
        problem=text.problem_text(problem, form, names, "inline") + score,
        knobs=_knobs(plan),
        entry=_entry(problem, form, names),
    )


def _tile(form: Attention, plan: Plan) -> str:
    return f"{plan.knobs['rows']} rows x {plan.knobs['keys']} keys, fragments of {plan.knobs['tall']} keys"


def _memory(form: Attention, plan: Plan) -> Iterator[str]:
    rows, keys = int(plan.knobs["rows"]), int(plan.knobs["keys"])
    count = (form.inner + form.outer + keys) * rows
    yield f"  a thread's own: q, o and s of {rows} rows, {count} x {BYTES[TYPE]} = {count * BYTES[TYPE]} bytes"


def _lanes(score: str, lanes: int) -> str:
    """Registers, with what a score calls."""
    return LANES.substitute(helpers=helpers(f"{score} math::exp(all(", "", lanes).strip("\n"))


def _knobs(plan: Plan) -> str:
    names = {"kWide": "wide", "kTall": "tall", "kRows": "rows", "kKeys": "keys"}
    numbers = {name: plan.knobs[knob] for name, knob in names.items()}
    return source_text.constants({}, numbers, {"kThreads": plan.knobs["threads"] == 1})


def _function(
    problem: Problem, form: Attention, names: dict[str, str], lanes: int, name: str, node: Node | None
) -> str:
    """A function of scores, `s` where there is no node: of a register of rows, or of one where a type has none."""
    if node is None:
        return f"inline Vec {name}(Vec s, {PARAMETERS.format(indent=' ' * 17)}) {{ return s; }}"
    together = lanes_for(elements(node), lanes) > 1
    nest = text.nest_of(form, node)
    _, scalars = text.terms_of(problem, form)
    made = Views(tensor_names(names))
    given = {each.name: f"terms.{names[each.name]}" for each in scalars}
    statements = LaneStatements(nest, made, given, form.row if together else None, exact=together)
    lines = statements.write([node])
    value = SCORE if node.kind == "total" else statements.emitter.value(node, together)
    places = [*decoded(form.heads, "head"), f"int64_t const {form.row.name} = row;",
              f"int64_t const {form.key.name} = key;"]  # fmt: skip
    kind, own = ("Vec", name) if together else ("float", f"{name}_of")
    head = f"inline {kind} {own}([[maybe_unused]] {kind} s, "
    body = [f"[[maybe_unused]] {line}" for line in places] + text.term_tensors(made, "{}") + lines
    body.append(f"return {f'convert<Vec>({value})' if together else f'float({value})'};")
    function = [f"{head}{PARAMETERS.format(indent=' ' * len(head))}) {{", *indented(body), "}"]
    return "\n".join([*function, *([] if together else [BY_ELEMENT.format(name=name)])])


def _entry(problem: Problem, form: Attention, names: dict[str, str]) -> str:
    given = [
        f"static_cast<float{'' if letter == 'o' else ' const'}*>({names[each.tensor.name]}.data_ptr())"
        for letter, each in text.operands(form).items()
    ]
    call = f"attention({', '.join(given)}, {text.given_terms(problem, form, names)});"
    return source_text.entry(problem, names, [call]).rstrip("\n")
