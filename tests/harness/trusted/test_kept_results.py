"""A result may be kept for arguments of which each element was compared, and for no others; whatever the seed."""

from __future__ import annotations

import time

import pytest
import torch
from python_kernels import bench_of, right

from harness.nouns.task import ScalarSpec, Signature, TensorSpec
from harness.trusted.jobs.kept_results import require_new_results
from harness.trusted.link import CandidateFailedError
from harness.trusted.reference import Reference
from harness.trusted.timing.timed_outputs import TimedOutputs

SOURCE = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.linspace(1, 2, 500))

    def forward(self, x, shift):
        return (x * self.scale + shift)RESULT

def get_inputs():
    return [torch.rand(60, 500) + 1, 0.5]
"""


def signature(*shape):
    x = TensorSpec(name="x", shape=(60, 500), strides=(500, 1), dtype="float32")
    shift = ScalarSpec(name="shift", type="float", value=0.5, others=(0.0, -0.5), free=True)
    scale = TensorSpec(name="scale", shape=(500,), strides=(1,), dtype="float32")
    y = TensorSpec(name="y", shape=shape, strides=tuple([500, 1][: len(shape)]), dtype="float32")
    return Signature(inputs=(x, shift), parameters=(scale,), outputs=(y,))


def keeping(key, compute):
    """A kernel that keeps the last result for as long as its key is the same."""
    kept = {}

    def kernel(views, numbers):
        now = (numbers["shift"], *key(views))
        if kept.get("key") != now:
            compute(views, numbers)
            kept.update(key=now, result=views["y"].clone())
        views["y"].copy_(kept["result"])

    return kernel


def looks(tensor, count):
    return tuple(tensor.flatten()[:: tensor.numel() // count].tolist())


def whole(tensor):
    return tensor.numpy().tobytes()


KEYS = {
    "looks": lambda views: (looks(views["x"], 64), looks(views["scale"], 8)),
    "ends of rows": lambda views: (whole(views["x"][:, ::499]), whole(views["scale"])),
    "a sum of some": lambda views: (float(views["x"].flatten()[::61].sum()), float(views["scale"].sum())),
    "one argument": lambda views: (whole(views["x"]), looks(views["scale"], 16)),
    "one argument and its place": lambda views: (whole(views["x"]), views["scale"].data_ptr()),
    "the others' place": lambda views: (whole(views["scale"]), looks(views["x"], 16), views["x"].data_ptr()),
}
RESULTS = {"": (60, 500), ".mean(1)": (60,), ".amax(1)": (60,)}
CASES = [(key, result) for key in KEYS for result in RESULTS if (key[:3], result) != ("one", ".amax(1)")]
"""A few of a weight's elements seldom decide which is the largest of a row."""


def made_of(key, result, seed):
    """Whether a kernel that keeps by that key is refused."""
    torch.manual_seed(seed)

    def compute(views, numbers):
        views["y"].copy_(eval(f"(views['x'] * views['scale'] + numbers['shift']){result}"))

    source = SOURCE.replace("RESULT", result)
    kind = "reduction" if result else "elementwise"
    with bench_of(keeping(key, compute), source=source, signature=signature(*RESULTS[result]), op_class=kind) as bench:
        bench.arguments.manner = "mixed"
        bench.arguments.stir(0)
        with bench.link.running():
            bench.link.call([0], 20.0)
        require_new_results(bench, TimedOutputs(bench, [1e-6]), 0, 20.0)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("key", "result"), CASES)
def test_who_keeps_a_result_by_less_than_all_is_refused(key, result):
    for seed in range(2):
        with pytest.raises(CandidateFailedError, match="y came out wrong") as refused:
            made_of(KEYS[key], result, seed)
        assert refused.value.check == "timed_output"


def test_a_machine_that_is_busy_with_others_has_no_fewer_changes(monkeypatch):
    run = Reference.run

    def late(*given):
        time.sleep(0.06)
        return run(*given)

    monkeypatch.setattr(Reference, "run", late)
    with pytest.raises(CandidateFailedError, match="y came out wrong"):
        made_of(KEYS["one argument and its place"], "", 0)


@pytest.mark.parametrize("result", RESULTS)
def test_who_compares_all_of_them_is_right(result):
    made_of(lambda views: (whole(views["x"]), whole(views["scale"])), result, 1)


def test_nothing_is_asked_where_nothing_may_change():
    with bench_of(right) as bench:
        bench.arguments.touchable = list
        require_new_results(bench, TimedOutputs(bench, [1e-6]), 0, 20.0)
        assert bench.link.called == 0
