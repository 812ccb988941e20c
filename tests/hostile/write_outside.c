// Create or overwrite the file ARG.
#include <fcntl.h>

#include "attack.h"

int main(int argc, char** argv) {
  int file = open(argv[argc - 1], O_CREAT | O_WRONLY | O_TRUNC, 0600);
  if (file < 0) return refused("open");
  if (write(file, "mine", 4) != 4) return refused("write");
  return achieved();
}
