// Leave a process behind: two forks and a session of its own, with every stream closed, while the first one ends well.
#include <signal.h>

#include "attack.h"

int main(void) {
  if (fork() == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    for (int stream = 0; stream < 3; ++stream) close(stream);
    for (;;) pause();
  }
  usleep(50000);  // the daemon is on its way before the first one ends
  return achieved();
}
