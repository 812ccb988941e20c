// Eight children, each with ARG MiB of its own: none alone is over a limit that the eight are over together.
#include "attack.h"

int main(int argc, char** argv) {
  size_t bytes = (size_t)atoi(argv[argc - 1]) << 20;
  for (int child = 0; child < 8; ++child) {
    if (fork() == 0) {
      char* block = malloc(bytes);
      if (!block) return refused("malloc");
      memset(block, child + 1, bytes);
      for (;;) pause();
    }
  }
  for (;;) pause();
}
