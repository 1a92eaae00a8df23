// The other file of shop.c.
#include "shop.h"

void take_elsewhere(long number) {
  PINPRICK_POINT_SDT(shop, taken, number);
}
