"""The child that runs KernelBench's own evaluator on one task: `python -m graph.suites.kernelbench_child JOB`.

Nothing of it is written again here: the checkout's functions do what they do for anybody.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import importlib.util
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

_UNUSED = ("litellm", "openai", "dotenv", "requests", "tqdm")
"""What its helpers import for language models and downloads; an evaluation calls none of it."""


class _StandIn(types.ModuleType):
    """In the place of a package that is not installed."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


def kernelbench_module(checkout: Path, name: str) -> Any:
    """A module of the checkout's package."""
    for each in _UNUSED:
        if each not in sys.modules and importlib.util.find_spec(each) is None:
            sys.modules[each] = _StandIn(each)
    source = str(checkout / "src")
    if source not in sys.path:
        sys.path.insert(0, source)
    return importlib.import_module(f"kernelbench.{name}")


def taking_turns(evaluation: Any, lock: Path) -> None:
    """Let several evaluators share a GPU: each has it to itself, but for building and while a task draws its inputs."""
    handle = lock.open("a")
    fcntl.flock(handle, fcntl.LOCK_EX)

    def without_the_gpu(work: Callable[..., Any]) -> Callable[..., Any]:
        def done(*args: Any, **kwargs: Any) -> Any:
            fcntl.flock(handle, fcntl.LOCK_UN)
            try:
                return work(*args, **kwargs)
            finally:
                fcntl.flock(handle, fcntl.LOCK_EX)

        return done

    load = evaluation.load_original_model_and_inputs

    def loaded(*args: Any) -> Any:
        model, get_init_inputs, get_inputs = load(*args)
        return model, get_init_inputs, without_the_gpu(get_inputs)

    evaluation.load_original_model_and_inputs = loaded
    for name in ("load_custom_model", "load_custom_model_with_tempfile"):
        setattr(evaluation, name, without_the_gpu(getattr(evaluation, name)))


def evaluate(job: dict[str, Any]) -> dict[str, Any]:
    """Evaluate the file `export` against `task`, with the checkout's defaults: what its evaluator found."""
    evaluation = kernelbench_module(Path(job["kernelbench"]), "eval")
    taking_turns(evaluation, Path(job["lock"]))
    reference, ours = (Path(job[each]).read_text(encoding="utf-8") for each in ("task", "export"))
    found = evaluation.eval_kernel_against_ref(
        reference,
        ours,
        num_correct_trials=job["correct_trials"],
        num_perf_trials=job["perf_trials"],
        measure_performance=True,
        build_dir=job["build_dir"],
        device=evaluation.torch.device(f"cuda:{job['device']}"),
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
    with contextlib.redirect_stdout(sys.stderr):
        if "scores" in job:
            found: dict[str, Any] = scores(Path(job["kernelbench"]), **job["scores"])
        else:
            found = evaluate(job)
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
