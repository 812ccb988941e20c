"""The guides: every line of code in them compiles, every section is found, every cross-reference leads somewhere."""

import math
import re
import subprocess
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from goldens import Golden
from run_samples import task

from harness.building.toolchain import cuda_compiler, headers, host_compiler
from harness.nouns.candidate import TargetName
from harness.nouns.errors import MachineError
from harness.nouns.task import Program, Task, TracedOp
from knowledge import library
from knowledge.topics import Topic, topics_of
from nodes.turn.prompt_size import estimated_tokens

FENCE = re.compile(r"^```cpp (?P<place>device|host)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
ANY_FENCE = re.compile(r"^```\S", re.MULTILINE)


def snippets(place: str) -> list[tuple[str, str]]:
    found = []
    for name in library.guide_names():
        text = "\n".join(part.text for part in library.guide(name))
        found += [(name, match["code"]) for match in FENCE.finditer(text) if match["place"] == place]
    return found


def translation_unit(place: str) -> str:
    """Each snippet as the body of a function of its own, with lines that lead back to it."""
    mark = "__global__ " if place == "device" else ""
    bodies = (f"{mark}void snippet_{i}() {{\n{code}}}\n" for i, (_, code) in enumerate(snippets(place)))
    return "#include <cute/tensor.hpp>\nusing namespace cute;\n" + "\n".join(bodies)


def includes() -> list[str]:
    return [word for folder in headers().include for word in ("-isystem", str(folder))]


def test_the_guides_hold_code_of_known_places_only() -> None:
    for name in library.guide_names():
        text = "\n".join(part.text for part in library.guide(name))
        assert len(ANY_FENCE.findall(text)) == len(FENCE.findall(text)), f"{name}.md has a block that nothing compiles"
    assert len(snippets("device")) >= 4
    assert snippets("host")


def test_the_host_snippets_compile(golden: Golden, tmp_path: Path) -> None:
    if golden.holds([translation_unit("host")]):
        return
    source = tmp_path / "snippets.cpp"
    source.write_text(translation_unit("host"), encoding="utf-8")
    compiler = host_compiler().command
    done = subprocess.run(
        [*compiler, "-std=c++17", "-fsyntax-only", "-fopenmp-simd", *includes(), str(source)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[:3000]


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_the_device_snippets_compile(golden: Golden, tmp_path: Path, architecture: str) -> None:
    if golden.holds([translation_unit("device")]):
        return
    try:
        compiler = cuda_compiler().command
    except MachineError as missing:
        pytest.skip(missing.problem)
    source = tmp_path / "snippets.cu"
    source.write_text(translation_unit("device"), encoding="utf-8")
    done = subprocess.run(
        [*compiler, "-std=c++17", "--expt-relaxed-constexpr", f"-arch={architecture}", "-cubin", *includes(), "-o",
         str(tmp_path / "snippets.cubin"), str(source)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[:3000]


def code_of(title: str) -> str:
    [section] = [part for part in library.guide("cpu") if part.title == title]
    [code] = [match["code"] for match in FENCE.finditer(section.text)]
    return code


def printed_by(body: str, tmp_path: Path, *further: str, before: str = "") -> list[float]:
    """What a program of this body prints, built as kernels are, with `further` flags."""
    source, program = tmp_path / "program.cpp", tmp_path / "program"
    source.write_text(
        f"#include <algorithm>\n#include <cmath>\n#include <cstdint>\n#include <cstdio>\n#include <cstring>\n"
        f"{before}\nint main() {{\n{body}}}\n",
        encoding="utf-8",
    )
    flags = ["-O3", "-std=c++17", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", *further]
    subprocess.run([*host_compiler().command, *flags, str(source), "-o", str(program)], check=True)
    return [float(word) for word in subprocess.run([program], capture_output=True, text=True).stdout.split()]


def test_the_guide_s_erf_and_gelu_are_exact(tmp_path: Path) -> None:
    body = code_of("erf and GELU in vectors").replace(
        "float values[64] = {};", "float values[64]; for (int i = 0; i < 64; ++i) values[i] = (i - 32) * 0.17f;"
    )
    body += 'for (int i = -600; i <= 600; ++i) std::printf("%.9g ", error_function(i * 0.01f));\n'
    body += 'std::printf("%g %.9g %.9g ", error_function(NAN), error_function(3.926f), error_function(-INFINITY));\n'
    body += 'for (float v : values) std::printf("%.9g ", v);\n'
    *errors, nan, one, least = printed_by(body, tmp_path)[: 1201 + 3]
    assert math.isnan(nan) and (one, least) == (1, -1)
    exact = [math.erf(float(np.float32(i) * np.float32(0.01))) for i in range(-600, 601)]
    np.testing.assert_allclose(errors, exact, rtol=6e-7, atol=1e-12)
    gelu = printed_by(body, tmp_path)[1204:]
    given = (np.arange(64) - 32).astype(np.float32) * np.float32(0.17)
    wanted = [0.5 * x * (1 + math.erf(x / math.sqrt(2))) for x in map(float, given)]
    np.testing.assert_allclose(gelu, wanted, rtol=1e-5, atol=5e-7)


@pytest.mark.parametrize("title", ["Functions in vectors", "erf and GELU in vectors"])
def test_the_guide_s_functions_stay_in_vector_loops(title: str, tmp_path: Path) -> None:
    code = code_of(title).replace("float values[64] = {};", "").replace("i < 64", "i < n")
    source = tmp_path / "loop.cpp"
    includes = "".join(f"#include <{name}>\n" for name in ("algorithm", "cmath", "cstdint", "cstring"))
    source.write_text(f"{includes}void f(float* values, int n) {{\n{code}}}\n", encoding="utf-8")
    flags = ["-O3", "-std=c++17", "-march=native", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math"]
    done = subprocess.run(
        [*host_compiler().command, *flags, "-fopt-info-vec-optimized", "-S", "-o", "/dev/null", str(source)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert "loop vectorized" in done.stderr


def test_the_guide_s_transposition_turns(tmp_path: Path) -> None:
    body = code_of("Transposition and lane sums by shuffles").replace(
        "Vector rows[16] = {};", "Vector rows[16]; for (int i = 0; i < 256; ++i) rows[i / 16][i % 16] = i;"
    )
    body += 'for (int i = 0; i < 256; ++i) std::printf("%g ", rows[i / 16][i % 16]);\n'
    assert printed_by(body, tmp_path) == np.arange(256).reshape(16, 16).T.ravel().tolist()


@pytest.mark.parametrize("off", [0, 1])
def test_the_guide_s_streaming_store_writes_wherever_the_output_begins(off: int, tmp_path: Path) -> None:
    body = code_of("Streaming stores on the processor")
    body = body.replace(
        "float out[64] = {};", f"alignas(64) float memory[80] = {{}};\nfloat* const out = memory + {off};"
    )
    body += 'for (float v : memory) std::printf("%g ", v);\n'
    found = printed_by(body, tmp_path, "-march=native", before="#include <immintrin.h>")
    assert found == [0] * off + np.repeat([0, 16, 32, 48], 16).tolist() + [0] * (16 - off)


def test_the_guide_s_window_convolves_to_the_edges(tmp_path: Path) -> None:
    body = code_of("Windows on the processor")
    body = body.replace("x[H * W] = {}", "x[H * W]").replace("weights[K * K] = {}", "weights[K * K]")
    body = body.replace("float padded", "for (int i = 0; i < H * W; ++i) x[i] = i % 7 - i % 11; "
                        "for (int i = 0; i < K * K; ++i) weights[i] = i + 1;\nfloat padded")  # fmt: skip
    body += 'for (float v : y) std::printf("%g ", v);\n'
    i = np.arange(30 * 40)
    around = np.pad((i % 7 - i % 11).reshape(30, 40), 1)
    taps = [(1 + 3 * r + s) * around[r : r + 30, s : s + 40] for r in range(3) for s in range(3)]
    assert printed_by(body, tmp_path) == np.sum(taps, axis=0).ravel().tolist()


@pytest.mark.parametrize("k", [1, 50, 999, 1000])
def test_the_guide_s_threshold_is_the_kth_largest(k: int, tmp_path: Path) -> None:
    body = code_of("Selection on the processor").replace("int left = 50", f"int left = {k}")
    body = body.replace("row[1000] = {};", "row[1000]; for (int i = 0; i < 1000; ++i) "
                        "row[i] = i % 50 == 3 ? NAN : i % 20 == 1 ? -0.0f : i % 20 == 2 ? 0.0f : "
                        "i % 333 == 0 ? -INFINITY : (i * 37 % 101 - 50) * 1.5e-3f;")  # fmt: skip
    body += """int above = 0, equal = 0;
        for (float v : row) { above += key_of(v) > threshold; equal += key_of(v) == threshold; }
        std::printf("%d %d %d ", above, equal, left);
        for (float v : row) { if (key_of(v) == threshold) std::printf("%.9g ", v); }\n"""
    above, equal, left, *taken = printed_by(body, tmp_path)
    row = np.array([
        math.nan if i % 50 == 3 else 0.0 if i % 20 in (1, 2) else -math.inf if i % 333 == 0
        else float(np.float32(i * 37 % 101 - 50) * np.float32(1.5e-3)) for i in range(1000)
    ])  # fmt: skip
    wanted = np.sort(row)[::-1]  # NaN first, as NumPy sorts it last
    assert above + left == k and 1 <= left <= equal == len(taken)
    np.testing.assert_allclose(taken, wanted[k - 1], rtol=1e-6)


TRACED = {
    "gelu": ({"functions", "erf"}, "gelu.default", {}, (1, 8)),
    "gelu of tanh": ({"functions"}, "gelu.default", {"approximate": "tanh"}, (1, 8)),
    "erf": ({"functions", "erf"}, "erf.default", {}, (1, 8)),
    "depthwise": ({"windows"}, "conv2d.default", {"groups": 32}, (1, 32, 8, 8)),
    "depthwise, one image alone": ({"windows"}, "conv1d.default", {"groups": 6}, (6, 8)),
    "dense": ({"products"}, "conv2d.default", {}, (1, 32, 8, 8)),
    "two groups": ({"products"}, "convolution.default", {"groups": 2}, (1, 64, 8, 8)),
    "pooling": ({"windows"}, "max_pool2d.default", {}, (1, 32, 8, 8)),
    "top-k": ({"selection"}, "topk.default", {}, (1, 8)),
    "sort": ({"selection"}, "sort.stable", {}, (1, 8)),
    "attention": ({"products", "functions", "attention"}, "scaled_dot_product_attention.default", {}, (1, 2, 8, 8)),
    "sum": (set(), "sum.default", {}, ()),
    "running sum": ({"scans"}, "cumsum.default", {}, (1, 8)),
}


def traced(*ops: tuple[str, dict[str, Any], tuple[int, ...]]) -> Task:
    spec = task().signature.outputs[0]
    made = tuple(
        TracedOp(target=f"aten.{name}", kwargs=kwargs, results=(spec.model_copy(update={"shape": shape}),))
        for name, kwargs, shape in ops
    )
    return task().model_copy(update={"program": Program(tracer="export", ops=made, outputs=("output",))})


@pytest.mark.parametrize("name", TRACED)
def test_topics_follow_from_traced_operations(name: str) -> None:
    topics, *op = TRACED[name]
    assert topics_of(traced(tuple(op))) == topics


def test_attention_is_known_where_it_is_written_out() -> None:
    product, softmax = ("bmm.default", {}, (2, 8, 8)), ("softmax.int", {}, (2, 8, 8))
    assert "attention" in topics_of(traced(product, softmax, product))
    assert "attention" not in topics_of(traced(product, product, softmax))


def test_narrow_weights_are_matrices_of_bytes_beside_a_product() -> None:
    product, window = ("linear.default", {}, (2, 8)), ("max_pool2d.default", {}, (1, 2, 8, 8))

    def of(dtype: str, shape: tuple[int, ...], op: tuple[str, dict[str, Any], tuple[int, ...]]) -> frozenset[Topic]:
        [work] = traced(op).workloads
        [x] = work.signature.inputs
        weights = x.model_copy(update={"name": "weights", "dtype": dtype, "shape": shape})
        signature = work.signature.model_copy(update={"parameters": (weights,)})
        return topics_of(
            traced(op).model_copy(update={"workloads": (work.model_copy(update={"signature": signature}),)})
        )

    assert "narrow weights" in of("uint8", (8, 4), product) and "narrow weights" in of("int8", (8, 8), product)
    assert "narrow weights" not in of("float32", (8, 8), product) | of("uint8", (8,), product) | of(
        "int8", (8, 8), window
    )


@pytest.mark.parametrize(
    ("source", "topic"),
    [
        ("x.cumsum(1)", "scans"),
        ("torch.logcumsumexp(x, 0)", "scans"),
        ("self.act = nn.GELU()", "erf"),
        ("nn.Conv2d(c, c, 7, groups=c)", "windows"),
        ("F.avg_pool2d(x, 3)", "windows"),
        ("x.argsort(-1)", "selection"),
        ("nn.MultiheadAttention(64, 4)", "attention"),
    ],
)
def test_topics_follow_from_the_source_of_a_task_that_was_not_traced(source: str, topic: Topic) -> None:
    assert topic in topics_of(task().model_copy(update={"source": source}))
    assert topic not in topics_of(task().model_copy(update={"source": "return x + resort"}))


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("topic", get_args(Topic))
def test_a_page_on_a_topic_is_short_and_given_for_it_alone(target: TargetName, topic: Topic) -> None:
    plain, more = (estimated_tokens(library.writing(target, topics)) for topics in ((), (topic,)))
    assert more - plain <= 1_300
    titles = [title for title, of in library._OF_TOPICS.items() if of == topic]
    shown = [title for title in titles if f"## {title}\n" in library.writing(target, (topic,))]
    assert shown == [
        title for title in titles if title in {part.title for part in library.guide(library._ON_WRITING[target])}
    ]
    assert not [title for title in titles if f"## {title}\n" in library.writing(target, ())]


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("transpose 16x16 shuffle", "Transposition and lane sums by shuffles"),
        ("short contiguous index, small stride", "Small inner strides"),
        ("streaming stores", "Streaming stores on the processor"),
        ("spilled registers", "Spilled registers on the processor"),
    ],
)
def test_what_no_prompt_holds_is_looked_up(query: str, title: str) -> None:
    assert title in [part.title for part in library.look_up(query, "cpu", 2)]
    assert f"## {title}" not in library.writing("cpu", get_args(Topic)) + library.beginning("cpu")
    assert {part.title for part in library.guide("cpu")} >= {*library._LOOKED_UP}


def test_sections_are_the_guides_cut_at_their_headings() -> None:
    titles = [part.title for part in library.guide("cute")]
    assert titles[0] == "Writing a kernel with CuTe"
    assert {"Predicates", "Copies", "Arithmetic"} < set(titles)
    assert all(part.text.startswith("#") and part.text.endswith("\n") for part in library.guide("cute"))
    with pytest.raises(FileNotFoundError):
        library.guide("no-such-guide")


def test_each_class_and_target_has_its_moves() -> None:
    texts = {name: library.moves(name, "cuda", ()) for name in ("gemm", "elementwise", "reduction", "other")}
    assert len(set(texts.values())) == 4
    assert "Split-K" in texts["gemm"] and "Online softmax" in texts["reduction"]
    assert library.moves("sorting", "cuda", ()) == texts["other"]
    attention = library.moves("other", "cuda", ["attention", "products"])
    assert "Split-K" in attention and "Online softmax" in attention and "resident blocks" not in attention
    on_cpu = {name: library.moves(name, "cpu", ()) for name in ("gemm", "elementwise", "reduction")}
    assert "## Moves for products" in on_cpu["gemm"] and "## Moves for reductions" not in on_cpu["gemm"]
    other = library.moves("other", "cpu", ["products"])
    assert all(line in other for name in on_cpu for line in on_cpu[name].splitlines())
    assert "## Moves for products" not in library.moves("other", "cpu", ["functions"])
    windows = library.moves("reduction", "cpu", ["windows", "products"])
    assert re.findall("^## Moves for (\\w+)", windows, re.MULTILINE) == ["products", "windows"]
    for op_class in ("elementwise", "reduction", "other"):
        assert "Register tile" not in library.moves(op_class, "cpu", ["functions"])
        assert "wgmma" not in library.writing("cuda", ["functions"])
    attention = library.moves("other", "cpu", ["attention", "products", "functions"])
    assert re.findall("^## Moves for (\\w+)", attention, re.MULTILINE) == ["reductions", "products"]
    assert "cp.async" not in library.writing("cpu", ["products"])
    assert "cp.async" in library.writing("cuda", ["products"])


def test_the_guide_on_writing_leaves_out_what_a_task_does_not_need_and_what_is_for_beginners() -> None:
    assert "## Arithmetic" in library.writing("cuda", ["products"])
    assert "## Arithmetic" not in library.writing("cuda", ["functions"])
    assert "## Functions in vectors" not in library.writing("cpu", ["products"])
    assert "## Products" not in library.writing("cpu", ["functions"])
    for target, titles in (("cpu", ["Order of work on the processor"]), ("cuda", ["Order of work", "The layers"])):
        for title in titles:
            assert f"## {title}" in library.beginning(target)
            assert f"## {title}" not in library.writing(target, get_args(Topic))
    titles = {part.title for name in ("cute", "cpu") for part in library.guide(name)}
    assert {*library._FOR_BEGINNERS, *library._OF_TOPICS} < titles


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("failure", get_args(library.Failure))
def test_each_kind_of_failure_has_its_page(target: TargetName, failure: library.Failure) -> None:
    text = library.debugging(target, failure)
    assert text.startswith("# Finding out why a kernel fails") and "## Procedure" in text
    assert len(re.findall(r"^## ", text, re.MULTILINE)) == 2
    assert ("SIGSEGV" in text) == (target == "cpu" and failure in ("crashed", "timed_out"))
    assert ("illegal memory access" in text) == (target == "cuda" and failure in ("crashed", "timed_out"))


@pytest.mark.parametrize(
    ("op_class", "architecture", "query", "name"),
    [
        ("reduction", "sm_80", "class RMSNorm(nn.Module): rms norm", "rms_norm"),
        ("reduction", "sm_90a", "torch.softmax(x, dim=-1)", "softmax"),
        ("gemm", "sm_90a", "matrix times a vector", "gemv"),
        ("gemm", "sm_80", "bfloat16 or float16 product", "gemm_16bit"),
        ("other", "sm_80", "torch.diag(a) @ b, a diagonal matrix", "diag"),
        ("elementwise", "sm_90a", "zygote", "diag"),
        ("reduction", "cpu", "torch.softmax(x, dim=-1)", "cpu_softmax"),
        ("gemm", "cpu", "a fragment in vector registers of packed panels", "cpu_gemm"),
        ("other", "cpu", "softmax along rows over the sum of these", "cpu_softmax"),
        ("other", "cpu", "every head's keys and scores", "cpu_attention"),
        ("elementwise", "cpu", "zygote", "cpu_pointwise"),
    ],
)
def test_the_exemplar_whose_header_fits_is_found(op_class: str, architecture: str, query: str, name: str) -> None:
    found = library.retrieved(op_class, architecture, query)
    assert found is not None and found.name == name and found.runs_on(architecture)


def test_no_exemplar_is_found_where_none_runs_or_no_word_fits() -> None:
    assert library.retrieved("gemm", "sm_70", "matrix product") is None
    assert library.retrieved("other", "sm_90a", "zygote") is None
    assert library.retrieved("other", "cpu", "zygote") is None


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("cp.async wait group barrier", "Copies"),
        ("misaligned address", "It crashes"),
        ("bank conflicts", "What a profile's words mean"),
        ("edge tile predicate identity tensor", "Predicates"),
        ("what to do at the edge: predicates", "Predicates"),
        ("race moving error", "It computes the wrong thing"),
        ("racecheck Write access Read access", "What compute-sanitizer says"),
        ("heap-buffer-overflow", "What the sanitizers say on the processor"),
    ],
)
def test_a_query_finds_its_section_among_the_first(query: str, title: str) -> None:
    target: TargetName = "cpu" if "processor" in title else "cuda"
    assert title in [part.title for part in library.look_up(query, target)]


def test_queries_that_find_nothing_and_queries_made_of_syntax() -> None:
    assert library.look_up("", "cpu") == ()
    assert library.look_up("?!*", "cpu") == ()
    assert library.look_up("xylophone", "cpu") == ()
    assert len(library.look_up('NEAR("a" b) OR * ^ tile -- ; DROP', "cpu", limit=2)) == 2


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_a_query_finds_the_target_s_own_guides_and_the_common_one(target: TargetName) -> None:
    found = {
        part.guide for part in library.look_up("tile loop vector sum error failure barrier moves", target, limit=99)
    }
    others = {name for name in library.guide_names() if ("cpu" in name) != (target == "cpu")} - {"debugging"}
    assert "debugging" in found and len(found) > 2 and not found & others
    assert library.unknown_words("wgmma with predicates", "cuda") == ()
    assert "wgmma" in library.unknown_words("wgmma with sums", "cpu")


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ('kernel.cu:12: static assertion failed with "Static shape required" must be static', "Int<> extents"),
        ('tensor_impl.hpp:370: static assertion failed with "Dynamic owning tensors not supported"', "Int<> extents"),
        ("gemm.hpp:407: error: static assertion failed", "fragments of different tiles"),
        ('copy_atom.hpp:206: "TiledCopy uses too few vals for selected CopyAtom"', "more values than the value layout"),
        ('layout.hpp:1572: "logical_divide: Too many modes in tiler."', "numbers of modes"),
        ("error: 'bit_cast' is not a member of 'cutlass'", "another namespace"),
        # compute-sanitizer's words (2025.3.1), as the reports pass them on, and as its log has them
        (
            "memcheck: Invalid __global__ write of 4 bytes, line 10, by thread (0,0,0) in block (0,0,0), Access is out "
            "of bounds, and is 1 bytes after the nearest allocation of size 4096 bytes.",
            "the tail is not predicated",
        ),
        ("========= Invalid __shared__ read of size 4 bytes\n=========     at k+0x1 in kernel.cu:3", "cosize"),
        (
            "memcheck: Invalid __global__ read of 16 bytes, line 3, by thread (1,0,0), Access is misaligned.",
            "vector access",
        ),
        ("========= Leaked 4,096 bytes at 0x7fc934800000", "FromEnvAlloc"),
        ("racecheck: Race reported between Write access, line 4, and Read access in line 6.", "__syncthreads between"),
        ("Potential WAW hazard detected at __shared__ 0x0 in block (0,0,0)", "two threads own the same element"),
        (
            "initcheck: Uninitialized __global__ memory read of 4 bytes, line 7, by thread (96,0,0)",
            "without having been zeroed",
        ),
        ("synccheck: Barrier error detected. Divergent thread(s) in warp, line 8", "depends on threadIdx"),
        ("CUDA error: an illegal memory access was encountered", "beyond the end"),
        ("misaligned address", "16-byte access"),
        ("ptxas error: Entry function uses too much shared data (0x12000 bytes)", "48 KiB"),
        ("No answer within 5 s (the reference takes far less).", "barrier"),
        ("out is wrong on tiny inputs (seed 3): 99 % of it", "expm1"),
        ("out is wrong on wide inputs (seed 3): 2 % of it", "exponential"),
        ("out is wrong on normal inputs: expected 1, got nan.", "nothing wrote"),
        ("error: 'tile' was not declared in this scope", "missing include"),
        ("Memory outside an output was written: 8 bytes", "not predicated"),
    ],
)
def test_messages_have_causes(message: str, cause: str) -> None:
    assert any(cause in line for known in library.likely_causes(message) for line in known.causes)


def test_a_first_message_counts_more_than_its_echoes() -> None:
    first = "static assertion failed: Expected iterator iter in make_tensor(iter, args...)"
    echo = "static assertion failed: Dynamic owning tensors not supported"
    assert "void*" in library.likely_causes(f"{first}\n{echo}")[0].causes[0]
    assert "Int<> extents" in library.likely_causes(f"{echo}\n{first}")[0].causes[0]


def test_a_task_of_no_class_is_told_the_moves_that_its_guide_refers_to() -> None:
    for name in ("elementwise", "reduction"):
        assert library.moves(name, "cuda", ()) in library.moves("other", "cuda", ())


def test_the_catalogue_is_whole() -> None:
    titles = {part.title for name in library.guide_names() for part in library.guide(name)}
    for known in library.known_errors():
        assert known.causes and known.section in titles, known
    assert library.likely_causes("everything is fine") == ()
    patterns = [known.pattern.pattern for known in library.known_errors()]
    assert len(set(patterns)) == len(patterns)
