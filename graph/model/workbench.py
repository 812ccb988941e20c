"""What the model graph asks of a machine: to run a model and clock its operations. Tests have one that is scripted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from harness.isolation.tiers import resolve_tier
from harness.judging.capturing import capture_model
from harness.nouns.candidate import TargetName
from harness.nouns.capture import Capture
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.tier import Tier
from nodes.settings import Settings
from tools.judges import choose_target


class Workbench(Protocol):
    """One device of a machine, and how what runs there is isolated."""

    @property
    def target(self) -> TargetName:
        """Where models and kernels run."""
        ...

    @property
    def tier(self) -> Tier:
        """What keeps them from doing harm."""
        ...

    def facts(self) -> DeviceFacts:
        """The device's ceilings."""
        ...

    def capture(self, source: str, name: str, reads: tuple[str, ...]) -> Capture:
        """A model's operations with their times. Raises `UserError` and `MachineError`."""
        ...


OpenWorkbench = Callable[[Settings], Workbench]


class LocalWorkbench:
    """This machine, as the settings ask for it. Raises `MachineError` where kernels cannot run on it so."""

    def __init__(self, settings: Settings) -> None:
        self._target = choose_target(settings.target, settings.device)
        self._precision = settings.precision
        self.target: TargetName = self._target.name
        self.tier: Tier = resolve_tier(settings.isolation)

    def facts(self) -> DeviceFacts:
        """Measured on first use, then kept on the disk."""
        return self._target.facts()

    def capture(self, source: str, name: str, reads: tuple[str, ...]) -> Capture:
        """In a locked child that has PyTorch."""
        return capture_model(
            source, name=name, target=self._target, tier=self.tier, precision=self._precision, read=reads
        )
