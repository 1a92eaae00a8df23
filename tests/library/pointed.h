// The library of pointed.c. Its points are hidden, so it attaches functions for others.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

typedef void pointed_function(void* data, long value);

long pointed_run(long value);
// As PINPRICK_POINT_ATTACH and PINPRICK_POINT_DETACH.
int pointed_attach(pointed_function* function, void* data);
int pointed_detach(pointed_function* function, void* data);

#ifdef __cplusplus
}
#endif
