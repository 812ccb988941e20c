"""What is held as golden is not compiled again, and nothing else passes for it."""

from pathlib import Path

import pytest
from goldens import Golden


@pytest.fixture
def entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("goldens.FOLDER", tmp_path)
    renewed = Golden(Path("test_rows.py"), "test_sums[8]", "renew")
    assert not renewed.holds(["int x;"], "-O3", "/usr/include")
    renewed.settle()
    return tmp_path / "goldens" / "test_rows.json"


def again(name: str = "test_sums[8]", mode: str = "trust") -> Golden:
    return Golden(Path("test_rows.py"), name, mode)  # type: ignore[arg-type]


def test_the_same_text_by_the_same_flags_holds_wherever_headers_lie(entries: Path) -> None:
    golden = again()
    assert golden.holds(["int x;"], "-O3", "/opt/include")
    golden.settle()


def test_libraries_may_lie_anywhere_too(entries: Path) -> None:
    for folder in ("/usr/lib", "/opt/lib"):
        golden = again(mode="renew" if folder == "/usr/lib" else "trust")
        held = golden.holds(["int x;"], f"-L{folder}", f"-Wl,-rpath,{folder}", "-Wl,-z,defs")
        golden.settle()
    assert held
    assert not again().holds(["int x;"], "-L/opt/lib", "-Wl,-rpath,/opt/lib", "-Wl,-z,now")


@pytest.mark.parametrize(
    ("texts", "flags", "name"),
    [
        (["int y;"], ["-O3"], "test_sums[8]"), (["int x;", ""], ["-O3"], "test_sums[8]"),
        (["int x;"], ["-O2"], "test_sums[8]"), (["int x;"], ["-O3"], "test_sums[4]"),
    ],
)  # fmt: skip
def test_what_reads_differently_is_compiled_until_it_is_renewed(
    entries: Path, texts: list[str], flags: list[str], name: str
) -> None:
    before = entries.read_text()
    golden = again(name)
    assert not golden.holds(texts, *flags)
    with pytest.warns(UserWarning, match="make goldens"):
        golden.settle()
    assert entries.read_text() == before


def test_all_is_compiled_again_where_that_is_asked_for(entries: Path) -> None:
    golden = again(mode="prove")
    assert not golden.holds(["int x;"], "-O3")
    golden.settle()


def test_an_included_file_of_the_checkout_counts_by_its_text(entries: Path, tmp_path: Path) -> None:
    (tmp_path / "machine.hpp").write_text("int x;")
    assert again().holds([f'#include "{tmp_path}/machine.hpp"'], "-O3")
    (tmp_path / "machine.hpp").write_text("int y;")
    assert not again().holds([f'#include "{tmp_path}/machine.hpp"'], "-O3")


def test_a_test_that_compiles_nothing_settles_nothing(entries: Path) -> None:
    again("test_other").settle()
