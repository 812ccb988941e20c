"""State between calls: results kept by count, address, value or shape; races; outputs that were read before written."""

import pytest

SOFTSIGN = "in(x)[i] / (1 + std::fabs(in(x)[i]))"


def kernel(body: str, before: str = "") -> str:
    return f"""
#include <atomic>
#include <cstring>
{before}
void run(TensorView x, TensorView y) {{
  int64_t const n = x.numel();
  {body}
}}
"""


def each(value: str, condition: str = "") -> str:
    return f"for (int64_t i = 0; i < n; ++i) {condition} out(y)[i] = {value};"


KEPT = {
    "wrong on the third call": kernel(
        each(f"{SOFTSIGN} * (calls == 2 ? 1.01f : 1.f)") + " ++calls;", "static int calls = 0;"
    ),
    "by address": kernel(
        "for (int k = 0; k < known; ++k) if (keys[k] == x.data_ptr()) {"
        " std::memcpy(out(y), values[k], n * 4); return; }"
        + each(SOFTSIGN)
        + "if (known < 64) { keys[known] = x.data_ptr(); std::memcpy(values[known++], out(y), n * 4); }",
        "static void* keys[64]; static float values[64][37 * 129]; static int known = 0;",
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_results_kept_from_an_earlier_call_are_wrong(bench, name):
    verdict = bench.verdict(KEPT[name])
    assert (verdict.status, verdict.check) == ("wrong", "correctness"), verdict.message


def test_a_race_is_said_to_move(bench):
    """Every fourth call goes wrong, somewhere else each time: the repeats of a trial see it."""
    body = each(SOFTSIGN) + "if (++calls % 4 != 1) out(y)[(calls * 997) % n] += 1;"
    verdict = bench.verdict(kernel(body, "static int calls = 0;"))
    assert verdict.status == "wrong"
    assert "moving from one call to the next on the same inputs" in verdict.message
    assert verdict.correctness.trials[-1].repeatable is False


def test_a_right_result_may_differ_in_its_last_bits_and_the_verdict_says_so(bench):
    body = each(f"std::nextafterf({SOFTSIGN}, __builtin_ia32_rdtsc() % 2 ? 2.f : -2.f)")
    verdict = bench.verdict(kernel(body))
    assert verdict.status == "passed", verdict.message
    assert verdict.correctness.trials[-1].repeatable is False
    steady = bench.verdict(kernel(each(SOFTSIGN)))
    *earlier, last = [trial.repeatable for trial in steady.correctness.trials]
    assert {*earlier} == {None} and last is True


def test_an_output_that_is_read_before_it_is_written_follows_the_memory(bench):
    """fmax hides the NaN that outputs are filled with first."""
    verdict = bench.verdict(kernel(each(f"std::fmax(out(y)[i], {SOFTSIGN})")))
    assert verdict.status == "wrong"
    if verdict.correctness.trials[-1].repeatable is False:
        assert "following what lay in the output before the call" in verdict.message


def test_a_flag_that_is_only_ever_set_is_wrong_over_the_other_filling(bench):
    source = """
    import torch

    class Model(torch.nn.Module):
        def forward(self, x):
            return x > -1e30

    def get_inputs():
        return [torch.rand(700)]
    """
    body = "void run(TensorView x, TensorView y) { (void)x; (void)y; }"
    verdict = bench.verdict(body, source)
    assert verdict.status == "wrong"


def test_weights_that_change_in_place_are_seen(bench):
    source = """
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.rand(40))

        def forward(self, x):
            return x * self.scale

    def get_inputs():
        return [torch.randn(30, 40)]
    """
    body = """
    #include <cstring>
    static float const* key = nullptr; static float prepared[40];
    void run(TensorView x, TensorView w, TensorView y) {
      if (key != in(w)) { key = in(w); std::memcpy(prepared, key, sizeof prepared); }
      for (int i = 0; i < 30 * 40; ++i) out(y)[i] = in(x)[i] * prepared[i % 40];
    }
    """
    own = body.replace("if (key != in(w)) { key = in(w);", "float prepared[40]; { float const* key = in(w);")
    assert bench.verdict(own, source).status == "passed"
    always = body.replace("key != in(w)", "key == nullptr")
    assert bench.verdict(always, source).status == "wrong"
