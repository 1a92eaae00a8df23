/* Named latency statistics that a program records about itself. For C (C11) and C++ (C++20).
 *
 *     struct pinprick_kstats* reads = pinprick_kstats_new("reads", PINPRICK_KSTATS_DEFAULT_BITS);
 *     ...
 *     pinprick_kstats_start(reads);
 *     read_it();
 *     pinprick_kstats_end(reads);
 *
 * A statistic is a log-linear histogram of any 64-bit values, with 2^bits slots per power of two,
 * for each CPU. It is in a file in memory, where `pinprick kstats -p PID` and any other program can
 * read, stop, resume and reset it at any time. The file is removed when the program exits. If the
 * program dies, the file stays until a pinprick cleans up.
 *
 * Any thread may call any function. Signal handlers and handlers of probes may call _record,
 * _start, _end, _now and _record_since: these take no lock and allocate nothing, and only a
 * thread's first start enters the kernel. All functions accept NULL for a statistic: those that
 * record then do nothing, so a program need not look whether _new has failed.
 *
 * A forked child has the same statistics under the same handles, with all counts at zero and no
 * start pending. Its first record makes a file of its own, by system calls. A child of vfork, which
 * shares its parent's memory, records for its parent.
 */
#ifndef PINPRICK_KSTATS_H
#define PINPRICK_KSTATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#include <cerrno>
#include <utility>
extern "C" {
#endif

#define PINPRICK_KSTATS_DEFAULT_BITS 3
#define PINPRICK_KSTATS_MAX_BITS 5

/* The rest of it is libpinprick's own. */
struct pinprick_kstats {
  const volatile unsigned char* control; /* bit 0: records are added */
};

/* Makes a statistic. The name has 1 to 63 bytes, and no '/', blank or control character; it is not
 * ".", ".." or "_control" and does not start with "GAP-". Returns NULL and sets errno: EINVAL for a
 * bad name or more than PINPRICK_KSTATS_MAX_BITS, EEXIST if the name is taken, ENOSPC if there are
 * 4,096 statistics now, or 16 GiB of their values, ENOMEM if there is no memory. If no file can be
 * made, or extended, the statistic works, but no other process can see it: see
 * pinprick_kstats_is_private(). The first call waits up to 10 ms if the program has just been
 * started, to measure the clock. */
struct pinprick_kstats* pinprick_kstats_new(const char* name, unsigned bits);

/* Returns the statistic with this name, or NULL with errno ENOENT. */
struct pinprick_kstats* pinprick_kstats_find(const char* name);

/* Removes a statistic. No thread may use it meanwhile, or afterwards. */
void pinprick_kstats_delete(struct pinprick_kstats* statistic);

/* Returns whether no other process can see the statistic: the folder for its file, the space in it,
 * or the right to write there is missing. */
bool pinprick_kstats_is_private(const struct pinprick_kstats* statistic);

/* While a statistic is stopped, records add nothing. These return 0, or -1 with errno: EINVAL for
 * NULL, EBUSY if another process keeps the file locked for a second, EFBIG if RLIMIT_FSIZE does not
 * allow the program to write there, or another error of the file. Values that are recorded
 * meanwhile count before or after the change. _resume and _reset also drop the starts that have no
 * end yet. */
int pinprick_kstats_stop(struct pinprick_kstats* statistic);
int pinprick_kstats_resume(struct pinprick_kstats* statistic);
int pinprick_kstats_reset(struct pinprick_kstats* statistic);

/* Adds a value, even if the statistic is stopped. For pinprick_kstats_record(), which asks first.
 */
void pinprick_kstats_add(struct pinprick_kstats* statistic, uint64_t value);

/* Records a value. */
static inline void pinprick_kstats_record(struct pinprick_kstats* statistic, uint64_t value) {
  if (statistic != NULL && (*statistic->control & 1) != 0) pinprick_kstats_add(statistic, value);
}

/* The time from a start to the next end on the same thread is recorded, in nanoseconds of the time
 * stamp counter. If there are several starts before an end, the first one counts. The other ones,
 * and ends without a start, are counted as unmatched. */
void pinprick_kstats_start(struct pinprick_kstats* statistic);
void pinprick_kstats_end(struct pinprick_kstats* statistic);

/* The same for times that nest, or that end on another thread: the caller keeps the start. A start
 * from before a reset or a resumption is dropped. */
struct pinprick_kstats_mark {
  uint64_t ticks;
  uint64_t tag;
};
struct pinprick_kstats_mark pinprick_kstats_now(const struct pinprick_kstats* statistic);
void pinprick_kstats_record_since(struct pinprick_kstats* statistic,
                                  struct pinprick_kstats_mark mark);

#ifdef __cplusplus
} /* extern "C" */

namespace pinprick {

/* Owns a statistic. If it could not be made, it is false, error() says why, and nothing is
 * recorded.
 */
class Kstats {
 public:
  explicit Kstats(const char* name, unsigned bits = PINPRICK_KSTATS_DEFAULT_BITS)
      : statistic_(pinprick_kstats_new(name, bits)), error_(statistic_ == nullptr ? errno : 0) {}
  Kstats(Kstats&& other) noexcept
      : statistic_(std::exchange(other.statistic_, nullptr)), error_(other.error_) {}
  Kstats& operator=(Kstats&& other) noexcept {
    std::swap(statistic_, other.statistic_);
    std::swap(error_, other.error_);
    return *this;
  }
  Kstats(const Kstats&) = delete;
  Kstats& operator=(const Kstats&) = delete;
  ~Kstats() { pinprick_kstats_delete(statistic_); }

  explicit operator bool() const { return statistic_ != nullptr; }
  int error() const { return error_; } /* errno of pinprick_kstats_new(), or 0 */
  pinprick_kstats* get() const { return statistic_; }

  bool is_private() const { return pinprick_kstats_is_private(statistic_); }
  void record(uint64_t value) { pinprick_kstats_record(statistic_, value); }
  void start() { pinprick_kstats_start(statistic_); }
  void end() { pinprick_kstats_end(statistic_); }
  /* Return whether it is done; else errno says why not. */
  bool stop() { return pinprick_kstats_stop(statistic_) == 0; }
  bool resume() { return pinprick_kstats_resume(statistic_) == 0; }
  bool reset() { return pinprick_kstats_reset(statistic_) == 0; }

 private:
  pinprick_kstats* statistic_;
  int error_;
};

/* Records how long it lives. Timers of one statistic may nest. */
class Timer {
 public:
  explicit Timer(Kstats& statistic) : Timer(statistic.get()) {}
  explicit Timer(pinprick_kstats* statistic)
      : statistic_(statistic), start_(pinprick_kstats_now(statistic)) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() { pinprick_kstats_record_since(statistic_, start_); }

 private:
  pinprick_kstats* statistic_;
  pinprick_kstats_mark start_;
};

} /* namespace pinprick */
#endif

#endif
