/* How long do requests take, by kind? The program records it itself, and other programs can read,
 * reset and stop the statistics while it runs. */
#include <errno.h>
#include <pinprick/kstats.h>
#include <stdio.h>
#include <string.h>

static unsigned long checksum;

static void handle(unsigned request) {
  for (unsigned i = 0; i < (request % 10 == 0 ? 20000u : 200u); ++i) checksum = checksum * 31 + i;
}

int main(void) {
  struct pinprick_kstats* const times =
      pinprick_kstats_new("request-times", PINPRICK_KSTATS_DEFAULT_BITS);
  struct pinprick_kstats* const sizes = pinprick_kstats_new("request-sizes", 0);
  /* The program works without them, too. */
  if (times == NULL || sizes == NULL) fprintf(stderr, "no statistics: %s\n", strerror(errno));
  if (pinprick_kstats_is_private(times)) fprintf(stderr, "no other program can read them\n");
  for (unsigned request = 0; request < 10000; ++request) {
    pinprick_kstats_record(sizes, request % 100);
    pinprick_kstats_start(times);
    handle(request);
    pinprick_kstats_end(times);
  }
  printf("handled 10000 requests, checksum %lu\n", checksum);
  pinprick_kstats_delete(times);
  pinprick_kstats_delete(sizes);
  return 0;
}
