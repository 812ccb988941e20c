// Kill process ARG; "parent" is the one that started this one.
#include <signal.h>

#include "attack.h"

int main(int argc, char** argv) {
  const char* whom = argv[argc - 1];
  pid_t victim = strcmp(whom, "parent") == 0 ? getppid() : (pid_t)atoi(whom);
  if (kill(victim, SIGKILL) < 0) return refused("kill");
  return achieved();
}
