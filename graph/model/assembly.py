"""The text of `model_fast.py`: which operations of the model each region's kernel takes the place of."""

from __future__ import annotations

import json
import pprint
from collections.abc import Mapping, Sequence
from typing import Any

from graph.model.plan import Place, Plan, PlannedRegion
from graph.model.sources import rendered
from graph.model.window import Window
from harness.nouns.capture import Capture
from harness.wire.job import RegionCut

FILE = "model_fast.py"
REGIONS = "regions"


def window_of(capture: Capture, place: Place) -> Window:
    """The operations at a place."""
    return Window(capture.parts[place.part], place.start, place.end)


def cuts_of(capture: Capture, regions: Sequence[PlannedRegion]) -> tuple[RegionCut, ...]:
    """Each region as it stands at its first place."""
    return tuple(_cut(capture, region) for region in regions)


def assembled(
    capture: Capture,
    plan: Plan,
    names: Sequence[str],
    *,
    graphs: bool = False,
    mode: str = "",
    told: Mapping[str, str] | None = None,
    gpu: str = "",
) -> str:
    """The file for the regions of these names; `graphs` has its calls replayed as CUDA graphs.

    In a `mode` of torch.compile Inductor compiles it; `told` is what the file says of regions, by name, and `gpu` the
    one that they were timed on.
    """
    chosen = {region.name: [_place(capture, place) for place in region.places]
              for region in plan.regions if region.name in names}  # fmt: skip
    what = "with kernels in the place of some of its operations" if names else "as a CUDA graph"
    what += ", compiled by Inductor" if mode else ""
    title = f"{plan.name} {what}."
    return rendered(
        "model_fast.py.j2",
        title=json.dumps(title)[1:-1],
        regions=pprint.pformat(chosen, width=116, sort_dicts=False, compact=True),
        parts=[part.path for part in capture.parts],
        graphs=graphs,
        mode=mode,
        gpu=gpu,
        told=pprint.pformat(dict(told or {}), width=116, sort_dicts=False),
    )


def _cut(capture: Capture, region: PlannedRegion) -> RegionCut:
    window = window_of(capture, region.places[0])
    return RegionCut(
        name=region.name,
        part=window.part.path,
        operations=tuple(each.node for each in window.operations),
        inputs=window.inputs,
        weights=window.weights,
        outputs=window.given,
    )


def _place(capture: Capture, place: Place) -> dict[str, Any]:
    window = window_of(capture, place)
    return {
        "part": window.part.path,
        "operations": [(each.node, each.op.target) for each in window.operations],
        "inputs": list(window.inputs),
        "weights": list(window.weights),
        "outputs": list(window.given),
    }
