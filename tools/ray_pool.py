"""A pool whose judges live in Ray actors, one a GPU: what one of them loses is told, never run again unasked."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

from harness.judging.device_lock import add_held
from harness.judging.protocol import JudgeOrder, OpenJudge
from harness.machine.gpu import Gpu
from harness.nouns.errors import MachineError, UserError
from harness.wire.stopping import pause, raise_if_stopped
from harness.wire.telling import pass_on
from tools.ray_actor import AGAIN, JudgeActor, Outcome

ADDRESS = "RAY_ADDRESS"
"""Names a cluster to connect to; without it one is started for this process, on loopback."""
AT_ONCE = 16
"""Calls that one actor serves side by side: builds and checks; its judge times one at a time by itself."""
_ON_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
"""Read as Ray is imported. Where no cluster of several hosts may be made, as on a desktop, Ray binds to 127.0.0.1."""
LOOK_S = 0.25
STARTS_WITHIN_S = 300.0
_REMEDY = "Go on with --resume: verdicts that were given are kept."


def ray_pool(gpus: Sequence[Gpu], opener: OpenJudge) -> tuple[OpenJudge, ...]:
    """One opener of judges for each GPU, whose actor sees that GPU alone, by its UUID. Raises `MachineError`."""
    _connect(len(gpus))
    return tuple(_openers(gpus, opener))


def _openers(gpus: Sequence[Gpu], opener: OpenJudge) -> Iterator[OpenJudge]:
    for gpu in gpus:
        yield partial(_opened, ActorOfOne(gpu, opener))


def _opened(actor: ActorOfOne, order: JudgeOrder) -> Any:
    return RemoteJudge(actor, order)


def _connect(gpus: int) -> None:
    """To the cluster that is named, else to one of this process's own, whose ports only this machine reaches."""
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    named = bool(os.environ.get(ADDRESS))
    if not named:
        os.environ |= _ON_LOOPBACK
        quiet |= {"address": "local", "num_gpus": gpus, "include_dashboard": False}
    import ray

    try:
        if not ray.is_initialized():
            ray.init(**quiet)
    except (OSError, RuntimeError, ValueError) as error:
        raise MachineError(f"No Ray cluster could be reached or started: {error}.", f"Look at {ADDRESS}.") from error


class ActorOfOne:
    """The actor of one GPU of this host. It is begun anew when its process dies; what it was doing then is not."""

    def __init__(self, gpu: Gpu, opener: OpenJudge) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        # Ray counts the GPU as taken; which one it is our word decides, not the number that Ray would hand out.
        environment = {
            "CUDA_VISIBLE_DEVICES": gpu.uuid,
            "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        wanted = ray.remote(JudgeActor).options(
            num_cpus=0, num_gpus=1, max_restarts=-1, max_task_retries=0, max_concurrency=AT_ONCE,
            scheduling_strategy=here, runtime_env={"env_vars": environment},
        )  # fmt: skip
        self.name = gpu.uuid
        self._lost = False
        self.actor: Any = wanted.remote(opener, os.environ.get("OMP_NUM_THREADS"))

    def call(self, order: JudgeOrder, method: str, *given: Any, **named: Any) -> Any:
        """What the judge answers, its events told meanwhile. Raises as the judge does.

        Where the actor is lost, what only describes or builds is asked again of the next one; a kernel that may have
        run is not run again behind anybody's back: that is a `MachineError`.
        """
        from ray.exceptions import ActorDiedError, RayActorError, RayError

        deadline = time.monotonic() + STARTS_WITHIN_S
        if self._lost and method != "about":
            self.call(order, "about")
        while True:
            try:
                value = _value(self._outcome(order, method, given, named))
                self._lost = False
                return value
            except RayActorError as error:
                self._lost = True
                gone = isinstance(error, ActorDiedError) or time.monotonic() > deadline
                if gone or method not in AGAIN:
                    raise MachineError(f"The judge of {self.name} was lost during {method}.", _REMEDY) from error
                pause(LOOK_S)
            except RayError as error:
                raise MachineError(f"The judge of {self.name} cannot be asked: {error}.", _REMEDY) from error

    def _outcome(self, order: JudgeOrder, method: str, given: Any, named: Any) -> Outcome:
        import ray

        number = uuid4().hex
        told = self.actor.ask.options(num_returns="streaming").remote(number, order, method, given, named)
        try:
            while True:
                raise_if_stopped()
                if not ray.wait([told], timeout=LOOK_S)[0]:
                    continue
                item = ray.get(next(told))
                if isinstance(item, Outcome):
                    return item
                pass_on(item)
        except BaseException:
            with suppress(Exception):  # of an actor that is gone
                self.actor.stop.remote(number)
            raise


def _value(outcome: Outcome) -> Any:
    add_held(outcome.held_s)
    if outcome.failed is None:
        return outcome.value
    kind, problem, remedy = outcome.failed
    if kind == "ValueError":
        raise ValueError(problem)
    raise UserError(problem, remedy) if kind == "UserError" else MachineError(problem, remedy)


class RemoteJudge:
    """See `Judge`: the one that an actor opened for an order."""

    def __init__(self, actor: ActorOfOne, order: JudgeOrder) -> None:
        self._actor, self._order = actor, order
        self.device, self.tier = actor.call(order, "about")

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)
        return partial(self._actor.call, self._order, method)
