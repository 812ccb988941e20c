// ARG MiB in a memory file that nobody maps: no process's resident size shows it.
#define _GNU_SOURCE
#include <sys/mman.h>

#include "attack.h"

int main(int argc, char** argv) {
  static char block[1 << 20];
  memset(block, 1, sizeof block);
  int file = memfd_create("hoard", 0);
  for (int n = atoi(argv[argc - 1]); n > 0; --n)
    if (write(file, block, sizeof block) < 0) return refused("write");
  for (;;) pause();
}
