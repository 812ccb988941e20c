"""The child that runs KernelBench's own evaluator on one task: `python -m graph.suites.kernelbench_child JOB`.

Nothing of it is written again here: the checkout's functions do what they do for anybody.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
import math
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

_UNUSED = ("litellm", "openai", "dotenv", "requests", "tqdm")
"""What its helpers import for language models and downloads; an evaluation calls none of it."""
_SLOW = _UNUSED[:2]
"""Of these, what takes seconds to import."""


class _StandIn(types.ModuleType):
    """In the place of a package that cannot be imported."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


def kernelbench_module(checkout: Path, name: str) -> Any:
    """A module of the checkout's package."""
    for each in _UNUSED:
        try:
            importlib.import_module(each)
        except ImportError:
            sys.modules[each] = _StandIn(each)
    source = str(checkout / "src")
    if source not in sys.path:
        sys.path.insert(0, source)
    return importlib.import_module(f"kernelbench.{name}")


def taking_turns(evaluation: Any, folder: Path, needed: int, device: Any) -> None:
    """Let several evaluators share a GPU: each has it to itself, but for building and while a task draws its inputs.

    `needed` are bytes of its memory, which an evaluator that waits holds, too: those that do not fit beside the others
    wait with their own until one has ended.
    """
    turn = (folder / ".gpu").open("a")
    fcntl.flock(turn, fcntl.LOCK_EX)

    def without_the_gpu(work: Callable[..., Any], then: Callable[[], None] = lambda: None) -> Callable[..., Any]:
        def done(*args: Any, **kwargs: Any) -> Any:
            evaluation.torch.cuda.empty_cache()
            fcntl.flock(turn, fcntl.LOCK_UN)
            try:
                found = work(*args, **kwargs)
                then()
                return found
            finally:
                fcntl.flock(turn, fcntl.LOCK_EX)

        return done

    def take_room() -> None:
        total = evaluation.torch.cuda.get_device_properties(device).total_memory
        _held.extend(_shares(folder, min(SHARES, math.ceil(needed * SHARES / total))))

    load = evaluation.load_original_model_and_inputs

    def loaded(*args: Any) -> Any:
        model, get_init_inputs, get_inputs = load(*args)
        return model, get_init_inputs, without_the_gpu(get_inputs)

    evaluation.load_original_model_and_inputs = loaded
    for name in ("load_custom_model", "load_custom_model_with_tempfile"):
        setattr(evaluation, name, without_the_gpu(getattr(evaluation, name), take_room))


SHARES = 16
"""Of the GPU's memory."""
_held: list[IO[str]] = []
"""Locks that end with the process."""


def _shares(folder: Path, count: int) -> list[IO[str]]:
    """So many locked shares, once they are free. One process takes at a time, so that none wait for each other."""
    with (folder / ".gpu-queue").open("a") as queue:
        fcntl.flock(queue, fcntl.LOCK_EX)
        waiting = [(folder / f".gpu-{number}").open("a") for number in range(SHARES)]
        held: list[IO[str]] = []
        while True:
            for each in [each for each in waiting if each not in held]:
                if len(held) == count:
                    return held
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(each, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    held.append(each)
            time.sleep(_AGAIN_S)


_AGAIN_S = 0.05


def evaluate(job: dict[str, Any]) -> dict[str, Any]:
    """Evaluate the file `export` against `task`, with the checkout's defaults: what its evaluator found."""
    evaluation = kernelbench_module(Path(job["kernelbench"]), "eval")
    device = evaluation.torch.device(f"cuda:{job['device']}")
    taking_turns(evaluation, Path(job["turns"]), job["needed"], device)
    reference, ours = (Path(job[each]).read_text(encoding="utf-8") for each in ("task", "export"))
    found = evaluation.eval_kernel_against_ref(
        reference,
        ours,
        num_correct_trials=job["correct_trials"],
        num_perf_trials=job["perf_trials"],
        measure_performance=True,
        build_dir=job["build_dir"],
        device=device,
        backend=job["backend"],
    )
    if found is None:
        return {"compiled": False, "correct": False, "metadata": {"error": "a lock of the build"}}
    metadata = {name: str(value) for name, value in found.metadata.items()}
    return {
        "compiled": found.compiled,
        "correct": found.correctness,
        "ms": found.runtime,
        "reference_ms": found.ref_runtime,
        "metadata": metadata,
    }


def scores(checkout: Path, correct: list[bool], reference_ms: list[float], ms: list[float]) -> dict[str, float]:
    """fast_p and the geometric mean of the correct ones as the checkout's own functions define them."""
    score = kernelbench_module(checkout, "score")
    n = len(correct)
    arrays = [score.np.array(each) for each in (correct, reference_ms, ms)]
    found = {f"fast_{p:g}": float(score.fastp(*arrays, n, p)) for p in (0.0, 1.0, 1.5, 2.0)}
    return found | {"geomean": float(score.geometric_mean_speed_ratio_correct_only(*arrays, n))}


def main() -> None:
    """Read one job, write one JSON object as the last line; what the evaluator prints goes to stderr."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.modules.update((each, _StandIn(each)) for each in _SLOW)
    with contextlib.redirect_stdout(sys.stderr):
        if "scores" in job:
            found: dict[str, Any] = scores(Path(job["kernelbench"]), **job["scores"])
        else:
            found = evaluate(job)
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
