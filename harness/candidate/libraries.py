"""Which libraries a runner maps, as the loader finds them in the environment at hand. Standard library only.

Run as `python -I -S libraries.py LIBTVM_FFI NAME...`, where the names are libraries that kernels may need; what is not
on this machine is left out. Prints {"libraries": paths as the loader spells them, "made": bytes of code that the
interpreter itself makes while running, as old versions of libffi do}. Nothing of a candidate's is here.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import resource  # noqa: F401 (the launcher's; its libraries count)
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

# As for the runner itself: what lies beside it are plain modules.
_HERE = Path(__file__).resolve().parent
sys.path += [str(_HERE), str(_HERE.with_name("wire"))]
if TYPE_CHECKING:
    from harness.candidate import allocator, runner
else:
    import allocator
    import runner  # with all that it imports

assert runner


class _Loaded(ctypes.Structure):
    _fields_ = (("address", ctypes.c_size_t), ("name", ctypes.c_char_p))  # the beginning of struct dl_phdr_info


def loaded() -> list[str]:
    """The names of all libraries in this process, by the loader's own list."""
    found: list[str] = []

    def visit(entry: Any, _size: int, _data: int | None) -> int:
        found.append(entry.contents.name.decode())
        return 0

    visitor = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Loaded), ctypes.c_size_t, ctypes.c_void_p)(visit)
    ctypes.CDLL(None).dl_iterate_phdr(visitor, None)
    return [name for name in found if name.startswith("/")]


def made_code() -> int:
    """Bytes of executable memory without a file."""
    lines = (line.split(None, 5) for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines())
    ranges = (line[0].split("-") for line in lines if "x" in line[1] and len(line) == 5)
    return sum(int(end, 16) - int(start, 16) for start, end in ranges)


def main() -> None:
    """Entry point of the process."""
    for name in sys.argv[1:]:
        with contextlib.suppress(OSError):
            ctypes.CDLL(name)
    scratch = allocator.Allocator("cpu", allocator.Heap())  # a runner's callbacks, for which libffi may make code
    made = made_code()  # before the callback below asks for more
    assert scratch
    json.dump({"libraries": loaded(), "made": made}, sys.stdout)


if __name__ == "__main__":
    main()
