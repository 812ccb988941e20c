"""Kinds of devices, as targets and PyTorch name them."""

from __future__ import annotations


def on_gpu(kind: str | None) -> bool:
    """Whether what is of this kind runs on a GPU: on a stream, in a memory of its own, in turns with everyone else.

    What is of no kind yet does not.
    """
    return kind == "cuda"
