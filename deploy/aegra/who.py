"""Who may ask under Aegra: it tells a handler the headers alone, not where a request comes from, so only by a token."""

from typing import Any

from langgraph_sdk import Auth

from graph.server.auth import preset_is_changed, preset_is_made, require_token, run_begins

auth = Auth()


@auth.authenticate
async def who(headers: dict[str, Any]) -> Auth.types.MinimalUserDict:
    """Refuses with 401 who does not know the server's token, and everybody where none is set."""
    require_token(str(headers.get("authorization", "")))
    return {"identity": "token"}


auth.on.threads.create_run(run_begins)
auth.on.assistants.create(preset_is_made)
auth.on.assistants.update(preset_is_changed)
