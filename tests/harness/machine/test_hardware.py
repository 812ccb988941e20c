"""A GPU's facts: the probe compiles everywhere, is read back, and on a GPU measures what such a GPU can do."""

from __future__ import annotations

from importlib import resources

import pytest

from harness.building.toolchain import cuda_compiler
from harness.isolation.policy import Limits
from harness.machine.gpu import GENERATIONS, Gpu, find_gpu, generation
from harness.nouns.errors import MachineError
from harness.targets.ceilings import Ceilings, compile_probe, facts_of, gpu_facts, measured_by, parse_probe, run_probe

PRINTED = """\
multiprocessors 132
memory_bytes 1.50121677e+11
l2_bytes 62914560
shared_bytes 232448
shared_bytes_per_multiprocessor 233472
threads_per_multiprocessor 2048
registers_per_multiprocessor 65536
clock_mhz 1980
gb_s 4310.5
gflop_s 61234.5
"""
H200 = Gpu("GPU-6a1f", "NVIDIA H200", (9, 0), "580.65.06")


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_the_probe_compiles_without_a_gpu(tmp_path, architecture):
    try:
        cuda_compiler()
    except MachineError as missing:
        pytest.skip(str(missing))
    source = resources.files("harness.targets").joinpath("probe.cu").read_text(encoding="utf-8")
    (tmp_path / "probe.cu").write_text(source)
    assert compile_probe(tmp_path, architecture).stat().st_size > 0
    (tmp_path / "probe.cu").write_text(source + "no such thing")
    with pytest.raises(MachineError, match="could not be compiled"):
        compile_probe(tmp_path, architecture)


def test_facts_of_an_h200():
    facts = facts_of(H200, parse_probe(PRINTED))
    assert (facts.device, facts.architecture, facts.multiprocessors) == ("NVIDIA H200", "sm_90a", 132)
    assert facts.threads == 132 * 2048 and facts.l3_bytes == facts.l2_bytes == 62914560
    assert (facts.peak_gb_s, facts.peak_gflop_s) == (4310.5, 61234.5)
    assert facts.tf32_gflop_s == pytest.approx(535e3, rel=0.01)  # 494 at the datasheet's boost clock of 1.83 GHz
    assert facts.half_gflop_s == 2 * facts.tf32_gflop_s
    assert facts.memory_bytes == 150121677000


def test_a_gpu_that_is_newer_than_the_table_has_the_newest_rates():
    assert generation((12, 0)) is GENERATIONS[(10, 0)]
    assert generation((8, 7)) is GENERATIONS[(8, 6)]
    assert generation((7, 0)) is GENERATIONS[(8, 0)]


def test_measuring_again_keeps_the_higher_of_each(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path))
    answers = iter(
        [Ceilings(gb_s=1, gflop_s=5, load=9), Ceilings(gb_s=2, gflop_s=4, load=3), Ceilings(gb_s=1.5, gflop_s=4)]
    )

    def measure(folder):
        assert (folder / "probe.cpp").is_file()
        return next(answers)

    assert measured_by("probe.cpp", "key", Ceilings, measure, again=lambda _: False) == Ceilings(
        gb_s=1, gflop_s=5, load=9
    )
    assert measured_by("probe.cpp", "key", Ceilings, measure, again=lambda _: False) == Ceilings(
        gb_s=1, gflop_s=5, load=9
    )
    assert measured_by("probe.cpp", "key", Ceilings, measure, again=lambda _: True) == Ceilings(
        gb_s=2, gflop_s=5, load=3
    )
    assert measured_by("probe.cpp", "key", Ceilings, measure, again=lambda _: False) == Ceilings(
        gb_s=2, gflop_s=5, load=3
    )
    assert measured_by("probe.cpp", "other", Ceilings, measure, again=lambda _: False) == Ceilings(gb_s=1.5, gflop_s=4)


@pytest.mark.parametrize("left", [b"", b"{", b'{"gb_s": 3}', b'{"gb_s": 3, "gflop_s": "many"}', b"\xff\x00"])
def test_what_a_power_cut_left_of_the_ceilings_is_measured_anew(tmp_path, monkeypatch, left):
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path))
    answers = iter([Ceilings(gb_s=1, gflop_s=5), Ceilings(gb_s=2, gflop_s=4)])
    measured_by("probe.cpp", "key", Ceilings, lambda folder: next(answers), again=lambda _: False)
    (kept,) = tmp_path.glob("machine/*/*/ceilings.json")
    kept.write_bytes(left)
    for _ in range(2):
        assert measured_by(
            "probe.cpp", "key", Ceilings, lambda folder: next(answers), again=lambda _: False
        ) == Ceilings(gb_s=2, gflop_s=4)


def test_a_probe_that_cannot_be_built_or_run_is_the_machines_fault(tmp_path):
    failing = tmp_path / "probe"
    for script, words in (("echo too hot >&2; exit 3", "run: too hot"), ("kill -9 $$", "run: signalled")):
        failing.write_text(f"#!/bin/sh\n{script}\n")
        failing.chmod(0o755)
        with pytest.raises(MachineError, match=words) as caught:
            run_probe(failing, 1, limits=Limits(wall_s=20), environment={})
        assert "cutegen doctor" in caught.value.remedy
    with pytest.raises(MachineError, match=r"run: over its time of 0\.2 s"):
        failing.write_text("#!/bin/sh\nsleep 60\n")
        run_probe(failing, limits=Limits(wall_s=0.2), environment={})


def test_a_probe_gets_its_arguments_and_environment_and_no_language(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "the-secret")
    told = tmp_path / "probe"
    told.write_text('#!/bin/sh\necho "$1 $2 $LC_ALL $THREADS $OPENAI_API_KEY"; pwd\n')
    told.chmod(0o755)
    said = run_probe(told, 7, 1.5, limits=Limits(wall_s=20), environment={"THREADS": "4"})
    assert said == f"7 1.5 C 4 \n{tmp_path}\n"


def test_what_a_gpus_probe_prints_is_read_by_name():
    found = parse_probe(PRINTED)
    assert (found.multiprocessors, found.shared_bytes, found.memory_bytes) == (132, 232448, 150121677000)
    assert (found.threads_per_multiprocessor, found.registers_per_multiprocessor) == (2048, 65536)
    assert (found.clock_mhz, found.gb_s, found.gflop_s) == (1980, 4310.5, 61234.5)
    assert parse_probe("\n".join(reversed(PRINTED.splitlines()))) == found
    for wrong in (PRINTED.replace("gb_s", "gb_h"), PRINTED.replace("gflop_s 61234.5\n", "")):
        with pytest.raises(ValueError, match=r"(gb|gflop)_s"):
            parse_probe(wrong)


@pytest.mark.parametrize(
    ("capability", "name", "tera"),
    [
        ((8, 0), "A100", 312), ((8, 6), "A10, A40, RTX 30", 149.7), ((8, 9), "L4, L40S, RTX 40", 362),
        ((9, 0), "H100, H200", 989), ((10, 0), "B200", 2250),
    ],
)  # fmt: skip
def test_the_rates_of_a_generation_are_its_datasheets(capability, name, tera):
    """At the boost clock of the part that the source names; dense float16 with float32 sums."""
    known = GENERATIONS[capability]
    multiprocessors, gigahertz = {
        (8, 0): (108, 1.41), (8, 6): (84, 1.74), (8, 9): (142, 2.49), (9, 0): (132, 1.83), (10, 0): (148, 1.86),
    }[capability]  # fmt: skip
    assert known.name == name and known.half == 2 * known.tf32
    assert known.half * multiprocessors * gigahertz * 1e-3 == pytest.approx(tera, rel=0.02)
    assert known.l1_bytes in {128 << 10, 192 << 10, 256 << 10}


@pytest.mark.skipif(find_gpu() is not None, reason="a GPU answers here")
def test_without_a_gpu_the_remedy_is_named():
    with pytest.raises(MachineError, match=r"needs an NVIDIA GPU.*--target cpu"):
        gpu_facts()


@pytest.mark.gpu
@pytest.mark.skipif(find_gpu() is None, reason="no NVIDIA GPU answers here")
def test_a_real_gpu_is_measured_once(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path))
    facts = gpu_facts()
    assert facts.multiprocessors > 0 and facts.memory_bytes > 1 << 30 and facts.shared_bytes >= 48 << 10
    assert facts.peak_gb_s > 100 and 1000 < facts.peak_gflop_s < facts.tf32_gflop_s
    assert gpu_facts() == facts
    assert gpu_facts(again=lambda _: True).peak_gb_s >= facts.peak_gb_s
