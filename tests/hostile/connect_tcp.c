// Reach a server on this machine's loopback, port ARG.
#include <arpa/inet.h>
#include <sys/socket.h>

#include "attack.h"

int main(int argc, char** argv) {
  struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[argc - 1]))};
  server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int link = socket(AF_INET, SOCK_STREAM, 0);
  if (link < 0) return refused("socket");
  if (connect(link, (struct sockaddr*)&server, sizeof server) < 0) return refused("connect");
  return achieved();
}
