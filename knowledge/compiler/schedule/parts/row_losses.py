"""Cross entropy of long rows on a GPU: what a row's logarithms need by rows, the classes that are picked by loops.

loss[r] = -(x[r, t[r]] - m[r] - log s[r]), where m is a row's maximum and s its sum of exp(x - m). Rows are read once,
in words of 16 bytes, and stay in registers from m to s; loops would read them twice, an element at a time. The two
numbers stay apart: their sum would lose the digits of a small loss among large scores.
"""

from __future__ import annotations

from collections.abc import Iterator

from knowledge.compiler.ir.dtypes import HALVES
from knowledge.compiler.ir.expressions import UnwritableError
from knowledge.compiler.ir.kept import kept
from knowledge.compiler.ir.strides import packed_strides
from knowledge.compiler.lower.lowering import WITHOUT_EFFECT
from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Argument, DTypeArg, Op, Problem, Ref, Tensor, base_name, reads
from knowledge.compiler.schedule.loops.recipe import LoopsRecipe
from knowledge.compiler.schedule.parts.stages import Stage, Stages, StagesRecipe
from knowledge.compiler.schedule.rows.recipe import RowRecipe

# Scores below which a launch costs more than rows gain, and classes below which a row is no work for a block.
MANY_SCORES = 4 << 20
MANY_CLASSES = 1024
KNOWN = ("weight", "reduction", "ignore_index", "label_smoothing")


class RowLossRecipe(StagesRecipe):
    """Two parts: the rows' numbers, then the loss of the classes that are picked."""

    name = "row loss"

    def __init__(self) -> None:
        super().__init__((RowRecipe(), LoopsRecipe()))

    def stages(self, problem: Problem) -> Stages:
        """Both parts. Raises `UnwritableError` where the forward has no such loss."""
        return _stages(problem)

    def nbytes(self, problem: Problem) -> int | None:
        """No number that loops are compared by: they read the same rows more slowly."""
        return None


@kept(8)
def _stages(problem: Problem) -> Stages:
    losses = [op for op in problem.ops if base_name(op.target) == "cross_entropy_loss"]
    if not problem.on_gpu or problem.others or len(losses) != 1:
        raise UnwritableError("a forward without one loss of long rows on a GPU")
    (loss,) = losses
    tensors: dict[str, Tensor] = {
        each.name: each for each in (*problem.inputs, *problem.parameters) if isinstance(each, Tensor)
    } | {result.name: result for op in problem.ops for result in op.results}
    scores, target = (tensors[each.ref] for each in loss.args[:2] if isinstance(each, Ref))
    given = {**dict(zip(KNOWN, loss.args[2:], strict=False)), **loss.kwargs}
    whole = len(scores.shape) == 2 and target.dtype == "int64" and not given.get("label_smoothing")
    long = scores.numel >= MANY_SCORES and scores.shape[-1] >= MANY_CLASSES
    if not whole or not long or scores.dtype not in ("float32", *HALVES):
        raise UnwritableError("a loss of few or short rows, or by other targets than classes")
    made = _Written(scores, loss)
    first = _rows(problem, made, tuple(_cone(problem, scores.name)))
    if not isinstance(RowRecipe().first_plan(first), Plan):
        raise UnwritableError("scores that rows do not give")
    ops = tuple(each for op in problem.ops for each in (made.picking(given) if op is loss else (op,)))
    second = problem.model_copy(update={"inputs": (*problem.inputs, *made.numbers), "ops": ops})
    if not isinstance(LoopsRecipe().first_plan(second), Plan):
        raise UnwritableError("a loss that loops do not write")
    return Stages((Stage(first, RowRecipe()), Stage(second, LoopsRecipe())), made.numbers)


def _cone(problem: Problem, name: str) -> Iterator[Op]:
    """The operations that make a value, in order. Raises `UnwritableError` where one writes in place."""
    wanted, found = {name}, []
    for op in reversed(problem.ops):
        if any(result.name in wanted for result in op.results):
            found.append(op)
            wanted |= {*reads(op)}
        if base_name(op.target).endswith("_"):
            raise UnwritableError(f"a loss beside an operation in place ({op.target})")
    yield from (op for op in reversed(found) if base_name(op.target) not in WITHOUT_EFFECT)


def _rows(problem: Problem, made: _Written, before: tuple[Op, ...]) -> Problem:
    """The rows' numbers as a problem of their own."""
    ops = (*before, *made.numbering)
    needed = {ref for op in ops for ref in reads(op)}
    return problem.model_copy(
        update={
            "inputs": tuple(each for each in problem.inputs if each.name in needed),
            "parameters": tuple(each for each in problem.parameters if each.name in needed),
            "outputs": made.numbers,
            "ops": ops,
            "returns": tuple(each.name for each in made.numbers),
        }
    )


class _Written:
    """The loss in smaller operations, in float32."""

    def __init__(self, scores: Tensor, loss: Op) -> None:
        self.scores, self.loss = scores, loss
        self.rows, self.classes = scores.shape
        wide, column = (self.rows, self.classes), (self.rows, 1)
        x, m, s = "loss scores", "row maximum", "row sum"
        self.widening = self._op("to.dtype", x, wide, Ref(ref=scores.name), DTypeArg(dtype="float32"))
        self.numbering = (
            self.widening,
            self._op("amax.default", m, column, Ref(ref=x), (-1,), True),
            self._op("sub.Tensor", "below maximum", wide, Ref(ref=x), Ref(ref=m)),
            self._op("exp.default", "powers", wide, Ref(ref="below maximum")),
            self._op("sum.dim_IntList", s, column, Ref(ref="powers"), (-1,), True),
            self._op("log.default", "row logarithm", column, Ref(ref=s)),
        )
        self.numbers = (self.numbering[1].results[0], self.numbering[5].results[0])

    def picking(self, given: dict[str, Argument]) -> tuple[Op, ...]:
        """The loss from the scores and the rows' numbers."""
        wide, (result,) = (self.rows, self.classes), self.loss.results
        reduction, ignored = given.get("reduction", 1), given.get("ignore_index", -100)
        own = result if result.dtype == "float32" else result.model_copy(
            update={"name": "wide loss", "dtype": "float32"}
        )  # fmt: skip
        args = (Ref(ref="logarithms"), self.loss.args[1], given.get("weight"), reduction, ignored)
        ops = (
            self.widening,
            self._op("sub.Tensor", "less maximum", wide, Ref(ref="loss scores"), Ref(ref="row maximum")),
            self._op("sub.Tensor", "logarithms", wide, Ref(ref="less maximum"), Ref(ref="row logarithm")),
            Op(target="aten.nll_loss_nd.default", args=args, results=(own,)),
        )
        narrow = (Ref(ref=own.name), DTypeArg(dtype=result.dtype))
        return ops if own is result else (*ops, Op(target="aten.to.dtype", args=narrow, results=(result,)))

    @staticmethod
    def _op(target: str, name: str, shape: tuple[int, ...], *args: Argument) -> Op:
        made = Tensor(kind="tensor", name=name, shape=shape, strides=packed_strides(shape), dtype="float32")
        return Op(target=f"aten.{target}", args=args, results=(made,))
