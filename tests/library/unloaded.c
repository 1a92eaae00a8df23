// A library that is loaded, probed, and unloaded. Built with ANEW, it is the next version of itself.
int unloaded_function(int n);
#ifdef ANEW
int unloaded_function(int n) {
  return n * 2000 / 7 + 2;
}
#else
int unloaded_function(int n) {
  return n * 1000 / 7 + 1;
}
#endif
