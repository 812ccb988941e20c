"""The backend "cutegen" of torch.compile: kernels of a folder inside what Inductor compiles.

`torch.compile(model, backend="cutegen", options={"kernels": FOLDER})`. Inductor's own options and `"mode"` may stand
beside the folder; without one kernels come from the user's archive. What no kernel fits is Inductor's.
"""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

NAME = "cutegen"
MOST_TOLD = 256
LEAST_TORCH = (2, 11)
"""Kernels are placed from this version on."""
_TOLD: set[str] = set()


@dataclass(frozen=True)
class Compiled:
    """One graph of Dynamo's: how many places each kernel took, and why others took none, or none was looked for."""

    placed: Counter[str] = field(default_factory=Counter)
    reasons: tuple[str, ...] = ()


COMPILED: deque[Compiled] = deque(maxlen=MOST_TOLD)
"""The latest graphs that were compiled in this process."""


def compile_graph(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """A graph of Dynamo's compiled by Inductor, with kernels in the place of what they compute.

    `options` are Inductor's, beside `kernels`, a folder or several, and `mode`. A folder that cannot be used is told of
    in one warning, and the graph is compiled without it. Without `kernels` they are looked up in the user's archive;
    an empty list asks for none. Raises what Inductor raises.
    """
    rest = dict(options or {})
    folders = _folders(rest.pop("kernels", None))
    make: Any = torch._TorchCompileInductorWrapper
    inductor = make(rest.pop("mode", None) or mode, rest, None)
    if folders is None or folders:
        gm = with_kernels(gm, folders)
    return inductor(gm, list(example_inputs))


def with_kernels(gm: torch.fx.GraphModule, folders: Sequence[Path] | None) -> torch.fx.GraphModule:
    """The graph with the kernels of the folders, or of the archive, in it; itself where none fits."""
    if tuple(map(int, re.findall(r"\d+", torch.__version__)[:2])) < LEAST_TORCH:
        least = ".".join(map(str, LEAST_TORCH))
        return _without(gm, f"torch {torch.__version__} is older than {least}: Inductor compiles without kernels")
    try:
        from .placing import place
    except (ImportError, AttributeError) as error:
        return _without(
            gm,
            f"torch {torch.__version__} has moved names that kernels are placed by ({error}): Inductor compiles "
            f"without them; use the folder's own module, or another version of torch",
        )
    try:
        made, compiled = place(gm, folders, _tell)
    except Exception as error:  # noqa: BLE001 (whatever a graph has that nobody thought of: it is Inductor's)
        first = (str(error).strip().splitlines() or [""])[0]
        said = f"kernels cannot be placed in a graph, and Inductor compiles without them: {type(error).__name__}"
        return _without(gm, f"{said}: {first}")
    COMPILED.append(compiled)
    return made


def _without(gm: torch.fx.GraphModule, said: str) -> torch.fx.GraphModule:
    _tell(said)
    COMPILED.append(Compiled(reasons=(said,)))
    return gm


def reset() -> None:
    """What `torch._dynamo.reset()` asks of a backend: CUDA graphs are made anew."""
    if torch.cuda.is_available():
        from torch._inductor.cudagraph_trees import reset_cudagraph_trees

        reset_cudagraph_trees()


compile_graph.reset = reset  # type: ignore[attr-defined]


def register() -> None:
    """Make the backend known to torch.compile by its name; once in a process, whoever does it first."""
    from torch._dynamo.backends import registry

    if NAME not in registry._COMPILER_FNS:
        registry.register_backend(compile_graph, name=NAME)


def _folders(named: Any) -> list[Path] | None:
    if named is None:
        return None
    several = [named] if isinstance(named, (str, os.PathLike)) else list(named)
    return [Path(each).expanduser().absolute() for each in several]


def _tell(said: str) -> None:
    """Once in a process."""
    if said not in _TOLD:
        _TOLD.add(said)
        warnings.warn(f"{said}.", stacklevel=2)
