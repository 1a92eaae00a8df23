// A program with another unwinder than that of the library's build. Through return-probed and timed
// calls, more often than there are slots,
//   - exceptions pass, by the program's unwinder;
//   - threads are cancelled, by the libgcc_s that glibc loads for that;
//   - both find the same callers as without probes, and so does stepping with a libunwind.
#include <execinfo.h>
#include <pthread.h>
#include <unistd.h>
#include <unwind.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <stdexcept>

#include "pinprick/latency.h"
#include "pinprick/probe.h"

extern "C" int unw_backtrace(void**, int) __attribute__((weak));  // nongnu's

namespace {

constexpr int kThrown = 10'000;
constexpr int kCancelled = 9'000;

struct Frames {
  int of_program = 0, of_libgcc = 0, of_steps = 0;
};

Frames frames() {
  Frames found;
  _Unwind_Backtrace(
      [](_Unwind_Context*, void* count) {
        ++*static_cast<int*>(count);
        return _URC_NO_REASON;
      },
      &found.of_program);
  void* addresses[64];
  found.of_libgcc = backtrace(addresses, 64);
  if (unw_backtrace != nullptr) found.of_steps = unw_backtrace(addresses, 64);
  return found;
}

Frames seen;

}  // namespace

extern "C" {

[[gnu::noinline]] long throws(long x) {
  if (x > 0) throw std::runtime_error("thrown");
  seen = frames();
  return x + 1;
}

[[gnu::noinline]] long is_cancelled(long x) {
  pthread_cancel(pthread_self());
  pthread_testcancel();
  return x + 1;
}

}  // extern "C"

namespace {

// Not inlined or specialised by the compiler.
long (*volatile const call_throws)(long) = throws;
long (*volatile const call_cancelled)(long) = is_cancelled;

}  // namespace

int main() {
  call_throws(0);
  const Frames bare = seen;
  std::optional<pinprick::ReturnProbe> probes[2];
  std::optional<pinprick::Latency> latencies[2];
  const void* const functions[] = {reinterpret_cast<void*>(throws),
                                   reinterpret_cast<void*>(is_cancelled)};
  for (int i = 0; i < 2; ++i) {
    auto probe = pinprick::ReturnProbe::place(pinprick::ReturnProbeSpec{
        .where = functions[i], .on_return = [](pinprick::Registers&) {}, .allow_breakpoint = true});
    auto latency = pinprick::Latency::place(functions[i]);
    if (!probe || !latency) {
      std::puts((probe ? latency.error() : probe.error()).message().c_str());
      return 1;
    }
    probes[i] = *std::move(probe);
    latencies[i] = *std::move(latency);
  }

  int caught = 0;
  for (int i = 0; i < kThrown; ++i) {
    try {
      call_throws(1);
    } catch (const std::runtime_error&) {
      ++caught;
    }
  }
  // Without C++ clean-ups: glibc unwinds by libgcc, and another unwinder's __gxx_personality does
  // not understand that.
  int cancelled = 0;
  for (int i = 0; i < kCancelled; ++i) {
    pthread_t thread;
    void* result = nullptr;
    const auto run = [](void*) { return reinterpret_cast<void*>(call_cancelled(1) + 1); };
    if (pthread_create(&thread, nullptr, run, nullptr) != 0) return 1;
    pthread_join(thread, &result);
    cancelled += result == PTHREAD_CANCELED;
  }
  const bool returned = call_throws(0) == 1;
  std::printf("caught %d, by handlers %lu, timed %lu\n", caught, probes[0]->unwound(),
              latencies[0]->unwound());
  std::printf("cancelled %d, by handlers %lu, timed %lu\n", cancelled, probes[1]->unwound(),
              latencies[1]->unwound());
  std::printf("frames %d %d %d, without probes %d %d %d\n", seen.of_program, seen.of_libgcc,
              seen.of_steps, bare.of_program, bare.of_libgcc, bare.of_steps);
  const auto all = [](int count, auto... others) {
    return ((others == static_cast<uint64_t>(count)) && ...);
  };
  // Each probe's slot has a frame of its own.
  constexpr int kSlots = 2;
  return returned &&
                 all(kThrown, uint64_t(caught), probes[0]->unwound(), latencies[0]->unwound()) &&
                 all(kCancelled, uint64_t(cancelled), probes[1]->unwound(),
                     latencies[1]->unwound()) &&
                 bare.of_program > 2 && seen.of_program == bare.of_program + kSlots &&
                 seen.of_libgcc == bare.of_libgcc + kSlots &&
                 (bare.of_steps == 0 || seen.of_steps == bare.of_steps + kSlots)
             ? 0
             : 1;
}
