"""What the model graph asks of a machine: to run, cut and accept models. Tests have one that is scripted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from graph.export.live_module import INPUTS, PROGRAM, cut_source
from graph.model.budget import ROUNDS_S, clocking_s
from graph.model.state import ModelInput
from harness.building.store import exported_modules
from harness.isolation.tiers import resolve_tier
from harness.judging.capturing import ModelOnTarget
from harness.judging.device_lock import among_models, models_beside
from harness.nouns.acceptance import Acceptance
from harness.nouns.candidate import TargetName
from harness.nouns.capture import Capture
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.devices import on_gpu
from harness.nouns.tier import Tier
from harness.nouns.verdict import precision_on
from harness.wire.deadline import Deadline
from harness.wire.job import RegionCut
from nodes.settings import Settings
from tools.judges import choose_target

PLAIN = ("default",)
"""Of torch.compile's modes, to be timed beside; on a processor the others tune nothing that this one does not."""
MODES_ON_GPU = (*PLAIN, "reduce-overhead", "max-autotune")
WITHIN_ON_GPU = ("reduce-overhead", *PLAIN)
"""The modes of them that regions are tried in, the better first: as the whole runs, with its CUDA graph, without tuning
products anew."""


class Workbench(Protocol):
    """One device of a machine, and how what runs there is isolated. Methods raise `UserError` and `MachineError`."""

    target: TargetName
    tier: Tier

    def facts(self) -> DeviceFacts:
        """The device's ceilings."""
        ...

    def counted(self) -> AbstractContextManager[None]:
        """What is done within is counted, in every process, as one of the models beside the device."""
        ...

    def models(self) -> int:
        """How many are worked on beside the device now."""
        ...

    def capture(self, model: ModelInput, deadline: Deadline) -> Capture:
        """A model's operations with their times. Raises `UserError` where no answer fits before the deadline."""
        ...

    def cut(self, model: ModelInput, regions: tuple[RegionCut, ...]) -> dict[str, str]:
        """The source of a task for each region, by its name."""
        ...

    def accept(
        self,
        model: ModelInput,
        folder: Path,
        file: str,
        regions: tuple[str, ...],
        deadline: Deadline,
        compile_s: float,
    ) -> Acceptance:
        """The model in a folder, beside eager and what torch.compile makes in `compile_s`."""
        ...


OpenWorkbench = Callable[[Settings], Workbench]


class LocalWorkbench:
    """This machine, as the settings ask for it. Raises `MachineError` where kernels cannot run on it so."""

    def __init__(self, settings: Settings) -> None:
        self._device = choose_target(settings.target, settings.device)
        self._settings = settings
        self.target: TargetName = self._device.name
        self.tier: Tier = resolve_tier(settings.isolation)

    def facts(self) -> DeviceFacts:
        """Measured on first use, then kept on the disk."""
        return self._device.facts()

    def counted(self) -> AbstractContextManager[None]:
        """By files in the cache, as turns on the device are taken."""
        return among_models(self._device.device)

    def models(self) -> int:
        """Those of other processes, too."""
        return max(1, models_beside(self._device.device))

    def capture(self, model: ModelInput, deadline: Deadline) -> Capture:
        """In a locked child that has PyTorch."""
        by_inductor = model.compiled and not model.only_plan
        return self._on(model).capture(deadline, clocking_s(deadline.budget_s) if by_inductor else 0.0)

    def cut(self, model: ModelInput, regions: tuple[RegionCut, ...]) -> dict[str, str]:
        """In such a child; programs and inputs go into the cache of exported modules."""
        with exported_modules().staging() as folder:
            self._on(model).cut(regions, folder, program=PROGRAM, inputs=INPUTS)
            return {
                region.name: cut_source(folder / region.name, name=region.name, inputs=len(region.inputs))
                for region in regions
            }

    def accept(
        self,
        model: ModelInput,
        folder: Path,
        file: str,
        regions: tuple[str, ...],
        deadline: Deadline,
        compile_s: float,
    ) -> Acceptance:
        """In such a child, with the kernels loaded into it. Models beside one another have shorter comparisons."""
        gpu = on_gpu(self.target)
        return self._on(model).accept(
            folder,
            file,
            regions,
            tolerance=self._settings.tolerance,
            limit_s=ROUNDS_S / self.models(),
            deadline=deadline,
            modes=(MODES_ON_GPU if gpu else PLAIN) if model.compile_baseline else (),
            compile_s=compile_s,
            within=(WITHIN_ON_GPU if gpu else PLAIN) if model.compiled else (),
        )

    def _on(self, model: ModelInput) -> ModelOnTarget:
        precision = precision_on(self.target, self._settings.precision)
        return ModelOnTarget(model.source, model.name, self._device, self.tier, precision, model.reads)
