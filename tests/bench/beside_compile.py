"""`python -m bench.beside_compile`: 16-bit rows and narrow weights on a GPU, beside torch.compile in the same rounds.

For each case the first kernel, what its moves make of it, kernels of another version (`--others FOLDER`, files
CASE.cu), eager and torch.compile. A round writes 256 MB, so that the L2 cache is cold, and replays a CUDA graph of each
side once between two CUDA events; medians count. Nothing is judged; the relative error to float64 (normalized L2) is
printed. Needs nvcc and PYTHONPATH=tests:tests/knowledge. `--write FOLDER` writes the first kernels and ends, on any
machine.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import tvm_ffi
from gpu_kernels import H200, traced  # type: ignore[import-not-found]

from bench.hopper_products import Call, Clock, library_of
from knowledge.compiler.plan import Draft
from knowledge.compiler.search.first import first_draft
from knowledge.compiler.search.moves import mutations

Given = list[torch.Tensor]
B16 = torch.bfloat16


@dataclass(frozen=True)
class Case:
    """A forward, and its inputs on a device."""

    name: str
    function: Callable[..., torch.Tensor]
    given: Callable[[str], Given]


def normal(*shapes: tuple[int, ...]) -> Callable[[str], Given]:
    """Standard normal values in bfloat16."""
    return lambda device: [torch.randn(shape, device=device).to(B16) for shape in shapes]


def int8_weights(m: int, inner: int, outer: int) -> Callable[[str], Given]:
    """Rows of x, int8 weights, a scale a row."""
    return lambda device: [
        torch.randn(m, inner, device=device).to(B16),
        torch.randint(-127, 128, (outer, inner), dtype=torch.int8, device=device),
        (torch.rand(outer, device=device) * 0.01).to(B16),
    ]


def int4_weights(m: int, inner: int, outer: int, group: int = 128) -> Callable[[str], Given]:
    """Rows of x, two weights a byte, a scale a group."""
    return lambda device: [
        torch.randn(m, inner, device=device).to(B16),
        torch.randint(0, 256, (outer, inner // 2), dtype=torch.uint8, device=device),
        (torch.rand(outer, inner // group, device=device) * 0.01).to(B16),
    ]


def w8a16(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x @ (w.to(x.dtype) * scale[:, None]).t()


def w8a16_after(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return F.linear(x, w.to(x.dtype)) * scale


def w4a16(x: torch.Tensor, packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    w = torch.stack((packed & 15, packed >> 4), -1).reshape(len(packed), -1)
    w = (w.to(x.dtype) - 8).view(len(w), scale.shape[1], -1) * scale[:, :, None]
    return F.linear(x, w.view(len(w), -1))


def cross_entropy(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x.float(), t)


def _labels(rows: int, classes: int) -> Callable[[str], Given]:
    return lambda device: [
        torch.randn(rows, classes, device=device).to(B16), torch.randint(0, classes, (rows,), device=device)
    ]  # fmt: skip


CASES: tuple[Case, ...] = (
    Case("softmax 8192 x 4096", lambda x: torch.softmax(x, -1), normal((8192, 4096))),
    Case("softmax 4096 x 32000", lambda x: torch.softmax(x, -1), normal((4096, 32000))),
    Case("log_softmax 16384 x 1024", lambda x: torch.log_softmax(x, -1), normal((16384, 1024))),
    Case("rms_norm 8192 x 4096", lambda x, w: F.rms_norm(x, (4096,), w, 1e-6), normal((8192, 4096), (4096,))),
    Case("add + rms_norm 8192 x 4096", lambda x, y, w: F.rms_norm(x + y, (4096,), w, 1e-6),
         normal((8192, 4096), (8192, 4096), (4096,))),
    Case("layer_norm 8192 x 4096", lambda x, w, b: F.layer_norm(x, (4096,), w, b),
         normal((8192, 4096), (4096,), (4096,))),
    Case("normalize 32768 x 768", lambda x: F.normalize(x, dim=-1), normal((32768, 768))),
    Case("swiglu 8192 x 11008", lambda x, y: F.silu(x) * y, normal((8192, 11008), (8192, 11008))),
    Case("group_norm + silu 8 x 320 x 64 x 64", lambda x, w, b: F.silu(F.group_norm(x, 32, w, b)),
         normal((8, 320, 64, 64), (320,), (320,))),
    Case("gelu 8192 x 8192", F.gelu, normal((8192, 8192))),
    Case("cross_entropy 8192 x 32000", cross_entropy, _labels(8192, 32000)),
    Case("w8a16 16 x 4096 -> 11008", w8a16, int8_weights(16, 4096, 11008)),
    Case("w8a16 16 x 8192 -> 8192", w8a16, int8_weights(16, 8192, 8192)),
    Case("w8a16 1 x 4096 -> 4096, scale after", w8a16_after, int8_weights(1, 4096, 4096)),
    Case("w4a16 16 x 4096 -> 11008", w4a16, int4_weights(16, 4096, 11008)),
    Case("w4a16 16 x 8192 -> 8192", w4a16, int4_weights(16, 8192, 8192)),
)  # fmt: skip


def file_name(case: Case) -> str:
    """The case's name as a file's."""
    return re.sub(r"\W+", "_", case.name).strip("_")


def sources(case: Case, most: int) -> dict[str, str]:
    """Our kernels: the first, and up to `most` that a move makes of it."""
    problem = traced(case.function, *case.given("meta"), device=H200)
    draft = first_draft(problem)
    assert isinstance(draft, Draft), draft
    moved = list(mutations(problem, draft.source, 24))[:most]
    return {"ours": draft.source} | {f"ours, {each.move}": each.source for each in moved}


def error(got: torch.Tensor, case: Case, given: Given) -> float:
    """Normalized L2 against float64."""
    exact = case.function(*(each.double() if each.is_floating_point() else each for each in given))
    return float((got.double() - exact).norm() / exact.norm())


def captured(call: Call) -> Call:
    """A CUDA graph of the call: the host's work is left out."""
    side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(side):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def measured(case: Case, libraries: dict[str, Path], clock: Clock, seconds: float, modes: Sequence[str]) -> None:
    """Print a case's table."""
    given = case.given("cuda")
    expected = case.function(*given)
    outputs = {name: torch.full_like(expected, torch.nan) for name in libraries}

    def bound(run: Callable[..., object], *more: torch.Tensor) -> Call:
        return lambda: run(*given, *more)

    sides = {name: bound(tvm_ffi.load_module(str(path)).run, outputs[name]) for name, path in libraries.items()}
    sides["eager"] = bound(case.function)
    for mode in modes:
        torch.compiler.reset()
        compiled = torch.compile(case.function, mode=mode)
        compiled(*given)
        sides[f"torch.compile, {mode}"] = bound(compiled)
    times = clock.rounds({name: captured(call) for name, call in sides.items()}, seconds)
    nbytes = sum(each.numel() * each.element_size() for each in (*given, expected))
    print(f"{case.name}; {nbytes / 1e6:.1f} MB; eager's error {error(expected, case, given):.3g}", flush=True)
    for name, ms in times.items():
        off = f"  error {error(outputs[name], case, given):.3g}" if name in outputs else ""
        beside = times[f"torch.compile, {modes[0]}"] / ms if modes else times["eager"] / ms
        print(f"  {name:56s} {ms:8.4f} ms {nbytes / ms / 1e9:6.2f} TB/s {beside:6.3f}x{off}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Build all, then measure case after case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="of rounds, each case")
    parser.add_argument("--only", default="", help="cases whose name matches this expression")
    parser.add_argument("--moves", type=int, default=0, help="kernels a case after a move")
    parser.add_argument("--modes", default="default", help="of torch.compile, with commas")
    parser.add_argument("--others", type=Path, help="kernels of another version")
    parser.add_argument("--write", type=Path, help="write the first kernels there, and end")
    parser.add_argument("--jobs", type=int, default=8, help="compilers side by side")
    options = parser.parse_args(arguments)
    cases = [case for case in CASES if re.search(options.only, case.name)]
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        for case in cases:
            (options.write / f"{file_name(case)}.cu").write_text(sources(case, 0)["ours"])
        return
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        started = {}
        for place, case in enumerate(cases):
            mine = sources(case, options.moves)
            other = options.others / f"{file_name(case)}.cu" if options.others else None
            if other is not None and other.exists():
                mine["the other version's"] = other.read_text()
            for number, (name, source) in enumerate(mine.items()):
                started[place, name] = pool.submit(library_of, source, Path(folder) / f"k{place}_{number}")
        print(torch.cuda.get_device_name(), torch.__version__, f"CUDA {torch.version.cuda}", flush=True)
        clock = Clock()
        for place, case in enumerate(cases):
            libraries = {name: each.result() for (where, name), each in started.items() if where == place}
            measured(case, libraries, clock, options.seconds, [each for each in options.modes.split(",") if each])
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
