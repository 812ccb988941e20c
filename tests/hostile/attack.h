// What every attack here says on stdout when it got what it wanted, and how it ends when it did not.
#pragma once
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int achieved(void) {
  puts("achieved");
  fflush(stdout);
  return 0;
}

static int refused(const char* what) {
  printf("refused: %s: %s\n", what, strerror(errno));
  return 1;
}
