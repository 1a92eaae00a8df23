// Points in inline functions and templates, which several files have.
#pragma once

#include <pinprick/tracepoint.h>

PINPRICK_POINT_DECLARE(sites, inlined, int);

template <class T>
__attribute__((noinline)) int in_template(T value) {
  PINPRICK_POINT(sites, inlined, static_cast<int>(sizeof value));
  return static_cast<int>(value);
}

inline int in_inline(int value) {
  PINPRICK_POINT(sites, inlined, value);
  const int after = value + 1;
  PINPRICK_POINT(sites, inlined, after);
  return after;
}

int in_other_file(int value);
