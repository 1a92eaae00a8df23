#include "pinprick/kstats.h"

#include <cerrno>
#include <new>

#include "library/statistics/record_store.h"
#include "pinprick/handler.h"
#include "runtime/record.h"

using pinprick::Result;
using pinprick::SystemError;
using pinprick::library::RecordStore;
using pinprick::runtime::Mark;
using pinprick::runtime::Recorder;

namespace {

// What the header shows of a statistic is the start of a Recorder.
static_assert(offsetof(pinprick_kstats, control) == offsetof(Recorder, control));

Recorder* recorder_of(pinprick_kstats* statistic) {
  return reinterpret_cast<Recorder*>(statistic);
}
const Recorder* recorder_of(const pinprick_kstats* statistic) {
  return reinterpret_cast<const Recorder*>(statistic);
}

int status_of(const Result<void, SystemError>& result) {
  if (result) return 0;
  errno = result.error().number;
  return -1;
}

pinprick_kstats* handle_of(const Result<Recorder*, SystemError>& result) {
  if (result) return reinterpret_cast<pinprick_kstats*>(*result);
  errno = result.error().number;
  return nullptr;
}

// Runs what may throw for want of memory, or opens files, where a thread may be cancelled.
template <class F>
auto without_exceptions(F&& f) noexcept -> decltype(f()) {
  const pinprick::detail::Uncancelled uncancelled;
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return pinprick::fail(SystemError{ENOMEM});
  }
}

template <class F>
int change(const pinprick_kstats* statistic, F&& f) noexcept {
  if (statistic == nullptr) return status_of(pinprick::fail(SystemError{EINVAL}));
  return status_of(without_exceptions([&] { return f(*recorder_of(statistic)); }));
}

}  // namespace

pinprick_kstats* pinprick_kstats_new(const char* name, unsigned bits) {
  if (name == nullptr) return handle_of(pinprick::fail(SystemError{EINVAL}));
  return handle_of(without_exceptions([&] { return RecordStore::get().add(name, bits); }));
}

pinprick_kstats* pinprick_kstats_find(const char* name) {
  if (name == nullptr) return handle_of(pinprick::fail(SystemError{ENOENT}));
  return handle_of(without_exceptions([&] { return RecordStore::get().find(name); }));
}

void pinprick_kstats_delete(pinprick_kstats* statistic) {
  if (statistic != nullptr) RecordStore::get().remove(*recorder_of(statistic));
}

bool pinprick_kstats_is_private(const pinprick_kstats* statistic) {
  return statistic == nullptr || RecordStore::get().is_private(*recorder_of(statistic));
}

int pinprick_kstats_stop(pinprick_kstats* statistic) {
  return change(statistic, [](const Recorder& recorder) {
    return RecordStore::get().set_running(recorder, false);
  });
}

int pinprick_kstats_resume(pinprick_kstats* statistic) {
  return change(statistic, [](const Recorder& recorder) {
    return RecordStore::get().set_running(recorder, true);
  });
}

int pinprick_kstats_reset(pinprick_kstats* statistic) {
  return change(statistic,
                [](const Recorder& recorder) { return RecordStore::get().reset(recorder); });
}

void pinprick_kstats_start(pinprick_kstats* statistic) {
  if (statistic != nullptr) pinprick::runtime::start(*recorder_of(statistic));
}

void pinprick_kstats_end(pinprick_kstats* statistic) {
  if (statistic != nullptr) pinprick::runtime::end(*recorder_of(statistic));
}

pinprick_kstats_mark pinprick_kstats_now(const pinprick_kstats* statistic) {
  if (statistic == nullptr) return {0, 0};
  const Mark mark = pinprick::runtime::mark_now(*recorder_of(statistic));
  return {mark.ticks, mark.tag};
}

void pinprick_kstats_record_since(pinprick_kstats* statistic, pinprick_kstats_mark mark) {
  if (statistic != nullptr)
    pinprick::runtime::record_since(*recorder_of(statistic), {mark.ticks, mark.tag});
}
