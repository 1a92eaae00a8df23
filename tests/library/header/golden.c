// A small function with a point, and without. Also compiled as C++.
#ifdef WITH_POINT
#include <pinprick/tracepoint.h>
PINPRICK_POINT_DECLARE(golden, small, int, const char*);
#define POINT(...) PINPRICK_POINT(golden, small, __VA_ARGS__)
#else
#define POINT(...)
#endif

#ifdef __cplusplus
extern "C"
#endif
    int
    small(int number, const char* text);

int small(int number, const char* text) {
  POINT(number + 7, text + 1);
  return number * 3 + text[2];
}
