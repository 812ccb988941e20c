"""Do whole models end with their budget? Prints each one's wall seconds and answer; exits 1 where one came too late.

    python tests/bench/model_budget.py                    # one model alone at 60 s: on a GPU ViT-B/16, else a small GPT
    python tests/bench/model_budget.py --beside 170       # four side by side

The 15 s behind the budget are for an otherwise idle machine; the load is printed beside the times.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MODELS = Path(__file__).parent / "models"
ROOT = Path(__file__).parents[2]
GRACE_S = 15.0
FOUR = ("vit", "decoder", "gpt", "vit")


def ran(name: str, target: str, seconds: float, depth: int, out: Path) -> tuple[str, float, int, str]:
    """A model's name, wall seconds, exit code and last word."""
    began = time.monotonic()
    ended = subprocess.run(
        [
            sys.executable, "-m", "graph.cli", "model", MODELS / f"{name}.py", "--target", target,
            "--depth", str(depth), "--set", f"max_wall_s={seconds:g}", "--out", out,
        ],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    wall_s = time.monotonic() - began
    report = out / "report.md"
    said = report.read_text().splitlines()[2:4] if report.exists() else ended.stderr.splitlines()[-1:]
    return name, wall_s, ended.returncode, " ".join(said)


def main() -> int:
    """Run them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", default="cuda" if Path("/dev/nvidia0").exists() else "cpu")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--beside", type=float, metavar="SECONDS", help="four models side by side with so many each")
    parser.add_argument("--depth", type=int, default=1)
    asked = parser.parse_args()
    names = FOUR if asked.beside else ("vit" if asked.target == "cuda" else "gpt",)
    seconds = asked.beside or asked.seconds
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(len(names)) as pool:
        outs = [Path(place, f"{index}-{name}") for index, name in enumerate(names)]
        made = list(pool.map(lambda name, out: ran(name, asked.target, seconds, asked.depth, out), names, outs))
    print(f"{asked.target}, budget {seconds:g} s, load {os.getloadavg()[0]:.1f}")
    for name, wall_s, code, said in made:
        print(f"{name:8} {wall_s:6.1f} s  exit {code}  {said}")
    return int(any(wall_s > seconds + GRACE_S or code not in (0, 1) for _, wall_s, code, _ in made))


if __name__ == "__main__":
    raise SystemExit(main())
