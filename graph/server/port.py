"""`python -m graph.server.port HOST PORT`: ends with a sentence where a server cannot be bound there.

`langgraph dev` takes any other port then, at which nobody looks for it.
"""

from __future__ import annotations

import socket
import sys

from harness.nouns.errors import MachineError
from harness.nouns.reading import cause


def require_free(host: str, port: int) -> None:
    """Raises `MachineError` where a server cannot be bound to this port of this address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except (OSError, OverflowError) as error:
        raise MachineError(
            f"Port {port} of {host} cannot be had: {cause(error)}.", "Name another one, or end what is there."
        ) from error


if __name__ == "__main__":
    try:
        require_free(sys.argv[1], int(sys.argv[2]))
    except MachineError as error:
        sys.exit(str(error))
