// A program with SDT points (sdt_note.h). For each line `N` on stdin it works off N orders, and
// then prints how many there were so far, at how many of them shop:price was switched on, and the
// semaphore of shop:price: "orders 3 priced 0 semaphore 0". Ends at the end of its input.
//
//     shop:order       hit once for each order: one of two sites, for even and odd numbers
//                      (the number, and the number & 3 as an int)
//     shop:begin, end  around the work on an order: one site each
//     shop:price       with a semaphore (the price: 10 times the number)
//     shop:forms       arguments of all kinds, for each 64th order: the number, the number as an
//                      int, as a double, 7, shelf[0], shelf[1], a local variable (the number plus
//                      1), shelf[2] through two registers
//                      (shelf has 100, 101, ...)
//     till:order       another provider's point of that name
#include <stdio.h>

#include "../sdt_note.h"

__attribute__((section(".probes"), used)) volatile unsigned short shop_price_semaphore = 0;
static long orders, priced;
static volatile long work;
long shelf[8] = {100, 101, 102, 103, 104, 105, 106, 107};

static inline __attribute__((always_inline)) void note_order(long number) {
  SDT_POINT2_IN_REGISTERS("shop", "order", number, number & 3);
}

__attribute__((noinline)) static void take(long number) {
  if (number % 2 == 0) {
    note_order(number);
    work += number;
  } else {
    work -= number;
    note_order(number);
  }
}

__attribute__((noinline)) static void price(long number) {
  if (shop_price_semaphore == 0) return;
  ++priced;
  SDT_POINT1_GATED("shop", "price", "shop_price_semaphore", 10 * number);
  work += number;  // room for a jump at the site itself, which several owners can share
}

__attribute__((noinline)) static void show_forms(long number, double weight) {
  volatile long local = number + 1;
  const long two = 2;
  __asm__ volatile(SDT_NOTE("shop", "forms", "0",
                            "8@%0 -4@%1 8f@%2 1@$7 8@%3 8@8+shelf(%%rip) 8@%4 8@(%5,%6,8)")::"r"(
                       number),
                   "r"((int)number), "x"(weight), "m"(shelf[number & 7]), "m"(local), "r"(shelf),
                   "r"(two)
                   : "memory");
}

__attribute__((noinline)) static void work_off(long number) {
  SDT_POINT("shop", "begin");
  take(number);
  price(number);
  SDT_POINT1("till", "order", number);
  if (number % 64 == 0) show_forms(number, (double)number);
  work += shelf[number & 7];
  SDT_POINT("shop", "end");
}

int main(void) {
  for (long n; scanf("%ld", &n) == 1;) {
    for (long i = 0; i < n; ++i) work_off(orders++);
    printf("orders %ld priced %ld semaphore %d\n", orders, priced, shop_price_semaphore);
    fflush(stdout);
  }
  return 0;
}
