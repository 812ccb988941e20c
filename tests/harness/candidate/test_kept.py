"""What calls may not leave behind in their caller's process: data that changes, memory, threads."""

import pytest
from c_kernels import library, linked
from test_kernel_runner import called, shared

from harness.nouns.caller import Caller
from harness.trusted.link import CandidateFailedError

THREADS = {"headers": "#include <pthread.h>\n#include <unistd.h>\n", "options": ("-pthread",)}
HARMLESS = {
    "nothing": "",
    "filled once": "static int filled[9]; filled[3] = 7;",
    "filled later": "static int calls_seen = 0; static float table[9]; if (floats(arguments)[0] > 0) table[1] = 3;",
    "memory of the call": "free(malloc(9 << 20));",
}
KEPT = {
    "counts": ("static int calls; ++calls;", "1 bytes of its static data"),
    "scratch": ("static float scratch[9]; static float x; for (float& s : scratch) s = x += 0.3f;", "again and again"),
    "a flag to and fro": ("static bool flag; flag = !flag;", "1 bytes of its static data"),
    "leaks": ("void* volatile p = malloc(1 << 20); memset(p, 1, 1 << 20);", "MiB of memory after its calls"),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_filled_once_or_given_back_is_fine(tmp_path, name):
    with linked() as (_, link):
        shared(link)
        link.load(str(library(tmp_path, HARMLESS[name])))
        for _ in range(8):
            called(link, [0])
        link.require_nothing_kept()


@pytest.mark.parametrize("name", KEPT)
def test_what_changes_again_or_is_never_given_back_is_refused(tmp_path, name):
    body, said = KEPT[name]
    with linked() as (_, link):
        shared(link)
        link.load(str(library(tmp_path, body)))
        for _ in range(8):
            called(link, [0])
        with pytest.raises(CandidateFailedError, match=said) as failure:
            link.require_nothing_kept()
    assert (failure.value.status, failure.value.check) == ("refused", "kept")


def test_two_threads_call_at_once_and_a_disturbed_result_is_left_to_be_judged(tmp_path):
    """Each call fills shared scratch slowly and sums it up: alone that is right."""
    body = """
      static float scratch[20000];
      for (int i = 0; i < 20000; ++i) scratch[i] = floats(arguments)[0];
      double sum = 0;
      for (int k = 0; k < 500; ++k)
        for (int i = 0; i < 20000; ++i) sum += scratch[i] / 1e7;
      floats(arguments + 3)[0] = sum;
    """
    with linked() as (_, link):
        memory, _ = shared(link)
        memory.views[0]["x"].fill_(1.0)
        memory.views[1]["x"].fill_(2.0)
        link.load(str(library(tmp_path, body)))
        called(link, [0])
        alone = memory.views[0]["y"].flatten()[0].item()
        assert alone == pytest.approx(1.0, rel=1e-2)
        found = set()
        for _ in range(50):  # on a busy machine one thread may be done before the other begins
            with link.running():
                link.call([0, 1], 20.0, caller=Caller(together=True))
            found.add(memory.views[0]["y"].flatten()[0].item())
            if found != {alone}:
                break
        assert found != {alone}


def test_a_frame_of_megabytes_does_not_fit_a_small_stack(tmp_path):
    body = "volatile float frame[1 << 20]; for (int i = 0; i < 1 << 20; i += 1024) frame[i] = i;"
    with linked() as (_, link):
        shared(link)
        link.load(str(library(tmp_path, body)))
        called(link, [0])
        with pytest.raises(CandidateFailedError, match="with a stack of 256 KiB"), link.running():
            link.call([0], 20.0, caller=Caller(elsewhere=True, stack_kib=256))
