// Records statistics of its own, by one command per line on stdin, each of which it answers with a
// line:
//     record N       the values 0 .. N-1 in `mine`
//     pairs N        begin() N times, each within a start and an end of `times`
//     start          a start of `times`, without an end
//     end            an end of `times`
//     drop           removes `mine`
//     make           makes `mine` again
//     many N         makes many-0 .. many-(N-1), with the values 0 .. 99,999 in steps of 100
// Ends at the end of its input, with status 0.
#include <pinprick/kstats.h>
#include <stdio.h>
#include <string.h>

#include "noinline.h"

NOINLINE long begin(long x) {
  __asm__ volatile("" : "+r"(x));
  return x + 1;
}

static void make_many(long n) {
  for (long i = 0; i < n; i++) {
    char name[32];
    snprintf(name, sizeof name, "many-%ld", i);
    struct pinprick_kstats* const one = pinprick_kstats_new(name, 3);
    for (uint64_t value = 0; one != NULL && value < 100000; value += 100)
      pinprick_kstats_record(one, value);
  }
}

int main(void) {
  struct pinprick_kstats* mine = pinprick_kstats_new("mine", 5);
  struct pinprick_kstats* const times = pinprick_kstats_new("times", 3);
  volatile long used = 0;
  char line[64], word[32];
  if (mine == NULL || times == NULL) return 1;
  setvbuf(stdout, NULL, _IOLBF, 0);
  while (fgets(line, sizeof line, stdin)) {
    long n = 0;
    if (sscanf(line, "%31s %ld", word, &n) < 1) continue;
    for (long i = 0; i < n && !strcmp(word, "record"); i++)
      pinprick_kstats_record(mine, (uint64_t)i);
    for (long i = 0; i < n && !strcmp(word, "pairs"); i++) {
      pinprick_kstats_start(times);
      used += begin(i);
      pinprick_kstats_end(times);
    }
    if (!strcmp(word, "start")) pinprick_kstats_start(times);
    if (!strcmp(word, "end")) pinprick_kstats_end(times);
    if (!strcmp(word, "drop")) pinprick_kstats_delete(mine);
    if (!strcmp(word, "many")) make_many(n);
    if (!strcmp(word, "make")) mine = pinprick_kstats_new("mine", 5);
    puts("done");
  }
  return 0;
}
