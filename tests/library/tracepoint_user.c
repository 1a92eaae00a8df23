#include "tracepoint_user.h"

#include <pinprick/tracepoint.h>
#include <string.h>

struct pair {
  int first;
  double second;
};
typedef int (*operation)(int);

PINPRICK_POINT_DECLARE(from_c, none);
PINPRICK_POINT_DECLARE(from_c, eight, int, const char*, double, float, struct pair, unsigned char,
                       short, operation);
PINPRICK_POINT_DECLARE(from_c, twelve, int, const char*, double, float, struct pair, unsigned char,
                       short, operation, long, unsigned, double, signed char);
PINPRICK_POINT_DEFINE(from_c, none);
PINPRICK_POINT_DEFINE(from_c, twelve);
PINPRICK_POINT_DEFINE(from_c, eight);

static int twice(int n) {
  return 2 * n;
}

static int evaluated;
static int note_evaluation(int n) {
  ++evaluated;
  return n;
}

static void count(void* data) {
  ++*(int*)data;
}

static void check(void* data, int a, const char* b, double c, float d, struct pair e,
                  unsigned char f, short g, operation h) {
  const int right = a == 17 && strcmp(b, "text") == 0 && c == 1.5 && d == 2.5F && e.first == 3 &&
                    e.second == 4.5 && f == 250 && g == -5 && h(6) == 12;
  if (right) ++*(int*)data;
}

static void check_twelve(void* data, int a, const char* b, double c, float d, struct pair e,
                         unsigned char f, short g, operation h, long i, unsigned j, double k,
                         signed char l) {
  int right = 0;
  check(&right, a, b, c, d, e, f, g, h);
  if (right == 1 && i == -6000000000 && j == 4000000000U && k == 7.25 && l == -8) ++*(int*)data;
}

static void pass_twelve(void) {
  const struct pair pair = {3, 4.5};
  PINPRICK_POINT(from_c, twelve, 17, "text", 1.5, 2.5F, pair, 250, -5, twice, -6000000000,
                 4000000000U, 7.25, -8);
  PINPRICK_POINT_SDT(from_c, twelve, 17, "text", 1.5, 2.5F, pair, 250, -5, twice, -6000000000,
                     4000000000U, 7.25, -8);
}

int use_a_point_with_twelve_arguments(void) {
  int right = 0;
  pass_twelve();
  if (PINPRICK_POINT_ATTACH(from_c, twelve, check_twelve, &right, 0) != 0) return 1;
  pass_twelve();
  if (right != 2) return 2;
  if (PINPRICK_POINT_DETACH(from_c, twelve, check_twelve, &right) != 0) return 3;
  pass_twelve();
  return right == 2 ? 0 : 4;
}

static void pass(void) {
  const struct pair pair = {3, 4.5};
  PINPRICK_POINT(from_c, none);
  if (PINPRICK_POINT_ENABLED(from_c, eight)) note_evaluation(0);
  PINPRICK_POINT(from_c, eight, note_evaluation(17), "text", 1.5, 2.5F, pair, 250, -5, twice);
  PINPRICK_POINT_SDT(from_c, eight, note_evaluation(17), "text", 1.5, 2.5F, pair, 250, -5, twice);
}

int use_points_from_c(void) {
  int counted = 0, right = 0;
  evaluated = 0;
  const struct pinprick_attachment all[] = {
      PINPRICK_ATTACHMENT(from_c, none, count, &counted, 0),
      PINPRICK_ATTACHMENT(from_c, eight, check, &right, 0),
  };
  pass();
  if (counted != 0 || evaluated != 0) return 1;
  if (pinprick_points_attach(all, 2) != 0) return 2;
  pass();
  if (counted != 1 || right != 2 || evaluated != 3) return 3;
  errno = 0;
  if (pinprick_points_attach(all, 2) != -1 || errno != EEXIST) return 4;
  if (pinprick_points_detach(all, 2) != 0) return 5;
  errno = 0;
  if (pinprick_points_detach(all, 2) != -1 || errno != ENOENT) return 6;
  if (strlen(pinprick_points_error()) == 0) return 7;
  pass();
  if (counted != 1 || right != 2 || evaluated != 3) return 8;
  return pinprick_points_synchronize();
}
