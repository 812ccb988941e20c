// Never end, and ignore every polite request to.
#include <signal.h>

int main(void) {
  signal(SIGTERM, SIG_IGN);
  signal(SIGINT, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  for (;;) {
  }
}
