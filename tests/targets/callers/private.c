// libprivate.so
long private_value(void) {
  return 42;
}
