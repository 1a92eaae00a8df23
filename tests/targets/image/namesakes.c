// Two files, each with a function `work` of its own.
__attribute__((noinline)) static int work(int x) {
  __asm__ volatile("" : "+r"(x));
#ifdef SECOND
  return x * 3;
#else
  return x + 1;
#endif
}

#ifdef SECOND
int second(int x) { return work(x); }
#else
int second(int x);
int main(int argc, char** argv) {
  (void)argv;
  int sum = 0;
  for (int i = 0; i < 3; ++i) sum += work(i);
  for (int i = 0; i < 5; ++i) sum += second(i);
  return sum == argc;
}
#endif
