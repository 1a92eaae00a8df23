// The provider of LTTng's tracepoint that lttng_target reaches. LTTng's header reads this one
// again.
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "lttng_points.h"

#if !defined(PINPRICK_BENCH_LTTNG_POINTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PINPRICK_BENCH_LTTNG_POINTS_H

#include <lttng/tracepoint.h>

#include <cstdint>

LTTNG_UST_TRACEPOINT_EVENT(bench, hit, LTTNG_UST_TP_ARGS(uint64_t, number),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, number, number)))

#endif

#include <lttng/tracepoint-event.h>
