// Write through a null pointer.
#include "attack.h"

int main(void) {
  volatile int* nowhere = 0;
  *nowhere = 1;
  return achieved();
}
