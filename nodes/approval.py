"""A person's word on a new best kernel: the question, and what may be answered to it."""

from __future__ import annotations

import difflib
import re
from typing import Any

from harness.nouns.candidate import Candidate
from harness.nouns.frozen import Frozen, SanitizedText
from harness.nouns.verdict import HeadToHead, Timing, Verdict
from nodes.history import head_to_head_with
from nodes.state import RunState, require

HOW = "Answer `accept` or `reject`. What stands behind the word is told to whoever writes the next kernel."
_WORD = re.compile(r"\s*(accept|reject)(?:\s*[:,.\-]\s*|\s+|$)(.*)\Z", re.IGNORECASE | re.DOTALL)
MOST_REMARK_CHARS = 500


class Decision(Frozen):
    """Whether the kernel is kept, and what the next author is told."""

    kept: bool
    remark: SanitizedText = ""

    @property
    def sentence(self) -> str:
        """For the history."""
        word = "kept by the user" if self.kept else "turned down by the user"
        return f"{word}: {self.remark}" if self.remark else word


class Approval(Frozen):
    """The question whether a kernel becomes the best one. `best` is the one that it would displace."""

    move: str
    kernel: Candidate
    speedup: float | None
    head_to_head: HeadToHead | None = None
    best: Candidate | None = None
    complaint: str = ""

    @classmethod
    def of(cls, state: RunState, complaint: str = "") -> Approval:
        """The question that a state stands before."""
        verdict = require(state.verdict, "verdict")
        return cls(
            move=state.move,
            kernel=require(state.candidate, "candidate"),
            speedup=_timing(verdict).speedup,
            head_to_head=head_to_head_with(state.best, verdict),
            best=state.best.candidate if state.best else None,
            complaint=complaint,
        )

    @classmethod
    def read(cls, value: dict[str, Any]) -> Approval:
        """The question out of what an interrupt carries."""
        return cls.model_validate({name: held for name, held in value.items() if name in cls.model_fields})

    def shown(self) -> dict[str, Any]:
        """What an interrupt carries: the question, and what chat interfaces need in order to show it."""
        return {**self.model_dump(mode="json"), **for_approval(self.text(), self.kernel.digest)}

    def text(self) -> str:
        """The question to read: figures, how to answer, and the kernel, as a difference where there was one before."""
        lines = [
            self.complaint,
            "# Is this kernel kept?",
            f"Move: {self.move or 'the first kernel'}",
            self._figures(),
            HOW,
        ]
        return "\n\n".join([line for line in lines if line] + [self._kernel()]) + "\n"

    def _figures(self) -> str:
        over = f"{self.speedup:.2f}x the baseline" if self.speedup else "right, and not timed"
        met = self.head_to_head
        if met is None:
            return f"{over}."
        return f"{over}; {met.speedup:.2f}x the best so far {met.within}."

    def _kernel(self) -> str:
        if self.best is None:
            return f"```cpp\n{self.kernel.source}\n```"
        old, new = self.best.source.splitlines(), self.kernel.source.splitlines()
        changed = "\n".join(difflib.unified_diff(old, new, self.best.digest, self.kernel.digest, lineterm=""))
        return f"```diff\n{changed}\n```"


def decided(value: Any) -> Decision | None:
    """What was decided, by an answer in either form of chat interfaces or in words; None where it cannot be told."""
    match decision_in(value):
        case bool(kept), str(remark):
            return Decision(kept=kept, remark=_remark(remark))
        case str(text) if found := _WORD.match(text):
            return Decision(kept=found[1].lower() == "accept", remark=_remark(found[2]))
        case _:
            return None


def _remark(text: str) -> str:
    return " ".join(text.split())[:MOST_REMARK_CHARS]


def _timing(verdict: Verdict) -> Timing:
    return require(verdict.timing, "verdict.timing")


# -- A question as the two families of chat interfaces show one: Agent Inbox, and LangChain's human in the loop -------

# Both see one action. A model's question has one argument, `answer`, which a person may edit, or reply to in words; a
# kernel that waits for approval is kept or turned down, with a remark.


ACTION, ARGUMENT = "answer", "answer"
KEEP = "keep_kernel"


def for_interfaces(text: str) -> dict[str, Any]:
    """Agent Inbox's fields (the first three) and LangChain's (the last two) of a question with this text."""
    arguments = {ARGUMENT: ""}
    return {
        "action_request": {"action": ACTION, "args": arguments},
        "config": {"allow_respond": True, "allow_edit": True, "allow_accept": False, "allow_ignore": False},
        "description": text,
        "action_requests": [{"name": ACTION, "args": arguments, "description": text}],
        "review_configs": [{"action_name": ACTION, "allowed_decisions": ["respond", "edit"]}],
    }


def answer_in(value: Any) -> Any:
    """The answer in what either sends back; whatever else comes is the answer itself."""
    match value:
        case {"decisions": [{"type": "respond", "message": str(answer)}]}:
            return answer
        case {"decisions": [{"type": "edit", "edited_action": {"args": {"answer": answer}}}]}:
            return answer
        case [{"type": "response", "args": str(answer)}] | {"type": "response", "args": str(answer)}:
            return answer
        case [{"type": "edit", "args": {"args": {"answer": answer}}}] | {
            "type": "edit",
            "args": {"args": {"answer": answer}},
        }:
            return answer
        case _:
            return value


def for_approval(text: str, digest: str) -> dict[str, Any]:
    """The same fields for a kernel that waits for approval."""
    arguments = {"kernel": digest}
    return {
        "action_request": {"action": KEEP, "args": arguments},
        "config": {"allow_accept": True, "allow_ignore": True, "allow_respond": True, "allow_edit": False},
        "description": text,
        "action_requests": [{"name": KEEP, "args": arguments, "description": text}],
        "review_configs": [{"action_name": KEEP, "allowed_decisions": ["approve", "reject"]}],
    }


def decision_in(value: Any) -> tuple[bool, str] | Any:
    """Whether either keeps the kernel, and its remark; whatever else comes is the answer itself.

    Agent Inbox has no rejection with words: a response that is not an `accept` turns the kernel down.
    """
    match value:
        case [dict(only)]:
            return decision_in(only)
        case {"decisions": [{"type": "approve"}]} | {"type": "accept"}:
            return True, ""
        case {"decisions": [{"type": "reject", "message": str(remark)}]}:
            return False, remark
        case {"decisions": [{"type": "reject"}]} | {"type": "ignore"}:
            return False, ""
        case {"type": "response", "args": str(text)}:
            return text if text.lstrip().lower().startswith(("accept", "reject")) else (False, text)
        case _:
            return value
