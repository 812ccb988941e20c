"""What makes a kernel fast, counted: so that a repair which throws it away is noticed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from harness.nouns.frozen import Frozen
from harness.screen.tokens import LexicalError, Token, tokenize

_TILERS = re.compile(
    r"local_(?:tile|partition)|(?:zipped|tiled|logical)_divide|(?:make_tiled_|Tiled)(?:copy|mma|Copy|MMA)|partition_[ABCSD]"
)
_MMA = re.compile(r"SM\d+_\d+x\d+x\d+_\w+|(?:mma|wgmma)\.\w+|mma_sync")
_ASYNC = re.compile(r"SM\d+_CP_ASYNC\w*|SM90_(?:TMA|BULK)\w*|cp_async\w*|cp\.async[\w.]*|memcpy_async")
_SWIZZLE = re.compile(r"Swizzle|GMMA::Layout\w*|Layout_(?:K|MN)_SW\d+\w*")
# Not uint64_t, which is an index more often than a vector: a repair may well change the type of one.
_VECTOR = re.compile(
    r"(?:float|double|u?(?:char|short|int|long|longlong)|(?:__)?(?:half|nv_bfloat16))[234]|uint(?:128|256)_t"
    r"|AutoVectorizing\w*|_mm\d*_\w+|AlignedArray"
)
_LOOP = re.compile(r'(?:# pragma |_Pragma \( ")omp (?:for|parallel|simd)\b')


class Structure(Frozen):
    """How often a source has each thing that optimizations are made of. Comments and strings of prose do not count."""

    kernels: int
    tilings: int
    tensor_core_products: int
    asynchronous_copies: int
    swizzles: int
    vector_accesses: int
    shared_memory: int
    parallel_loops: int

    @classmethod
    def of(cls, source: str) -> Structure | None:
        """None for a text that is no C++ to the screen: the judge will say so."""
        try:
            cut = tokenize(source)
        except LexicalError:
            return None
        return cls(
            kernels=_count(cut, lambda text: text == "__global__"),
            tilings=_count(cut, _TILERS.fullmatch),
            tensor_core_products=_count(cut, _MMA.search),
            asynchronous_copies=_count(cut, _ASYNC.search),
            swizzles=_count(cut, _SWIZZLE.search),
            vector_accesses=_count(cut, _VECTOR.fullmatch),
            shared_memory=_count(cut, lambda text: text in ("__shared__", "make_smem_ptr")),
            parallel_loops=len(_LOOP.findall(" ".join(token.text for token in cut))),
        )


def lost(before: str, after: str) -> tuple[str, ...]:
    """What the second source has given up of the first: each kind of structure that was there and is not any more."""
    old, new = Structure.of(before), Structure.of(after)
    if old is None or new is None:
        return ()
    return tuple(
        f"{name.replace('_', ' ')} ({count} before, none now)"
        for name, count in old.model_dump().items()
        if count and not getattr(new, name)
    )


def _count(cut: Iterable[Token], matches: Callable[[str], object]) -> int:
    return sum(1 for token in cut if token.kind in ("identifier", "string") and matches(token.text))
