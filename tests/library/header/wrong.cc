// Does not compile: the function has another prototype. Also compiled as C.
#include <pinprick/tracepoint.h>

PINPRICK_POINT_DECLARE(wrong, prototype, int);

static void function(void* data, const char* text);
int attach(void);
int attach(void) {
#ifdef RIGHT
  return 0;
#else
  return PINPRICK_POINT_ATTACH(wrong, prototype, function, NULL, 0);
#endif
}
static void function(void* data, const char* text) {
  (void)data;
  (void)text;
  (void)function;
}
