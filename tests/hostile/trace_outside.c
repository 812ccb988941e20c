// Take over process ARG as a debugger would, or read its memory.
#define _GNU_SOURCE
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "attack.h"

int main(int argc, char** argv) {
  pid_t victim = (pid_t)atoi(argv[argc - 1]);
  char byte;
  struct iovec here = {&byte, 1}, there = {(void*)0x400000, 1};
  if (ptrace(PTRACE_ATTACH, victim, 0, 0) == 0) return achieved();
  if (process_vm_readv(victim, &here, 1, &there, 1, 0) == 1) return achieved();
  return refused("ptrace");
}
