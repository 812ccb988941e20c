"""An index that a table lacks: the drop-in answers as the reference does, with its error or with its row."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from drop_ins import beside_eager, described, exported, loaded

from graph.export.places import places

SOURCE = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = torch.nn.Embedding(40, 8)
        self.more = torch.nn.Parameter(torch.randn(5, 8))

    def forward(self, ids, other):
        return READ


def get_inputs():
    return [torch.randint(0, 5, (6,)), torch.randint(0, 5, (6,), dtype=torch.int32)]
"""
BOTH = SOURCE.replace("READ", "self.rows(ids) + self.more[other.long()]")
KERNEL = """
using tvm::ffi::TensorView;
void run(TensorView ids, TensorView other, TensorView more, TensorView rows, TensorView y) {
  for (int i = 0; i < 6; ++i)
    for (int c = 0; c < 8; ++c)
      static_cast<float*>(y.data_ptr())[i * 8 + c] =
          static_cast<float const*>(rows.data_ptr())[static_cast<int64_t const*>(ids.data_ptr())[i] * 8 + c] +
          static_cast<float const*>(more.data_ptr())[static_cast<int32_t const*>(other.data_ptr())[i] * 8 + c];
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


@pytest.mark.parametrize(
    ("read", "found"),
    [
        ("self.rows(ids) + self.more[other.long()]", ((0, 0, 40), (1, -5, 5))),
        ("self.rows.weight.index_select(0, ids.view(2, 3).flatten()) * 2", ((0, 0, 40),)),
        ("self.rows.weight.gather(1, ids[:, None].long())", ((0, 0, 8),)),
        ("self.more[other.long(), ids] + self.rows(ids)[0, 0]", ((0, 0, 8), (1, -5, 5))),
        ("torch.zeros(9, 8).index_add(0, ids, self.rows(other.long()))", ((0, 0, 9), (1, 0, 40))),
        ("self.more.index_put((ids,), torch.ones(8))", ((0, -5, 5),)),
        ("self.more.scatter(1, ids[None], 1.0)", ((0, 0, 8),)),
        ("ids.flip(0)[other.long()]", ((1, -6, 6),)),
        ("self.rows(ids + 1) + other[:, None]", ()),
        ("self.more[(ids > 2)[:5]]", ()),
    ],
)
def test_inputs_that_name_places_of_parameters_are_known(read: str, found: Any) -> None:
    task = described(SOURCE.replace("READ", read))
    assert places(task, "cpu") == found
    assert places(task, "cuda") == ()


@pytest.fixture(scope="module")
def drop_in(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return loaded(exported(tmp_path_factory.mktemp("places"), BOTH, KERNEL))


@pytest.fixture
def pair(drop_in: Any) -> tuple[Any, Any]:
    return beside_eager(drop_in)


@pytest.mark.parametrize(("ids", "other"), [(40, 0), (-1, 0), (1 << 40, 0), (0, 5), (0, -6)])
def test_the_references_error_comes(pair: tuple[Any, Any], ids: int, other: int) -> None:
    arguments = torch.arange(6), torch.zeros(6, dtype=torch.int32)
    arguments[0][3], arguments[1][4] = ids, other
    said = []
    for each in pair:
        with torch.no_grad(), pytest.raises(IndexError) as raised:
            each(*arguments)
        said.append(str(raised.value))
    assert said[0] == said[1]


@pytest.mark.filterwarnings("ignore:argument 1 has values")
def test_places_from_the_end_are_the_references_and_all_others_the_kernels(drop_in: Any, pair: tuple[Any, Any]) -> None:
    ids = torch.tensor([0, 39, 5, 0, 0, 1])
    for other in ([0, 4, 1, 2, 3, 0], [0, -5, -1, 2, 3, 0]):
        arguments = ids, torch.tensor(other, dtype=torch.int32)
        with torch.no_grad():
            torch.testing.assert_close(pair[0](*arguments), pair[1](*arguments))
        assert drop_in.KERNEL.fallbacks == ({"index": 1} if min(other) < 0 else {})


def test_the_operator_refuses_what_the_reference_does(pair: tuple[Any, Any]) -> None:
    compiled = torch.compile(pair[0], fullgraph=True, backend="eager")
    ids, other = torch.arange(6), torch.zeros(6, dtype=torch.int32)
    with torch.no_grad():
        torch.testing.assert_close(compiled(ids, other), pair[1](ids, other))
        with pytest.raises(IndexError, match="argument 0 of the kernel has values below 0 or above 39"):
            compiled(ids + 35, other)
