"""The exemplar kernels: their headers tell what a reader needs, and nvcc compiles them for what they declare."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from gpu_kernels import for_nvcc

from harness.building.lean_headers import FOLDER, suffices, write_lean_headers
from harness.building.toolchain import cuda_compiler, headers, host_compiler
from harness.nouns.errors import MachineError
from knowledge.compiler.kernels import source
from knowledge.compiler.kernels.source import PROCESSOR, Exemplar
from knowledge.compiler.search.exemplars import load, names, plain, representative

ARCHITECTURES = ("sm_80", "sm_90a")
OP_CLASSES = ("gemm", "elementwise", "reduction", "other")
# An extent or product of extents of a header's line on shared memory, and what it comes to.
PRODUCT = re.compile(r"((?:\d+ x )+\d+) = (\d+) bytes")

EXEMPLAR = """\
// begin header
// Sums: here of two,
// in float32.
//   op class: reduction
//   architecture: sm_80
//   shared memory: 4 x 4 = 16 bytes,
//     and no more
// end header
// begin knobs
int x = 1;
// end knobs
"""


def exemplar(text: str = EXEMPLAR) -> Exemplar:
    return Exemplar("sums", text, "", {"op class": "reduction", "architecture": "sm_80"})


@pytest.fixture
def holds(tmp_path_factory, monkeypatch):
    """Have the folder of kernels be another one, with these files."""

    def hold(**files):
        folder = tmp_path_factory.mktemp("kernels")
        for name, text in files.items():
            (folder / name.replace("_", ".")).write_text(text)
        monkeypatch.setattr("knowledge.compiler.kernels.source._FOLDER", folder)

    return hold


def test_header_is_read_as_a_sentence_and_facts(holds):
    holds(sums_cu=EXEMPLAR)
    loaded = source.load("sums")
    assert source.names() == ("sums",)
    assert loaded.computes == "Sums: here of two, in float32."
    assert dict(loaded.facts) == {
        "op class": "reduction", "architecture": "sm_80", "shared memory": "4 x 4 = 16 bytes, and no more",
    }  # fmt: skip
    holds(sums_cu=EXEMPLAR.replace("op class", "kind"))
    with pytest.raises(ValueError, match="op class"):
        source.load("sums")


def test_a_kernel_that_shares_sections_with_others_is_loaded_whole(holds):
    header, knobs = EXEMPLAR[: EXEMPLAR.index("// begin knobs")], EXEMPLAR[EXEMPLAR.index("// begin knobs") :]
    holds(
        sums_cu="#include <cmath>\n" + EXEMPLAR,
        products_cu=header.replace("Sums", "Products") + "// knobs: as in sums.cu\nint z = 3;\n",
        powers_cpp=header.replace("Sums", "Powers") + "// knobs: as in products.cu\n",
        roots_cpp=header.replace("Sums", "Roots") + "// knobs: as in powers.cpp\n",
    )
    assert source.load("products").text == header.replace("Sums", "Products") + knobs + "int z = 3;\n"
    assert source.load("products").computes == "Products: here of two, in float32."
    assert source.load("powers").text == header.replace("Sums", "Powers") + knobs
    assert source.load("roots").text == header.replace("Sums", "Roots") + knobs
    holds(
        roots_cpp=header + "// begin _own\nint r = 2;\n// end _own\n",
        powers_cpp=header + "// _own: as in roots.cpp\n",
        sums_cu=EXEMPLAR,
        products_cu=header + "// more: as in sums.cu\n",
        quotients_cu=header + "// knobs: as in nothing.cu\n",
    )
    assert source.load("powers").text == source.load("roots").text == header + "int r = 2;\n"
    with pytest.raises(ValueError, match="no section 'more'"):
        source.load("products")
    with pytest.raises(ValueError, match="no exemplar 'nothing'"):
        source.load("quotients")


def test_no_section_is_written_twice():
    files = {path.stem: path.read_text() for path in Path(source.__file__).parent.glob("*.c*")}
    assert sorted(files) == list(source.names())
    written: dict[str, list[str]] = {}
    for name, text in files.items():
        for section, body in re.findall(r"^// begin (\w+)\n(.*?)^// end", text, re.MULTILINE | re.DOTALL):
            if body:
                written.setdefault(body, []).append(f"{section} of {name}")
    assert len(written) > len(files)
    assert not [places for places in written.values() if len(places) > 1]


def test_sections_are_replaced_whole_and_only_those():
    changed = exemplar().with_sections(knobs="int x = 2;\nint y = 3;\n")
    assert changed == EXEMPLAR.replace("int x = 1;", "int x = 2;\nint y = 3;")
    assert exemplar(changed).section("knobs") == "int x = 2;\nint y = 3;\n"
    assert exemplar().sections == ("header", "knobs")


@pytest.mark.parametrize("text", [EXEMPLAR, EXEMPLAR.replace("// end knobs", "// end nobs")])
def test_section_that_is_not_there_is_an_error(text):
    with pytest.raises(ValueError, match="section"):
        exemplar(text).with_sections(**{"tile" if text == EXEMPLAR else "knobs": "int x;"})


@pytest.mark.parametrize(
    ("needed", "given", "runs"),
    [
        ("sm_80", "sm_80", True), ("sm_80", "sm_90a", True), ("sm_80", "sm_75", False), ("sm_90a", "sm_90a", True),
        ("sm_90a", "sm_100a", False), ("sm_90a", "sm_90", False), ("sm_90", "sm_100a", True), ("cpu", "cpu", True),
        ("cpu", "sm_80", False), ("sm_80", "cpu", False),
    ],
)  # fmt: skip
def test_architectures_with_a_suffix_are_matched_exactly(needed, given, runs):
    assert Exemplar("sums", "", "", {"architecture": needed}).runs_on(given) is runs


def test_representatives_are_of_the_class_and_run_on_the_architecture():
    for op_class in ("gemm", "elementwise", "reduction"):
        for architecture in (*ARCHITECTURES, "sm_100a"):
            shown = representative(op_class, architecture)
            assert shown is not None and shown.op_class == op_class and shown.runs_on(architecture)
        on_processor = representative(op_class, PROCESSOR)
        assert on_processor is not None and on_processor.op_class == op_class and on_processor.runs_on(PROCESSOR)
    for architecture, name in (("sm_90a", "gemm_simt"), (PROCESSOR, "cpu_gemm_plain")):
        plain = representative("gemm", architecture, plain=True)
        assert plain is not None and plain.name == name
    for architecture, name in (("sm_90a", "pointwise"), (PROCESSOR, "cpu_softmax")):
        of_no_class = representative("other", architecture)
        assert of_no_class is not None and of_no_class.name == name
        assert "// begin" in of_no_class.text and "// begin" not in of_no_class.shown
        assert of_no_class.section("header").strip() in of_no_class.shown
    assert representative("gemm", "sm_75") is None
    assert representative("unheard of", "sm_80") is None
    with pytest.raises(ValueError, match="architecture"):
        representative("gemm", "Hopper")
    with pytest.raises(ValueError, match="no exemplar"):
        load("unheard_of")


@pytest.mark.parametrize("name", names())
def test_header_and_shapes(name):
    kernel = load(name)
    assert kernel.op_class in OP_CLASSES
    assert kernel.computes.endswith(".")
    near = "caches" if kernel.architecture == PROCESSOR else "shared memory"
    assert {"layouts", "tile", near, *(("registers",) if near == "caches" else ())} <= kernel.facts.keys()
    products = PRODUCT.findall(kernel.facts[near])
    assert products or near == "shared memory"
    for factors, total in products:
        assert eval(factors.replace("x", "*")) == int(total)
    begun = re.findall(r"^// begin (\w+)$", kernel.text, re.MULTILINE)
    assert begun == re.findall(r"^// end (\w+)$", kernel.text, re.MULTILINE)
    assert {"header", "entry"} <= set(begun) and len(set(begun)) == len(begun)
    assert "TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);" in kernel.section("entry"), "a frame that nothing fills"
    kept = source.load(name).text if name in source.names() else kernel.section("header")
    assert not [line for line in kept.splitlines() if len(line) > 120]
    bare = [line for line in kernel.text.splitlines() if re.match(r"\s+Tensor \w+ =", line) and "// (" not in line]
    assert len(bare) <= 1, bare


@pytest.mark.parametrize("name", ["attention", "attention_wgmma", "cpu_attention", "gemm_narrow_weights"])
def test_knobs_that_a_file_explains_are_those_of_the_plan(name):
    shown, written = (
        re.findall(r"^(?:constexpr|using) ([^;]+)", kernel.section("knobs"), re.MULTILINE)
        for kernel in (load(name), plain(name))
    )
    assert sorted(shown) == sorted(written)


def _joined(kernels: list[Exemplar]) -> str:
    """Several kernels as one file, each in a namespace of its own: reading CuTe's headers takes most of the time."""
    lines = [line for kernel in kernels for line in kernel.text.splitlines() if line.startswith("#include")]
    texts = [re.sub(r"^#include.*", "", kernel.text, flags=re.MULTILINE) for kernel in kernels]
    named = [re.sub(r"\brun\b", f"run_{kernel.name}", text) for kernel, text in zip(kernels, texts, strict=True)]
    spaces = [
        f'namespace exemplar_{kernel.name} {{\n#line 1 "{kernel.name}.cu"\n{text}\n}}'
        for kernel, text in zip(kernels, named, strict=True)
    ]
    return "\n".join([*dict.fromkeys(lines), *spaces])


@pytest.mark.timeout(900)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_that_run_on_an_architecture_compile_for_it(golden, architecture, tmp_path):
    try:
        nvcc = cuda_compiler().command
    except MachineError as failure:
        pytest.skip(str(failure))
    kernels = [kernel for kernel in map(load, names()) if kernel.runs_on(architecture)]
    if golden.holds(for_nvcc([kernel.text for kernel in kernels], architecture)):
        return
    (tmp_path / "all.cu").write_text(_joined(kernels))
    # As the judge builds them: with as few of CuTe's headers as they need.
    assert all(suffices(kernel.text, architecture) for kernel in kernels) and write_lean_headers(tmp_path)
    folders = (tmp_path / FOLDER, *headers().include)
    include = [word for folder in folders for word in ("-isystem", str(folder))]
    number = architecture.removeprefix("sm_")
    command = [
        *nvcc, "-ccbin", host_compiler().command[0], "-std=c++17", "--expt-relaxed-constexpr", "-cubin", "-gencode",
        f"arch=compute_{number},code=sm_{number}", "-diag-suppress", "20012,20013,20014,20015", "-Xptxas", "-v",
        *include, "all.cu", "-o", "all.cubin",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[:3000]
    spilled = [int(count) for count in re.findall(r"(\d+) bytes spill stores", said)]
    assert len(spilled) >= len(kernels) and max(spilled) <= 256, spilled
