/* A shop with a point at each order. Two reports are attached to it one after the other. */
#include <pinprick/tracepoint.h>
#include <stdio.h>

PINPRICK_POINT_DECLARE(shop, order, int, double);
PINPRICK_POINT_DEFINE(shop, order);

static void sell(int item, double price) {
  PINPRICK_POINT(shop, order, item, price);
}

static void print_order(void* data, int item, double price) {
  (void)data;
  printf("item %d for %.2f\n", item, price);
}

static void add_price(void* sum, int item, double price) {
  (void)item;
  *(double*)sum += price;
}

int main(void) {
  double sum = 0;
  const struct pinprick_attachment reports[] = {
      PINPRICK_ATTACHMENT(shop, order, print_order, NULL, 1),
      PINPRICK_ATTACHMENT(shop, order, add_price, &sum, 0),
  };
  sell(1, 10); /* nothing is attached: this costs a nop */
  if (pinprick_points_attach(reports, 2) != 0) {
    fprintf(stderr, "%s\n", pinprick_points_error());
    return 1;
  }
  sell(2, 20);
  sell(3, 30.5);
  pinprick_points_detach(reports, 2);
  pinprick_points_synchronize(); /* now `sum` may go out of scope */
  sell(4, 40);
  printf("sum %.2f\n", sum);
  return 0;
}
