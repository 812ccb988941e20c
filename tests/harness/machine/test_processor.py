"""Reading what the system says of its processor."""

from __future__ import annotations

import dataclasses

import pytest

from harness.machine.processor import parse_cpuinfo, processor, read_caches, simd_floats


def cache(folder, index, kind, level, size):
    place = folder / f"index{index}"
    place.mkdir()
    for name, text in (("type", kind), ("level", level), ("size", size)):
        (place / name).write_text(f"{text}\n")


def test_this_machine_has_a_processor():
    here = processor()
    assert here.model and here.threads >= 1 and here.identity.startswith(("x86_64", "aarch64"))


def test_only_the_first_processors_fields_count():
    text = "processor\t: 0\nmodel name\t: First\nflags\t\t: fpu avx\n\nprocessor\t: 1\nmodel name\t: Second\n"
    assert parse_cpuinfo(text) == {"processor": "0", "model name": "First", "flags": "fpu avx"}
    assert parse_cpuinfo("") == {}


@pytest.mark.parametrize(
    ("flags", "floats"), [(("avx", "avx2", "avx512f"), 16), (("avx", "avx2"), 8), (("sse2",), 4), (("asimd",), 4)]
)
def test_the_widest_register_counts(flags, floats):
    assert simd_floats(flags) == floats


def test_data_caches_are_read_and_instruction_caches_are_not(tmp_path):
    cache(tmp_path, 0, "Data", 1, "48K")
    cache(tmp_path, 1, "Instruction", 1, "64K")
    cache(tmp_path, 2, "Unified", 2, "2M")
    cache(tmp_path, 3, "Unified", 3, "33792K")
    assert read_caches(tmp_path) == {1: 48 << 10, 2: 2 << 20, 3: 33 << 20}


@pytest.mark.parametrize(
    ("size", "found"), [("48K", 48 << 10), ("2M", 2 << 20), ("1G", 1 << 30), ("4096", 4096), ("105M", 105 << 20)]
)
def test_a_size_is_read_with_its_unit(tmp_path, size, found):
    cache(tmp_path, 0, "Unified", 3, size)
    assert read_caches(tmp_path)[3] == found


def test_what_is_told_in_part_or_beyond_the_third_level_is_passed_over(tmp_path):
    cache(tmp_path, 0, "Unified", 4, "128M")
    cache(tmp_path, 1, "Unified", 2, "2M")
    (tmp_path / "index1" / "size").unlink()
    cache(tmp_path, 2, "Data", 1, "64K")
    assert read_caches(tmp_path) == {1: 64 << 10, 2: 1 << 20, 3: 16 << 20}


def test_two_processors_that_compile_alike_are_one():
    here = processor()
    assert here.identity == dataclasses.replace(here, threads=99, l3_bytes=1).identity
    assert here.identity != dataclasses.replace(here, flags=(*here.flags, "more")).identity
    assert here.identity != dataclasses.replace(here, model="another").identity
    assert list(here.flags) == sorted(here.flags)


def test_hidden_caches_have_usual_sizes(tmp_path):
    (tmp_path / "index0").mkdir()
    assert read_caches(tmp_path) == read_caches(tmp_path / "missing") == {1: 32 << 10, 2: 1 << 20, 3: 16 << 20}
