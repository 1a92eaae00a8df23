// The library of loading.c. Its point is hidden, so it attaches functions for others.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

typedef void loading_function(void* data, long value);

long loading_run(long value);  // reaches the point
int loading_attach(loading_function* function, void* data);
int loading_calls(void);                    // returns 2, by way of another library's IFUNC
int loading_finds(void* address);           // returns whether the loader knows an object there
int loading_vfork(void (*in_child)(void));  // returns whether the child has ended as it should
void* loading_relocated(void);              // returns the address of loading_run

#ifdef __cplusplus
}
#endif
