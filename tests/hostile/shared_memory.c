// Park memory in a System V segment, which outlives every process.
#include <sys/ipc.h>
#include <sys/shm.h>

#include "attack.h"

int main(void) {
  int segment = shmget(IPC_PRIVATE, 1 << 20, IPC_CREAT | 0600);
  if (segment < 0) return refused("shmget");
  shmctl(segment, IPC_RMID, 0);  // polite where it is not refused
  return achieved();
}
