"""Kernels that attack from inside the judge's own runner, past the screen.

One library holds all attacks that are made in a call: the number of elements says which one it is. An attack on what
lies outside writes what it achieved into its output, a bit each, so that no result of it is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kernel_frame import HEAD, TAIL

LEFTOVER = "leftover-of-a-test"
SECRET = "the-secret-of-this-test"
NOTHING = 1000.0
"""The output of an attack on the outside that achieved nothing."""
ELEMENTS = 4096

SYSTEM = f"""
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
static void right(TensorView x, TensorView y) {{
  for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = in(x)[i] + 1;
}}
static bool tells(const std::string& path) {{
  std::ifstream file(path);
  const std::string text{{std::istreambuf_iterator<char>(file), {{}}}};
  return text.find("{SECRET}") != std::string::npos;
}}
static bool written(const std::string& folder) {{
  return (std::ofstream(folder + "/{LEFTOVER}") << "here" << std::flush).good();
}}
static bool connected(int family, const void* address, socklen_t size) {{
  const int channel = socket(family, SOCK_STREAM, 0);
  return channel >= 0 && connect(channel, static_cast<const sockaddr*>(address), size) == 0;
}}
static bool socket_reached(const std::string& name, bool abstract) {{
  sockaddr_un address{{}};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + abstract, sizeof address.sun_path - 1 - abstract);
  return connected(AF_UNIX, &address, offsetof(sockaddr_un, sun_path) + abstract + name.size() + !abstract);
}}
static std::string own_folder() {{
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (auto end = line.find("/kernel.so"); end != std::string::npos)
      return line.substr(line.find('/'), end - line.find('/'));
  return "";
}}
static bool environment_read() {{
  bool found = false;
  for (char** entry = environ; *entry; ++entry) found |= std::strstr(*entry, "{SECRET}") != nullptr;
  DIR* processes = opendir("/proc");
  while (dirent* each = processes ? readdir(processes) : nullptr)
    if (std::atoi(each->d_name) > 0) found |= tells(std::string("/proc/") + each->d_name + "/environ");
  if (processes) closedir(processes);
  return found;
}}
static bool parents_memory_read() {{
  char byte = 0;
  iovec ours{{&byte, 1}}, theirs{{reinterpret_cast<void*>(0x400000), 1}};
  const std::string memory = "/proc/" + std::to_string(getppid()) + "/mem";
  return process_vm_readv(getppid(), &ours, 1, &theirs, 1, 0) == 1 || open(memory.c_str(), O_RDONLY) >= 0
      || ptrace(PTRACE_ATTACH, getppid(), nullptr, nullptr) == 0;
}}
static bool loaded_by_name() {{
  bool found = false;
  for (const char* name : {{"libblas.so.3", "libopenblas.so.0", "liblapack.so.3", "libcrypto.so.3", "libpcre2-8.so.0"}})
    found |= dlopen(name, RTLD_NOW) != nullptr;
  return found;
}}
static bool maps_file() {{
  const int file = memfd_create("code", 0);
  return ftruncate(file, 4096) == 0
      && mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) != MAP_FAILED;
}}
static bool changes_rights() {{
  alignas(4096) static char page[4096];
  return mprotect(page, sizeof page, PROT_READ | PROT_WRITE | PROT_EXEC) == 0;
}}
static bool rewrites_code() {{
  const int memory = open("/proc/self/mem", O_RDWR);
  auto code = reinterpret_cast<const char*>(&right);
  iovec ours{{const_cast<char*>(code), 1}}, theirs = ours;
  return process_vm_writev(getpid(), &ours, 1, &theirs, 1, 0) == 1
      || (memory >= 0 && pwrite(memory, code, 1, reinterpret_cast<off_t>(code)) == 1);
}}
static bool program_started() {{
  const int child = vfork();
  if (child == 0) {{
    execl("/proc/self/exe", "python", "-c", "", nullptr);
    _exit(126);
  }}
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) != 126;
}}
static bool process_started() {{
  for (long flags : {{(long)SIGCHLD, (long)(SIGCHLD | CLONE_PARENT), (long)(SIGCHLD | CLONE_VM | CLONE_VFORK)}}) {{
    const long child = syscall(SYS_clone, flags, 0, 0, 0, 0);
    if (child == 0) syscall(SYS_exit_group, 0);
    if (child > 0) return true;
  }}
  const int child = fork();
  if (child == 0) _exit(0);
  return child > 0;
}}
static bool server_reached(int port) {{
  sockaddr_in host{{}};
  host.sin_family = AF_INET, host.sin_port = htons(port), host.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connected(AF_INET, &host, sizeof host);
}}
"""

OUTSIDE = {
    "reads the environment": "environment_read()",
    "reads the parent's memory": "parents_memory_read()",
    "reads a key": 'tells("{key}")',
    "reads who uses the machine": 'open("/etc/passwd", O_RDONLY) >= 0 || open("/etc/group", O_RDONLY) >= 0',
    "writes into /tmp": 'written("/tmp")',
    "writes into /var/tmp": 'written("/var/tmp")',
    "writes into /dev/shm": 'written("/dev/shm")',
    "writes into the home": 'written("{home}")',
    "writes beside its library": "written(own_folder())",
    "rewrites its library": 'open((own_folder() + "/kernel.so").c_str(), O_WRONLY) >= 0',
    "kills its parent": "kill(getppid(), SIGKILL) == 0",
    "kills another process": "kill({victim}, SIGKILL) == 0",
    "leaves shared memory": "shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600) >= 0",
    "reaches a server": "server_reached({port})",
    "reaches an abstract socket": 'socket_reached("{abstract}", true)',
    "reaches a socket's file": 'socket_reached("{path}", false)',
    "reads a library that computes": 'open("{computes}", O_RDONLY) >= 0',
    "loads a library that computes": 'dlopen("{computes}", RTLD_NOW) != nullptr',
    "loads one of the system's": "loaded_by_name()",
    "makes code": "mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED",
    "makes code of a file": "maps_file()",
    "makes code of data": "changes_rights()",
    "rewrites its own code": "rewrites_code()",
    "makes all that is readable code": "personality(READ_IMPLIES_EXEC) >= 0",
    "starts a program": "program_started()",
    "starts a process": "process_started()",
    "hides its mappings": "prctl(PR_SET_DUMPABLE, 0) == 0",
}  # fmt: skip
"""Each is true where it succeeds."""

OTHERS = {
    "crash": "*reinterpret_cast<volatile int*>(8) = 1;",
    "hang": "volatile int64_t left = 1; while (left) {}",
    "memory in a file": """
      static char block[1 << 20];
      std::memset(block, 1, sizeof block);
      for (int i = 0; i < 150; ++i) {
        static int file = -1;
        if (i % 50 == 0) file = memfd_create("hoard", 0);
        (void)!write(file, block, sizeof block);
      }
      for (;;) pause();""",
    "disk": """
      static char block[1 << 20];
      for (int i = 0; i < 40; ++i) std::ofstream("file" + std::to_string(i)).write(block, sizeof block);
      for (;;) pause();""",
    "nested folders": """
      static int left = 1100;
      while (left-- > 0 && mkdir("nested", 0700) == 0 && chdir("nested") == 0) {}
      right(x, y);""",
    "output flood": "static char block[1 << 16]; for (;;) (void)!write(1, block, sizeof block);",
    "forged result": r'std::printf("{\"status\": \"passed\"}\n"); std::fflush(stdout);',
    "forged answer": r"""
      const std::string answer = "{\"done\": 0}";
      const uint32_t size = answer.size();
      for (int i = 3; i < 1024; ++i) (void)!write(i, &size, sizeof size), (void)!write(i, answer.data(), size);""",
    "exit": "std::_Exit(0);",
    "closes descriptors": "for (int i = 0; i < 1024; ++i) close(i);",
    "fills descriptors": 'while (open("/dev/null", O_RDONLY) >= 0) {} right(x, y);',
}  # fmt: skip

ATTACKS = ("outside", *OTHERS)

AT_LOAD = {
    "makes code at load": """
      static void* const made = mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      """,
    "leaves a process at load": """
      static int const child = fork();
      static int const waits = child == 0 ? pause() : 0;
      """,
    "leaves a daemon at load": """
      struct Early {
        Early() {
          if (fork() != 0) return;
          setsid();
          if (fork() != 0) _exit(0);
          prctl(PR_SET_NAME, "innocent");
          for (;;) sleep(1);
        }
      } early;
      """,
    "fork bomb at load": """
      struct Early {
        Early() {
          const int own = getpid();
          for (int i = 0; i < 8; ++i) (void)!fork();
          while (getpid() != own) pause();
        }
      } early;
      """,
    "memory in forks at load": """
      struct Early {
        Early() {
          int ends[2];
          char full;
          (void)!pipe(ends);
          for (int i = 0; i < 8; ++i)
            if (fork() == 0) {
              auto const block = static_cast<char volatile*>(std::malloc(30 << 20));
              for (int at = 0; at < 30 << 20; at += 4096) block[at] = 1;
              (void)!write(ends[1], &full, 1);
              for (;;) pause();
            }
          for (int i = 0; i < 8; ++i) (void)!read(ends[0], &full, 1);
          for (;;) pause();
        }
      } early;
      """,
    "exit at load": "struct Early { Early() { std::_Exit(0); } } early;",
    "closes descriptors at load": "struct Early { Early() { for (int i = 0; i < 1024; ++i) close(i); } } early;",
    "fills descriptors at load":
        'struct Early { Early() { while (open("/dev/null", O_RDONLY) >= 0) {} } } early;',
    "stops the clock": """
      #define SHOWN extern "C" __attribute__((visibility("default")))
      SHOWN int clock_gettime(clockid_t, timespec* t) { *t = {}; return 0; }
      SHOWN int gettimeofday(struct timeval* t, void*) { *t = {}; return 0; }
      """,
}  # fmt: skip
"""Beside a call that is right, and takes a millisecond."""

TASK = f"""
import torch

WORKLOADS = [{{"name": name, "n": {ELEMENTS} + k}} for k, name in enumerate({ATTACKS!r})]

class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1

def get_inputs(n={ELEMENTS}):
    return [torch.rand(n)]
"""


@dataclass(frozen=True)
class World:
    """What there is to be reached outside."""

    key: Path
    home: Path
    victim: int
    port: int
    abstract: str
    path: Path
    computes: Path


def calls(world: World) -> str:
    """The library of all attacks that are made in a call."""
    facts = {name: str(value) for name, value in vars(world).items()}
    tried = " ".join(
        f"if ({attack.format(**facts)}) achieved |= {1 << bit};" for bit, attack in enumerate(OUTSIDE.values())
    )
    outside = f"int achieved = 0; {tried} for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = {NOTHING}f + achieved;"
    cases = " ".join(f"case {ELEMENTS + k}: {{ {body} break; }}" for k, body in enumerate((outside, *OTHERS.values())))
    return f"{HEAD}{SYSTEM}void run(TensorView x, TensorView y) {{ (void)y; switch (x.numel()) {{ {cases} }} }}{TAIL}"


def at_load(name: str) -> str:
    """The library of one attack that begins before any call."""
    return f"{HEAD}{SYSTEM}{AT_LOAD[name]}void run(TensorView x, TensorView y) {{ usleep(1000); right(x, y); }}{TAIL}"


def taking(path: Path) -> str:
    """A source that has the assembler put a file's bytes into the library, for the kernel to find there."""
    kept = f'asm(".section .rodata\\nloot: .incbin \\"{path}\\"\\n.byte 0\\n.text\\n"); extern const char loot[];'
    body = f'void run(TensorView x, TensorView y) {{ if (std::strstr(loot, "{SECRET}")) right(x, y); }}'
    return f"{HEAD}{SYSTEM}{kept}{body}{TAIL}"


def including(path: Path) -> str:
    """A source whose compiler, reading a file as C++, would show it in its messages."""
    return f'{HEAD}\n#include "{path}"\nvoid run(TensorView, TensorView) {{}}{TAIL}'
