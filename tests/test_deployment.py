"""deploy/ against the tree: both files parse, what they name exists, and Aegra serves langgraph.json's graphs."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from langgraph_sdk import Auth

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
AEGRA: dict[str, Any] = json.loads((DEPLOY / "aegra" / "aegra.json").read_text(encoding="utf-8"))
SERVED: dict[str, Any] = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))


def loaded(name: str) -> ModuleType:
    """A file of deploy/aegra, as Aegra loads it."""
    spec = importlib.util.spec_from_file_location(f"aegra_{name}", DEPLOY / "aegra" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_image_copies_what_is_there_and_all_that_a_server_imports() -> None:
    copied = [line.split()[1:-1] for line in DOCKERFILE.splitlines() if line.startswith("COPY")]
    named = {name for names in copied for name in names}
    assert all((ROOT / name).exists() for name in named)
    packaged = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    find = packaged["tool"]["setuptools"]["packages"]["find"]
    found = [Path(where, each.rstrip("*")) for each in find["include"] for where in find["where"]]
    folders = {path.parts[0] for path in found if (ROOT / path).is_dir()}
    assert folders | {"pyproject.toml", "constraints.txt", "langgraph.json"} <= named
    assert {each.strip() for each in re.findall(r"\.\[(.*?)\]", DOCKERFILE)[0].split(",")} <= set(
        packaged["project"]["optional-dependencies"]
    )


def test_the_bases_cuda_is_that_of_the_pinned_wheels() -> None:
    [base] = re.findall(r"^FROM nvidia/cuda:(\d+\.\d+)\.\d+-devel-\w+", DOCKERFILE, re.M)
    pinned = re.findall(r"^nvidia-cuda-(?:cccl|crt|runtime)==(\d+\.\d+)", (ROOT / "constraints.txt").read_text(), re.M)
    assert set(pinned) == {base}
    assert re.findall(r"aegra-api==([\d.]+)", DOCKERFILE) == re.findall(r"aegra-api==([\d.]+)", PAGE)


def test_the_services_name_files_and_each_other() -> None:
    composed = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    services = composed["services"]
    assert {"postgres", "redis", "cutegen", "langgraph"} == set(services)
    build = services["cutegen"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
        assert all(place.split(":")[0] in composed["volumes"] for place in service.get("volumes", ()))
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), "no port is open to all"


def test_aegra_serves_the_same_graphs() -> None:
    assert set(AEGRA["graphs"]) == set(SERVED["graphs"])
    files = loaded("graphs")
    for name, place in AEGRA["graphs"].items():
        assert place == f"./graphs.py:{name}"
        module, _, attribute = SERVED["graphs"][name]["path"].partition(":")
        assert getattr(files, name) is getattr(importlib.import_module(module), attribute)


def test_under_aegra_everybody_needs_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    who = loaded("who")
    assert AEGRA["auth"]["path"] == "./who.py:auth" and AEGRA["http"]["app"] == "./routes.py:app"
    for set_to, sent, known in (("secret", "Bearer secret", True), ("secret", "Bearer other", False), ("", "", False)):
        monkeypatch.setenv("CUTEGEN_SERVER_TOKEN", set_to)
        if known:
            assert asyncio.run(who.who({"authorization": sent}))["identity"] == "token"
        else:
            with pytest.raises(Auth.exceptions.HTTPException):
                asyncio.run(who.who({"authorization": sent}))


def test_a_port_that_is_taken_is_named_and_no_other_served_at() -> None:
    """`-o`: nothing is installed for it."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"}
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        command = ["make", "-o", ".make/test", "serve", f"BIN={Path(sys.executable).parent}", f"PORT={port}"]
        done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, timeout=100)
    assert done.returncode != 0
    assert f"Port {port} of 127.0.0.1 cannot be had" in done.stderr and "langgraph" not in done.stdout
