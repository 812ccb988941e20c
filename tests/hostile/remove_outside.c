// Rename the file ARG away, or failing that remove it.
#include "attack.h"

int main(int argc, char** argv) {
  if (rename(argv[argc - 1], "loot") == 0 || unlink(argv[argc - 1]) == 0) return achieved();
  return refused("rename");
}
