// Fill the disk: a file of ARG MiB in the current folder.
#include <fcntl.h>
#include <signal.h>

#include "attack.h"

int main(int argc, char** argv) {
  static char block[1 << 20];
  signal(SIGXFSZ, SIG_IGN);
  int file = open("big", O_CREAT | O_WRONLY, 0600);
  for (int n = atoi(argv[argc - 1]); n > 0; --n)
    if (write(file, block, sizeof block) != sizeof block) return refused("write");
  return achieved();
}
