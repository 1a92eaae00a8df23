// A library that is loaded, probed, and unloaded.
int unloaded_function(int n);
int unloaded_function(int n) {
  return n * 1000 / 7 + 1;
}
