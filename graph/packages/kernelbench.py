"""One Python file with everything inside, as KernelBench takes a model: its text is all that the evaluator gets."""

from __future__ import annotations

import base64
import hashlib
import json
import lzma

from graph.export.drop_in import environment, quotable, text_literal
from graph.packages.native import BUILD_WORDS, library, native, operator_namespace, require_one_workload
from graph.packages.plain_model import by_mode, plain_model, reference_text, require_forward
from graph.packages.source_package import Judged, architecture_of, cute_headers
from harness.nouns.devices import on_gpu
from harness.nouns.errors import UserError
from harness.nouns.task import TensorSpec

MODEL_NAME = "model_new.py"
_PRESET = 6  # of lzma: a second for 8 MB


def kernelbench_files(forward: Judged, backward: Judged | None) -> dict[str, str]:
    """The file by its name. Raises `UserError` for a kernel that it cannot hold, `MachineError` without CuTe."""
    if backward is not None:
        raise UserError("KernelBench evaluates a forward alone.", "Leave --backward out.")
    task, candidate = forward
    require_forward(task)
    require_one_workload(task)
    futures, reference = reference_text(task)
    if by_mode(task):
        raise UserError(
            f"{task.name} computes something else in training mode, in which KernelBench calls a module; the kernel "
            "was judged in evaluation mode.",
            "Export it with --form folder.",
        )
    kernel, namespace = native(task, candidate), operator_namespace(forward)
    architecture = architecture_of(candidate.target)
    headers = _packed(cute_headers(candidate.source, architecture)) if kernel.cute else ""
    cuda = on_gpu(candidate.target)
    text = (
        environment()
        .get_template("packages/kernelbench.py.j2")
        .render(
            title=quotable(f"A kernel for the model of task {task.name}, as KernelBench evaluates it."),
            compiler="nvcc" if cuda else "g++",
            digest=candidate.digest,
            author=quotable(candidate.author),
            futures=futures,
            reference=text_literal("\n".join((*futures, reference))) if futures else reference,
            namespace=namespace,
            direction=task.direction,
            view=text_literal(kernel.view),
            binding=text_literal("\n".join((kernel.binding, kernel.operator, library(namespace, task, kernel)))),
            kernel=text_literal(kernel.kernel),
            flags=BUILD_WORDS[candidate.target],
            cuda=cuda,
            suffix=".cu" if cuda else ".cpp",
            cute=kernel.cute,
            needs_cuda_headers=kernel.cute and not cuda,
            architecture=architecture,
            headers=headers,
            headers_digest=hashlib.sha256(headers.encode()).hexdigest()[:16],
            model=plain_model(task, _as_evaluated),
        )
    )
    return {MODEL_NAME: text}


def _as_evaluated(spec: TensorSpec, here: str) -> str:
    """KernelBench hands every tensor over as a float, masks and indices, too."""
    return here if "float" in spec.dtype else f"{here}.to(torch.{spec.dtype})"


def _packed(headers: dict[str, str]) -> str:
    packed = lzma.compress(json.dumps(headers).encode(), preset=_PRESET)
    text = base64.b64encode(packed).decode()
    return "\n".join(text[k : k + 116] for k in range(0, len(text), 116))
