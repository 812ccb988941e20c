// Write to both streams for ever.
#include "attack.h"

int main(void) {
  static char block[1 << 16];
  memset(block, 'x', sizeof block);
  for (;;) {
    write(1, block, sizeof block);
    write(2, block, sizeof block);
  }
}
