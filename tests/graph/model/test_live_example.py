"""README's live module: its example runs, and what comes of it computes the same, faster or not."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from graph.model.run import ModelRecord

EXAMPLE = Path(__file__).parents[3] / "examples/live/gated.py"


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_the_live_module_of_the_readme(tmp_path: Path) -> None:
    assert f"examples/live/{EXAMPLE.name}" in (EXAMPLE.parents[2] / "README.md").read_text(encoding="utf-8")
    main = runpy.run_path(str(EXAMPLE))["main"]
    difference = main(200.0, target="cpu", max_depth=0, sanitize=False, out=tmp_path / "run", compile_baseline=False)
    assert difference < 1e-4
    record = ModelRecord.model_validate_json((tmp_path / "run/record.json").read_text())
    assert record.plan is not None
    assert {outcome.name for outcome in record.outcomes} <= {region.name for region in record.plan.regions}
    assert record.accepted == (tmp_path / "run/model_fast.py").exists()
