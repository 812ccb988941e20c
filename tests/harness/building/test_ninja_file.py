"""What ninja makes of the commands, whatever is in their words."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from harness.building.ninja_file import Edge, ninja_file
from harness.building.toolchain import ninja

ECHO = "import sys; open(sys.argv[1], 'w').write(repr(sys.argv[2:]))"
words = st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=12), max_size=4)


@settings(max_examples=settings.default.max_examples // 5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(["$HOME", "a b", "'", '"', "\\", "", "$", ":"])
@given(words)
def test_every_word_reaches_the_command_as_it_is(tmp_path, arguments):
    output = tmp_path / "out"
    output.unlink(missing_ok=True)
    edge = Edge("echo", (sys.executable, "-I", "-S", "-c", ECHO, "out", *arguments), ("build.ninja",), "out")
    (tmp_path / "build.ninja").write_text(ninja_file([edge]), encoding="utf-8")
    subprocess.run([ninja(), "--quiet"], cwd=tmp_path, check=True)
    assert output.read_text() == repr(arguments)


def test_edges_run_in_the_order_of_their_files(tmp_path):
    (tmp_path / "start it.txt").write_text("a")
    second = Edge("second", ("cp", "mid$dle:1", "end"), ("mid$dle:1",), "end")
    first = Edge("first", ("cp", "start it.txt", "mid$dle:1"), ("start it.txt",), "mid$dle:1")
    (tmp_path / "build.ninja").write_text(ninja_file([second, first]))
    subprocess.run([ninja(), "--quiet"], cwd=tmp_path, check=True)
    assert (tmp_path / "end").read_text() == "a"
