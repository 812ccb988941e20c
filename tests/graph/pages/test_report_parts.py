"""Parts of the report by themselves: coloured sources, sides of a change, what was said, commands, rounds."""

import html
import re
import shlex
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from command_line import REPOSITORY
from hypothesis import given
from hypothesis import strategies as st
from report_records import candidate, exchanges, full_record, long_record
from scripted_judge import judging_here
from typer.testing import CliRunner

from graph.api.calls import optimize
from graph.cli.main import app
from graph.cli.settings import settings_of
from graph.pages.charts import samples_chart
from graph.pages.kernel_changes import LEAST_LINES, MOST_LINES, changes, cpp_lines, python_lines, side_by_side
from graph.pages.kernel_changes import MOST_CHARS as MOST_COLOURED
from graph.pages.report import MOST_CHARS, MOST_OF_ONE, render, turns
from graph.pages.reproduce import again, use
from graph.runs.folder import Beside
from nodes.models.replay import Said
from nodes.settings import Gates, Settings
from nodes.state import Usage

SOURCES = st.text(st.sampled_from("ab1 \n\r\t\x0c\"'/*\\R()<&#\ufeff"), max_size=80)


def plain(line: str) -> str:
    return html.unescape(re.sub(r"</?i[^>]*>", "", line))


@given(SOURCES)
def test_colours_change_no_letter_of_a_source(source: str) -> None:
    for lines in (cpp_lines(source), python_lines(source)):
        assert [plain(line) for line in lines] == source.splitlines()


def test_words_are_coloured_by_what_they_are() -> None:
    first, second, third, fourth = cpp_lines('#include <a>\nfloat x = 1.0f;  // "y"\n/* for\nfor */ for (;;)')
    assert 'class="p"' in first
    assert '<i class="t">float</i>' in second
    assert '<i class="n">1.0f</i>' in second and '<i class="c">// &#34;y&#34;</i>' in second
    assert third == '<i class="c">/* for</i>' and fourth.count('class="k"') == 1, "a comment goes over lines"
    assert '<i class="k">def</i>' in python_lines("def f(): pass")[0]
    assert cpp_lines("int x;\n" * (MOST_COLOURED // 7 + 1))[0] == "int x;"


texts = st.lists(st.sampled_from(["a", "b", "", "  c", "<d>"]), max_size=30).map("\n".join)


@given(texts, texts)
def test_both_sides_of_a_change_have_all_of_its_lines_once(old: str, new: str) -> None:
    pairs = [pair for hunk in side_by_side(old, new) for pair in hunk]
    before, after = old.splitlines(), new.splitlines()
    assert all(plain(pair.before) == (before[pair.old - 1] if pair.old else "") for pair in pairs)
    assert all(plain(pair.after) == (after[pair.new - 1] if pair.new else "") for pair in pairs)
    went, came = ({side for pair in pairs if pair.kind == "changed" and (side := get(pair))} for get in (_old, _new))
    assert [line for at, line in enumerate(before, 1) if at not in went] == [
        line for at, line in enumerate(after, 1) if at not in came
    ]
    assert [pair.old for pair in pairs if pair.old] == sorted({pair.old for pair in pairs if pair.old})


def _old(pair: object) -> int | None:
    return pair.old  # type: ignore[attr-defined, no-any-return]


def _new(pair: object) -> int | None:
    return pair.new  # type: ignore[attr-defined, no-any-return]


def test_long_changes_share_the_page() -> None:
    record = full_record()
    first = record.steps[1].candidate
    assert first
    other = candidate("\n".join(f"int x{at};" for at in range(3000)), "optimizer:m", record.candidates[first])
    tested = record.steps[1].model_copy(update={"candidate": other.digest})
    many = record.model_copy(
        update={"candidates": {**record.candidates, other.digest: other}, "steps": (*record.steps, tested)}
    )
    long = changes(many)[-1]
    shown = sum(map(len, long.hunks))
    assert shown == MOST_LINES // 7 > LEAST_LINES
    assert long.left == 3000 - shown
    assert long.added == 3000, "what is not shown is counted"
    assert f"{long.left} more lines" in render(many)


def test_each_step_has_what_was_said_in_it() -> None:
    record = long_record(4)
    said = list(exchanges(record))
    late = said[-1].model_copy(update={"index": len(said), "answer": "half an answer"})
    found = turns([*said, late], record.steps)
    assert [turn.step.depth if turn.step else None for turn in found] == [0, 1, 2, 3, None]
    assert [message.kind for message in found[1].messages] == ["system", "asked", "answer"]
    assert found[1].messages[1].text == "At move 1."
    assert found[1].messages[0].same_as == found[0].messages[0].place, "the same system prompt stands there once"
    page = render(record, Beside(exchanges=(*said, late)))
    assert "half an answer" in page and "of a step that was not finished" in page
    ids = re.findall(r'id="([^"]+)"', page)
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
    assert len(ids) == len(set(ids))


def test_a_step_of_several_exchanges_is_told_by_its_last_prompt_which_holds_the_others() -> None:
    record = long_record(2)
    first, *rest = record.steps
    record = record.model_copy(update={"steps": (first.model_copy(update={"usage": Usage(calls=3)}), *rest)})
    found = turns(exchanges(record), record.steps)
    assert [(turn.role, turn.exchanges, turn.index) for turn in found] == [("generator", 3, 2), ("optimizer", 1, 3)]


def test_what_was_said_is_cut_where_it_would_fill_the_page() -> None:
    record = long_record(60)
    said = [
        each.model_copy(update={"prompt": (Said(type="human", content=f"{each.index}" + "x" * MOST_OF_ONE),)})
        for each in exchanges(record)
    ]
    found = turns(said, record.steps)
    shown = sum(len(message.text) for turn in found for message in turn.messages)
    assert shown <= MOST_CHARS
    assert found[0].messages[0].left == 1
    assert found[-1].messages[0].left > 0
    assert "more characters are in conversation.jsonl, exchange 0." in render(record, Beside(exchanges=tuple(said)))


def test_thirty_steps_stay_under_one_and_a_half_megabytes() -> None:
    record = long_record(30)
    prompt = (Said(type="human", content="x" * 15_000),)
    said = tuple(
        each.model_copy(update={"prompt": (*prompt, Said(type="human", content=f"{each.index}" + "y" * 15_000))})
        for each in exchanges(record)
    )
    page = render(record, Beside(exchanges=said))
    assert page.count("<details") > 60
    assert len(page.encode()) < 1_500_000


def test_the_rounds_of_the_timing_are_drawn() -> None:
    timing = full_record().timing
    drawing = ET.fromstring(str(samples_chart(timing, 400)))
    places = [float(mark.get("cx", "")) for mark in drawing.iter("circle")]
    assert len(places) == 80
    assert all(0 < place < 400 for place in places)
    assert max(places[40:]) < min(places[:40]), "eager above, the kernel's shorter ones below"
    assert "median 10.4" in drawing.get("aria-label", "")
    assert timing is not None
    for none in (None, timing.model_copy(update={"samples": None})):
        assert samples_chart(none, 400) == ""


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(target="cpu", max_depth=3, seed=7, profile_from_depth=Gates(gemm=2), patience=None, max_dollars=2.5),
        Settings(model="openai:m", base_url="http://localhost:1/v1", archive="a b.sqlite", optimizer_model="openai:7"),
    ],
)
def test_the_command_that_searches_again_has_the_settings_of_the_run(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_b_c.task.py").touch()  # as `unpack` leaves it
    record = full_record().model_copy(update={"settings": settings.model_dump(mode="json"), "name": "a b/c"})
    commands = dict(again(record))
    given: list[Settings] = []
    monkeypatch.setattr("graph.cli.optimize.run", lambda options: given.append(settings_of(options.settings)) or 0)
    program, *arguments = shlex.split(commands["Search again."])
    assert program == "cutegen"
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert given == [settings]
    assert again(record.model_copy(update={"task": None})) == []
    assert again(record.model_copy(update={"settings": {"max_depth": "many"}})) == []


def test_a_runs_own_report_tells_how_to_judge_its_kernel_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with judging_here():
        result = optimize(
            REPOSITORY / "examples" / "softsign.py", depth=1, target="cpu", out=tmp_path / "run", compile_baseline=True
        )
        monkeypatch.chdir(result.folder)
        unpack, verify, *_ = again(result.record)
        file = shlex.split(verify[1])[3]
        program = shlex.split(unpack[1])[2]
        exec(program)
        assert Path(file).read_text(encoding="utf-8") == (REPOSITORY / "examples" / "softsign.py").read_text(
            encoding="utf-8"
        )
        done = CliRunner().invoke(app, shlex.split(verify[1])[1:])
    assert done.exit_code == 0, done.output
    page = (result.folder / "report.html").read_text(encoding="utf-8")
    assert "x over torch.compile" in page
    assert verify[1] in html.unescape(page)
    assert compile(use(result.record), "use", "exec")
    assert 'id="talk"' in page, "what the playbook was asked"
