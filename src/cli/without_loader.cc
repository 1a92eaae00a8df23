// Functions of the dynamic loader, for the static program: the linker gives them to libfuse, which
// calls them to load modules. pinprick never asks for a module. Those of libc.a would load
// libraries of the system that the program runs on, with another libc.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names
extern "C" {

void* __wrap_dlopen(const char*, int) {
  return nullptr;
}
void* __wrap_dlsym(void*, const char*) {
  return nullptr;
}
int __wrap_dlclose(void*) {
  return -1;
}
char* __wrap_dlerror() {
  static char text[] = "a static program loads no libraries";
  return text;
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
