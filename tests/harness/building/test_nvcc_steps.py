"""nvcc's steps as edges: the two front ends wait for nobody, and an nvcc that goes another way is left alone."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from harness.building.cuda_build import MODULE_ID, MODULE_ID_TEXT, CudaToolchain, parallel_edges
from harness.building.ninja_file import ninja_file, search_path
from harness.building.toolchain import cuda_compiler, host_compiler, ninja
from harness.nouns.errors import MachineError

STEPS = (
    "_SPACE_= ",
    "CICC_PATH=/opt/cuda dir/nvvm/bin",
    "rm ./kernel_dlink.reg.c",
    '"/usr/bin"/g++ -E "kernel.cu" -o "./kernel.cpp4.ii" ',
    'cudafe++ --gen_c_file_name "./kernel.cudafe1.cpp" --gen_module_id_file --module_id_file_name "./kernel.module_id"',
    '"/usr/bin"/g++ -D__CUDA_ARCH__=900 -E "kernel.cu" -o "./kernel.cpp1.ii" ',
    '"$CICC_PATH/cicc" --module_id_file_name "./kernel.module_id" "./kernel.cpp1.ii" -o "./kernel.ptx"',
    'ptxas "./kernel.ptx" -o "./kernel.cubin"',
    'fatbinary "--image3=file=./kernel.cubin" --embedded-fatbin="./kernel.fatbin.c"',
    '"/usr/bin"/g++ -c "./kernel.cudafe1.cpp" -o "./kernel.o" ',
    '"/usr/bin"/g++ "./kernel.o" -o "kernel.so" ',
)

KERNEL = """\
namespace {
__global__ void count(int* x) { *x = 1; }
}  // namespace
extern "C" int twice(int x) { return x ? 2 * x : (count<<<1, 1>>>(nullptr), 0); }
"""


def edges(folder: Path, steps: tuple[str, ...]):
    """What is made of an nvcc that tells these steps."""
    shown = folder / "steps"
    shown.write_text("".join(f"#$ {line}\n" for line in steps))
    nvcc = folder / "nvcc"
    nvcc.write_text(f'#!/bin/sh\ncat "{shown}" >&2\n')
    nvcc.chmod(0o755)
    return parallel_edges((str(nvcc),), "kernel.cu", "kernel.so", "/usr/bin:/bin")


def test_front_ends_wait_for_the_source_alone(tmp_path):
    host, device, join = edges(tmp_path, STEPS)
    assert host.inputs == device.inputs == ("kernel.cu", MODULE_ID)
    assert join.inputs == (host.output, device.output) and join.output == "kernel.so"
    assert "gen_module_id_file" not in host.command[2]
    for edge, program in ((host, "cudafe++"), (device, "ptxas"), (join, "kernel.o")):
        assert program in edge.command[2] and "rm ./" not in edge.command[2]
        assert "export CICC_PATH='/opt/cuda dir/nvvm/bin'" in edge.command[2]


@pytest.mark.parametrize(
    "steps",
    [
        (),
        STEPS[:4],
        (*STEPS[:3], *STEPS[5:9], *STEPS[3:5], *STEPS[9:]),  # the device first
        (*STEPS[:8], *STEPS[6:]),  # two architectures
        tuple(line.replace("--gen_module_id_file", "") for line in STEPS),
        tuple(line.replace("fatbinary", "other") for line in STEPS),
    ],
)
def test_other_steps_are_left_to_nvcc(tmp_path, steps):
    assert edges(tmp_path, steps) is None


def test_no_nvcc_at_all_is_left_to_who_starts_it(tmp_path):
    assert parallel_edges((str(tmp_path / "nvcc"),), "kernel.cu", "kernel.so", "/usr/bin:/bin") is None


def test_what_they_build_is_the_same_library(tmp_path):
    """With what is private to the source on the device, which both front ends must call by the same name."""
    try:
        nvcc = cuda_compiler()
    except MachineError as missing:
        pytest.skip(str(missing))
    path = search_path(CudaToolchain("sm_80").compiler)
    words = (*nvcc.command, "-ccbin", host_compiler().command[0], "-arch=sm_80", "--cudart", "shared", "-shared")
    found = parallel_edges((*words, "-Xcompiler", "-fPIC"), "kernel.cu", "kernel.so", path)
    assert found is not None and [edge.name for edge in found] == ["host", "device", "join"]
    (tmp_path / "kernel.cu").write_text(KERNEL)
    (tmp_path / MODULE_ID).write_text(MODULE_ID_TEXT)
    (tmp_path / "build.ninja").write_text(ninja_file(found))
    subprocess.run([ninja(), "--quiet", "-j2"], cwd=tmp_path, env={"PATH": path}, check=True)
    (registered,) = re.findall(r"__cudaRegisterEntry\([^;]*?(_Z\w+)", (tmp_path / "kernel.cudafe1.stub.c").read_text())
    assert MODULE_ID_TEXT in registered and f".entry {registered}(" in (tmp_path / "kernel.ptx").read_text()
    symbols = subprocess.run(["nm", "-D", "kernel.so"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert " T twice" in symbols.stdout
