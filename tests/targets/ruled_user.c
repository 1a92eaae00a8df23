// Loads a library and calls its run_ruled(3).
//   ruled_user PATH           by dlopen
//   ruled_user PATH thread    in a thread, while others run
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

static atomic_int done;
static void* spin(void* nothing) {
  while (!done) continue;
  return nothing;
}

static void* load(void* path) {
  void* library = dlopen(path, RTLD_NOW);
  int (*run)(int) = library == NULL ? NULL : (int (*)(int))dlsym(library, "run_ruled");
  return run != NULL && run(3) == 0 ? NULL : path;
}

int main(int argc, char** argv) {
  if (argc == 2) return load(argv[1]) != NULL;
  pthread_t loader, other;
  void* failed = NULL;
  pthread_create(&other, NULL, spin, NULL);
  pthread_create(&loader, NULL, load, argv[1]);
  pthread_join(loader, &failed);
  done = 1;
  pthread_join(other, NULL);
  return failed != NULL;
}
