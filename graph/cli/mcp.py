"""`cutegen mcp`: the judge for coding agents."""

from __future__ import annotations

import atexit
import ipaddress
import os
import sys
from collections.abc import Callable

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
    try:
        if not serve():
            print("cutegen: the client has gone; what it waited for was ended.", file=sys.stderr)
    except KeyboardInterrupt:
        print("cutegen: interrupted.", file=sys.stderr, flush=True)
        atexit._run_exitfuncs()  # they end the judge's children
        os._exit(INTERRUPTED)  # a thread of the protocol's library reads stdin, and nothing wakes it
    return IMPROVED


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
