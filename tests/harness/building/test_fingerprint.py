"""A library's fingerprint: of what runs, and nothing else; bytes that are no library have none."""

from __future__ import annotations

import _struct
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.building.store import _sections, fingerprint

LIBRARY = Path(_struct.__file__) if hasattr(_struct, "__file__") else None
pytestmark = pytest.mark.skipif(LIBRARY is None, reason="this Python has its modules built in")
IMAGE = LIBRARY.read_bytes() if LIBRARY else b""


def of(image: bytes) -> str:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.so"
        file.write_bytes(image)
        return fingerprint(file)


def test_it_follows_the_instructions_and_not_what_stands_beside_them() -> None:
    text = dict(_sections(IMAGE))[".text"]
    at = IMAGE.index(text)
    other = IMAGE[:at] + bytes([text[0] ^ 1]) + IMAGE[at + 1 :]
    assert len(of(IMAGE)) == 64 and of(IMAGE) == of(IMAGE + b"a remark")
    assert of(other) != of(IMAGE)


@given(st.integers(0, 63), st.binary(min_size=1, max_size=8))
def test_a_damaged_header_is_no_crash(at: int, damage: bytes) -> None:
    assert len(of(IMAGE[:at] + damage + IMAGE[at + len(damage) :])) in (0, 64)


@pytest.mark.parametrize("image", [b"", b"\x7fELF", IMAGE[:200], b"\x7fELF\x02\x01" + b"\xff" * 200])
def test_what_is_no_library_has_none(image: bytes) -> None:
    assert of(image) == ""
