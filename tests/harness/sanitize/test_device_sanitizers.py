"""compute-sanitizer: how its logs are read, and on a GPU the real tools on a kernel with a bug for each."""

from __future__ import annotations

import ctypes

import pytest

from harness.building.toolchain import find_tool
from harness.candidate.tool_runner import CudaMemory
from harness.isolation.policy import Needs
from harness.isolation.process import Completed
from harness.isolation.tiers import resolve_tier
from harness.machine.gpu import find_gpu
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.sanitizer_run import SanitizerRun
from harness.nouns.task import ScalarSpec, Signature, TensorSpec, Workload
from harness.sanitize.device import judge_run, parse_log, sanitize_on_device, with_unwatched
from harness.targets.cuda import CudaTarget
from harness.wire.layout import values_file
from tools.wording import say_sanitizers

# As an H200 answered (2025.3.1) on the kernel below, cut after the first messages.
MEMCHECK = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at buggy(const float *, float *, int, int)+0x240 in kernel.cu:10
=========     by thread (0,0,0) in block (0,0,0)
=========     Access to 0x7fc934802200 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7fc934801200 of size 4096 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: __tvm_ffi_run [0x4112] in kernel.so
=========         Host Frame: perform in solo.py:189
=========         Host Frame: main in solo.py:199
=========
========= Target application returned an error
========= ERROR SUMMARY: 1 error
"""
RACECHECK = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at buggy(const float *, float *, int, int)+0x170 in kernel.cu:4
=========     and Read access at buggy(const float *, float *, int, int)+0x1c0 in kernel.cu:6 [4096 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
INITCHECK = """\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at buggy(const float *, float *, int, int)+0x190 in kernel.cu:7
=========     by thread (96,0,0) in block (0,0,0)
=========     Address 0x7f9c72801180
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: __tvm_ffi_run [0x4112] in kernel.so
=========         Host Frame: main in solo.py:199
=========
========= Uninitialized __global__ memory read of size 4 bytes
=========     at buggy(const float *, float *, int, int)+0x190 in kernel.cu:7
=========     by thread (97,0,0) in block (0,0,0)
=========     Address 0x7f9c72801184
=========
========= ERROR SUMMARY: 1024 errors
"""
SYNCCHECK = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in warp.
=========     at buggy(const float *, float *, int, int)+0x1e0 in kernel.cu:8
=========     by thread (32,0,0) in block (2,0,0)
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: __tvm_ffi_run [0x4112] in kernel.so
=========
========= ERROR SUMMARY: 96 errors
"""
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
SAID = {
    ("memcheck", MEMCHECK, 10): "memcheck: Invalid __global__ write of 4 bytes, line 10, by thread (0,0,0) in block "
    "(0,0,0), Access is out of bounds, and is 1 bytes after the nearest allocation of size 4096 bytes.",
    ("racecheck", RACECHECK, 4): "racecheck: Race reported between Write access, line 4, and Read access in line 6.",
    ("initcheck", INITCHECK, 7): "initcheck: Uninitialized __global__ memory read of 4 bytes, line 7, by thread "
    "(96,0,0) in block (0,0,0).",
    ("synccheck", SYNCCHECK, 8): "synccheck: Barrier error detected. Divergent thread(s) in warp, line 8, by thread "
    "(32,0,0) in block (2,0,0).",
}

KERNEL = """\
__global__ void buggy(const float* x, float* y, int n, int bug) {
  __shared__ float tile[256];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < n ? x[i] : 0;
  if (bug != 2) __syncthreads();
  float value = tile[255 - threadIdx.x];
  if (bug == 3) value += y[i];
  if (bug == 4 && threadIdx.x < 40) __syncthreads();
  if (i < n && !(bug == 5 && i == 9)) y[i] = value;
  if (bug == 1 && i == 0) y[n] = value;
}
void run(tvm::ffi::TensorView x, int64_t bug, tvm::ffi::TensorView y) {
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(x.device().device_type, x.device().device_id));
  auto in = static_cast<const float*>(x.data_ptr());
  buggy<<<4, 256, 0, stream>>>(in, static_cast<float*>(y.data_ptr()), 1024, static_cast<int>(bug));
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


def ended(outcome="exited", code=0, stderr=b""):
    return Completed(outcome, code, None, b"", stderr, 1.0, 0, 0, "")


@pytest.mark.parametrize("log", SAID, ids=lambda log: log[0])
def test_each_tools_finding_is_one_sentence_with_its_line(log):
    name, text, line = log
    (finding,) = parse_log(name, text)
    assert (finding.message, finding.line) == (SAID[log], line)
    assert judge_run(name, ended(code=3), text).status == "found"


def test_a_run_without_its_last_line_has_come_to_no_result():
    assert judge_run("memcheck", ended(), CLEAN).status == "clean"
    assert judge_run("memcheck", ended(), "").status == "skipped"
    assert judge_run("memcheck", ended("timed_out", None), CLEAN).note.startswith("it did not end within 1 s")
    unsupported = "========= COMPUTE-SANITIZER\n========= Error: Device not supported. Please refer to the guide.\n"
    assert judge_run("memcheck", ended(code=1), unsupported).note.startswith("Error: Device not supported")


def test_an_output_that_is_not_written_everywhere_is_a_finding_of_memcheck():
    run = judge_run("memcheck", ended(stderr=b"noise\nunwritten y: 3 of 1024, the first at 1021\n"), CLEAN)
    told = "y is not written everywhere: 3 of the 1024 words of 4 bytes, from word 1021 on."
    assert (run.status, [finding.message for finding in run.findings]) == ("found", [told])


class HostAsDevice:
    """The driver's copies, on the host's memory."""

    def call(self, name, *arguments):
        to, origin, size = (each.value if isinstance(each, ctypes.c_uint64) else each for each in arguments)
        ctypes.memmove(to, origin, size)


@pytest.mark.parametrize("spoilt", [True, False])
def test_what_a_gpus_kernel_left_is_found_by_its_filling(spoilt, monkeypatch):
    monkeypatch.setattr("harness.candidate.tool_runner.cuda_driver.Driver", HostAsDevice, raising=False)
    memory, output = CudaMemory(spoilt=spoilt), ctypes.create_string_buffer(4 * 1000)
    at = ctypes.addressof(output)
    memory.poison(at, 4000)
    ctypes.memset(at, 1, 4 * 990)
    assert memory.unwritten(at, 4000) == ((10, 990) if spoilt else (0, 0))


def test_racecheck_says_what_it_cannot_see_of_a_kernel(tmp_path):
    source = tmp_path / "kernel.cu"
    clean = {name: judge_run(name, ended(), CLEAN) for name in ("racecheck", "memcheck")}
    assert with_unwatched(clean["racecheck"], source).unwatched == ""
    for text, blind in (("__shared__ float x[32]; __syncthreads();", False), ("Barrier::wait(&full, phase);", True)):
        source.write_text(text)
        assert bool(with_unwatched(clean["racecheck"], source).unwatched) is blind
        assert with_unwatched(clean["memcheck"], source) == clean["memcheck"]
    found = judge_run("racecheck", ended(code=3), RACECHECK)
    assert with_unwatched(found, source) == found
    assert say_sanitizers([with_unwatched(clean["racecheck"], source)]).startswith(
        "racecheck: clean after 1.0 s, but it does not"
    )
    with pytest.raises(ValueError, match="clean run"):
        SanitizerRun(tool="racecheck", status="skipped", note="why", unwatched="what")


def test_without_the_tool_it_is_skipped(monkeypatch):
    monkeypatch.setattr("harness.sanitize.device.find_tool", lambda name: None)
    (run,) = sanitize_on_device(Build(digest="0" * 32, seconds=0), signature(0), Needs(), tier="none")
    assert run.status == "skipped" and "was not found" in run.note


def signature(bug):
    spec = TensorSpec(name="x", shape=(1024,), strides=(1,), dtype="float32")
    number = ScalarSpec(name="bug", type="int", value=bug)
    return Signature(inputs=(spec, number), outputs=(spec.model_copy(update={"name": "y"}),))


PATIENT_S = 120.0
"""What a tool finds is asked here, not how soon: beside 15 other tests' processes memcheck took 9.4 s of `LIMIT_S`."""


@pytest.mark.gpu
@pytest.mark.skipif(find_gpu() is None, reason="no NVIDIA GPU answers here")
@pytest.mark.parametrize(
    ("bug", "expected"),
    [
        (0, {}),
        (1, {"memcheck": [10]}),
        (2, {"racecheck": [4]}),
        (3, {"initcheck": [7], "memcheck": [None]}),  # what it adds to is so large that it stays as it was
        (4, {"synccheck": [8]}),
        (5, {"memcheck": [None]}),
    ],
)
def test_each_tool_finds_its_bug_on_a_real_gpu(bug, expected, tmp_path):
    if find_tool("compute-sanitizer") is None:
        pytest.skip("compute-sanitizer is not installed here")
    tier, target = resolve_tier("auto"), CudaTarget()
    build = target.compile_watched(Candidate(source=KERNEL, target="cuda", author="test:test"), tier=tier)
    workload = Workload(name="main", signature=signature(bug), flops=1, bytes_moved=8192)
    (tmp_path / values_file(0)).write_bytes(bytes(4096))
    runs = target.sanitize(build, workload, tmp_path, tier=tier, limit_s=PATIENT_S)
    found = {run.tool: [finding.line for finding in run.findings] for run in runs if run.status == "found"}
    assert all(run.status != "skipped" for run in runs), say_sanitizers(runs)
    assert found == expected, say_sanitizers(runs)
