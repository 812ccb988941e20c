// Reach the service behind the socket file ARG, as a container engine's is.
#include <sys/socket.h>
#include <sys/un.h>

#include "attack.h"

int main(int argc, char** argv) {
  struct sockaddr_un server = {.sun_family = AF_UNIX};
  strncpy(server.sun_path, argv[argc - 1], sizeof server.sun_path - 1);
  int link = socket(AF_UNIX, SOCK_STREAM, 0);
  if (link < 0) return refused("socket");
  if (connect(link, (struct sockaddr*)&server, sizeof server) < 0) return refused("connect");
  return achieved();
}
