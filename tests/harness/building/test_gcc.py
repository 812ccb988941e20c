"""g++'s messages as it really prints them, and whatever else a compiler might print."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.building.gcc import MAX_DIAGNOSTICS, parse_messages, select, short_name, trim_types
from harness.nouns.build import Diagnostic

HEADERS = "#include <cute/tensor.hpp>\nusing namespace cute;\n"


def test_a_wrong_call_is_told_at_the_kernels_line_with_the_reason(compile_cpu):
    build = compile_cpu(HEADERS + "auto a = make_layout(1, 2, 3, 4);\n")
    error, *notes = build.diagnostics
    assert (error.severity, error.file, error.line) == ("error", "kernel", 3)
    assert "make_layout(int, int, int, int)" in error.message
    assert [note.severity for note in notes] == ["note"] * len(notes) and 1 <= len(notes) <= 2
    assert notes[0].file == "cute/layout.hpp"
    assert not any("substitution failed" in note.message for note in notes)


def test_an_error_inside_a_header_names_the_kernels_line_it_came_from(compile_cpu):
    source = HEADERS + "void run(float* p) {\n  auto t = make_tensor(p, make_layout(Int<4>{}));\n  t(1, 2, 3);\n}\n"
    build = compile_cpu(source)
    inside = [found for found in build.diagnostics if found.severity == "error" and found.file.startswith("cute/")]
    assert inside and all("(instantiated from kernel line 5" in found.message for found in inside)


def test_an_error_inside_the_kernels_own_template_names_its_use(compile_cpu):
    build = compile_cpu("template <class T> auto pick(T t) {\n  return t.first;\n}\nauto x = pick(3);\n")
    error = build.diagnostics[0]
    assert (error.file, error.line) == ("kernel", 2)
    assert error.message.endswith("(instantiated from kernel line 4)")


def test_a_failed_static_assertion_keeps_its_text(compile_cpu):
    build = compile_cpu(HEADERS + 'static_assert(size(Layout<_4>{}) == 5, "tile must divide");\n')
    assert "tile must divide" in build.diagnostics[0].message


def test_errors_come_before_warnings(compile_cpu):
    build = compile_cpu("int f() { int unused = 1; return 0; }\nint g() { return missing; }\n")
    assert [found.severity for found in build.diagnostics] == ["error", "warning"]
    assert build.diagnostics[1].line == 1


def test_a_library_keeps_its_warnings(compile_cpu, good, fresh):
    build = compile_cpu(fresh("static int unused() { return 1; }\n" + good))
    assert build.succeeded
    assert [(found.severity, found.line) for found in build.diagnostics] == [("warning", 1)]


def test_a_hundred_errors_are_cut(compile_cpu):
    build = compile_cpu("".join(f"int f{n}() {{ return missing{n}; }}\n" for n in range(100)))
    assert 5 <= len(build.diagnostics) <= MAX_DIAGNOSTICS
    assert build.diagnostics[0].line == 1


def test_a_missing_header_is_told(compile_cpu):
    build = compile_cpu("#include <no/such/header.h>\n")
    assert build.diagnostics[0].message == "no/such/header.h: No such file or directory"


def test_wrong_assembly_is_an_error(compile_cpu):
    build = compile_cpu('asm("not_an_instruction %eax");\nvoid run() {}\n')
    assert build.diagnostics[0].message.startswith("inline assembly: no such instruction: `not_an_instruction")


def test_a_chain_belongs_to_the_message_after_it_and_to_no_other():
    output = """\
kernel.cpp: In substitution of 'f':
kernel.cpp:9:5:   required from here
kernel.cpp:2:3: note: candidate
kernel.cpp: In instantiation of 'g':
/opt/include/cute/a.hpp:8:1:   required from 'h'
kernel.cpp:12:1:   required from 'k'
kernel.cpp:30:1:   required from here
/opt/include/cute/a.hpp:3:4: error: wrong
/opt/include/cute/a.hpp:5:4: error: wrong too
"""
    found = parse_messages(output, kernel_file="kernel.cpp", source="")
    assert [error.message for error in found] == ["wrong (instantiated from kernel line 12, 30)", "wrong too"]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("kernel.cpp", "kernel"),
        ("/tmp/x/kernel.cpp", "kernel"),
        ("/a/site-packages/cutlass_library/source/include/cute/layout.hpp", "cute/layout.hpp"),
        ("/usr/include/c++/12/bits/stl_vector.h", "12/bits/stl_vector.h"),
        ("/home/somebody/private/thing.h", "thing.h"),
    ],
)
def test_names_are_short_and_tell_no_folder_of_this_machine(path, name):
    assert short_name(path, "kernel.cpp") == name


def test_nested_types_are_trimmed():
    text = "no match for 'Tensor<Engine<float, 32>, Layout<tuple<C<4>, C<8> >, tuple<C<1> > > >' here"
    assert trim_types(text) == "no match for 'Tensor<Engine<float, 32>, Layout<tuple<...>, tuple<...> > >' here"


def test_comparisons_are_no_templates():
    assert trim_types("a < b && c -> d > e") == "a < b && c -> d > e"


@given(st.text())
def test_any_output_is_read_without_a_fault(text):
    found = parse_messages(text, kernel_file="kernel.cpp", source=text)
    assert len(found) <= MAX_DIAGNOSTICS
    assert len(trim_types(text)) <= 400


diagnostics = st.builds(
    Diagnostic,
    severity=st.sampled_from(["error", "warning", "note"]),
    file=st.sampled_from(["kernel", "cute/layout.hpp"]),
    line=st.integers(1, 3),
    message=st.sampled_from("ab"),
)


@given(st.lists(diagnostics, max_size=60))
def test_selection_keeps_errors_first_and_drops_only_what_it_must(found):
    kept = select(found)
    assert len(kept) == len(set(kept)) <= MAX_DIAGNOSTICS and set(kept) <= set(found)
    severities = [diagnostic.severity for diagnostic in kept if diagnostic.severity != "note"]
    assert severities == sorted(severities)
    if any(diagnostic.severity == "error" for diagnostic in found):
        assert kept[0].severity == "error"


@pytest.mark.parametrize(
    "output",
    [
        "kernel.cpp:1:2: error: " + "undefined reference to `x" * 16_000,
        "kernel.cpp:1:2: error: " + "undefined reference to 'x" * 16_000,
        "a\n" * 500_000,
        "".join(f"ld: undefined reference to `f{number}()'\n" for number in range(16_000)),
        "kernel.cpp:1:2: error: " + "x<" * 200_000,
    ],
    ids=["backticks", "quotes", "lines", "symbols", "types"],
)
def test_what_a_kernel_has_printed_is_read_in_time_that_grows_with_its_length(output):
    """A kernel chooses what #error says; the reader belongs to the process that holds the run."""
    started = time.process_time()
    parse_messages(output, kernel_file="kernel.cpp", source="void f();\n" * 40_000)
    assert time.process_time() - started < 20.0  # 0.6 s on an idle machine, where it took minutes
