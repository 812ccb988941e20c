// Double the number of processes as long as the machine lets it; nobody ends by himself. ARG: stop at 2^ARG.
#include "attack.h"

int main(int argc, char** argv) {
  for (int generation = atoi(argv[argc - 1]); generation > 0; --generation) fork();
  for (;;) pause();
}
