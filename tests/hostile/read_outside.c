// Print what the file ARG holds: a private key, or another process's environment or memory map under /proc; "parent" is
// the memory map of the one that started this one.
#include <fcntl.h>

#include "attack.h"

int main(int argc, char** argv) {
  static char text[4096];
  static char path[64];
  snprintf(path, sizeof path, "/proc/%d/maps", getppid());
  int file = open(strcmp(argv[argc - 1], "parent") ? argv[argc - 1] : path, O_RDONLY);
  if (file < 0) return refused("open");
  ssize_t size = read(file, text, sizeof text);
  if (size <= 0) return refused("read");
  write(1, text, (size_t)size);
  return achieved();
}
