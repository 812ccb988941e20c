"""A task file's text with one more declaration at its end: of its direction, or of one of its workloads alone."""

from __future__ import annotations

from harness.nouns.task import Direction, Variant


def directed(source: str, direction: Direction | None) -> str:
    """The file with this direction declared at its end; as it is without one, and where it ends so already.

    What makes a task is then still one text: runs, archives and verdicts tell a backward from its forward by it.
    """
    declared = f'DIRECTION = "{direction}"\n'
    plain = direction == "forward" and "DIRECTION" not in source
    if direction is None or plain or source.endswith(f"\n{declared}"):
        return source
    return f"{source.rstrip()}\n\n{declared}"


def alone(source: str, variant: Variant) -> str:
    """The file with this workload declared as the only one: a task whose kernels may know every size."""
    kept = {"name": variant.name, **({"dtype": variant.dtype} if variant.dtype else {}), **variant.arguments}
    return f"{source.rstrip()}\n\nWORKLOADS = [{kept!r}]\n"
