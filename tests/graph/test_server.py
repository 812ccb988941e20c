"""The LangGraph server on loopback: it serves the graph, draws it, and runs a task with the playbook."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from chat_server import ChatEndpoint, chat_endpoint
from free_port import free_port
from langgraph.pregel.remote import RemoteGraph
from langgraph_sdk import get_client
from langgraph_sdk.errors import APIStatusError, AuthenticationError, ConflictError, UnprocessableEntityError
from softsign_script import SOURCE
from test_routing import DRAWN_WITHIN, SPEAKERS
from typer.testing import CliRunner

from graph.api.calls import RunResult
from graph.cli.main import app
from graph.loading import MOST_SOURCE_BYTES
from graph.runs.record import RunRecord
from graph.server.auth import INPUTS
from graph.server.presets import PRESETS, make_presets
from harness.nouns.errors import MachineError, UserError
from nodes.events import Progress
from nodes.roles import Agent
from nodes.state import Result, RunState, Step

STUB = "void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {}\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);"
ROOT = Path(__file__).resolve().parents[2]
UP_WITHIN_S = 240.0
LONG_S = 100.0
TOKEN = "of-this-test-alone"
KNOWN = {"authorization": f"Bearer {TOKEN}"}
QUIET = {
    "LANGSMITH_TRACING": "false",
    "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    "LANGGRAPH_NO_VERSION_CHECK": "true",
    "NO_PROXY": "127.0.0.1",
    "CUTEGEN_SERVER_TOKEN": TOKEN,
    "LANGGRAPH_STRICT_MSGPACK": "true",
}


def wait_until_up(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + UP_WITHIN_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            pytest.fail(f"the server ended:\n{log.read_text()[-4000:]}")
        try:
            with urllib.request.urlopen(f"{url}/ok", timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            server.poll()
            time.sleep(0.1)
    pytest.fail(f"the server was not up within {UP_WITHIN_S:.0f} s:\n{log.read_text()[-4000:]}")


class Server:
    """A server in a folder of its own, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process = self._started()

    def kill(self) -> None:
        """As a power cut does, but for the children, which would keep the port.

        What the dev server writes by itself, every 10 s, is lost, too: whether it had is chance.
        """
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for kept in (self.folder / ".langgraph_api").rglob("*.pckl"):
            kept.unlink()

    def start_again(self) -> None:
        self._process = self._started()

    def close(self) -> None:
        """Take it down with all its children."""
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()

    def _started(self) -> subprocess.Popen[bytes]:
        log = self.folder / "server.log"
        served = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))
        served["dependencies"] = [str(ROOT)]
        served["graphs"]["cutegen"]["path"] = "brief_graph:graph"
        (self.folder / "langgraph.json").write_text(json.dumps(served), encoding="utf-8")
        command = [
            str(Path(sys.executable).parent / "langgraph"), "dev", "--config", str(self.folder / "langgraph.json"),
            "--no-browser", "--no-reload", "--host", "127.0.0.1", "--port", str(self.port), "--n-jobs-per-worker", "4",
        ]  # fmt: skip
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, **QUIET, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests/support'}"},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_until_up(self.url, process, log)
        return process


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("server"))
    try:
        yield running
    finally:
        running.close()


@pytest.fixture
def url(server: Server) -> str:
    """The address of a running server."""
    return server.url


def client_of(url: str) -> Any:
    return get_client(url=url, headers=KNOWN)


async def assistant(client: Any) -> str:
    [found] = await client.assistants.search(graph_id="cutegen", metadata={"created_by": "system"})
    return str(found["assistant_id"])


def test_the_graph_is_drawn_with_all_agents_and_edges(url: str) -> None:
    async def ask() -> Any:
        client = client_of(url)
        return await client.assistants.get_graph(await assistant(client), xray=True)

    drawn = asyncio.run(ask())
    assert set(Agent.__args__) <= {node["id"].split(":")[0] for node in drawn["nodes"]}  # type: ignore[attr-defined]
    assert {(edge["source"], edge["target"]) for edge in drawn["edges"]} == DRAWN_WITHIN


def test_each_agent_that_speaks_is_served_as_a_graph_within(url: str) -> None:
    async def ask() -> Any:
        client = client_of(url)
        return await client.assistants.get_subgraphs(await assistant(client))

    within = asyncio.run(ask())
    assert set(within) == set(SPEAKERS)
    assert {"role", "messages", "usage"} <= set(within["optimizer"]["state_schema"]["properties"])


def test_studio_gets_forms_with_titles_and_bounds(url: str) -> None:
    async def ask() -> Any:
        client = client_of(url)
        return await client.assistants.get_schemas(await assistant(client))

    schemas = asyncio.run(ask())
    assert set(schemas["input_schema"]["properties"]) == {"source", "name"}
    settings = schemas["context_schema"]["properties"]
    assert settings["max_depth"]["title"] == "Depth"
    assert settings["max_depth"]["minimum"] == 0
    assert settings["target"]["enum"] == ["auto", "cpu", "cuda"]


def test_whoever_reaches_the_port_cannot_turn_isolation_off(url: str) -> None:
    """Neither by the settings nor by editing the state, nor the settings that the state keeps."""
    manual = {"model": "manual", "target": "cpu"}
    answer = {"resume": f"```cpp\n{STUB}\n```"}

    async def told() -> list[str]:
        client, errors = client_of(url), []
        name, task = await assistant(client), {"source": SOURCE, "name": "softsign"}
        thread = (await client.threads.create())["thread_id"]
        bare: Any = {**manual, "isolation": "none"}
        refused = await client.runs.wait(thread, name, input=task, context=bare, raise_error=False)
        errors.append(refused["__error__"]["message"])
        thread = (await client.threads.create())["thread_id"]
        begun = await client.runs.wait(thread, name, input=task, context=manual)
        kept = begun["settings"] | {"settings": begun["settings"]["settings"] | {"isolation": "none"}}
        for edit in ({"tier": "none"}, {"tier": begun["tier"], "settings": kept}):
            await client.threads.update_state(thread, edit)
            ended = await client.runs.wait(thread, name, command=answer, raise_error=False)
            errors.append(ended["__error__"]["message"])
        return errors

    settings, state, kept = asyncio.run(told())
    assert "This run would run kernels without isolation." in settings
    assert "without isolation, as the state says" in state
    assert "This run would run kernels without isolation." in kept


def test_a_person_answers_in_studio_one_question_at_a_time(url: str) -> None:
    """The question waits within the agent's own graph, whose state the server shows."""
    manual = {"model": "manual", "target": "cpu"}

    async def talk() -> tuple[list[Any], Any]:
        client, waiting = client_of(url), []
        thread = (await client.threads.create())["thread_id"]
        task = {"source": SOURCE, "name": "softsign"}
        await client.runs.wait(thread, await assistant(client), input=task, context=manual)
        for answer in ("I would rather not.", "CANNOT: softsign is beyond me"):
            state = await client.threads.get_state(thread, subgraphs=True)
            waiting.append(state["tasks"][0])
            await client.runs.wait(thread, await assistant(client), command={"resume": answer}, context=manual)
        return waiting, await client.threads.get_state(thread)

    waiting, ended = asyncio.run(talk())
    assert [task["name"] for task in waiting] == ["generator"] * 2
    assert [task["interrupts"][0]["value"]["role"] for task in waiting] == ["generator"] * 2
    assert [len(task["state"]["values"]["messages"]) for task in waiting] == [0, 2]
    assert Result.model_validate(ended["values"]["result"]).stop.message == "softsign is beyond me"
    assert "messages" not in ended["values"]


def test_presets_are_made_once_and_stay_as_somebody_changed_them(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTEGEN_SERVER_TOKEN", TOKEN)
    made = CliRunner().invoke(app, ["assistants", url, "--json"])
    assert made.exit_code == 0, made.output
    cheap = next(each for each in json.loads(made.output) if each["name"] == "cheap")

    async def change() -> tuple[Any, Any]:
        client = client_of(url)
        before = await client.assistants.get(cheap["assistant_id"])
        await client.assistants.update(cheap["assistant_id"], context={"max_dollars": 2.0})
        make_presets(url, TOKEN)
        return before, await client.assistants.search(graph_id="cutegen", limit=100)

    before, found = asyncio.run(change())
    assert before["context"] == cheap["settings"]
    assert sorted(each["name"] for each in found if each["metadata"].get("created_by") != "system") == sorted(
        preset.name for preset in PRESETS
    )
    assert next(each for each in found if each["name"] == "cheap")["context"] == {"max_dollars": 2.0}
    with pytest.raises(UserError, match="refuses"):
        make_presets(url, "another")
    with pytest.raises(MachineError, match="No server answers"):
        make_presets(f"http://127.0.0.1:{free_port()}")


def test_of_two_answers_to_one_question_the_second_is_refused(url: str) -> None:
    """Whether they come at once or one late, with the question's name or without."""
    manual = {"model": "manual", "target": "cpu"}

    async def talk() -> tuple[int, list[str]]:
        client, refused = client_of(url), list[str]()
        thread, name = (await client.threads.create())["thread_id"], await assistant(client)
        await client.runs.wait(thread, name, input={"source": SOURCE, "name": "softsign"}, context=manual)
        [first] = (await client.threads.get_state(thread))["tasks"][0]["interrupts"]
        answers = [client.runs.wait(thread, name, command={"resume": "No."}, context=manual) for _ in range(2)]
        await asyncio.gather(*answers, return_exceptions=True)
        within = (await client.threads.get_state(thread, subgraphs=True))["tasks"][0]["state"]["values"]
        await client.runs.wait(thread, name, command={"resume": "CANNOT: enough"}, context=manual)
        for late in ({first["id"]: "No."}, "No."):
            with pytest.raises(ConflictError) as conflict:
                await client.runs.create(thread, name, command={"resume": late}, context=manual)
            refused.append(str(conflict.value.body))
        return len(within["messages"]), refused

    said, refused = asyncio.run(talk())
    assert said == 2, "the answer, and what is wrong with it: once"
    assert "does not wait" in refused[0] and "No question waits" in refused[1]


def test_a_task_runs_to_its_result(url: str, tmp_path: Path) -> None:
    told: list[Progress] = []

    async def run() -> tuple[list[Step], Any]:
        client = client_of(url)
        thread = await client.threads.create()
        steps: list[Step] = []
        async for event in client.runs.stream(
            thread["thread_id"],
            await assistant(client),
            input={"source": SOURCE, "name": "softsign"},
            context={"target": "cpu", "max_depth": 1, "sanitize": False},
            stream_mode=["updates", "custom"],
            stream_subgraphs=True,
        ):
            assert event.event != "error", event.data
            told.extend([Progress.model_validate(event.data)] if event.event == "custom" else [])
            turns.append(event.event)
            for update in (event.data or {}).values() if event.event == "updates" else ():
                steps += [Step.model_validate(step) for step in update.get("history", ())]
        return steps, await client.threads.get_state(thread["thread_id"])

    turns: list[str] = []
    steps, state = asyncio.run(run())
    thread_id = state["checkpoint"]["thread_id"]
    assert any(event.startswith("updates|optimizer:") for event in turns), "no step within an agent was streamed"
    assert [step.agent for step in steps[:3]] == ["generator", "tester", "optimizer"]
    result = Result.model_validate(state["values"]["result"])
    assert result.best is not None
    assert result.best.verdict.passed
    assert result.stop.name in ("depth", "no_moves_left")
    source = httpx.get(f"{url}/cutegen/threads/{thread_id}/kernel.cu", headers=KNOWN, timeout=LONG_S)
    assert source.text == result.best.candidate.source
    packed = httpx.get(f"{url}/cutegen/threads/{thread_id}/drop-in.zip", headers=KNOWN, timeout=LONG_S)
    assert {"kernel.cu", "model_new.py"} <= set(zipfile.ZipFile(io.BytesIO(packed.content)).namelist())
    found = httpx.get(f"{url}/cutegen/threads/{thread_id}/record.json", headers=KNOWN, timeout=LONG_S)
    assert RunRecord.model_validate_json(found.content).best == result.best
    page = httpx.get(f"{url}/cutegen/threads/{thread_id}/report.html", headers=KNOWN, timeout=LONG_S)
    assert result.best.candidate.digest in page.text
    remote = RunResult.of(
        RemoteGraph("cutegen", url=url, headers=KNOWN), {"configurable": {"thread_id": thread_id}}, tmp_path
    )
    assert (remote.verdict, remote.kernel) == (result.best.verdict, source.text)
    assert (tmp_path / "model_new.py").exists() and (tmp_path / "kernel.so").exists()
    assert torch.equal(remote.module()(torch.ones(64, 256)), torch.full((64, 256), 0.5))
    assert httpx.get(f"{url}/cutegen/threads/{thread_id}/run.json", headers=KNOWN).status_code == 404
    assert httpx.get(f"{url}/cutegen/threads/{thread_id}/kernel.cu").status_code == 401
    kinds = {(each.agent, each.event.kind) for each in told}
    assert {
        ("generator", "asked"), ("generator", "answered"), ("tester", "build_started"), ("tester", "build_ended"),
        ("tester", "checking"), ("tester", "verdict"), ("tester", "new_best"), ("optimizer", "agent_ended"),
    } <= kinds  # fmt: skip


def test_a_thread_is_watched_while_it_waits_and_to_its_end(url: str) -> None:
    """By a page of its own, whose stream tells steps by their numbers and goes on behind the last that was heard."""
    manual = {"model": "manual", "target": "cpu"}

    async def watch() -> tuple[list[httpx.Response], str, str]:
        client = client_of(url)
        thread, name = str((await client.threads.create())["thread_id"]), await assistant(client)
        live = f"{url}/cutegen/threads/{thread}/live/"
        async with httpx.AsyncClient(headers=KNOWN, timeout=LONG_S) as browser:
            pages = [await browser.get(live)]
            await client.runs.wait(thread, name, input={"source": SOURCE, "name": "softsign"}, context=manual)
            pages.append(await browser.get(live))
            heard = ""
            async with browser.stream("GET", f"{live}events") as stream:
                async for text in stream.aiter_text():
                    heard += text
                    if "a question waits" in heard:
                        break
            await client.runs.wait(thread, name, command={"resume": "CANNOT: it is beyond me"}, context=manual)
            pages += [
                await browser.get(live),
                await browser.get(f"{live}body"),
                await browser.get(f"{live}record.json"),
            ]
            whole = (await browser.get(f"{live}events")).text
            rest = (await browser.get(f"{live}events", headers={"last-event-id": pages[2].headers["x-at"]})).text
            pages += [
                await browser.get(f"{url}/cutegen/threads/{name}/live/"),
                await browser.get(live, headers={"authorization": ""}),
            ]
        return pages, whole, rest

    pages, whole, rest = asyncio.run(watch())
    assert [page.status_code for page in pages] == [200, 200, 200, 200, 404, 404, 401]
    assert "Nothing has been judged yet." in pages[0].text
    assert "This run has not ended yet." in pages[1].text
    assert "it is beyond me" in pages[2].text and "<script nonce" in pages[2].text
    assert "<script" not in pages[3].text
    assert "event: step" in whole and "event: step" not in rest
    for text in (whole, rest):
        assert json.loads(text.split("data: ")[-1])["text"] == "it is beyond me"


def test_a_thread_goes_on_after_a_kill(server: Server) -> None:
    """Its question still waits, and is answered; types are built from the file by their names on a list only."""
    manual = {"model": "manual", "target": "cpu"}

    async def ask() -> str:
        client = client_of(server.url)
        thread = str((await client.threads.create())["thread_id"])
        task = {"source": SOURCE, "name": "softsign"}
        await client.runs.wait(thread, await assistant(client), input=task, context=manual)
        return thread

    async def answer(thread: str) -> tuple[Any, Any]:
        client = client_of(server.url)
        # The dev server may know this thread not at all, or not its graph.
        await client.threads.create(thread_id=thread, if_exists="do_nothing")
        await client.threads.update(thread, metadata={"graph_id": "cutegen"})
        waiting = await client.threads.get_state(thread)
        command = {"resume": "CANNOT: softsign is beyond me"}
        ended = await client.runs.wait(thread, await assistant(client), command=command, context=manual)
        return waiting, ended

    thread = asyncio.run(ask())
    server.kill()
    server.start_again()
    waiting, ended = asyncio.run(answer(thread))
    assert waiting["tasks"][0]["interrupts"][0]["value"]["role"] == "generator"
    assert Result.model_validate(ended["result"]).stop.message == "softsign is beyond me"


def test_who_has_no_token_is_refused_and_a_misspelt_setting_too(url: str) -> None:
    async def ask() -> tuple[int, str]:
        with pytest.raises(AuthenticationError) as refused:
            await get_client(url=url).threads.create()
        client = client_of(url)
        thread = (await client.threads.create())["thread_id"]
        task, context = {"source": SOURCE, "name": "softsign"}, {"target": "cpu", "max_dept": 1}
        with pytest.raises(UnprocessableEntityError) as misspelt:
            await client.runs.create(thread, await assistant(client), input=task, context=context)
        with pytest.raises(UnprocessableEntityError):
            await client.assistants.create("cutegen", context=context)
        return refused.value.status_code, str(misspelt.value.body)

    status, said = asyncio.run(ask())
    assert status == 401
    assert "max_dept is not valid: no setting has that name; max_depth is near." in said


def test_a_cancelled_run_leaves_its_model_at_once_and_its_thread_goes_on(url: str) -> None:
    """Before a header of the answer has come: nothing but the end of its connection tells the endpoint."""

    async def cancel(endpoint: ChatEndpoint) -> tuple[Any, int, Any]:
        client = client_of(url)
        thread, name = (await client.threads.create())["thread_id"], await assistant(client)
        asking = {"model": "openai:m", "base_url": endpoint.base_url, "target": "cpu"}
        task = {"source": SOURCE, "name": "softsign"}
        run = await client.runs.create(thread, name, input=task, context=asking)
        assert await asyncio.to_thread(endpoint.reached.wait, LONG_S)
        await client.runs.cancel(thread, run["run_id"], wait=True)
        assert await asyncio.to_thread(endpoint.left.wait, LONG_S), "the connection was never cut"
        ended = await client.runs.get(thread, run["run_id"])
        asked = len(endpoint.requests)
        return ended, asked, await client.runs.wait(thread, name, input=None)

    with chat_endpoint("hung_up_on", "answer", answer="CANNOT: it is beyond me") as endpoint:
        ended, asked, values = asyncio.run(cancel(endpoint))
    assert ended["status"] == "interrupted"
    assert asked == 1
    assert Result.model_validate(values["result"]).stop.message == "it is beyond me"


def test_a_rollback_is_refused_and_its_thread_goes_on(url: str) -> None:
    """langgraph-api would end its worker over it, and the thread would be busy for ever."""
    manual = {"model": "manual", "target": "cpu"}

    async def ask() -> tuple[list[int], str, Any]:
        client, refused = client_of(url), []
        thread, name = (await client.threads.create())["thread_id"], await assistant(client)
        task = {"source": SOURCE, "name": "softsign"}
        run = await client.runs.create(thread, name, input=task, context=manual)
        for ask in (
            lambda: client.runs.create(thread, name, input=task, context=manual, multitask_strategy="rollback"),
            lambda: client.runs.cancel(thread, run["run_id"], action="rollback"),
        ):
            with pytest.raises(APIStatusError) as error:
                await ask()
            refused.append(error.value.response.status_code)
        await client.runs.join(thread, run["run_id"])
        status = (await client.threads.get(thread))["status"]
        return refused, status, await client.runs.wait(thread, name, command={"resume": "CANNOT: it is enough"})

    refused, status, values = asyncio.run(ask())
    assert (refused, status) == ([422, 422], "interrupted")
    assert Result.model_validate(values["result"]).stop.message == "it is enough"


def test_two_tasks_on_one_thread_are_two_runs_and_the_same_one_goes_deeper(url: str) -> None:
    """Scripted judges cannot tell: the first task's kernel has to be wrong for the second one."""
    swish = SOURCE.replace("x / (1 + torch.abs(x))", "x * torch.sigmoid(x)")

    async def give() -> list[RunState]:
        client, states = client_of(url), []
        thread, name = (await client.threads.create())["thread_id"], await assistant(client)
        for source, depth in ((SOURCE, 0), (swish, 0), (swish, 1)):
            task = {"source": source, "name": "any"}
            settings = {"target": "cpu", "max_depth": depth, "sanitize": False}
            states.append(RunState.model_validate(await client.runs.wait(thread, name, input=task, context=settings)))
        return states

    first, second, deeper = asyncio.run(give())
    for state in (first, second, deeper):
        assert state.result is not None
        assert state.result.best is not None
        assert state.result.best.verdict.task == state.task_digest
    assert first.task_digest != second.task_digest == deeper.task_digest
    assert [step.agent for step in second.history] == ["generator", "tester"]
    assert deeper.history[:2] == second.history
    assert [step.agent for step in deeper.history].count("generator") == 1
    assert deeper.usage.calls > second.usage.calls


WRONG: tuple[tuple[Any, str], ...] = (
    ({"name": "softsign"}, "source is not valid: it is missing."),
    ({}, "source is not valid: it is missing."),
    ({"sauce": SOURCE}, "sauce is not valid: no field of the input has that name; source is near."),
    (
        {"source": SOURCE, "best": None},
        "best is not valid: no field of the input has that name; there are source",
    ),
    ({"source": 7}, "source is not valid: it should be a valid string."),
    ({"source": SOURCE, "name": ["a"]}, "name is not valid: it should be a valid string."),
    ({"source": "x" * (MOST_SOURCE_BYTES + 1)}, f", of at most {MOST_SOURCE_BYTES}."),
    ("softsign", "The input is not valid: what is given is no JSON object with named fields."),
)
WRONG_FOR_ONE = (
    ("cutegen", {"source": SOURCE, "only_plan": True}, "only_plan is not valid: no field of the input has that name"),
    ("model", {"source": SOURCE, "only_plan": "perhaps"}, "only_plan is not valid: it should be a valid boolean"),
    ("model", {"source": SOURCE, "reads": 3}, "reads is not valid: it should be a valid tuple."),
)


@pytest.mark.parametrize("graph", INPUTS)
def test_what_a_client_gets_wrong_is_said_and_the_server_goes_on(url: str, graph: str) -> None:
    """A graph that there is not, inputs that do not fit; nothing of it becomes a run."""
    wrong = [*WRONG, *((given, said) for whose, given, said in WRONG_FOR_ONE if whose == graph)]

    async def told() -> tuple[list[tuple[int, str]], list[Any]]:
        client, refused = client_of(url), list[tuple[int, str]]()
        thread = (await client.threads.create())["thread_id"]
        mine = await client.assistants.create(graph, context={"target": "cpu"})
        asked = [("nobody", {"source": SOURCE}), *((graph, given) for given, _ in wrong), (mine["assistant_id"], {})]
        for whom, given in asked:
            with pytest.raises(APIStatusError) as refusal:
                await client.runs.create(thread, whom, input=given, context={"target": "cpu"})
            refused.append((refusal.value.status_code, str(refusal.value.body)))
        return refused, await client.runs.list(thread)

    (unknown, *refused, by_assistant), runs = asyncio.run(told())
    assert unknown[0] in (404, 422) and "nobody" in unknown[1]
    for (status, body), (given, said) in zip(refused, wrong, strict=True):
        assert status == 422 and said in body, (given, body)
    assert by_assistant == refused[1]
    assert runs == []


def test_an_edit_that_a_thread_has_no_place_for_is_said_and_the_thread_stays(url: str) -> None:
    """Of the thread as it is, of a fork, as Studio makes one, and of the turn of the agent that waits."""
    manual = {"model": "manual", "target": "cpu"}
    edits: tuple[tuple[Any, str], ...] = (
        ({"teir": "none"}, "teir is not valid: no field of the state has that name; tier is near."),
        ({"attempts": "many"}, "attempts is not valid: it should be a valid integer"),
        ({"candidate": {"sauce": STUB}}, "candidate.sauce is not valid: no field of the state has that name; source"),
    )

    async def edit() -> tuple[list[tuple[int, str]], list[Any]]:
        client, refused = client_of(url), list[tuple[int, str]]()
        thread, name = (await client.threads.create())["thread_id"], await assistant(client)
        await client.runs.wait(thread, name, input={"source": SOURCE, "name": "softsign"}, context=manual)
        before = await client.threads.get_state(thread)
        for values, _ in edits:
            for more in ({}, {"checkpoint": before["checkpoint"]}):
                with pytest.raises(APIStatusError) as refusal:
                    await client.threads.update_state(thread, values, **more)
                refused.append((refusal.value.status_code, str(refusal.value.body)))
        turn = (await client.threads.get_state(thread, subgraphs=True))["tasks"][0]["state"]["checkpoint"]
        with pytest.raises(APIStatusError) as refusal:
            await client.threads.update_state(thread, {"mesages": []}, checkpoint=turn)
        assert "mesages is not valid: no field of the state has that name; messages is near." in str(refusal.value.body)
        after = await client.threads.get_state(thread)
        await client.threads.update_state(thread, {"name": "mine"}, checkpoint=before["checkpoint"])
        return refused, [before, after, await client.threads.get_state(thread)]

    refused, (before, after, forked) = asyncio.run(edit())
    for (status, body), (_, said) in zip(refused, [each for each in edits for _ in range(2)], strict=True):
        assert status == 400 and said in body, body
    assert after["checkpoint"] == before["checkpoint"]
    assert (forked["values"]["name"], forked["next"]) == ("mine", ["generator"])


def test_graphs_are_tools_whose_results_are_json_and_whose_errors_are_sentences(url: str) -> None:
    def ask(method: str, headers: dict[str, str] = KNOWN, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        accepts = {"accept": "application/json, text/event-stream"}
        answer = httpx.post(f"{url}/mcp", json=message, headers=headers | accepts, timeout=LONG_S)
        return answer.json().get("result", answer.json()) if answer.is_success else answer.status_code

    assert {tool["name"] for tool in ask("tools/list")["tools"]} >= set(INPUTS)
    assert ask("tools/call", {}, name="cutegen", arguments={}) == 401
    for graph in INPUTS:
        missing = ask("tools/call", name=graph, arguments={"name": "softsign"})
        assert missing["isError"] and missing["content"][0]["text"] == "source is not valid: it is missing."
        wrong = ask("tools/call", name=graph, arguments={"sauce": SOURCE})["content"][0]["text"]
        assert wrong == "sauce is not valid: no field of the input has that name; source is near."
    misspelt = ask("tools/call", name="model", arguments={"source": SOURCE}, context={"max_dept": 1})
    assert misspelt["isError"] and "max_depth is near" in misspelt["content"][0]["text"]
    assert "Unknown tool" in str(ask("tools/call", name="nobody", arguments={}))
    task, spent = {"source": SOURCE, "name": "softsign"}, {"target": "cpu", "max_wall_s": 1e-3}
    ended = ask("tools/call", name="cutegen", arguments=task, context=spent)
    assert ended["isError"] is False
    assert json.loads(ended["content"][0]["text"]) == ended["structuredContent"]
    assert Result.model_validate(ended["structuredContent"]).best is None
    empty = ask("tools/call", name="cutegen", arguments={"source": ""}, context={"target": "cpu"})
    assert empty["isError"] and "there is no Model in it" in empty["content"][0]["text"]


def test_no_path_leads_out_of_the_threads(url: str) -> None:
    up = "..%2f" * 8 + "etc%2fpasswd"
    beside = (up, f"x/{up}", f"{up}/kernel.cu", f"{up}/live/", "x/live/", "x/live/events", "x/record.json")
    for path in beside:
        answer = httpx.get(f"{url}/cutegen/threads/{path}", headers=KNOWN, timeout=LONG_S)
        assert answer.status_code in (404, 422) and "root:" not in answer.text, (path, answer.text)


@pytest.mark.parametrize("then", ["continue", "cancel"])
def test_a_client_that_goes_away_mid_stream_ends_its_run_where_it_said_so(url: str, then: Any) -> None:
    async def leave(endpoint: ChatEndpoint) -> tuple[str, Any]:
        client = client_of(url)
        thread, name = (await client.threads.create())["thread_id"], await assistant(client)
        asking = {"model": "openai:m", "base_url": endpoint.base_url, "target": "cpu"}
        task = {"source": SOURCE, "name": "softsign"}
        streamed = client.runs.stream(
            thread, name, input=task, context=asking, stream_mode="custom", on_disconnect=then
        )
        async for _ in streamed:
            if endpoint.reached.is_set():
                break
        await streamed.aclose()
        if then == "cancel":
            assert await asyncio.to_thread(endpoint.left.wait, LONG_S), "the connection was never cut"
        endpoint.released.set()
        [run] = await client.runs.list(thread)
        await client.runs.join(thread, run["run_id"])
        return str((await client.runs.get(thread, run["run_id"]))["status"]), await client.threads.get_state(thread)

    behaviour: Any = "answer" if then == "continue" else "hung_up_on"
    with chat_endpoint(behaviour, answer="CANNOT: it is beyond me") as endpoint:
        endpoint.delay_s = LONG_S if then == "continue" else 0.0
        status, state = asyncio.run(leave(endpoint))
    assert len(endpoint.requests) == 1
    if then == "continue":
        assert status == "success" and state["values"]["result"]["stop"]["message"] == "it is beyond me"
    else:
        assert status == "interrupted" and state["next"] == ["generator"]
