"""A task file executed: its module, its functions, and errors in its name."""

from __future__ import annotations

import contextlib
import linecache
import os
import re
import sys
import types
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.export import ExportedProgram

from harness.nouns.errors import UserError
from harness.nouns.task import Variant
from harness.trusted.gradients import NoGradientError
from harness.trusted.reach import TASK_MODULE
from harness.trusted.variants import BadWorkloadError, arguments_of, declared_variants

HOST = torch.device("cpu")
PLAIN = Variant()
CONTRACT = "A task file defines Model, get_inputs() and, where Model takes arguments, get_init_inputs()."
_WORKLOADS = (
    "WORKLOADS is a list of dicts: keyword arguments of get_inputs and get_init_inputs (numbers or strings), "
    "and name or dtype (float32, float16 or bfloat16)."
)
_DIFFERENTIABLE = "Leave the direction at forward, or give a module that can be trained."
_IN_PLACE = "It changes in place what its gradients are computed from: let it work on a copy."
_INTO = re.compile(r"in-?place operation")
"""How autograd's messages say so."""
_ASKED = re.compile(r"tried to allocate (\d+) bytes")
"""How PyTorch's allocator of the host says it."""
_ALONE = "It runs by itself: without a network, and with no files but the packages that are installed."


class TaskFile:
    """The module that a file is, executed under a seed. `variant` is one of the workloads that it declares.

    Raises `UserError`, naming the file and the cause, for whatever the file does that a task may not.
    """

    def __init__(self, source: str, name: str, place: torch.device, *, seed: int, variant: Variant) -> None:
        self.name, self.place, self.variant = name, place, variant
        self.source, self._seed = source, seed
        self._begin_drawing(seed)  # what the file draws when it is executed is the same every time, too
        self.module = _execute(source, name)

    def error(self, cause: str, remedy: str = "") -> UserError:
        """The user's error, with the file's name in front."""
        return UserError(f"{self.name}: {cause}.", remedy)

    @property
    def given_seed(self) -> int | None:
        """The seed under which the inputs are those that a live module was given with; a file has none."""
        seed = getattr(self.module, "GIVEN_SEED", None)
        return seed if isinstance(seed, int) else None

    @property
    def exported(self) -> ExportedProgram | None:
        """A live module's own program, which knows the modules that it came from; a file has none."""
        load = getattr(self.module, "_program", None)
        program = load() if load is not None and self.given_seed is not None else None
        return program if isinstance(program, ExportedProgram) else None

    def _begin_drawing(self, seed: int) -> None:
        """Seed what the file draws from. `torch.manual_seed` also writes down the stack for each kind of device that
        was not used yet, which takes longer than most inputs."""
        if self.place == HOST:
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)

    def _there(self) -> contextlib.AbstractContextManager[object]:
        """The file's own tensors are made on the device; on a GPU that is a hundred times faster than moving them."""
        return contextlib.nullcontext() if self.place == HOST else self.place

    @classmethod
    def variants(cls, source: str, name: str) -> tuple[Variant, ...]:
        """The workloads that a file declares; the plain one where it declares none. Raises `UserError`."""
        try:
            return declared_variants(_execute(source, name))
        except BadWorkloadError as error:
            raise UserError(f"{name}: {error}.", _WORKLOADS) from error

    def _maker(self, name: str) -> Callable[[], Any]:
        """One of the file's functions with this variant's arguments."""
        function = self._ask(name)
        return partial(function, **arguments_of(function, self.variant)) if self.variant.arguments else function

    def _ask(self, name: str) -> Callable[..., Any]:
        found = getattr(self.module, name, None)
        if not callable(found):
            raise self.error(f"there is no {name} in it", CONTRACT)
        return found  # type: ignore[no-any-return]

    def guarded(self, what: str, call: Callable[[], Any]) -> Any:
        """What a call of the file's code returns. Raises `UserError` where that code fails."""
        try:
            return call()
        except torch.OutOfMemoryError:
            raise  # the machine's failure, not the file's
        except NoGradientError as error:
            raise self.error(str(error), _DIFFERENTIABLE) from error
        except Exception as error:  # the user's code may raise anything; its message is the answer
            if asked := _ASKED.search(str(error)):
                whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
                sizes = f"{int(asked[1]) / 2**30:.1f} GiB, and this machine has {whole / 2**30:.1f} GiB"
                raise self.error(f"{what} asked for a tensor of {sizes}", "Choose smaller sizes.") from error
            remedy = _IN_PLACE if _INTO.search(str(error)) else _ALONE if isinstance(error, OSError) else ""
            raise self.error(f"{what} raised {one_line(error)}", remedy) from error


def _execute(source: str, name: str) -> types.ModuleType:
    filename = f"<{name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    module = types.ModuleType(TASK_MODULE)
    sys.modules[module.__name__] = module  # dataclasses look there for what their annotations name
    try:
        exec(compile(source, filename, "exec"), module.__dict__)
    except Exception as error:  # whatever importing the file raises is the file's own
        lacking = error.name if isinstance(error, ModuleNotFoundError) else None
        remedy = f"Install {lacking} beside cutegen." if lacking else _of_importing(error)
        raise UserError(f"{name}: importing it raised {one_line(error)}.", remedy) from error
    return module


def _of_importing(error: Exception) -> str:
    if isinstance(error, OSError):
        return _ALONE
    return "Put all of it into one file." if isinstance(error, ImportError) else CONTRACT


def one_line(error: BaseException) -> str:
    """What kind of error it is, and the beginning of what it says, to be followed by a full stop."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300].removesuffix('.')}"
