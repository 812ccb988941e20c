"""Other people's tools that take our exports, where this machine has them; a test is skipped with the reason else."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from graph.suites.kernelbench_child import kernelbench_module


def checkout(variable: str, project: str) -> Path:
    """The folder that the environment variable names, of a project that lies outside the tree."""
    named = os.environ.get(variable)
    if not named:
        pytest.skip(f"{variable} names no checkout of {project}")
    return Path(named)


def kernelbench(name: str) -> Any:
    """A module of KernelBench."""
    return kernelbench_module(checkout("CUTEGEN_KERNELBENCH", "KernelBench"), name)


def robust_kbench(name: str) -> Any:
    """A module of robust-kbench."""
    folder = str(checkout("CUTEGEN_ROBUST_KBENCH", "robust-kbench"))
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(f"robust_kbench.{name}")
