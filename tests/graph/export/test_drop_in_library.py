"""Which library a drop-in loads: the judged one where it may, else one that is built once for all processes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from graph.export import runtime
from graph.export.runtime import library as libraries
from graph.export.runtime.library import LIBRARY, SOURCE, Built, Library, abi, sha256
from graph.export.runtime.needs import lacking

HERE = "a processor"


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """A folder as a run leaves it; nothing in it is ever loaded. The compiler writes down each call of it."""
    (tmp_path / SOURCE).write_text("// a kernel")
    (tmp_path / LIBRARY).write_bytes(b"a library")
    compiler = tmp_path / "compiler"
    compiler.write_text(
        f"#!/bin/sh\n[ $1 = --version ] && exec echo 1.0\necho called >> {tmp_path}/calls\n"
        f'cp {SOURCE} {LIBRARY}\nif grep -q broken {SOURCE}; then echo "what is wrong" >&2; exit 1; fi\n'
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path / "cache"))
    built = Built(sha256(tmp_path / LIBRARY), sha256(tmp_path / SOURCE), HERE, abi(), "g++ 1.0")
    return Library(tmp_path, "cpu", ("-O1",), "", "run", built)


def test_the_judged_library_is_taken_where_it_was_judged(judged: Library) -> None:
    assert judged.path(HERE) == judged.folder / LIBRARY
    (judged.folder / SOURCE).unlink()
    assert judged.path(HERE) == judged.folder / LIBRARY, "it needs its source to be built again, not to be loaded"
    assert not (judged.folder / "calls").exists()


@pytest.mark.parametrize(
    ("code", "has", "lacks"),
    [
        ("using Op = SM90::GMMA::MMA_64x64x8_F32TF32TF32_SS_TN<>;", ("sm_90a",), ("sm_80", "sm_89", "sm_100a")),
        ("copy(SM90_TMA_LOAD{}, a, b);", ("sm_90a", "sm_120a"), ("sm_80", "sm_89")),
        ("cluster_sync();", ("sm_90", "sm_100a"), ("sm_75",)),
        ('asm("tcgen05.mma");', ("sm_100a", "sm_103a"), ("sm_90a", "sm_120a")),
        ("MMA_Atom<SM80_16x8x8_F32TF32TF32F32_TN> op;", ("sm_80", "sm_90a"), ("sm_75",)),
        ("// wgmma would be faster\nf(x); /* tcgen05,\n too */", ("sm_75", "a processor"), ()),
    ],
)
def test_capabilities_decide_whether_a_kernel_may_be_loaded_at_all(
    judged: Library, code: str, has: tuple[str, ...], lacks: tuple[str, ...]
) -> None:
    (judged.folder / SOURCE).write_text(code)
    for architecture in has:
        assert judged.path(architecture).is_file(), architecture
    for architecture in lacks:
        with pytest.raises(RuntimeError, match=f"the kernel uses .*, which {architecture} has not"):
            judged.path(architecture)


def test_the_exemplars_say_in_their_code_what_they_need() -> None:
    kernels = Path(__file__).parents[3] / "knowledge" / "compiler" / "kernels"
    texts = {file.stem: file.read_text(encoding="utf-8") for file in kernels.glob("*.cu")}
    assert not any(lacking(text, "sm_90a") for text in texts.values())
    assert not any(lacking(text, "sm_89") for text in texts.values() if "architecture: sm_80" in text)
    for name in ("gemm_wgmma_16bit", "gemm_3xtf32_cluster", "softmax"):
        assert lacking(texts[name], "sm_89"), name
    assert lacking(texts["attention_wgmma"], "sm_100a")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ("library", "kernel.so is not what was judged"),
        ("source", "kernel.cu is not what was judged"),
        ("missing", "there is no library beside it"),
        ("unknown", "there is no library beside it"),
        ("processor", "the judged library is for a processor, this is another one"),
        ("abi", "the judged library is for apache-tvm-ffi 0.0, this is apache-tvm-ffi"),
    ],
)
def test_any_other_is_built_anew_and_the_reason_is_said(
    judged: Library, changed: str, why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    here = HERE
    match changed:
        case "library":
            (judged.folder / LIBRARY).write_bytes(b"another one")
        case "source":
            (judged.folder / SOURCE).write_text("// another kernel")
        case "missing":
            (judged.folder / LIBRARY).unlink()
        case "unknown":
            judged.built = None
        case "processor":
            here = "another one"
        case "abi":
            assert judged.built is not None
            judged.built = replace(judged.built, abi="apache-tvm-ffi 0.0")
    found = judged.path(here)
    assert found.parent == judged.folder / "cache" / "drop_ins"
    assert found.read_bytes() == (judged.folder / SOURCE).read_bytes()
    said = capfd.readouterr().err.splitlines()
    assert [line.split()[1] for line in said] == ["compiling", "compiled"]
    assert why in said[0]
    assert judged.path(here) == found
    assert not capfd.readouterr().err, "once"


def test_processes_that_ask_at_once_build_it_once(judged: Library) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; from runtime.library import Library; "
        "print(Library(Path(sys.argv[2]), 'cpu', (), '', 'run', None).path('here'))"
    )
    command = [sys.executable, "-c", code, str(Path(runtime.__file__).parents[1]), str(judged.folder)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(3)]
    assert len({each.communicate(timeout=60)[0] for each in running}) == 1
    assert (judged.folder / "calls").read_text() == "called\n"


def test_a_compilers_complaint_is_passed_on_and_nothing_is_kept(judged: Library) -> None:
    (judged.folder / SOURCE).write_text("broken")
    with pytest.raises(RuntimeError, match="what is wrong"):
        judged.path(HERE)
    assert [file.suffix for file in (judged.folder / "cache" / "drop_ins").iterdir()] == [".lock"]


@pytest.mark.parametrize("what", ["folder", "library"])
def test_what_others_can_write_is_not_loaded(judged: Library, what: str) -> None:
    built = judged.path("elsewhere")
    (built if what == "library" else built.parent).chmod(0o777)
    with pytest.raises(RuntimeError, match="can be written by others: set CUTEGEN_CACHE"):
        judged.path("elsewhere")


def test_processors_are_told_apart_by_their_features(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "processor: 0\nmodel name\t: A {model}\nflags\t: fma {flag}\n\nprocessor: 1\n"
    found = set()
    for model, flag in (("one", "avx2"), ("one", "avx512f"), ("other", "avx2"), ("one", "avx2")):
        text = said.format(model=model, flag=flag)
        monkeypatch.setattr(Path, "read_text", lambda *_, text=text, **__: text)
        libraries._processor.cache_clear()
        found.add(libraries.architecture("cpu", None))
    libraries._processor.cache_clear()
    assert len(found) == 3
