// Keep process ARG on a single core.
#define _GNU_SOURCE
#include <sched.h>

#include "attack.h"

int main(int argc, char** argv) {
  pid_t victim = (pid_t)atoi(argv[argc - 1]);
  cpu_set_t cores, one;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof cores, &cores) < 0) return refused("sched_getaffinity");
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &cores)) CPU_SET(core, &one);
  if (sched_setaffinity(victim, sizeof one, &one) < 0) return refused("sched_setaffinity");
  return achieved();
}
