// The header pinprick/tracepoint.h, as a C program uses it.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// Returns 0, or the number of the step that failed.
int use_points_from_c(void);
int use_a_point_with_twelve_arguments(void);

#ifdef __cplusplus
}
#endif
