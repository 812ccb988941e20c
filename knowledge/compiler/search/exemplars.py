"""The exemplars that writers of kernels are shown: files of `kernels/`, and kernels that recipes write from a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from harness.nouns.device_facts import Capabilities
from knowledge.compiler.ir.strides import packed_strides
from knowledge.compiler.kernels import source
from knowledge.compiler.kernels.source import Exemplar
from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Argument, Device, Op, Problem, Ref, Tensor
from knowledge.compiler.search.recipes import recipes

# For each class of operation what a prompt shows, the best that runs first and the plainest last. What has no class
# mostly reduces or streams: on a processor one kernel shows both, on a GPU there is no room for one that reduces.
_REPRESENTATIVES: Mapping[str, tuple[str, ...]] = {
    "gemm": ("gemm_wgmma_3xtf32", "gemm_3xtf32", "gemm_simt", "cpu_gemm", "cpu_gemm_plain"),
    "elementwise": ("pointwise", "cpu_pointwise"),
    "reduction": ("softmax", "layer_norm", "cpu_softmax"),
    "other": ("pointwise", "cpu_softmax"),
}

_HOPPER = Capabilities(mma=True, clusters=True, wgmma=True, max_cluster=16)
_H200 = Device(multiprocessors=132, shared_bytes=227 << 10, l2_bytes=50 << 20, capabilities=_HOPPER)


@dataclass(frozen=True)
class _Written:
    """A plan of a recipe for some operations on a device, and the header of the kernel that comes of it.

    Strings among `ops` name an operand; the last tensor of `shapes` is the result. All are of type `dtype` where
    `others` does not name their type. Without a header of its own it has that of the file whose sections the recipe
    replaces, and the comments on that file's knobs.
    """

    recipe: str
    knobs: dict[str, int | str]
    shapes: dict[str, tuple[int, ...]]
    ops: tuple[tuple[str, tuple[int, ...], tuple[Argument, ...]], ...]
    header: str = ""
    device: Device = _H200
    dtype: str = "float32"
    others: Mapping[str, str] = field(default_factory=dict)


_IMAGES, _FILTERS, _CONVOLVED = (16, 64, 56, 56), (128, 64, 3, 3), (16, 128, 56, 56)
_CONVOLUTION: dict[str, tuple[int, ...]] = {"X": _IMAGES, "Weight": _FILTERS, "Out": _CONVOLVED}
_CONVOLVING = (("conv2d.default", _CONVOLVED, ("X", "Weight", None, (1, 1), (1, 1))),)
_HEADS = (4, 32, 4096, 128)
_ATTENTION: dict[str, tuple[int, ...]] = dict.fromkeys("QKVO", _HEADS)
_ATTENDING = (("scaled_dot_product_attention.default", _HEADS, ("Q", "K", "V")),)

_WRITTEN = {
    "attention": _Written(
        "attention", {"blocks": 1, "keys": 64, "rows": 16, "splits": 1, "stages": 2, "warps": 8}, _ATTENTION,
        _ATTENDING, dtype="bfloat16",
    ),
    "attention_wgmma": _Written(
        "attention", {"group": 1, "kernel": "attention_wgmma", "keys": 128, "stages": 2, "turn": 1, "warpgroups": 2},
        _ATTENTION, _ATTENDING, dtype="bfloat16",
    ),
    "contract_3xtf32": _Written("loops", {"bm": 128, "bn": 128}, _CONVOLUTION, _CONVOLVING),
    "contract_wgmma": _Written("loops", {}, _CONVOLUTION, _CONVOLVING),
    "contract_window": _Written(
        "loops", {}, {"X": _IMAGES, "Weight": (32, 64, 3, 3), "Out": (16, 32, 56, 56)},
        (("conv2d.default", (16, 32, 56, 56), ("X", "Weight", None, (1, 1), (1, 1))),),
    ),
    "cpu_attention": _Written(
        "attention", {"keys": 96, "lanes": 16, "rows": 64, "tall": 6, "threads": 1, "wide": 4},
        dict.fromkeys("QKVO", (8, 512, 64)),
        (("scaled_dot_product_attention.default", (8, 512, 64), ("Q", "K", "V")),), device=Device(),
    ),
    "diag": _Written(
        "pointwise", {"vector": 1}, {"Diagonal": (4096,), "X": (4096, 4096), "Out": (4096, 4096)},
        (("unsqueeze.default", (4096, 1), ("Diagonal", 1)), ("mul.Tensor", (4096, 4096), ("unsqueeze", "X"))), """
// Out = diag(Diagonal) * X, a diagonal matrix times a dense one: every row of X scaled, nothing summed.
//   op class: elementwise
//   architecture: sm_80
//   layouts: mX, mOut (N/V,M):(1,N/V), mDiagonal (N/V,M):(0,1) over packs of V neighbours; M = N = 4096
//   tile: 128 threads x 1 pack x 4 elements of 4 bytes = 512 elements a block
//   shared memory: 0 bytes
//   reaches: 0.036 ms on an H200, 87 % of what a copy's rate allows; eager PyTorch 0.052 ms""",
    ),
    "gemv": _Written(
        "rows", {"each": 4, "group": 512, "items": 2, "once": 1, "vector": 1},
        {"X": (2048, 1 << 20), "Vector": (1 << 20, 1), "Out": (2048, 1)},
        (("matmul.default", (2048, 1), ("X", "Vector")),), """
// Out = X * Vector, a matrix times a vector: sums along rows of 2048 x 1048576.
//   op class: gemm
//   architecture: sm_80
//   layouts: mX (C/V,R):(1,C/V), mVector (C/V,R):(1,0) over packs of V neighbours, mOut (C/V,R):(0,1);
//     C = 1048576, R = 2048
//   tile: 4 rows for a block of 512 threads, 2 packs of each row in flight a thread; each pack of Vector
//     is read once for the 4 rows, since it comes from the L2 cache, whose bandwidth X needs
//   shared memory: 2 turns x 16 warps x 8 bytes = 256 bytes for the partial sums
//   reaches: 1.96 ms on an H200, 4.39 TB/s; eager PyTorch 2.37 ms
//   error: normalized L2 3.3e-8 against float64, eager PyTorch 5.2e-8; sums of 64 packs in float, all above in double
""",
    ),
    "gemm_narrow_weights": _Written(
        "narrow weights", {"blocks": 6, "depth": 2, "shared": 0, "tiles": 1, "warps": 8},
        {"X": (16, 4096), "Weight": (11008, 4096), "Scale": (11008,), "Out": (16, 11008)},
        (
            ("_to_copy.default", (11008, 4096), ("Weight",)), ("unsqueeze.default", (11008, 1), ("Scale", 1)),
            ("mul.Tensor", (11008, 4096), ("_to_copy", "unsqueeze")), ("linear.default", (16, 11008), ("X", "mul")),
        ), dtype="bfloat16", others={"Weight": "int8"},
    ),
    "layer_norm": _Written(
        "rows", {"group": 256, "items": 16, "keep": 1, "vector": 1},
        {"X": (8192, 4096), "Weight": (4096,), "Bias": (4096,), "Out": (8192, 4096)},
        (("layer_norm.default", (8192, 4096), ("X", (4096,), "Weight", "Bias", 1e-5, False)),), """
// Out = layer_norm of X along its rows with Weight and Bias: the row stays in the registers of one block, so that mean
// and variance are taken one after the other (nothing cancels) at the price of one pass over memory.
//   op class: reduction
//   architecture: sm_80
//   layouts: mX, mOut (C/V,R):(1,C/V), mWeight, mBias (C/V,R):(1,0) over packs of V neighbours; C = 4096, R = 8192
//   tile: one row for a block of 256 threads, 16 elements in each thread's registers
//   shared memory: 2 turns x 8 warps x 8 bytes for each of the two sums = 256 bytes""",
    ),
    "pointwise": _Written(
        "pointwise", {"exact": 1, "vector": 1}, {"X": (4096, 393_216), "Out": (4096, 393_216)},
        (("sigmoid.default", (4096, 393_216), ("X",)), ("mul.Tensor", (4096, 393_216), ("X", "sigmoid"))),
    ),
    "rms_norm": _Written(
        "rows", {"group": 256, "items": 16, "keep": 1, "vector": 1},
        {"X": (8192, 4096), "Weight": (4096,), "Out": (8192, 4096)},
        (("rms_norm.default", (8192, 4096), ("X", (4096,), "Weight", 1e-6)),), """
// Out = X * Weight / sqrt(mean(X * X) + eps) (RMS norm) along rows that stay in the registers of one block.
//   op class: reduction
//   architecture: sm_80
//   layouts: mX, mOut (C/V,R):(1,C/V), mWeight (C/V,R):(1,0) over packs of V neighbours; C = 4096, R = 8192
//   tile: one row for a block of 256 threads, 16 elements in each thread's registers
//   shared memory: 2 turns x 8 warps x 8 bytes for the sum of squares = 128 bytes""",
    ),
    "softmax": _Written(
        "rows", {"chain": 12, "cluster": 8, "group": 512, "items": 96, "keep": 1, "parts": 2, "staged": 1, "vector": 1},
        {"X": (4096, 393_216), "Out": (4096, 393_216)}, (("softmax.int", (4096, 393_216), ("X", 1)),),
    ),
    "softmax_online": _Written(
        "rows", {"group": 1024, "items": 4, "online": 1, "vector": 1},
        {"X": (4096, 393_216), "Out": (4096, 393_216)}, (("softmax.int", (4096, 393_216), ("X", 1)),), """
// Out = softmax of X along its rows, however long: read twice, by an online softmax. The first sweep finds the maximum
// and the sum of exponentials below it together: as the maximum grows, the sum is scaled by exp(old - new).
//   op class: reduction
//   architecture: sm_80
//   layouts: mX, mOut (C/V,R):(1,C/V) over packs of V neighbours; C = 393216 columns, R = 4096 rows
//   tile: one row for a block of 1024 threads, 4 packs of 4 elements in flight a thread; the second sweep goes
//     backwards, over what the L2 cache still has
//   shared memory: 2 turns x 32 warps x 16 bytes = 1024 bytes for the maxima with their sums
//   reaches (with maxima by comparisons; max.NaN was not timed): 4.65 ms on an H200, 4.16 TB/s of the bytes of two
//     reads and a write; eager PyTorch 6.30 ms, three reads 6.28 ms, one read by clusters of blocks 3.57 ms.
//     Forwards in the second sweep: 0.5 % longer
//   error: normalized L2 9.9e-8 against float64, eager PyTorch 5.9e-8""",
    ),
}  # fmt: skip


def names() -> tuple[str, ...]:
    """The exemplars' names, sorted."""
    return tuple(sorted({*source.names(), *_WRITTEN}))


def load(name: str) -> Exemplar:
    """One exemplar. Raises ValueError where there is none of that name, or its header is incomplete."""
    return _rendered(name) if name in _WRITTEN else source.load(name)


def representative(op_class: str, architecture: str, *, plain: bool = False) -> Exemplar | None:
    """The exemplar that a prompt shows for a class of operation: the best that runs there, or the plainest."""
    candidates = [load(name) for name in _REPRESENTATIVES.get(op_class, ())]
    running = [exemplar for exemplar in candidates if exemplar.runs_on(architecture)]
    return running[-1 if plain else 0] if running else None


def plain(name: str) -> Exemplar:
    """What a recipe writes, with its own header and knobs."""
    written = _WRITTEN[name]

    def tensor(of: str, shape: tuple[int, ...]) -> Tensor:
        dtype = written.others.get(of, written.dtype)
        return Tensor(name=of, shape=shape, strides=packed_strides(shape), dtype=dtype)

    *inputs, output = (tensor(of, shape) for of, shape in written.shapes.items())
    ops = tuple(
        Op(
            target=f"aten.{target}", results=(tensor(target.partition(".")[0], shape),),
            args=tuple(Ref(ref=each) if isinstance(each, str) else each for each in args),
        )
        for target, shape, args in written.ops
    )  # fmt: skip
    problem = Problem(
        target="cuda" if written.device.multiprocessors else "cpu", device=written.device, inputs=tuple(inputs),
        outputs=(output,), ops=ops, returns=(ops[-1].results[0].name,),
    )  # fmt: skip
    (recipe,) = (each for each in recipes() if each.name == written.recipe)
    return Exemplar(name, recipe.render(problem, Plan(recipe.name, written.knobs)), "", {})


@cache
def _rendered(name: str) -> Exemplar:
    """The same under a header that tells what is special about it, the knobs explained where a file has them."""
    sections = {"header": _WRITTEN[name].header}
    if not sections["header"]:
        file = source.load(name)
        own = (each for each in ("header", "knobs") if each in file.sections)
        sections = {each: told for each in own if (told := file.section(each))}
    return source.read(name, plain(name).with_sections(**sections))
