"""The candidate's process itself: what an entry is called with, and what is said of how its calls ended."""

from __future__ import annotations

import os
import signal
import socket
import struct
from pathlib import Path

import pytest
import torch
from c_kernels import SCALED, library, linked, runner
from python_kernels import SIGNATURE

from harness.nouns.caller import CALLERS, USUAL, Caller
from harness.nouns.task import DTYPE_BYTES, ScalarSpec, Signature, TensorSpec
from harness.trusted.host_device import HostDevice
from harness.trusted.link import CandidateFailedError
from harness.trusted.memory import SharedMemory
from harness.trusted.scalar_arguments import slot_numbers
from harness.wire import channel


def shared(link, signature=SIGNATURE, slots=3):
    memory = SharedMemory(signature, slots, HostDevice(1 << 12))
    numbers = [slot_numbers(signature, slot) for slot in range(slots)]
    for slot in range(slots):
        for view in memory.views[slot].values():
            view.zero_()
    link.share(memory, numbers)
    return memory, numbers


def called(link, slots):
    with link.running():
        link.call(slots, 20.0)


def test_each_call_finds_the_memory_and_the_numbers_of_its_slot(tmp_path):
    with linked() as (_, link):
        memory, numbers = shared(link)
        link.work(3)
        assert link.counted() == 0.0
        link.load(str(library(tmp_path, SCALED)))
        for slot in range(3):
            memory.views[slot]["x"].uniform_()
            memory.views[slot]["scale"].uniform_()
            memory.poison(slot)
        called(link, [2, 0])
        for slot in (2, 0):
            x, scale, y = (memory.views[slot][name] for name in ("x", "scale", "y"))
            assert torch.allclose(y, x * scale + numbers[slot]["shift"], rtol=1e-6)
        assert memory.views[1]["y"].isnan().all()
        called(link, [])
        assert all(memory.broken_guard(slot) == "" for slot in range(3))


BY_WAY_OF_SCRATCH = """\
  DLTensor wanted = *tensor(arguments);
  void* held = 0;
  if (floats(arguments + 2)[0] > 0) wanted.device.device_type = kDLCUDA;
  if (TVMFFIEnvTensorAlloc(&wanted, &held) != 0) return -1;
  float* scratch = (float*)TVMFFITensorGetDLTensorPtr(held)->data;
  for (int i = 0; i < 30; ++i) scratch[i] = floats(arguments)[i] + 1;
  memcpy(floats(arguments + 3), scratch, 30 * sizeof(float));
  TVMFFIObjectDecRef(held);
"""


def test_scratch_comes_from_the_runner_and_an_error_there_is_the_kernels(tmp_path):
    with linked() as (_, link):
        memory, _ = shared(link)
        memory.views[2]["scale"].fill_(1)
        link.load(str(library(tmp_path, BY_WAY_OF_SCRATCH)))
        called(link, [0, 1])
        assert (memory.views[0]["y"] == 1).all()
        with pytest.raises(CandidateFailedError, match="scratch was asked for on device type 2") as failure:
            called(link, [2])
        assert failure.value.check == "exception"


FAULTS_OF_SCRATCH = """\
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  char* scratch = (char*)malloc(48 << 20);
  memset(scratch, 1, 48 << 20);
  free(scratch);
  getrusage(RUSAGE_SELF, &after);
  floats(arguments + 3)[0] = after.ru_minflt - before.ru_minflt;
"""


def test_a_heap_keeps_what_calls_free_as_eagers_does(tmp_path):
    with linked() as (_, link):
        memory, _ = shared(link)
        link.load(str(library(tmp_path, FAULTS_OF_SCRATCH, headers="#include <sys/resource.h>\n")))
        called(link, [0, 1])
        first, second = (float(memory.views[slot]["y"].view(-1)[0]) for slot in (0, 1))
        assert first > 12_000 > 100 > second, "a fault for each of 12,288 pages, once"


DESCRIBES = """\
  long long* said = (long long*)tensor(arguments + count - 1)->data;
  DLTensor* it = tensor(arguments);
  long long facts[] = {count, arguments[0].type_index, it->ndim, it->dtype.code, it->dtype.bits, it->dtype.lanes,
                       it->device.device_type, it->device.device_id, (long long)it->byte_offset,
                       it->ndim ? it->shape[0] : -1, it->ndim ? it->shape[it->ndim - 1] : -1,
                       it->ndim ? it->strides[0] : -1, it->ndim ? it->strides[it->ndim - 1] : -1,
                       ((long long)it->data) % 4096};
  memcpy(said, facts, sizeof facts);
"""
CODES = {
    "float32": (2, 32), "float64": (2, 64), "float16": (2, 16), "bfloat16": (4, 16), "int8": (0, 8), "uint8": (1, 8),
    "int16": (0, 16), "int32": (0, 32), "int64": (0, 64), "bool": (6, 8),
}  # fmt: skip
"""DLPack's own numbers (dlpack.h): 0 signed, 1 unsigned, 2 floating-point, 4 bfloat, 6 bool; then bits."""


@pytest.fixture(scope="module")
def describing(tmp_path_factory):
    return library(tmp_path_factory.mktemp("describing"), DESCRIBES)


@pytest.mark.parametrize(
    ("shape", "strides", "dtype"),
    [
        *(((3, 5), (5, 1), dtype) for dtype in CODES),
        ((), (), "float32"),
        ((4, 2, 6), (1, 24, 4), "float32"),
        ((7, 3), (0, 1), "float64"),
    ],
)
def test_a_tensor_is_described_as_dlpack_has_it(describing, shape, strides, dtype):
    facts = TensorSpec(name="y", shape=(14,), strides=(1,), dtype="int64")
    x = TensorSpec(name="x", shape=shape, strides=strides, dtype=dtype)
    with linked() as (_, link):
        memory, _ = shared(link, Signature(inputs=(x,), outputs=(facts,)), slots=1)
        link.load(str(describing))
        called(link, [0])
        count, kind, ndim, code, bits, lanes, device, ordinal, offset, *extents, off_page = memory.views[0][
            "y"
        ].tolist()
    assert (count, kind, ndim) == (2, 7, len(shape))  # 7: kTVMFFIDLTensorPtr of c_api.h
    assert ((code, bits), lanes) == (CODES[dtype], 1)
    assert bits == 8 * DTYPE_BYTES[dtype]
    assert (device, ordinal, offset, off_page) == (1, 0, 0, 0)
    assert extents == ([shape[0], shape[-1], strides[0], strides[-1]] if shape else [-1] * 4)


NUMBERS = """\
  long long* said = (long long*)tensor(arguments + count - 1)->data;
  for (int i = 0; i < count - 1; ++i) said[2 * i] = arguments[i].type_index, said[2 * i + 1] = arguments[i].v_int64;
"""


def test_numbers_arrive_as_what_they_are(tmp_path):
    """Kinds as in c_api.h: 1 whole, 2 true or false, 3 with a fraction. True is no 1 there, though Python has it so."""
    values = {"flag": True, "off": False, "count": -3, "large": 1 << 40, "share": 0.25, "one": 1.0}
    kinds = {bool: "bool", int: "int", float: "float"}
    inputs = tuple(ScalarSpec(name=name, type=kinds[type(value)], value=value) for name, value in values.items())
    said = TensorSpec(name="y", shape=(12,), strides=(1,), dtype="int64")
    with linked() as (_, link):
        memory, _ = shared(link, Signature(inputs=inputs, outputs=(said,)), slots=1)
        link.load(str(library(tmp_path, NUMBERS)))
        called(link, [0])
        words = memory.views[0]["y"].tolist()
    bits = [struct.unpack("<q", struct.pack("<d", value))[0] for value in (0.25, 1.0)]
    assert words == [2, 1, 2, 0, 1, -3, 1, 1 << 40, 3, bits[0], 3, bits[1]]


RAISES = 'TVMFFIErrorSetRaisedFromCStr("{kind}", "{message}"); return -1;'


@pytest.mark.parametrize(
    ("body", "check", "message"),
    [
        (RAISES.format(kind="ValueError", message="not so"), "exception", "ValueError: not so"),
        (
            RAISES.format(kind="RuntimeError", message="CUDA Out Of Memory"),
            "memory",
            "RuntimeError: CUDA Out Of Memory",
        ),
        (RAISES.format(kind="E", message="m" * 3000), "exception", "E: " + "m" * 1997),
        ("return -1;", "exception", "the call failed without a message"),
        ("return 7;", "exception", "the call failed without a message"),
    ],
)
def test_a_call_that_fails_says_why_and_later_ones_are_not_made(tmp_path, body, check, message):
    failing = f"floats(arguments + 3)[0] += 1; if (floats(arguments)[0] == 1) {{ {body} }}"
    with linked() as (_, link):
        memory, _ = shared(link)
        link.load(str(library(tmp_path, failing)))
        memory.views[1]["x"][0, 0] = 1
        with pytest.raises(CandidateFailedError) as failure:
            called(link, [0, 1, 2])
        assert (failure.value.status, failure.value.check, failure.value.message) == ("crashed", check, message)
        assert [float(memory.views[slot]["y"][0, 0]) for slot in range(3)] == [1, 1, 0]
        link.call([2, 0], 20.0)  # it goes on answering, and the error is not told twice
        assert [float(memory.views[slot]["y"][0, 0]) for slot in range(3)] == [2, 1, 1]


@pytest.mark.parametrize("there", [False, True])
def test_a_library_that_is_none_or_has_no_entry_is_said(tmp_path, there):
    path = tmp_path / "kernel.so"
    if there:
        path = library(tmp_path, 'return 0; } extern "C" int other() {').rename(tmp_path / "other.so")
        data = path.read_bytes().replace(b"__tvm_ffi_run", b"__tvm_ffi_ruN")
        path.write_bytes(data)
    with linked() as (process, link):
        shared(link)
        with pytest.raises(CandidateFailedError, match="undefined symbol" if there else "No such file") as failure:
            link.load(str(path))
        assert (failure.value.status, failure.value.check) == ("crashed", "load")
        assert process.wait(20) == 0


@pytest.mark.parametrize(
    ("argument", "ended"), [("arguments", -signal.SIGSEGV), ("arguments + 2", -signal.SIGSEGV), ("arguments + 3", None)]
)
def test_only_outputs_are_writable(tmp_path, argument, ended):
    with linked() as (process, link):
        memory, _ = shared(link)
        link.load(str(library(tmp_path, f"floats({argument})[1] = 4;")))
        if ended:
            with pytest.raises(CandidateFailedError) as failure:
                called(link, [0])
            assert failure.value.check == "process"
            assert process.wait(20) == ended
        else:
            called(link, [0])
            assert float(memory.views[0]["y"][0, 1]) == 4


def test_it_ends_with_its_judge_at_any_time():
    with runner() as (process, line):
        line.close()
        assert process.wait(20) == 0
    with runner() as (process, line):
        line.send(b"X")
        assert process.wait(20) == 0


def test_memory_that_it_cannot_map_is_said():
    ours, theirs = socket.socketpair()
    with runner() as (process, line), ours, theirs:
        socket.send_fds(line, [b"F"], [ours.fileno(), theirs.fileno()])
        channel.send(line, {"device": "cpu", "bytes": [1, 1], "arguments": []})
        assert channel.receive(line)["failed"] == "sharing"
        assert process.wait(20) == 0


LEAVES = {
    "rounding": ("unsigned bits; asm volatile(\"stmxcsr %0\" : \"=m\"(bits)); bits |= 0x6000;"
                 "asm volatile(\"ldmxcsr %0\" : : \"m\"(bits));", "rounding and subnormals 0x1f80 before, 0x7f80"),
    "flush": ("unsigned bits; asm volatile(\"stmxcsr %0\" : \"=m\"(bits)); bits |= 0x8040;"
              "asm volatile(\"ldmxcsr %0\" : : \"m\"(bits));", "rounding and subnormals 0x1f80 before, 0x9fc0"),
    "x87": ("unsigned short word = 0x27f; asm volatile(\"fldcw %0\" : : \"m\"(word));", "x87 control word 0x37f"),
    "signals": ("sigset_t all; sigfillset(&all); pthread_sigmask(SIG_BLOCK, &all, 0);", "signal mask 0x0 before"),
    "locale": ("setlocale(LC_ALL, \"C\");", "locale LC_CTYPE"),
    "processors": ("cpu_set_t one; CPU_ZERO(&one); CPU_SET(0, &one); sched_setaffinity(0, sizeof one, &one);",
                   "processors"),
}  # fmt: skip


@pytest.mark.parametrize("what", LEAVES)
def test_a_call_leaves_the_process_as_it_was(tmp_path, what):
    """On a machine with one processor there is nothing to pin."""
    body, words = LEAVES[what]
    headers = "".join(f"#include <{name}.h>\n" for name in ("locale", "pthread", "sched", "signal"))
    if what == "processors" and len(os.sched_getaffinity(0)) == 1:
        pytest.skip("one processor")
    with linked() as (_, link):
        shared(link)
        link.load(str(library(tmp_path, SCALED + f"  {{ {body} }}\n", headers=headers)))
        with pytest.raises(CandidateFailedError, match=f"left its caller's process changed: {words}") as failure:
            called(link, [0])
        assert (failure.value.status, failure.value.check) == ("refused", "process_state")


TELLS_ITS_CALLER = """\
  float* said = floats(arguments + 3);
  said[0] = omp_get_max_threads();
  #pragma omp parallel
  #pragma omp single
  said[1] = omp_get_num_threads();
  said[2] = syscall(SYS_gettid) != getpid();
"""
OPENMP = {"headers": "#include <omp.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n", "options": ("-fopenmp",)}


def test_calls_come_from_whom_the_order_says_and_the_next_ones_do_not(tmp_path):
    usual = len(os.sched_getaffinity(0))
    with linked() as (process, link):
        memory, _ = shared(link)
        link.load(str(library(tmp_path, TELLS_ITS_CALLER, **OPENMP)))
        for caller in (*CALLERS, USUAL):
            with link.running():
                link.call([0], 20.0, caller=caller)
                left = len([*Path(f"/proc/{process.pid}/task").iterdir()])
            threads = caller.threads or usual
            said = memory.views[0]["y"].view(-1)[:3].tolist()
            assert said == [threads, 1 if caller.nested else threads, caller.elsewhere or caller.together]
            assert left <= 2 * usual, "threads of a larger team are gone before the next call"


def test_who_called_is_told_with_a_failure(tmp_path):
    with linked() as (_, link):
        shared(link)
        body = "if (omp_get_max_threads() == 8) abort();"
        link.load(str(library(tmp_path, body, **OPENMP)))
        called(link, [0])
        with (
            pytest.raises(CandidateFailedError, match="It was called with 8 OpenMP threads from another thread"),
            link.running(),
        ):
            link.call([0], 20.0, caller=Caller(threads=8, elsewhere=True))


def test_a_large_team_has_more_time(tmp_path):
    with linked() as (_, link):
        shared(link)
        link.load(str(library(tmp_path, "for (;;) usleep(1000);", **OPENMP)))
        with pytest.raises(CandidateFailedError, match=r"No answer within 2\.5 s.* with 160 OpenMP"), link.running():
            link.call([0], 0.5, caller=Caller(threads=160, elsewhere=True))


@pytest.mark.parametrize("caller", [USUAL, Caller(threads=8), Caller(threads=8, elsewhere=True, nested=True)])
def test_the_number_of_threads_is_left_as_each_caller_has_it(tmp_path, caller):
    with linked() as (_, link):
        shared(link)
        link.load(str(library(tmp_path, "  omp_set_num_threads(5);\n", **OPENMP)))
        with (
            pytest.raises(CandidateFailedError, match=r"omp_get_max_threads\(\) 0x. before, 0x5 after"),
            link.running(),
        ):
            link.call([0], 20.0, caller=caller)


def test_what_arithmetic_raises_is_no_change(tmp_path):
    raises = "  volatile double zero = 0, tiny = 1e-300; zero = 1 / zero + tiny * tiny;\n"
    with linked() as (_, link):
        shared(link)
        link.load(str(library(tmp_path, SCALED + raises)))
        called(link, [0])
