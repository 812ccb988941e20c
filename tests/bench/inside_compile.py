"""Are a model's kernels faster inside torch.compile than torch.compile alone? Results are written as they come.

    python tests/bench/inside_compile.py decoder --out OUT --seconds 130

Searches the model's regions with the playbook, then compiles the model with the backend "cutegen": each region's
kernel is kept only where the compiled model with it beats the one without it, by turns in this process. At the end
stand eager, torch.compile's modes, and the same modes with the kernels that were kept.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

from graph.export.runtime import backend
from harness.trusted.timing.statistics import median_ratio

ROOT, MODELS = Path(__file__).parents[2], Path(__file__).parent / "models"
ROUNDS, WARM = 40, 4
Call = Callable[[], Any]


class Out:
    """One JSON file that always holds all that is known."""

    def __init__(self, file: Path) -> None:
        self._file, self._began = file, time.monotonic()
        self.found: dict[str, Any] = {}

    def say(self, **found: Any) -> None:
        """Add to the file, and print."""
        self.found |= found | {"seconds": round(time.monotonic() - self._began, 1)}
        self._file.write_text(json.dumps(self.found, indent=1) + "\n")
        print(json.dumps(found), flush=True)

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began


def searched(name: str, target: str, seconds: float, folder: Path) -> str:
    """The model's regions, each with its run below `folder`."""
    line: list[str | Path] = [
        sys.executable, "-m", "graph.cli", "model", MODELS / f"{name}.py", "--target", target, "--depth", "0",
        "--no-compile-baseline", "--set", f"max_wall_s={seconds:g}", "--set", "sanitize=false", "--out", folder,
    ]  # fmt: skip
    ended = subprocess.run(line, capture_output=True, text=True, check=False, cwd=ROOT)
    return " | ".join((ended.stdout + ended.stderr).strip().splitlines()[-3:])


class Model:
    """A model on its own inputs."""

    def __init__(self, name: str, target: str) -> None:
        spec = importlib.util.spec_from_file_location(name, MODELS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        file = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(file)
        torch.manual_seed(0)
        self._module = file.Model(*file.get_init_inputs()).eval().to(target)
        self._given = [each.to(target) for each in file.get_inputs()]

    def eager(self) -> Any:
        """A call as it is."""
        return self._module(*self._given)

    def compiled(self, kernels: list[Path], mode: str) -> Call:
        """A call compiled in a mode, warm. Without kernels it is torch.compile's own."""
        options: dict[str, Any] = {"kernels": [str(each) for each in kernels], "mode": mode}
        how: dict[str, Any] = {"backend": "cutegen", "options": options} if kernels else {"mode": mode}
        fast: Any = torch.compile(self._module, **how)
        begin: Any = torch.compiler.cudagraph_mark_step_begin

        def run() -> Any:
            begin()
            return fast(*self._given)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(WARM):
                run()
        return run


def finish() -> None:
    """Wait for the device."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def by_turns(sides: dict[str, Call], limit_s: float) -> dict[str, list[float]]:
    """Milliseconds of each side's calls, one of each in a round."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    names, began = list(sides), time.monotonic()
    for turn in range(ROUNDS):
        for name in (*names[turn % len(names) :], *names[: turn % len(names)]):
            finish()
            started = time.perf_counter()
            sides[name]()
            finish()
            times[name].append((time.perf_counter() - started) * 1e3)
        if time.monotonic() - began > limit_s and turn >= 10:
            break
    return times


def over(times: dict[str, list[float]], slow: str, fast: str) -> list[float]:
    """How much faster one side is than another: the median ratio and its 95 % interval."""
    ratio, interval = median_ratio(times[slow], times[fast])
    return [round(each, 3) for each in (ratio, interval.low, interval.high)]


def kept(model: Model, places: list[Path], mode: str, out: Out, until_s: float) -> list[Path]:
    """The kernels with which the compiled model is faster than without, one after the other."""
    found: list[Path] = []
    best = model.compiled([], mode)
    for place in places:
        if out.seconds > until_s:
            out.say(**{f"region {place.name}": "not tried: the time was over"})
            continue
        before = len(backend.COMPILED)
        try:
            fast = model.compiled([*found, place], mode)
        except Exception as error:  # noqa: BLE001 (a kernel that fails inside is told, and left out)
            out.say(**{f"region {place.name}": f"failed: {' '.join(str(error).split())[:300]}"})
            continue
        told = [dict(each.placed) | dict.fromkeys(each.reasons, 0) for each in list(backend.COMPILED)[before:]]
        times = by_turns({"without": best, "with": fast}, 3.0)
        ratio = over(times, "without", "with")
        out.say(**{f"region {place.name}": {"gain": ratio, "placed": told, "off by": _off(best(), fast())}})
        if ratio[1] > 1.0:
            found, best = [*found, place], fast
    return found


def _off(one: Any, other: Any) -> float:
    return float((one.float() - other.float()).abs().max() / one.float().abs().max())


def main() -> None:
    """One model, to its end or that of its seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=[file.stem for file in MODELS.glob("[a-z]*.py")])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=130.0)
    parser.add_argument("--search", type=float, default=70.0, help="of these seconds, for the regions' kernels")
    parser.add_argument("--kernels", type=Path, help="a model's folder whose regions are there already")
    asked = parser.parse_args()
    target = "cuda" if torch.cuda.is_available() else "cpu"
    asked.out.mkdir(parents=True, exist_ok=True)
    out = Out(asked.out / f"{asked.model}.json")
    backend.register()
    device = torch.cuda.get_device_name() if target == "cuda" else "cpu"
    out.say(model=asked.model, device=device, torch=torch.__version__)
    folder = asked.kernels or Path(tempfile.mkdtemp()) / asked.model
    if asked.kernels is None:
        out.say(search=searched(asked.model, target, asked.search, folder))
    places = sorted(file.parent for file in folder.glob("regions/*/model_new.py"))
    out.say(regions=[each.name for each in places])
    torch._dynamo.config.recompile_limit = 64  # one model, compiled in many ways
    model = Model(asked.model, target)
    with torch.no_grad():
        won = kept(model, places, "default", out, asked.seconds * 0.75)
        out.say(kept=[each.name for each in won])
        sides: dict[str, Call] = {"eager": model.eager}
        for mode in ("default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune"):
            if mode != "default" and (target == "cpu" or out.seconds > asked.seconds):
                out.say(**{f"mode {mode}": "not compiled: the time was over, or it tunes nothing here"})
                continue
            sides[mode] = model.compiled([], mode)
            if won:
                sides[f"{mode} with kernels"] = model.compiled(won, mode)
            times = by_turns(sides, 6.0)
            out.say(
                ms={name: round(median(each), 4) for name, each in times.items()},
                over_its_own_mode={
                    name: over(times, name.removesuffix(" with kernels"), name) for name in times if " with" in name
                },
            )
        best = min((name for name in sides if " with" not in name), key=lambda name: median(times[name]))
        ours = [name for name in sides if " with" in name]
        if ours:
            mine = min(ours, key=lambda name: median(times[name]))
            out.say(best_baseline=best, ours=mine, over_best_baseline=over(times, best, mine))
    out.say(done=True)


if __name__ == "__main__":
    main()
