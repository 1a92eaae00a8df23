// The points of shop.c, which lie in both of its files.
#pragma once

#include <pinprick/tracepoint.h>

PINPRICK_POINT_DECLARE(shop, taken, long);
PINPRICK_POINT_DECLARE(shop, sent, long);

void take_elsewhere(long number);
