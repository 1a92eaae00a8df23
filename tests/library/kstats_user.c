#include "kstats_user.h"

#include <errno.h>
#include <pinprick/kstats.h>

int use_kstats_from_c(void) {
  struct pinprick_kstats* const statistic =
      pinprick_kstats_new("from-c", PINPRICK_KSTATS_DEFAULT_BITS);
  if (statistic == NULL) return 1;
  if (pinprick_kstats_find("from-c") != statistic) return 2;
  errno = 0;
  if (pinprick_kstats_new("from-c", 3) != NULL || errno != EEXIST) return 3;
  pinprick_kstats_record(statistic, 17);
  pinprick_kstats_start(statistic);
  pinprick_kstats_end(statistic);
  pinprick_kstats_record_since(statistic, pinprick_kstats_now(statistic));
  if (pinprick_kstats_stop(statistic) != 0) return 4;
  if ((*statistic->control & 1) != 0) return 5;
  if (pinprick_kstats_resume(statistic) != 0 || (*statistic->control & 1) == 0) return 6;
  if (pinprick_kstats_reset(statistic) != 0) return 7;
  pinprick_kstats_delete(statistic);
  errno = 0;
  if (pinprick_kstats_find("from-c") != NULL || errno != ENOENT) return 8;
  pinprick_kstats_record(NULL, 1);
  pinprick_kstats_add(NULL, 1);
  return 0;
}
