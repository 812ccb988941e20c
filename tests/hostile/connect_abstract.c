// Usage: connect_abstract NAME. Connects to a local service whose socket has a name and no file.
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "attack.h"

int main(int count, char** words) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path + 1, words[1], sizeof address.sun_path - 2);
  const int channel = socket(AF_UNIX, SOCK_STREAM, 0);
  if (channel < 0) return refused("socket");
  const socklen_t size = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(words[1]);
  if (connect(channel, (struct sockaddr*)&address, size) != 0) return refused("connect");
  return achieved();
}
