"""A judge without the screen of static data, so that what lies behind it is tested with kernels that keep something."""

from __future__ import annotations

from harness.judging.local import LocalJudge
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.refusal import Refusal


class Lenient(LocalJudge):
    """Lets kernels keep what they like from call to call: what they do with it is for the checks behind the screen."""

    def screen_data(self, candidate: Candidate, build: Build) -> Refusal | None:
        """None: nothing is refused here."""
        return None
