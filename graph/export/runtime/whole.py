"""A module that Inductor compiles with kernels in it, and what became of them there."""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from . import backend
from .artifact import artifact_file, load_artifact, save_artifact


class Kernels:
    """What became of a compiled module's kernels.

    `regions` says of each region what was kept of it, and why; `placed` how many places each kernel took in the graphs
    compiled so far, and `reasons` why others took none. `fallbacks` has the number of calls that went through the
    module's own forward, by the reason. Where `strict`, what fails is an error, and no call goes there.
    """

    def __init__(self, regions: Mapping[str, str], artifact: Path) -> None:
        self.regions, self.artifact = dict(regions), artifact
        self.strict, self.failed = False, False
        self.placed: Counter[str] = Counter()
        self.reasons: list[str] = []
        self.fallbacks: dict[str, int] = {}

    def save_artifact(self) -> Path:
        """Leave beside `model_fast.py` what Inductor has made by now, for fresh processes with this torch on such a
        device. Raises `RuntimeError` where that is nothing, and `OSError`."""
        save_artifact(self.artifact)
        return self.artifact

    def fall_back(self, why: str) -> None:
        """Count a call, and warn of the first of its reason."""
        if why not in self.fallbacks:
            warnings.warn(f"the module's own forward takes a call: {why}", stacklevel=4)
        self.fallbacks[why] = self.fallbacks.get(why, 0) + 1


class Forward:
    """The forward of a module, compiled at its first call: a copy of it compiles anew, over the copy's module."""

    def __init__(self, slow: Callable[..., Any], folders: Sequence[Path], mode: str, kernels: Kernels) -> None:
        self.slow, self.folders, self.mode, self.kernels = slow, tuple(folders), mode, kernels
        self.fast = torch.compile(slow, backend=_Backend(kernels, self.folders, mode))

    def __deepcopy__(self, memo: dict[int, Any]) -> Forward:
        kernels = copy.deepcopy(self.kernels, memo)
        kernels.placed, kernels.reasons = Counter(), []
        return Forward(copy.deepcopy(self.slow, memo), self.folders, self.mode, kernels)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.kernels.strict:
            return self.fast(*args, **kwargs)
        if self.kernels.failed:
            self.kernels.fall_back("it has failed before")
            return self.slow(*args, **kwargs)
        try:
            return self.fast(*args, **kwargs)
        except (RuntimeError, ValueError) as error:
            result = self.slow(*args, **kwargs)  # where that raises, too, the caller's values are to blame
            self.kernels.failed = True
            first = (str(error).strip().splitlines() or [""])[0]
            self.kernels.fall_back(f"compiled it fails: {type(error).__name__}: {first}")
            return result


def compiled(module: Any, folders: Sequence[Path], mode: str, regions: Mapping[str, str]) -> Any:
    """The module, whose forward Inductor compiles in a mode, with the kernels of these folders.

    Where Inductor's artifact lies beside `model_fast.py`, above the folders, that is read instead of compiling anew.
    Its weights, buffers and state_dict stay what they are; `module.kernels` says what became of the kernels. With CUDA
    graphs ("reduce-overhead", "max-autotune") a result stands until the next call, as torch.compile has it.
    """
    artifact = artifact_file(folders[0].parents[1], module)
    load_artifact(artifact)
    module.kernels = Kernels(regions, artifact)
    module.forward = Forward(module.forward, folders, mode, module.kernels)
    return module


class _Backend:
    """Inductor with kernels, which tells what became of them."""

    reset = staticmethod(backend.reset)

    def __init__(self, kernels: Kernels, folders: tuple[Path, ...], mode: str) -> None:
        self._kernels, self._folders = kernels, folders
        self._mode = None if mode == "default" else mode

    def __call__(self, gm: Any, example_inputs: Any) -> Any:
        before = backend.COMPILED[-1] if backend.COMPILED else None
        made = backend.compile_graph(gm, example_inputs, mode=self._mode, options={"kernels": self._folders})
        last = backend.COMPILED[-1] if backend.COMPILED else None
        if last is not None and last is not before:
            self._kernels.placed.update(last.placed)
            self._kernels.reasons.extend(last.reasons)
        return made
