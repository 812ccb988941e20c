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
}
LIBRARYS = {
    "called": "int f() {{ return {0}(2); }}",
    "beside a member": "struct A {{ int {0}(int); }}; int f() {{ return {0}(2); }}",
    "beside a parameter": "template <class F> int g(F&& {0}); int f() {{ return {0}(2); }}",
    "declared": 'extern "C" int {0}(int); int f() {{ return {0}(2); }}',
    "declared inside": "int f() {{ int {0}(int); return {0}(2); }}",
    "behind a lambda's block": "int f() {{ {{ auto {0} = [] {{}}; }} return {0}(2); }}",
    "by its global name": "struct A {{ int {0}(int); int f() {{ return ::{0}(2); }} }};",
    "in a macro": "struct A {{ int {0}(int); }};\n#define RUN {0}\n",
}


@pytest.mark.parametrize("way", OWN)
@given(name=st.sampled_from([*CALLED, *WORDS, *ATTRIBUTES]))
def test_what_a_source_declares_is_its_own(way, name):
    assert screen_source(OWN[way].format(name), IEEE) is None


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
