"""`cutegen mcp`: the judge for coding agents."""

from __future__ import annotations

import atexit
import ipaddress
import os
import select
import sys
import time
from collections.abc import Callable
from threading import Thread
from typing import NoReturn

from graph.cli.errors import IMPROVED, INTERRUPTED
from graph.cli.options import Mcp
from harness.judging.protocol import JudgeOrder
from harness.nouns.errors import MachineError, UserError
from nodes.settings import Settings
from tools.judges import open_judge

TOKEN = "CUTEGEN_MCP_TOKEN"


def run(options: Mcp) -> int:
    """Do the command; its exit code."""
    try:
        from graph.mcp.server import serve_http, serve_stdio, server_of
    except ImportError as error:
        raise MachineError(
            f"The Model Context Protocol's SDK is missing: {error}.", "pip install 'cutegen[mcp]'"
        ) from error
    from graph.mcp.desk import Desk

    order = order_of(options)
    local = options.port is None
    server = server_of(Desk(order, options.out, open_judge, local=local))
    if options.port is None:
        return _over_stdio(lambda: serve_stdio(server))
    serve_http(server, options.host, options.port, _token(options.host))
    return IMPROVED


def _over_stdio(serve: Callable[[], bool]) -> int:
    Thread(target=_end_without_a_reader, args=(os.dup(sys.stdout.fileno()),), daemon=True).start()
    try:
        if not serve():
            print(_GONE, file=sys.stderr)
    except KeyboardInterrupt:
        _end("cutegen: interrupted.", INTERRUPTED)
    return IMPROVED


_GONE = "cutegen: the client has gone; what it waited for was ended."
_GRACE_S = 2.0


def _end_without_a_reader(stdout: int) -> None:
    """End the process where nobody reads its stdout any more, though stdin stays open.

    Serving ends by itself where both are closed, and needs a moment for it.
    """
    watch = select.poll()
    watch.register(stdout, 0)  # errors and hang-ups alone
    watch.poll()
    time.sleep(_GRACE_S)
    _end(_GONE, IMPROVED)


def _end(said: str, code: int) -> NoReturn:
    print(said, file=sys.stderr, flush=True)
    atexit._run_exitfuncs()  # they end the judge's children
    os._exit(code)  # a thread of the protocol's library reads stdin, and nothing wakes it


def order_of(options: Mcp) -> JudgeOrder:
    """The judge that the options ask for."""
    settings = Settings.model_validate(dict(options.settings.values))
    return JudgeOrder(
        settings.target,
        settings.isolation,
        settings.precision,
        settings.tolerance,
        ordinal=settings.device,
        describe_s=settings.max_describe_s,
    )


def _token(host: str) -> str:
    """What clients have to know. Raises `UserError` where others than this machine's could ask without one."""
    token = os.environ.get(TOKEN, "")
    if not token and not _is_loopback(host):
        raise UserError(
            f"At {host} anybody who reaches this machine could run kernels on it.",
            f"Set {TOKEN}, which clients then send as a bearer token, or bind to 127.0.0.1.",
        )
    return token


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
