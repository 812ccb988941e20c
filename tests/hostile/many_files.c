// Fill the disk past the limit on one file. ARG: "small" files, "unnamed" ones that are open and nowhere to be found, or
// small ones in a folder that is "shut" to whoever might count them.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>

#include "attack.h"

int main(int argc, char** argv) {
  static char block[1 << 20];
  const char* how = argv[argc - 1];
  mkdir("many", 0700);
  int folder = open("many", O_DIRECTORY);
  for (int n = 0; n < 40; ++n) {
    char name[16];
    snprintf(name, sizeof name, "f%d", n);
    int file = openat(folder, name, O_CREAT | O_WRONLY, 0600);
    if (write(file, block, sizeof block) != sizeof block) return refused("write");
    if (!strcmp(how, "unnamed")) unlinkat(folder, name, 0);
    else close(file);
  }
  if (!strcmp(how, "shut")) chmod("many", 0);
  for (;;) pause();
}
