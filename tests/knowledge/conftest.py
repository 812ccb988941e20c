"""What the tests of this folder share; `traced` holds what they call."""

from __future__ import annotations

import pytest
from traced import Compiler


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    """One compiler for the whole session."""
    return Compiler(tmp_path_factory.mktemp("kernels"))
