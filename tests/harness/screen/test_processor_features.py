"""What a source asks of the processor while it runs."""

import pytest

from harness.screen.directives import features_asked


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        (
            'int f() {\n return __builtin_cpu_supports("avx512f"); }',
            'line 2 asks for __builtin_cpu_supports("avx512f")',
        ),
        ("int f() { return __get_cpuid(1, &a, &b, &c, &d); }", "line 1 asks for __get_cpuid"),
        ('void f() { asm volatile("cpuid" ::: "eax"); }', 'line 1 asks for "cpuid"'),
        ('__attribute__((target_clones("avx2", "default"))) void f();', "line 1 asks for target_clones"),
        ("cudaGetDeviceProperties(&p, 0); if (p.major > 8) f();", "line 1 asks for major"),
        (
            "cudaDeviceGetAttribute(&n, cudaDevAttrComputeCapabilityMajor, 0);",
            "line 1 asks for cudaDevAttrComputeCapabilityMajor",
        ),
    ],
)
def test_a_branch_on_features_at_run_time_is_named(source, asked):
    assert features_asked(source) == (asked,)


@pytest.mark.parametrize(
    "source",
    [
        "#ifdef __AVX512F__\nint lanes = 16;\n#endif",
        "#if __CUDA_ARCH__ >= 900\n#endif",
        "cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, 0);",
        "struct Layout { int major, minor; } it; int n = it.major;",
        "// __builtin_cpu_supports",
        'auto x = "unterminated',
    ],
)
def test_what_is_chosen_when_it_is_compiled_is_not(source):
    assert features_asked(source) == ()
