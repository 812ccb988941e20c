"""The page that holds what grows, and what its browser is allowed."""

from __future__ import annotations

import secrets

from graph.pages.report import filled_in

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{}'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
NOTHING = _POLICY.format("none")
"""The policy of all else: no script at all."""


def page(name: str, body: str, at: int, *, broad: bool = False, ended: bool = False) -> tuple[str, str]:
    """The page around a report's inside that was drawn at the place `at`, and its Content-Security-Policy.

    Of what has `ended` it says so, until it is told of something that goes on.

    Beside it, `events?from=` is asked for what happens since, and `body` for the inside anew.
    """
    nonce = secrets.token_urlsafe(16)
    values = {"name": name, "body": body, "at": at, "nonce": nonce, "broad": broad, "ended": ended}
    return filled_in("live.html.j2", values), _POLICY.format(nonce)


def begun(name: str) -> str:
    """The inside before anything was judged."""
    return filled_in("nothing_yet.html.j2", {"name": name})
