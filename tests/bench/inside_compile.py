"""What `cutegen model` makes of whole models, beside every mode of torch.compile: a row each, written as it comes.

    python tests/bench/inside_compile.py --out OUT decoder=120 vit=120 some/model.py=90

Each row is one command with that budget in seconds, `cutegen model FILE --set max_wall_s=SECONDS`; a name without a
path is a file of `tests/bench/models/`. `OUT/rows.json` and `OUT/rows.md` hold the rows that are there by now, and
`OUT/NAME.md` each one's report. Rows whose budget does not fit into `--seconds` any more are named and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from graph.model.report import told_of
from graph.model.run import ModelFolder, ModelRecord
from graph.runs.tables import markdown
from harness.nouns.acceptance import Acceptance

ROOT, MODELS = Path(__file__).parents[2], Path(__file__).parent / "models"
GRACE_S = 25.0
"""Beyond its budget a model's answer takes 15 s at most."""
HEAD = ("model", "budget s", "answer s", "eager ms", "ours ms", "over the best torch.compile", "kept", "said")


def row_of(file: Path, budget_s: float, folder: Path, more: list[str]) -> dict[str, Any]:
    """One model's command to its end, and what its record holds."""
    settings = ["--depth", "0", "--set", f"max_wall_s={budget_s:g}", "--set", "sanitize=false"]
    line = [sys.executable, "-m", "graph.cli", "model", str(file), *settings, *more, "--out", str(folder)]
    began = time.monotonic()
    child = subprocess.Popen(
        line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        said, _ = child.communicate(timeout=budget_s + GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGINT)
        try:
            said, _ = child.communicate(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            said, _ = child.communicate()
    found: dict[str, Any] = {
        "model": file.stem,
        "budget_s": budget_s,
        "answer_s": round(time.monotonic() - began, 1),
        "code": child.returncode,
        "end": said.strip().splitlines()[-12:],
    }
    try:
        record = ModelRecord.model_validate_json(ModelFolder(folder).record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return found | {"said": "no answer"}
    return found | _of_record(record)


def _of_record(record: ModelRecord) -> dict[str, Any]:
    acceptance = record.acceptance
    regions = {each.name: f"{each.speedup or 0:.2f}x alone {each.reason}".strip() for each in record.outcomes}
    if acceptance is None:
        return {"alone": regions, "said": "no kernel won by itself"}
    return {
        "alone": regions,
        "inside": told_of(acceptance),
        "kept": list(acceptance.kept),
        "form": acceptance.form,
        "mode": acceptance.mode,
        "eager_ms": acceptance.eager_ms,
        "ms": acceptance.ms,
        "over_eager": _factor(acceptance.speedup, acceptance.interval),
        "compiled": [each.model_dump(mode="json") for each in acceptance.compiled],
        "over_best": _over_best(acceptance),
        "accepted": acceptance.accepted,
        "said": " ".join(filter(None, [acceptance.reason, acceptance.instead])),
    }


def _factor(speedup: float | None, interval: Any) -> str:
    return f"{speedup:.3f} ({interval.low:.3f} to {interval.high:.3f})" if speedup and interval else ""


def _over_best(acceptance: Acceptance) -> str:
    timed = [each for each in acceptance.compiled if each.speedup is not None]
    if not acceptance.accepted:
        least = f" (it was {min(each.speedup or 0.0 for each in timed):.3f})" if timed else ""
        return f"1.00, nothing handed out{least}"
    best = min(timed, key=lambda each: each.speedup or 0.0, default=None)
    return f"{_factor(best.speedup, best.interval)} over {best.what}" if best else "none was timed"


def write(out: Path, rows: list[dict[str, Any]]) -> None:
    """All rows so far, for machines and for people."""
    (out / "rows.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    lines = [
        tuple(
            f"{value:.4g}" if isinstance(value, float) else str(value)
            for value in (
                row["model"],
                row["budget_s"],
                row["answer_s"],
                row.get("eager_ms") or "",
                row.get("ms") or "",
                row.get("over_best", ""),
                len(row.get("kept", [])),
                row["said"],
            )
        )
        for row in rows
    ]
    (out / "rows.md").write_text(markdown(HEAD, lines) + "\n", encoding="utf-8")


def main() -> None:
    """Row by row, until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="+", help="MODEL=SECONDS")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=560.0, help="of all rows together")
    parser.add_argument("--assembly", action="store_true", help="without Inductor around the kernels")
    parser.add_argument("--target", default="auto")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    began, rows = time.monotonic(), []
    more = ["--target", asked.target, *(["--assembly"] if asked.assembly else [])]
    with tempfile.TemporaryDirectory() as scratch:
        for each in asked.rows:
            name, _, seconds = each.rpartition("=")
            file = Path(name).absolute() if name.endswith(".py") else MODELS / f"{name}.py"
            left_s = asked.seconds - (time.monotonic() - began)
            if float(seconds) + GRACE_S > left_s:
                rows.append({"model": file.stem, "budget_s": float(seconds), "answer_s": 0.0, "said": "not begun"})
            else:
                folder = Path(scratch, file.stem)
                rows.append(row_of(file, float(seconds), folder, more))
                report = folder / "report.md"
                if report.is_file():
                    (asked.out / f"{file.stem}.md").write_bytes(report.read_bytes())
            print(json.dumps(rows[-1], indent=1), flush=True)
            write(asked.out, rows)


if __name__ == "__main__":
    main()
