"""Why a model could not be asked at all. What a model answers badly is not here: that goes back to the model."""

from __future__ import annotations

from harness.nouns.errors import MachineError, UserError
from nodes.state import Usage


class ModelUnavailableError(MachineError):
    """The model's endpoint is down, refuses the key, is over its quota, or does not speak the protocol.

    `lost` is what its answers cost that were billed and then broke.
    """

    lost: Usage = Usage()


class ReplayMismatchError(UserError):
    """The run asked something that the recording does not hold; `difference` is a short unified diff."""

    def __init__(self, problem: str, remedy: str, difference: str = "") -> None:
        super().__init__(f"{problem}\n{difference}\n" if difference else problem, remedy)
        self.difference = difference


class ScriptExhaustedError(RuntimeError):
    """A scripted model was asked more often than its script has answers: the test or demo is wrong."""
