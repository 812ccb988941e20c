"""The runtime that lies beside a drop-in: several versions of it in one process, and folders that lack it."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from drop_ins import exported, loaded
from test_drop_in_cells import KERNEL, SCALED


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return exported(tmp_path / "whole", SCALED, f"// with an operator of its own\n{KERNEL}")


def another_version(folder: Path, mark: str) -> Path:
    """The same drop-in with a runtime of its own, under a name of its own."""
    other = shutil.copytree(folder, folder.with_name(mark))
    (other / "cutegen_runtime" / "__init__.py").write_text(f'MARK = "{mark}"\n')
    file = other / "model_new.py"
    file.write_text(re.sub(r"cutegen_runtime_[0-9a-f]{12}", f"cutegen_runtime_{mark}", file.read_text()))
    return other


def computes(drop_in: Any) -> bool:
    model, x = drop_in.ModelNew(), torch.randn(4, 16)
    with torch.no_grad():
        return torch.equal(model(x), x * model.scale)


def versions() -> set[str]:
    return {name for name in sys.modules if name.startswith("cutegen_runtime_moved")}


def test_a_file_without_its_folder_says_so_and_breaks_no_later_one(folder: Path) -> None:
    whole = another_version(folder, "moved")
    alone = folder.with_name("alone")
    alone.mkdir()
    shutil.copy(whole / "model_new.py", alone)
    for _ in range(2):
        with pytest.raises(ImportError, match=r"cutegen_runtime is not there: keep the whole folder of model_new\.py"):
            loaded(alone)
        assert not versions()
    assert computes(loaded(whole))
    assert versions()


def test_a_damaged_runtime_breaks_no_later_one(folder: Path) -> None:
    whole = another_version(folder, "moved_and_damaged")
    damaged = shutil.copytree(whole, folder.with_name("damaged"))
    (damaged / "cutegen_runtime" / "specs.py").write_text("raise ValueError('damaged')")
    with pytest.raises(ValueError, match="damaged"):
        loaded(damaged)
    assert computes(loaded(whole))


def test_two_versions_of_it_work_side_by_side(folder: Path) -> None:
    one, two = loaded(another_version(folder, "first")), loaded(another_version(folder, "second"))
    assert one.runtime.Kernel is not two.runtime.Kernel
    assert one.KERNEL.operator is two.KERNEL.operator, "it is the same kernel"
    assert computes(one) and computes(two)
    two.ModelNew()(torch.randn(4, 16)).sum().backward()
