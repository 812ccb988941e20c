"""Kernels that attack from inside the judge's own runner, past the screen, in each tier: all of them fail, and nothing
of them is left. A kernel here is right only where its attack succeeded, so that "passed" would give it away."""

from __future__ import annotations

import socket
import tempfile
import time
from pathlib import Path

import pytest
from kernel_frame import HEAD, TAIL

from harness.candidate import Candidate
from harness.describing import describe_task
from harness.isolation.tiers import resolve_tier, why_unavailable
from harness.judge import Judge
from harness.targets.cpu import CpuTarget

TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1

def get_inputs():
    return [torch.rand(4096)]
"""
SYSTEM = """
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <fstream>
#include <iterator>
#include <string>
static void succeed_if(bool achieved, TensorView x, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = in(x)[i] + (achieved ? 1.f : 7.f);
}
"""
LEFTOVER = "leftover-of-a-test"

REACHING_OUT = f"""
static bool tells(const std::string& path) {{
  std::ifstream file(path);
  const std::string text{{std::istreambuf_iterator<char>(file), {{}}}};
  return text.find("the-secret-of-this-test") != std::string::npos;
}}
static bool secret_found() {{
  for (char** entry = environ; *entry; ++entry)
    if (std::string(*entry).find("the-secret") != std::string::npos) return true;
  DIR* processes = opendir("/proc");
  bool found = false;
  while (dirent* each = processes ? readdir(processes) : nullptr)
    if (std::atoi(each->d_name) > 0) found |= tells(std::string("/proc/") + each->d_name + "/environ");
  if (processes) closedir(processes);
  return found;
}}
static bool written(const char* folder) {{
  return std::ofstream(std::string(folder) + "/{LEFTOVER}") << "here" << std::flush ? true : false;
}}
static bool parent_read() {{
  char byte = 0;
  iovec ours{{&byte, 1}}, theirs{{reinterpret_cast<void*>(0x400000), 1}};
  return process_vm_readv(getppid(), &ours, 1, &theirs, 1, 0) == 1;
}}
static bool connected(int family, const void* address, socklen_t size) {{
  const int channel = socket(family, SOCK_STREAM, 0);
  return channel >= 0 && connect(channel, static_cast<const sockaddr*>(address), size) == 0;
}}
void run(TensorView x, TensorView y) {{
  sockaddr_in host{{}};
  host.sin_family = AF_INET, host.sin_port = htons(PORT), host.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_un abstract{{}};
  abstract.sun_family = AF_UNIX;
  const std::string name = "{LEFTOVER}";
  name.copy(abstract.sun_path + 1, name.size());
  succeed_if(secret_found() || written("/tmp") || written("HOME") || written("/var/tmp") || parent_read()
      || kill(getppid(), SIGKILL) == 0 || connected(AF_INET, &host, sizeof host)
      || connected(AF_UNIX, &abstract, sizeof(sa_family_t) + 1 + name.size()), x, y);
}}
"""
DAEMON = """
void run(TensorView x, TensorView y) {
  if (fork() == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    prctl(PR_SET_NAME, "leftover");
    for (;;) sleep(1);
  }
  succeed_if(true, x, y);
}
"""
CLOSES_EVERYTHING = """
struct Early { Early() { for (int i = 0; i < 1024; ++i) close(i); } } early;
void run(TensorView x, TensorView y) { succeed_if(true, x, y); }
"""
FILLS_DESCRIPTORS = """
struct Early { Early() { while (open("/dev/null", O_RDONLY) >= 0) {} } } early;
void run(TensorView x, TensorView y) { succeed_if(true, x, y); }
"""
FORGES_THE_PROTOCOL = """
void run(TensorView x, TensorView y) {
  (void)y, (void)x;
  const std::string answer = "{\\"done\\": 0}";
  const uint32_t size = answer.size();
  for (int i = 3; i < 1024; ++i) {
    (void)!write(i, &size, sizeof size);
    (void)!write(i, answer.data(), answer.size());
  }
}
"""
STOPS_THE_CLOCK = """
extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t, timespec* t) { *t = {}; return 0; }
extern "C" __attribute__((visibility("default"))) int gettimeofday(struct timeval* t, void*) { *t = {}; return 0; }
void run(TensorView x, TensorView y) {
  usleep(1000);
  succeed_if(true, x, y);
}
"""


class Unscreened(Judge):
    """The screen would refuse most of these."""

    def screen(self, task, candidate):
        return None

    def screen_build(self, build):
        return None


@pytest.fixture(scope="module")
def task():
    return describe_task(TASK, name="task", tier=resolve_tier("auto"))


@pytest.fixture(scope="module", params=["bubblewrap", "landlock"])
def judge(request):
    if reason := why_unavailable(request.param):
        pytest.skip(f"{request.param} does not work here: {reason}")
    return Unscreened(CpuTarget(), tier=request.param)


@pytest.fixture
def verdict_on(judge, task, tmp_path, monkeypatch):
    """The verdict on a kernel; afterwards no process, no file and no folder of it is left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def verdict(body):
        candidate = Candidate(source=HEAD + SYSTEM + body + TAIL, target="cpu", author="test")
        found = judge.evaluate(task, candidate, seed=3)
        assert found.status != "build_failed", found.message
        return found

    yield verdict
    places = (Path("/tmp"), Path("/var/tmp"), Path.home(), Path.cwd())
    assert not [place for place in places if (place / LEFTOVER).exists()]
    assert eventually(lambda: not leftovers()), leftovers()
    assert not list(tmp_path.iterdir())


def leftovers():
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and (process / "comm").read_text().strip() == "leftover":
                found.append(process.name)
        except OSError:
            continue  # it has just ended
    return found


def eventually(fact, within_s=5.0):
    deadline = time.monotonic() + within_s
    while not fact() and time.monotonic() < deadline:
        time.sleep(0.05)
    return fact()


def test_nothing_outside_is_reached(verdict_on, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "the-secret-of-this-test")
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0{LEFTOVER}")
        abstract.listen()
        body = REACHING_OUT.replace("PORT", str(tcp.getsockname()[1])).replace('"HOME"', f'"{Path.home()}"')
        verdict = verdict_on(body)
    assert (verdict.status, verdict.check) == ("wrong", "correctness"), verdict.message


def test_a_daemon_does_not_outlive_its_verdict(verdict_on):
    assert verdict_on(DAEMON).status != "build_failed"


def test_closed_descriptors_cost_the_verdict_and_no_more(verdict_on):
    verdict = verdict_on(CLOSES_EVERYTHING)
    assert (verdict.status, verdict.check) in {("crashed", "process"), ("crashed", "exit"), ("crashed", "signal")}


def test_filled_descriptors_disturb_nobody(verdict_on):
    assert verdict_on(FILLS_DESCRIPTORS).status == "passed"


def test_a_forged_answer_on_the_judges_line_is_refused(verdict_on):
    verdict = verdict_on(FORGES_THE_PROTOCOL)
    assert (verdict.status, verdict.check) == ("refused", "protocol"), verdict.message


def test_a_patched_clock_saves_no_time(verdict_on):
    verdict = verdict_on(STOPS_THE_CLOCK)
    assert verdict.status == "passed", verdict.message
    assert verdict.timing.candidate_ms >= 1
