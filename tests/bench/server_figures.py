"""What a server takes: seconds until it is up, until a run's first event, and memory with fifty threads that wait.

Beside the seconds until it is up those that its processes computed for: on a busy machine they tell more.

PYTHONPATH=tests python -m bench.server_figures
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk import get_client

ROOT = Path(__file__).resolve().parents[2]
THREADS = 50
UP_WITHIN_S = 120.0
TASK = {"source": (ROOT / "examples" / "softsign.py").read_text(encoding="utf-8"), "name": "softsign"}
MANUAL = {"model": "manual", "target": "cpu"}


def main() -> None:
    """Print the figures and the load that they were taken under."""
    port, load = free_port(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ, "CUTEGEN_THREADS": f"{folder}/threads.sqlite", "LANGGRAPH_CLI_NO_ANALYTICS": "1",
            "LANGGRAPH_NO_VERSION_CHECK": "true", "NO_PROXY": "127.0.0.1",
        }  # fmt: skip
        command = [str(Path(sys.executable).parent / "langgraph"), "dev", "--no-browser", "--no-reload"]
        began = time.monotonic()
        server = subprocess.Popen(
            [*command, "--port", str(port), "--n-jobs-per-worker", "10"],
            cwd=ROOT, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until_up(url)
            up_s, computed_s = time.monotonic() - began, processor_s(server.pid)
            first_s = asyncio.run(first_event_s(url))
            asyncio.run(threads_that_wait(url))
            print(f"up in {up_s:.1f} s, {computed_s:.1f} s of a processor; first event after {first_s:.2f} s; ", end="")
            print(f"{THREADS} waiting threads: {resident_mb(server.pid):.0f} MB; load before: {load:.1f}")
        finally:
            os.killpg(server.pid, signal.SIGKILL)


def free_port() -> int:
    """One that nobody listens at now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def wait_until_up(url: str) -> None:
    """Raises `TimeoutError`."""
    deadline = time.monotonic() + UP_WITHIN_S
    while time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/ok", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise TimeoutError(url)


async def first_event_s(url: str) -> float:
    """From asking for a run to the first thing that it tells."""
    client = get_client(url=url)
    thread = (await client.threads.create())["thread_id"]
    began = time.monotonic()
    async for told in client.runs.stream(thread, "cutegen", input=TASK, context=MANUAL, stream_mode="custom"):
        if told.event == "custom":
            return time.monotonic() - began
    raise RuntimeError("nothing was told")


async def threads_that_wait(url: str) -> None:
    """Fifty runs, each at its first question."""
    client: Any = get_client(url=url)

    async def one() -> None:
        thread = (await client.threads.create())["thread_id"]
        await client.runs.wait(thread, "cutegen", input=TASK, context=MANUAL)

    await asyncio.gather(*(one() for _ in range(THREADS)))


def processor_s(group: int) -> float:
    """What the processes of a group, and those of its that ended, have computed for: user and system."""
    fields = [_after_name(file) for file in Path("/proc").glob("[0-9]*/stat")]
    ticks = sum(sum(map(int, each[11:15])) for each in fields if each and int(each[2]) == group)
    return ticks / os.sysconf("SC_CLK_TCK")


def _after_name(stat: Path) -> list[str]:
    """The fields after a process's name, which may hold spaces; none of one that has ended."""
    try:
        return stat.read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return []


def resident_mb(pid: int) -> float:
    """What the server's own process holds in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()
