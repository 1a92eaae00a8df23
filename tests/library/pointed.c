// A library with points, which is loaded and unloaded. Also built with other compilers and options
// by tracepoint_header.sh.
#include "pointed.h"

#include <pinprick/tracepoint.h>

PINPRICK_POINT_DECLARE(pointed, hit, long);
PINPRICK_POINT_DECLARE(pointed, rest);
PINPRICK_POINT_DEFINE(pointed, hit);
PINPRICK_POINT_DEFINE(pointed, rest);

long pointed_run(long value) {
  PINPRICK_POINT(pointed, hit, value);
  PINPRICK_POINT(pointed, rest);
  return value;
}

int pointed_attach(pointed_function* function, void* data) {
  return PINPRICK_POINT_ATTACH(pointed, hit, function, data, 0);
}

int pointed_detach(pointed_function* function, void* data) {
  return PINPRICK_POINT_DETACH(pointed, hit, function, data);
}
