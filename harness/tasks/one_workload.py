"""A task file's text for one of its workloads: a task of its own, for which a kernel may know every size."""

from __future__ import annotations

from harness.nouns.task import Variant


def alone(source: str, variant: Variant) -> str:
    """The file with this workload declared at its end as the only one."""
    kept = {"name": variant.name, **({"dtype": variant.dtype} if variant.dtype else {}), **variant.arguments}
    return f"{source.rstrip()}\n\nWORKLOADS = [{kept!r}]\n"
