"""The tokenizer against what hides code: comments, splices, raw strings, digraphs, suffixes; and a round trip."""

import random
import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.building.toolchain import host_compiler
from harness.screen.tokens import LexicalError, Token, tokenize


def texts(source):
    return [token.text for token in tokenize(source)]


CUT = {
    "int x=1;": ["int", "x", "=", "1", ";"],
    "a/*b*/c//d\ne": ["a", "c", "e"],
    "a /* // */ b": ["a", "b"],
    "// a \\\nb\nc": ["c"],
    "// a \\  \nb\nc": ["c"],
    "sys\\\ntem": ["system"],
    "sys\\  \ntem": ["system"],
    "sys\\\r\ntem": ["system"],
    "/\\\n/ a\nb": ["b"],
    "/\\\n* a *\\\n/b": ["b"],
    "// ??/\nb": ["b"],
    "<% %> <: :> %:%:": ["{", "}", "[", "]", "##"],
    "a<::b>c": ["a", "<", "::", "b", ">", "c"],
    "a<:::b:>": ["a", "[", "::", "b", "]"],
    "a<::>": ["a", "[", "]"],
    "1'000'000+0x1p-3f 1e+5 .5 1.f 3_c": ["1'000'000", "+", "0x1p-3f", "1e+5", ".5", "1.f", "3_c"],
    "1'e+'a 1'b": ["1'e+'a", "1'b"],
    '"a\\"b" c': ['"a\\"b"', "c"],
    '"/*" system "*/"': ['"/*"', "system", '"*/"'],
    "'\"' system '\"'": ["'\"'", "system", "'\"'"],
    'R"(a" //)" b': ['R"(a" //)"', "b"],
    'u8R"x(a)" )x" b': ['u8R"x(a)" )x"', "b"],
    'R"(a\\\nb)" c': ['R"(a\\\nb)"', "c"],
    'xR"(" a ")"': ["xR", '"("', "a", '")"'],
    'u8"a" L"b" u\'c\'': ['u8"a"', 'L"b"', "u'c'"],
    '"a"sv + "b"s "c"PRId64"d"': ['"a"', "sv", "+", '"b"', "s", '"c"', "PRId64", '"d"'],
    "a->*b <<= >>= ... .*": ["a", "->*", "b", "<<=", ">>=", "...", ".*"],
}


@pytest.mark.parametrize("source", CUT)
def test_cuts_where_the_compiler_cuts(source):
    assert texts(source) == CUT[source]


def test_the_real_preprocessor_sees_the_same_tokens():
    """Its output has neither comments nor splices nor blanks where they were: the tokens must be the same."""
    source = "".join(f"\nbegin{k}\n{text}\n" for k, text in enumerate(CUT))
    command = [*host_compiler().command, "-std=c++17", "-w", "-E", "-P", "-x", "c++", "-"]
    done = subprocess.run(command, input=source.encode(), capture_output=True, check=True)
    assert texts(done.stdout.decode()) == texts(source)


PIECES = (
    "a", "R", "u8", "L", "1", "1'", "e+", "0x", "_", "$", "x", '"x"', "'\"'", 'R"(', 'u8R"x(', ')"', ')x"', '"', "'",
    "(", ")", "\\", "\\\n", "\\ \t\n", "/", "*", "//", "/*", "*/", "\n", " ", "\t", "\f", "??/", "<:", "::", "%:%:",
    "->*", "é",
)  # fmt: skip
"""Beginnings and ends of all that swallows text, to be put together by chance."""


def test_the_real_preprocessor_agrees_on_whatever_is_not_refused():
    """Ends that one reader sees and the other does not would hide all that follows."""
    chance = random.Random(1)
    drawn = ["".join(chance.choices(PIECES, k=chance.randint(2, 14))) for _ in range(3000)]
    read = {source: cut for source in drawn if (cut := cut_or_refused(source)) is not None}
    assert len(read) > 800
    assert any('R"' in source for source in read) and any("/*" in source for source in read)
    marked = "".join(f"\nbegin{k}\n{source}\n" for k, source in enumerate(read))
    command = [*host_compiler().command, "-std=c++17", "-w", "-E", "-P", "-x", "c++", "-"]
    done = subprocess.run(command, input=marked.encode(), capture_output=True, check=True)
    expected = [text for k, cut in enumerate(read.values()) for text in (f"begin{k}", *cut)]
    # g++ drops some blanks at the ends of lines in raw strings.
    agreed = [[re.sub(r"\\[ \t]+\n", "\\\n", text) for text in cut] for cut in (texts(done.stdout.decode()), expected)]
    assert agreed[0] == agreed[1]


def cut_or_refused(source):
    try:
        return texts(source)
    except LexicalError:
        return None


def test_directives_end_where_their_logical_line_ends():
    tokens = tokenize('#define A \\\n b /* \n */ c\nd\n  %:include <x//y>\n#include "z" // w')
    assert [(token.kind, token.text) for token in tokens if token.kind != "identifier"] == [
        ("directive", "#"), ("newline", "\n"), ("directive", "#"), ("header", "<x//y>"), ("newline", "\n"),
        ("directive", "#"), ("header", '"z"'), ("newline", "\n"),
    ]  # fmt: skip
    assert [token.text for token in tokens if token.kind == "identifier"] == [
        "define", "A", "b", "c", "d", "include", "include",
    ]  # fmt: skip
    assert texts('#define A R"(//)" b') == ["#", "define", "A", 'R"(//)"', "b", "\n"]
    assert tokenize("a # b")[1] == Token("punctuator", "#", 1)


def test_lines_are_the_sources():
    tokens = tokenize('a\\\nb\n/* \n\n */ c R"(\n\n)" d\r\ne')
    assert [(token.text, token.line) for token in tokens if token.kind == "identifier"] == [
        ("ab", 1), ("c", 5), ("d", 7), ("e", 8),
    ]  # fmt: skip


UNREADABLE = {
    "a\n/* b": (2, "never ends"),
    'a\n\n"b': (3, "quote"),
    "'": (1, "quote"),
    'R"(a': (1, "raw string"),
    '#define A R"(\n)"': (1, "directive"),
    'a "b"R"(c)"': (1, "suffix"),
    'a "b"u8R"(c)"': (1, "suffix"),
    'R"(b)"R"(c)"': (1, "suffix"),
    "'a'_b": (1, "suffix"),
    "int \u0441ystem;": (1, "ASCII"),
    "\\u0073ystem": (1, "ASCII"),
    "a\n\x01b": (2, "ASCII"),
    "// a\rsystem()": (1, "carriage return"),
    "a\0b": (1, "NUL"),
}


@pytest.mark.parametrize("source", UNREADABLE)
def test_what_could_be_read_in_two_ways_is_not_read(source):
    line, words = UNREADABLE[source]
    with pytest.raises(LexicalError, match=words) as caught:
        tokenize(source)
    assert caught.value.line == line


def test_non_ascii_text_belongs_in_comments_and_strings():
    assert texts('// π ≈ 3\n"π" a /* é */') == ['"π"', "a"]


WORDS = st.sampled_from(
    ["a", "system", "R", "u8", "x1", "1", "0x1f", "1'000", "2.5e-3", '"s"', '"/*"', "'\"'", '"\\""', 'R"(//)"',
     'R"d(")")d"', "+", "<", "::", "->", "(", ")", "{", "<<=", "##", ";", "..."]
)  # fmt: skip
GAPS = st.sampled_from([" ", "\t", "\n", "/**/", "/* ' */", '/* " */', "// ' \"\n", "// \\\n x\n", " \\\n ", "\r\n"])


@given(st.lists(st.tuples(WORDS, st.lists(GAPS, min_size=1, max_size=3)), max_size=30))
def test_tokens_come_back_through_any_comments_and_splices(parts):
    source = "".join(word + "".join(gaps) for word, gaps in parts)
    assert texts(source) == [word for word, _ in parts]


@given(st.sampled_from(["system", "cudaStreamCreate", "dlopen"]), st.data())
def test_a_name_comes_back_through_splices_anywhere(name, data):
    splice = st.sampled_from(["", "\\\n", "\\ \t\n", "\\\r\n", "\\\n\\\n"])
    source = "".join(letter + data.draw(splice) for letter in name)
    assert texts(f"{source}()") == [name, "(", ")"]


@given(st.text(st.sampled_from("ab1'\"\\\n/*R()<:%#. +-eu8_\r"), max_size=60))
def test_any_text_is_cut_or_refused_and_nothing_is_lost(source):
    try:
        tokens = tokenize(source)
    except LexicalError:
        return
    lines = [token.line for token in tokens]
    assert lines == sorted(lines)
    kept = sum(len(token.text) for token in tokens if token.kind not in ("newline", "directive"))
    assert kept <= len(source)
