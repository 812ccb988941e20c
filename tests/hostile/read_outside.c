// Print what the file ARG holds: a private key, or another process's environment or memory map under /proc.
#include <fcntl.h>

#include "attack.h"

int main(int argc, char** argv) {
  static char text[4096];
  int file = open(argv[argc - 1], O_RDONLY);
  if (file < 0) return refused("open");
  ssize_t size = read(file, text, sizeof text);
  if (size <= 0) return refused("read");
  write(1, text, (size_t)size);
  return achieved();
}
