"""Names of models, and what is said about the ones that cannot be opened."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from chat_server import chat_endpoint
from langchain_core.messages import AIMessage
from model_requests import prompt, request

from harness.nouns.errors import UserError
from nodes.address import NO_KEY, find, key_variable
from nodes.models.manual import ManualModel
from nodes.models.playbook import PlaybookModel
from nodes.models.replay import ReplayModel, exchange
from nodes.models.select import ModelOptions, open_model


@pytest.fixture(autouse=True)
def no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def test_the_playbook_and_a_person_need_nothing() -> None:
    assert isinstance(open_model(" playbook "), PlaybookModel)
    assert isinstance(open_model("manual"), ManualModel)


def test_replay_reads_its_file(tmp_path: Path) -> None:
    file = tmp_path / "a:b.jsonl"
    file.write_text(exchange(0, "generator", prompt(request("generator")), AIMessage("CANNOT: no")).line())
    model = open_model(f"replay:{file}")
    assert isinstance(model, ReplayModel)
    assert model.invoke(prompt(request("generator"))).text == "CANNOT: no"


@pytest.mark.parametrize("spec", ["", "gpt-4", "manual:me", "openai", "openai:", "replay:", "playbook:x", "Playbook"])
def test_a_name_that_means_nothing_names_the_choices(spec: str) -> None:
    with pytest.raises(UserError) as caught:
        open_model(spec)
    assert f'"{spec}"' in caught.value.problem
    assert all(choice in caught.value.remedy for choice in ("playbook", "openai:<model>", "replay:"))


def test_openai_without_a_key() -> None:
    with pytest.raises(UserError, match=r"api\.openai\.com needs a key.*OPENAI_API_KEY"):
        open_model("openai:gpt")


def test_a_public_server_without_a_key() -> None:
    with pytest.raises(UserError, match=r"openrouter\.ai needs a key"):
        open_model("openai:gpt", ModelOptions(base_url="https://openrouter.ai/api/v1"))


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "10.0.0.7", "vllm", "gpu.local"])
def test_a_server_of_ones_own_needs_no_key(host: str) -> None:
    open_model("openai:gpt", ModelOptions(base_url=f"http://{host}:8000/v1"))


def test_the_environment_names_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with chat_endpoint() as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        assert open_model("openai:m").invoke("hello").text == endpoint.answer
    assert endpoint.requests[0]["model"] == "m"


def test_a_model_may_name_its_own_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another")
    monkeypatch.setenv("LOCAL_API_KEY", "sk-local")
    with chat_endpoint() as endpoint:
        model = open_model(f"openai:a@b@{endpoint.base_url}", ModelOptions(base_url="http://127.0.0.1:9/v1"))
        assert model.invoke("hello").text == endpoint.answer
    assert endpoint.requests[0]["model"] == "a@b"
    assert endpoint.keys == ["Bearer sk-local"]


@pytest.mark.parametrize(
    ("host", "variable"),
    [
        ("api.openai.com", "OPENAI_API_KEY"),
        ("openrouter.ai", "OPENROUTER_API_KEY"),
        ("api.deepseek.com", "DEEPSEEK_API_KEY"),
        ("my-gpu", "MY_GPU_API_KEY"),
        ("127.0.0.1", "LOCAL_API_KEY"),
        ("::1", "LOCAL_API_KEY"),
    ],
)
def test_each_host_has_a_variable_for_its_key(host: str, variable: str) -> None:
    assert key_variable(host) == variable


def test_a_key_for_one_host_is_not_sent_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another")
    with pytest.raises(UserError, match=r"variable OPENROUTER_API_KEY, or"):
        open_model("openai:m@https://openrouter.ai/api/v1")
    monkeypatch.setenv("OPENROUTER_API_KEY", " sk-its-own ")
    for name, base_url in (("m@https://openrouter.ai/api/v1", None), ("m", "https://openrouter.ai/api/v1")):
        assert find(name, base_url).key == "sk-its-own"
    monkeypatch.setenv("OPENROUTER_API_KEY", " ")
    assert find("m", "https://openrouter.ai/api/v1").key == "sk-of-another"
    monkeypatch.delenv("OPENAI_API_KEY")
    assert find("m", "http://10.0.0.7/v1").key == NO_KEY


@pytest.mark.parametrize("spec", ["playbook", "openai:", "replay:x"])
def test_only_an_endpoint_can_go_on_for_another(spec: str) -> None:
    with pytest.raises(UserError, match="cannot go on for another"):
        open_model("openai:m@http://vllm/v1", ModelOptions(fallback=spec))


def test_a_model_does_not_go_on_for_itself() -> None:
    model = "m@http://vllm/v1"
    for fallback, goes_on in ((None, False), (f"openai:{model}", False), (" openai:n@http://vllm/v1 ", True)):
        opened = open_model(f"openai:{model}", ModelOptions(fallback=fallback))
        assert (opened.spare is not None) is goes_on  # type: ignore[attr-defined]


def test_the_option_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with chat_endpoint() as endpoint:
        assert open_model("openai:m", ModelOptions(base_url=endpoint.base_url)).invoke("hello").text == endpoint.answer


@pytest.mark.parametrize(
    "address",
    ["localhost:8000/v1", "ftp://localhost/v1", "http://", "nonsense", "http://:80/v1", "http://[::1", "http://[zz]/v1",
     "http://localhost:x/v1", "http://localhost:0/v1", "http://localhost:65536/v1", "http://\x00/v1",
     "https://user:hidden@example.com:x/v1"],
)  # fmt: skip
def test_a_base_url_that_is_none(address: str) -> None:
    with pytest.raises(UserError, match="no web address") as caught:
        open_model("openai:m", ModelOptions(base_url=address))
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    ["https://user:hidden@example.com/v1", "https://hidden@example.com/v1", "https://example.com/v1?key=hidden",
     "https://example.com/v1#hidden"],
)  # fmt: skip
def test_a_key_in_the_base_url_is_refused_and_not_repeated(address: str) -> None:
    for spec, options in (("openai:m", ModelOptions(base_url=address)), (f"openai:m@{address}", ModelOptions())):
        with pytest.raises(UserError, match=r"of example\.com holds") as caught:
            open_model(spec, options)
        assert "EXAMPLE_API_KEY or OPENAI_API_KEY" in caught.value.remedy
        assert "hidden" not in str(caught.value)


def test_the_key_stays_out_of_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hidden")
    model = open_model("openai:m")
    assert "sk-hidden" not in f"{model!r} {model} {model.model_dump()}"
    address = find("m", None)
    assert (address.key, address.variable) == ("sk-hidden", "OPENAI_API_KEY")
    assert "sk-hidden" not in f"{address!r} {address}"


def test_choosing_a_model_loads_no_client_and_no_torch() -> None:
    heavy = ("openai", "langchain_openai", "torch")
    code = f"import sys, nodes.models.select; print([name for name in {heavy} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"
