"""The filtering job: run a task's reference under several seeds and see what its outputs depend on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import repeat
from typing import Any

import torch

from harness.checks.distributions import draw
from harness.checks.errors import Expected, compare
from harness.checks.families import plan_of
from harness.checks.filters import Influence, Outputs, axis_spread, judge_variation, peak, spread
from harness.nouns.errors import UserError
from harness.nouns.task import OpClass, Variant
from harness.nouns.task_filters import SEEDS, Conditioning, FilterResult
from harness.trusted.facts.specs import labels
from harness.trusted.oracle import Oracle
from harness.trusted.reference import Reference, Value


def examine(payload: dict[str, Any]) -> dict[str, Any]:
    """Filters and conditioning as JSON-ready data. `payload`: source, name, variant, op_class, multiplies, state."""
    source, name, variant = payload["source"], payload["name"], Variant.model_validate(payload["variant"])
    models = [Reference(source, name, seed=seed, variant=variant, state=payload["state"]) for seed in range(SEEDS)]
    fresh = [model.run(model.inputs(seed)) for seed, model in enumerate(models)]
    inputs = models[0].inputs(0)
    results = [
        judge_variation("output range", peak(fresh), fresh[0]),
        judge_variation("output spread", spread(fresh), fresh[0]),
        judge_variation("output axes", axis_spread(fresh[0]), fresh[0]),
        *_influence_of_weights(models, inputs, fresh[0]),
        *_influence_of_inputs(models[0], inputs, fresh[0]),
    ]
    return {
        "filters": [result.model_dump(mode="json") for result in results],
        "influence": _influence(
            models, payload["op_class"], plan_of(payload["op_class"], multiplies=payload["multiplies"])
        ),
        "conditioning": [part.model_dump(mode="json") for part in _conditioning(models[0], inputs, fresh[0])],
    }


def _influence(models: list[Reference], op_class: OpClass, plan: Sequence[str]) -> str:
    """The first family of inputs on which a constant would be wrong; empty where none is.

    All weights are the file's, under another seed in each draw.
    """
    influence, oracle = Influence(), Oracle(models[0], op_class)
    for seed, family in enumerate([*["given"] * SEEDS, *plan]):
        model = models[seed % SEEDS]
        with suppress(UserError):
            inputs = _drawn(model, family, seed, op_class)
            outputs = model.run(inputs)
            exact = oracle.run(inputs, model.parameters(), outputs) or outputs
            influence.see(family, [*map(Expected, repeat(""), exact, outputs)])
    return influence.family


def _drawn(model: Reference, family: str, seed: int, op_class: OpClass) -> list[Value]:
    generator = torch.Generator(model.place).manual_seed(seed)
    return [
        draw(family, value, generator, op_class) if isinstance(value, torch.Tensor) else value
        for value in model.inputs(seed)
    ]


def _influence_of_weights(models: list[Reference], inputs: list[Value], first: Outputs) -> list[FilterResult]:
    """No filter for a module that has no weights drawn at random."""
    versions = [model.parameters() for model in models]
    if all(torch.equal(tensor, versions[1][name]) for name, tensor in versions[0].items()):
        return []
    runs = [first, *(model.run(inputs) for model in models[1:])]
    return [judge_variation("influence of weights", spread(runs), first)]


def _influence_of_inputs(model: Reference, inputs: list[Value], first: Outputs) -> list[FilterResult]:
    """No filter for inputs that hold nothing random."""
    others = [model.inputs(seed) for seed in range(1, SEEDS)]
    if _equal(inputs, others[0]):
        return []
    return [judge_variation("influence of inputs", spread([first, *map(model.run, others)]), first)]


def _equal(one: list[Value], other: list[Value]) -> bool:
    return all(
        torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else a == b
        for a, b in zip(one, other, strict=True)
    )


def _conditioning(model: Reference, inputs: list[Value], outputs: list[torch.Tensor]) -> list[Conditioning]:
    """Empty where the forward cannot compute in float64."""
    found = []
    oracles = Oracle(model, "other").run(inputs, model.parameters(), outputs)
    names = labels(model)
    for position, (output, oracle) in enumerate(zip(outputs, oracles, strict=bool(oracles))):
        if output.is_floating_point():
            error = compare(output, Expected(names[position], oracle.double(), output))
            found.append(
                Conditioning(
                    output=names[position],
                    relative_l2=error.reference_relative_l2,
                    max_scaled=error.reference_max_scaled,
                )
            )
    return found
