"""How to use what a run found, and how to have it found again: the lines a reader copies from its report."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from graph.offers import EvolutionSettings, RunSettings, VerdictSettings, offer_of, spelt
from graph.runs.record import RunRecord
from harness.nouns.devices import on_gpu
from nodes.settings import Settings

FROM_HERE = frozenset({"run_dir"})
"""Settings that a run's own folder decides."""

_DEFAULTS = Settings().model_dump(mode="json")

_USE = """import torch
from model_new import ModelNew, reference

model = ModelNew(*reference.get_init_inputs()){to}.eval()
inputs = [each{to} for each in reference.get_inputs()]
with torch.no_grad():
    outputs = model(*inputs)
"""


def use(record: RunRecord) -> str:
    """Python that calls the drop-in as the judge did, in the run's folder; empty where there is none."""
    if record.best is None:
        return ""
    return _USE.format(to=".cuda()" if on_gpu(record.best.candidate.target) else "")


def again(record: RunRecord) -> list[tuple[str, str]]:
    """Commands for a shell in the run's folder, each with what it does. Without a described task there are none."""
    settings = _settings(record)
    if record.task is None or settings is None:
        return []
    file = f"{record.name.replace('/', '_').replace(' ', '_')}.task.py"
    told = [("Write the reference into a file.", _unpacked(file))]
    if record.best is not None:
        told.append(("Judge the kernel again, on the same inputs.", _verify(record, settings, file)))
    told.append(("Search again.", _search(record, settings, file)))
    if not record.by_playbook:
        none = dict.fromkeys([*settings.model_settings(), "fallback_model", "base_url"], "")
        replayed = settings.model_copy(update={**none, "model": "replay:conversation.jsonl"})
        told.append(("The same, with the answers that the models gave.", _search(record, replayed, file)))
    return told


def _settings(record: RunRecord) -> Settings | None:
    if not record.settings:  # a thread's, which only its server knows
        return None
    try:
        return Settings.model_validate(record.settings)
    except ValidationError:  # another version's
        return None


def _unpacked(file: str) -> str:
    program = f"import json; print(json.load(open('record.json'))['task']['source'], end='', file=open({file!r}, 'w'))"
    return shlex.join(["python3", "-c", program])


def _verify(record: RunRecord, settings: Settings, file: str) -> str:
    assert record.best is not None
    verdict, candidate = record.best.verdict, record.best.candidate
    said: dict[str, Any] = {
        "target": candidate.target, "direction": settings.direction, "isolation": settings.isolation,
        "seed": verdict.seed, "tolerance": verdict.tolerance, "max_describe_s": settings.max_describe_s,
    }  # fmt: skip
    offered = {name: said[name] for name in offer_of(VerdictSettings).names}
    return shlex.join(["cutegen", "verify", "kernel.cu", file, *_options(offered, set(offered))])


def _search(record: RunRecord, settings: Settings, file: str) -> str:
    kind, offer = ("evolve", EvolutionSettings) if record.search else ("optimize", RunSettings)
    said = {name: value for name, value in settings.model_dump(mode="json").items() if name not in FROM_HERE}
    return shlex.join(["cutegen", kind, file, *_options(said, set(offer_of(offer).names))])


def _options(said: dict[str, Any], offered: set[str]) -> Iterator[str]:
    """What differs from the defaults."""
    for name, value in said.items():
        default = _DEFAULTS[name]
        if value == default:
            continue
        if name in offered:
            yield from (spelt(name), str(value))
        elif isinstance(value, dict) and default:
            changed = {key: inner for key, inner in value.items() if inner != default[key]}
            for key, inner in changed.items():
                yield from ("--set", f"{name}.{key}={_text(inner)}")
        else:
            yield from ("--set", f"{name}={_text(value)}")


def _text(value: Any) -> str:
    """As `--set` reads it: JSON, or else the text itself."""
    if not isinstance(value, str):
        return json.dumps(value)
    try:
        json.loads(value)
    except ValueError:
        return value
    return json.dumps(value)
