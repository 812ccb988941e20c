"""What the tests of this folder share; `traced` holds what they call, `goldens` what need not be compiled again."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from goldens import Golden
from traced import Compiler


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    """One compiler for the whole session."""
    return Compiler(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """What the test compiles, beside what it compiled when it last passed."""
    return Golden(request.path, request.node.name, request.config.getoption("goldens"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A test that passed on new texts warns, or records them (`--goldens renew`)."""
    done = yield
    if isinstance(golden := getattr(item, "funcargs", {}).get("golden"), Golden):
        golden.settle()
    return done
