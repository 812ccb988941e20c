"""Threads of a real server, driven as docs/server.md and docs/cli.md print it: a run that goes on has its settings."""

from __future__ import annotations

import asyncio
import re
import textwrap
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from langgraph_sdk.errors import ConflictError, UnprocessableEntityError
from softsign_script import SOURCE
from test_server import KNOWN, ROOT, client_of, server, url

from graph.server.auth import INPUTS
from nodes.settings import Settings
from nodes.state import Result

__all__ = ["server", "url"]

MANUAL = {"model": "manual", "target": "cpu", "max_dollars": 3.0, "seed": 7, "archive": "none", "sanitize": False}
SPENT = {"max_wall_s": 1e-3, "target": "cpu"}
TASK = {"source": SOURCE, "name": "softsign"}
Found = TypeVar("Found")


def asked(work: Coroutine[Any, Any, Found]) -> Found:
    return asyncio.run(work)


async def a_thread(client: Any) -> str:
    return str((await client.threads.create())["thread_id"])


async def kept_on(client: Any, thread: str) -> Settings:
    values = (await client.threads.get_state(thread))["values"]
    return Settings.model_validate(values["settings"]["settings"])


async def refusal(begun: Coroutine[Any, Any, Any]) -> str:
    with pytest.raises(UnprocessableEntityError) as refused:
        await begun
    return str(refused.value.body)


def test_the_example_of_the_page_runs_as_it_is_printed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")
    [example] = [each for each in re.findall(r"```python\n(.*?)```", page, re.S) if "command=" in each]
    address = 'url="http://127.0.0.1:2024"'
    assert address in example
    body = textwrap.indent(example.replace(address, f"url={url!r}, headers={KNOWN!r}"), "    ")
    found: dict[str, Any] = {}
    monkeypatch.chdir(ROOT)
    exec(f"async def printed():\n{body}\n    return client, thread", found)

    async def run() -> tuple[Any, Settings]:
        client, thread = await found["printed"]()
        return (await client.threads.get_state(thread))["values"], await kept_on(client, thread)

    values, kept = asked(run())
    assert values["result"]["stop"]["message"] == "this is an example"
    assert kept == Settings(model="manual", target="cpu", max_dollars=5.0)


@pytest.mark.parametrize("graph", ["cutegen", "evolve"])
def test_an_answer_alone_goes_on_with_the_settings_of_the_run(url: str, graph: str) -> None:
    """Once unusable, then for good; the model that asks again is the one that asked, and no playbook answers."""
    own = MANUAL | ({"proposals": 1, "generations": 1, "verifiers": []} if graph == "evolve" else {})

    async def talk() -> tuple[list[Any], Settings, Any]:
        client, waiting = client_of(url), []
        thread = await a_thread(client)
        await client.runs.wait(thread, graph, input=TASK, context=own)
        for answer in ("I would rather not.", "CANNOT: it is beyond me"):
            waiting += (await client.threads.get_state(thread))["tasks"][0]["interrupts"]
            await client.runs.wait(thread, graph, command={"resume": answer})
        return waiting, await kept_on(client, thread), (await client.threads.get_state(thread))["values"]

    waiting, kept, values = asked(talk())
    assert len({each["id"] for each in waiting}) == len(waiting) == 2
    assert kept == Settings.model_validate(own)
    result = Result.model_validate(values["result"])
    assert result.best is None and result.usage.dollars == 0
    assert "it is beyond me" in str(values)


def test_a_budget_that_comes_with_an_unusable_answer_is_kept(url: str) -> None:
    """The node asks again and writes nothing down; the next answer is given without settings."""

    async def talk() -> Settings:
        client = client_of(url)
        thread = await a_thread(client)
        await client.runs.wait(thread, "cutegen", input=TASK, context=MANUAL)
        more = {"max_dollars": 5.0, "max_wall_s": 7200.0}
        await client.runs.wait(thread, "cutegen", command={"resume": "I would rather not."}, context=more)
        await client.runs.wait(thread, "cutegen", command={"resume": "CANNOT: it is beyond me"})
        return await kept_on(client, thread)

    assert asked(talk()) == Settings.model_validate(MANUAL | {"max_dollars": 5.0, "max_wall_s": 7200.0})


def test_the_model_graph_goes_on_with_the_settings_of_the_run(url: str) -> None:
    own = {"target": "cpu", "max_wall_s": 900.0, "max_depth": 0, "max_dollars": 3.0}

    async def go() -> tuple[list[Settings], str]:
        client, kept = client_of(url), list[Settings]()
        thread = await a_thread(client)
        model = {"source": SOURCE, "name": "softsign", "compile_baseline": False}
        await client.runs.wait(thread, "model", input=model, context=own, interrupt_after=["capture"])
        for at, more in (("planner", {}), ("cutter", {"context": {"max_wall_s": 1800.0}})):
            kept.append(await kept_on(client, thread))
            await client.runs.wait(thread, "model", input=None, interrupt_after=[at], **more)
        kept.append(await kept_on(client, thread))
        another = {**model, "source": SOURCE.replace("1 +", "2 +")}
        ended = await client.runs.wait(thread, "model", input=another, context=own, raise_error=False)
        return kept, ended["__error__"]["message"]

    kept, refused = asked(go())
    assert kept[:2] == [Settings.model_validate(own)] * 2
    assert kept[2] == Settings.model_validate(own | {"max_wall_s": 1800.0})
    assert "This thread holds another model." in refused


def test_a_setting_that_contradicts_the_threads_is_named_and_a_budget_may_be_raised(url: str) -> None:
    others: dict[str, Any] = {
        "target": "cuda", "model": "playbook", "generator_model": "playbook", "isolation": "none", "device": 1,
        "seed": 8, "profile_from_depth": {"gemm": 3}, "max_dollars": 2.0,
    }  # fmt: skip

    async def go() -> tuple[dict[str, str], list[Settings], str]:
        client = client_of(url)
        thread = await a_thread(client)
        await client.runs.wait(thread, "cutegen", input=TASK, context=MANUAL)
        said = {
            name: await refusal(client.runs.create(thread, "cutegen", command={"resume": "No."}, context={name: value}))
            for name, value in others.items()
        }
        said["input"] = await refusal(client.runs.create(thread, "cutegen", input=None, context={"seed": 8}))
        same = {"seed": 7, "target": "cpu", "profile_from_depth": {"gemm": 11}, "max_dollars": 4.0}
        await client.runs.wait(thread, "cutegen", command={"resume": "CANNOT: enough"}, context=same)
        kept = [await kept_on(client, thread)]
        await client.runs.wait(thread, "cutegen", input=TASK)
        [again] = (await client.threads.get_state(thread))["tasks"][0]["interrupts"]
        await client.runs.wait(thread, "cutegen", input=TASK | {"source": SOURCE + "\n"}, context=SPENT)
        kept.append(await kept_on(client, thread))
        return said, kept, again["value"]["role"]

    said, (raised, another), asks = asked(go())
    for name, words in said.items():
        assert ("seed" if name == "input" else name) in words, words
    assert raised == Settings.model_validate(MANUAL | {"max_dollars": 4.0})
    assert asks == "generator", "the task given once more is asked of the thread's model"
    assert another == Settings.model_validate(SPENT), "another task's run has settings of its own"


def test_settings_that_a_client_sends_come_before_those_of_the_assistant_that_goes_on(url: str) -> None:
    async def go() -> tuple[Settings, Settings]:
        client = client_of(url)
        mine = (await client.assistants.create("cutegen", context=MANUAL))["assistant_id"]
        other = (await client.assistants.create("cutegen", context=SPENT | {"max_dollars": 1.0}))["assistant_id"]
        thread = await a_thread(client)
        await client.runs.wait(thread, mine, input=TASK, context={"max_dollars": 5.0})
        begun = await kept_on(client, thread)
        await client.runs.wait(thread, other, command={"resume": "CANNOT: enough"})
        return begun, await kept_on(client, thread)

    begun, after = asked(go())
    assert begun == after == Settings.model_validate(MANUAL | {"max_dollars": 5.0})


def test_a_run_that_was_stopped_before_its_first_node_goes_on_with_its_settings(url: str) -> None:
    async def go() -> tuple[Any, Settings]:
        client = client_of(url)
        thread = await a_thread(client)
        await client.runs.wait(thread, "cutegen", input=TASK, context=MANUAL, interrupt_before=["intake"])
        before = (await client.threads.get_state(thread))["values"]
        await client.runs.wait(thread, "cutegen", input=None)
        return before, await kept_on(client, thread)

    before, kept = asked(go())
    assert "settings" not in before or before["settings"] is None
    assert kept == Settings.model_validate(MANUAL)


def test_two_threads_at_once_keep_apart(url: str) -> None:
    async def one(client: Any, seed: int) -> Settings:
        thread = await a_thread(client)
        await client.runs.wait(thread, "cutegen", input=TASK, context=MANUAL | {"seed": seed})
        await client.runs.wait(thread, "cutegen", command={"resume": "CANNOT: enough"})
        return await kept_on(client, thread)

    async def both() -> list[Settings]:
        client = client_of(url)
        return await asyncio.gather(one(client, 1), one(client, 2))

    assert [kept.seed for kept in asked(both())] == [1, 2]


@pytest.mark.parametrize("graph", INPUTS)
def test_where_nothing_was_begun_an_answer_is_refused(url: str, graph: str) -> None:
    async def go() -> tuple[list[str], list[Any]]:
        client = client_of(url)
        thread = await a_thread(client)
        unborn = {"thread_id": "0d8a9b0e-46d5-4a8e-8a53-0c3f6ee5b1a7", "if_not_exists": "create"}
        said = [
            await refusal(client.runs.create(thread, graph, command={"resume": "x"})),
            await refusal(client.runs.create(thread, graph, input=None)),
            await refusal(client.runs.create(None, graph, input=None)),
            await refusal(client.runs.create(assistant_id=graph, command={"resume": "x"}, **unborn)),
        ]
        return said, await client.runs.list(thread)

    said, runs = asked(go())
    assert all("Nothing was begun on this thread: give the run an input first." in each for each in said), said
    assert runs == []


@pytest.mark.parametrize("command", [{"goto": "tester"}, {"update": {"best": 5}}])
def test_a_command_only_answers_and_the_thread_goes_on(url: str, command: dict[str, Any]) -> None:
    async def go() -> tuple[str, Any]:
        client = client_of(url)
        thread = await a_thread(client)
        await client.runs.wait(thread, "cutegen", input=TASK, context=MANUAL)
        said = await refusal(client.runs.create(thread, "cutegen", command=command))
        await client.runs.wait(thread, "cutegen", command={"resume": "CANNOT: it is beyond me"})
        return said, (await client.threads.get_state(thread))["values"]["result"]

    said, result = asked(go())
    assert "A command only answers (resume)" in said
    assert result["stop"]["message"] == "it is beyond me"


def test_an_answer_to_a_run_that_has_ended_is_refused(url: str) -> None:
    async def go() -> None:
        client = client_of(url)
        thread = await a_thread(client)
        await client.runs.wait(thread, "cutegen", input=TASK, context=SPENT)
        with pytest.raises(ConflictError):
            await client.runs.create(thread, "cutegen", command={"resume": "x"})

    asked(go())


def test_no_address_with_a_password_is_taken(url: str) -> None:
    settings = {"base_url": "http://me:my-secret@127.0.0.1:9/v1", "model": "openai:m"}

    async def go() -> list[str]:
        client = client_of(url)
        thread = await a_thread(client)
        return [
            await refusal(client.runs.create(thread, "cutegen", input=TASK, context=settings)),
            await refusal(client.assistants.create("cutegen", context=settings)),
        ]

    for said in asked(go()):
        assert "holds a user, a password or a query" in said and "my-secret" not in said
