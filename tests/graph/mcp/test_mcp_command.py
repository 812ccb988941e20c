"""`cutegen mcp` and `cutegen skill` as processes: over stdio with the real judge, over HTTP with a token."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx2
import pytest
from free_port import free_port
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from typer.testing import CliRunner

from graph.cli.main import app
from graph.mcp.server import MOST_BODY_BYTES, Door

SMALL = """import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x / (1 + x.abs())

def get_inputs():
    return [torch.randn(64, 512)]

def get_init_inputs():
    return []
"""
LOOP = """
    auto const* in = static_cast<float const*>(x.data_ptr());
    auto* out = static_cast<float*>(output.data_ptr());
    for (int64_t i = 0; i < x.size(0) * x.size(1); ++i) out[i] = in[i] / (1 + std::abs(in[i]));
}"""
LONG_S = 240.0
CUTEGEN = [sys.executable, "-m", "graph.cli.main"]


WRONG_CALLS: tuple[tuple[tuple[str, dict[str, Any]], str], ...] = (
    (("open_task", {"pth": "softsign.py"}), "pth is not valid: no argument of open_task has that name; path is near."),
    (("standing", {"which": "x"}), "which is not valid: no argument of standing has that name; there are task."),
    (("standing", {}), "task is not valid: it is missing."),
    (("open_task", {"source": 7}), "source is not valid: it should be a valid string."),
    (("standing", {"task": "a"}), "There is no task 'a' here. Call open_task; its answer has the digest."),
    (("opn_task", {}), "opn_task is not valid: no tool has that name; open_task is near."),
)


async def a_whole_optimization(folder: Path) -> list[Any]:
    command = StdioServerParameters(
        command=CUTEGEN[0],
        args=[*CUTEGEN[1:], "mcp", "--target", "cpu"],
        cwd=folder,
        env=dict(os.environ),
    )
    async with Client(command) as client:

        async def call(tool: str, **arguments: Any) -> Any:
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, result.content
            return result.structured_content

        for given, said in WRONG_CALLS:
            refused: Any = await client.call_tool(*given)
            assert refused.is_error and refused.content[0].text == said
        task = (await call("open_task", path=str(folder / "softsign.py")))["task"]
        stub = (await call("entry_stub", task=task))["result"]
        wrong = await call("verify_kernel", task=task, source=stub)
        (folder / "kernel.cpp").write_text(stub.replace("\n}", LOOP, 1))
        right = await call("verify_kernel", task=task, path=str(folder / "kernel.cpp"))
        return [wrong, right, await call("standing", task=task), await call("export_kernel", task=task)]


def test_an_agent_writes_a_kernel_and_takes_the_drop_in_home(tmp_path):
    (tmp_path / "softsign.py").write_text(SMALL)
    wrong, right, standing, exported = asyncio.run(a_whole_optimization(tmp_path))
    assert wrong["status"] == "wrong" and "never written" in wrong["words"]
    assert right["status"] == "passed" and right["is_best"] and right["speedup"] > 0
    assert standing["best"] == right["kernel"]
    assert Path(exported["folder"]).parent == tmp_path / "kernels"


def status_of(url: str, token: str, **headers: str) -> int:
    request = urllib.request.Request(url, data=b"{}", headers={"Authorization": f"Bearer {token}", **headers})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


async def told_over_http(url: str, tool: str, arguments: dict[str, Any]) -> str:
    async with (
        httpx2.AsyncClient(headers={"Authorization": "Bearer secret"}) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        result: Any = await client.call_tool(tool, arguments)
    assert result.is_error
    return str(result.content[0].text)


def descendants(of: int) -> set[int]:
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
    found = {of}
    while more := {pid for pid, parent in pairs if parent in found} - found:
        found |= more
    return found - {of}


def runs(pid: int) -> bool:
    """Whether the process is there, and more than an entry that nobody has taken."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("how", ["killed", "deaf", "interrupted"])
def test_a_client_that_goes_away_takes_its_call_with_it(tmp_path, how):
    """In the middle of a kernel that never ends: no traceback, and nothing of it runs on."""
    (tmp_path / "softsign.py").write_text(SMALL)
    endless = "\n    for (volatile int64_t i = 0; i < (int64_t{1} << 50); i = i + 1) {}\n}"
    with subprocess.Popen(
        [*CUTEGEN, "mcp", "--target", "cpu"],
        cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        numbers = iter(range(100))

        def say(method: str, **params: Any) -> None:
            message = {"jsonrpc": "2.0", "id": next(numbers), "method": method, "params": params}
            server.stdin.write(json.dumps(message) + "\n")
            server.stdin.flush()

        def call(tool: str, **arguments: Any) -> Any:
            say("tools/call", name=tool, arguments=arguments)
            while "result" not in (heard := json.loads(server.stdout.readline())):
                pass
            return heard["result"]["structuredContent"]

        say("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "one", "version": "1"})
        server.stdout.readline()
        server.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        task = call("open_task", path="softsign.py")["task"]
        source = call("entry_stub", task=task)["result"].replace("\n}", endless, 1)
        arguments = {"task": task, "source": source}
        say("tools/call", name="verify_kernel", arguments=arguments, _meta={"progressToken": "one"})
        while "comparing" not in server.stdout.readline():
            pass
        working = descendants(server.pid)
        if how == "killed":
            server.stdin.close()
            server.stdout.close()
        elif how == "deaf":
            server.stdout.close()
        else:
            server.send_signal(signal.SIGTERM)
        assert server.wait(LONG_S) == (130 if how == "interrupted" else 0)
        said = server.stderr.read()
    assert said in ("", "cutegen: interrupted.\n", "cutegen: the client has gone; what it waited for was ended.\n")
    assert working, "nothing was under way"
    until = time.monotonic() + LONG_S
    while any(map(runs, working)):
        assert time.monotonic() < until, "what it started runs on"
        time.sleep(0.05)


def test_over_http_only_who_knows_the_token_is_heard(tmp_path):
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    with subprocess.Popen(
        [*CUTEGEN, "mcp", "--port", str(port)], cwd=tmp_path, env={**os.environ, "CUTEGEN_MCP_TOKEN": "secret"}
    ) as server:
        try:
            until = time.monotonic() + LONG_S
            while server.poll() is None and time.monotonic() < until:
                try:
                    refused = status_of(url, "guessed")
                    break
                except (urllib.error.URLError, ConnectionError):
                    time.sleep(0.1)
            assert refused == 401
            assert status_of(url, "secret") != 401
            for given, said in WRONG_CALLS:
                assert asyncio.run(told_over_http(url, *given)) == said
            huge = {"Content-Type": "application/json", "Content-Length": str(MOST_BODY_BYTES + 1)}
            assert status_of(url, "secret", **huge) == 413
            second = subprocess.run(
                [*CUTEGEN, "mcp", "--port", str(port)], cwd=tmp_path, capture_output=True, text=True, timeout=LONG_S
            )
            assert second.returncode != 0 and f"Port {port} of 127.0.0.1 cannot be had" in second.stderr
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(LONG_S) in (0, -signal.SIGTERM)


def test_beyond_this_machine_a_token_is_needed(tmp_path):
    env = {name: value for name, value in os.environ.items() if name != "CUTEGEN_MCP_TOKEN"}
    done = subprocess.run(
        [*CUTEGEN, "mcp", "--host", "0.0.0.0", "--port", str(free_port())],
        cwd=tmp_path, env=env, capture_output=True, text=True, timeout=LONG_S,
    )  # fmt: skip
    assert done.returncode == 2
    assert "CUTEGEN_MCP_TOKEN" in done.stderr


@pytest.mark.parametrize(
    ("options", "folder"),
    [
        (("--for", "claude"), "project/.claude/skills"),
        (("--for", "codex", "--user"), "home/.agents/skills"),
        (("--for", "cursor"), "project/.cursor/skills"),
        (("--for", "cursor", "--user"), "home/.cursor/skills"),
        (("--for", "opencode", "--user"), "home/.config/opencode/skills"),
    ],
)
def test_the_skill_lies_where_the_agent_looks(tmp_path, options, folder):
    (tmp_path / "project").mkdir()
    env = {**os.environ, "HOME": str(tmp_path / "home")}
    subprocess.run(
        [*CUTEGEN, "skill", "install", *options], cwd=tmp_path / "project", env=env, check=True, timeout=LONG_S
    )
    text = (tmp_path / folder / "cutegen" / "SKILL.md").read_text()
    assert text.startswith("---\nname: cutegen\ndescription: ")
    printed = subprocess.run([*CUTEGEN, "skill"], env=env, check=True, timeout=LONG_S, capture_output=True, text=True)
    assert printed.stdout == text


@pytest.mark.parametrize("given", [("install",), ("--for", "claude")])
def test_a_skill_is_installed_for_somebody(given):
    done = CliRunner().invoke(app, ["skill", *given])
    assert done.exit_code == 2 and "cutegen skill install --for claude" in done.stderr


def test_the_skill_names_the_tools_that_there_are():
    text = (files("knowledge") / "skills" / "cutegen" / "SKILL.md").read_text()
    tools = {name for name in vars(Door) if not name.startswith("_")}
    named = set(re.findall(r"`(\w+_\w+)`", text))
    assert named <= tools
    assert {"open_task", "verify_kernel", "profile_kernel", "sanitize_kernel", "export_kernel"} <= named
