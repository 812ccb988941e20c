"""Any name that libraries use is a source's own where the source declares it, and the library's everywhere else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.screen.ownership import _IMPORTABLE
from harness.screen.rules import RULES
from harness.screen.source import screen_source

IEEE = frozenset({"float32", "ieee"})
CALLED = sorted({name for rule in RULES for name in rule.called})
WORDS = sorted({name for rule in RULES if rule.scoped for name in rule.words})
ATTRIBUTES = sorted({name for rule in RULES for name in rule.attributes})

OWN = {
    "member": "struct A {{ int {0}; A() : {0}(3) {{}} }}; int f(A a) {{ return a.{0} + (&a)->{0}; }}",
    "method": "struct A {{ int {0}(int k) {{ return k; }} int g() {{ return {0}(2); }} }}; int y = a.{0}(1);",
    "method outside": "struct A {{ int g(); int {0}(int); }}; int A::g() {{ return {0}(2); }}",
    "inherited": "struct A {{ int {0}(int k) {{ return k; }} }}; struct B : A {{ int g() {{ return {0}(2); }} }};",
    "parameter": "template <class F> int f(F&& {0}) {{ return {0}(2); }}",
    "lambda": "int f() {{ auto {0} = [](int k) {{ return k; }}; return {0}(2); }}",
    "in a loop": "void f() {{ for (auto {0} : all) {0}(2); }}",
    "in a namespace": "namespace k {{ int {0}(int k) {{ return k; }} int g() {{ return {0}(2); }} }}",
    "vector of a length": "void f(int n) {{ std::vector<float> {0}(n), more(n); g({0}.data()); }}",
    "number of an element": "void f(float const* x) {{ float const {0}(x[0]); g({0}); }}",
    "integer from a variable": "void f(int n) {{ int const {0}(n); unsigned m = n; long x(m), y = 2; }}",
    "integer from a member": "void f(Tensor t) {{ long {0}(t.numel()); }}",
    "integer from a cast": "void f(long n) {{ int {0}((int)n); }} void g(long n) {{ int {0}(static_cast<int>(n)); }}",
    "pointer to a function": "float f(float (*{0})(float)) {{ return {0}(2); }}",
    "local pointer to a function": "float f() {{ float (*{0})(float) = g; return {0}(2); }}",
    "in a condition": "void f(int n) {{ if (int {0}(n); n > 2) g({0}); }}",
    "macro": "#define {0}(k) table[k]\nfloat f() {{ return {0}(2); }}",
}
LEFT_TO_IMPORTS = {
    "in one statement": "void f(int n) {{ int m = g(n), {0}(n); h({0}); }}",
    "outside of functions": "static double const {0}(2.5); double f() {{ return {0}; }}",
    "declared before its body": "float {0}(float); float f() {{ return {0}(2.f); }}",
    "of this file alone": "static int {0}(float); int f() {{ return {0}(2.f); }}",
}
LIBRARYS = {
    "called": "int f() {{ return {0}(2); }}",
    "beside a member": "struct A {{ int {0}(int); }}; int f() {{ return {0}(2); }}",
    "beside a parameter": "template <class F> int g(F&& {0}); int f() {{ return {0}(2); }}",
    "declared": 'extern "C" int {0}(int); int f() {{ return {0}(2); }}',
    "declared inside": "int f() {{ int {0}(int); return {0}(2); }}",
    "behind a lambda's block": "int f() {{ {{ auto {0} = [] {{}}; }} return {0}(2); }}",
    "by its global name": "struct A {{ int {0}(int); int f() {{ return ::{0}(2); }} }};",
    "declared by an alias": "using T = int; void f() {{ T {0}(T, T); }}",
    "declared beside a variable of that name": "using T = int; void g(T n) {{ }} void f() {{ int {0}(T); }}",
    "declared in a template": "template <class T, class U, class V> void f() {{ int {0}(T, U); }}",
    "declared with its result behind": "void f() {{ auto {0}(int) -> int; }}",
    "multiplied by": "void f(int n) {{ n * {0}(n); }}",
    "beside another's macro": "#if X\n#define {0}(k) k\n#endif\nint f() {{ return {0}(2); }}",
    "behind a macro's end": "#define {0}(k) k\n#undef {0}\nint f() {{ return {0}(2); }}",
    "behind a comma": "int f(int n) {{ return n, {0}(n); }}",
    "in a macro": "struct A {{ int {0}(int); }};\n#define RUN {0}\n",
}


@pytest.mark.parametrize("way", OWN)
@given(name=st.sampled_from([*CALLED, *WORDS, *ATTRIBUTES]))
def test_what_a_source_declares_is_its_own(way, name):
    assert screen_source(OWN[way].format(name), IEEE) is None


@pytest.mark.parametrize("way", LEFT_TO_IMPORTS)
@given(name=st.sampled_from([name for name in CALLED if name not in _IMPORTABLE]))
def test_what_the_list_of_imports_can_refuse_is_its_own_sooner(way, name):
    assert screen_source(LEFT_TO_IMPORTS[way].format(name), IEEE) is None


@pytest.mark.parametrize("way", LIBRARYS)
@given(name=st.sampled_from([*CALLED, *WORDS]))
def test_what_it_does_not_is_the_librarys(way, name):
    assert screen_source(LIBRARYS[way].format(name), IEEE) is not None


@given(st.sampled_from(CALLED))
def test_an_own_function_outside_of_namespaces_is_left_to_the_list_of_imports(name):
    own = screen_source(f"static int {name}(float x) {{ return 1; }} int f() {{ return {name}(2.f); }}", IEEE)
    assert (own is None) == (name not in _IMPORTABLE)


@given(st.sampled_from(WORDS))
def test_nothing_stands_in_for_a_librarys_function(name):
    assert screen_source(f"int {name}(float x) {{ return 1; }}", IEEE) is not None
