"""A tool around the runner: profilers and sanitizers watch a kernel that way."""

from test_judge import HONEST

from harness.isolation.policy import Access
from harness.runner_process import Wrapper

COUNTING = """
static int calls = 0;
struct Last { ~Last() { std::printf("called %d times\\n", calls); } } last;
""" + HONEST.replace("{\n", "{\n  ++calls;\n", 1)


def test_a_tool_sees_the_calls_and_the_runners_end(bench):
    wrapper = Wrapper(command=("/bin/sh", "-c", 'echo "$WORDS"; "$@"; echo ended with $?; ls "$0"', "{scratch}"))
    wrapper = Wrapper(wrapper.command, Access(), {"WORDS": "before, in {scratch}"})
    _, build = bench.build("#include <cstdio>\n" + COUNTING)
    watched = bench.judge.watch(bench.task(bench.softsign), build.library, wrapper, calls=3)
    assert (watched.status, watched.tool.exit_code) == ("passed", 0)
    said = watched.tool.stdout.decode()
    assert said.startswith("before, in /")
    assert "{scratch}" not in said
    assert "called 3 times\nended with 0\n" in said


def test_a_kernel_that_dies_under_a_tool_is_told_apart_from_the_tool(bench):
    _, build = bench.build("void run(TensorView x, TensorView y) { std::abort(); }")
    wrapper = Wrapper(command=("/bin/sh", "-c", '"$@"; echo ended with $?', "sh"))
    watched = bench.judge.watch(bench.task(bench.softsign), build.library, wrapper)
    assert (watched.status, watched.check) == ("crashed", "process")
    assert watched.tool.stdout == b"ended with 134\n"
