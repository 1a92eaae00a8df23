#include "cli/measure/lock_patterns.h"

#include <fmt/format.h>

#include <cerrno>

#include "cli/messages/verb_messages.h"
#include "select/span.h"
#include "select/spec.h"

namespace pinprick::cli {
namespace {

// In glibc's pthread_mutex_t.
constexpr int kAtMutexKind = 16;

// A function, and which event its call or its return is.
struct LockFunction {
  std::string point;       // without %return
  std::string_view event;  // the name of the value that says what has happened
  std::string value = "$arg1";
  std::string mutex = {};      // of a condition
  std::string condition = {};  // under which it has done so; empty: always
  bool has_result = true;
};

bool is_at_return(const LockFunction& function) {
  return function.event != kReleased && function.event != kSignalled &&
         function.event != kWaitBegins;
}

bool may_wait(const LockFunction& function) {
  return is_at_return(function) && function.event != kTriedMutex &&
         function.event != kTriedByReader && function.event != kTriedByWriter;
}

std::string pattern_of(const LockFunction& function, const Options& options) {
  const bool at_return = is_at_return(function);
  std::string text = function.point;
  if (at_return) text += select::kReturnMark;
  text += at_return ? fmt::format(" {}=({}):sym", function.event, function.value)
                    : fmt::format(" {}={}", function.event, function.value);
  if (!function.mutex.empty()) text += fmt::format(" {}={}", kMutexOfWait, function.mutex);
  if (function.event == kTakenMutex || function.event == kTriedMutex)
    text += fmt::format(" {}=(*(u32*)({}+{}))", kMutexKind, function.value, kAtMutexKind);
  if (at_return && function.has_result) text += fmt::format(" {}=$retval:s32", kLockResult);
  if (at_return) text += fmt::format(" {}=$stack:{}", kLockStack, options.stack_frames);
  return function.condition.empty() ? text : text + " if " + function.condition;
}

std::vector<LockFunction> posix_threads() {
  std::vector<LockFunction> all;
  const auto add = [&](std::initializer_list<const char*> names, std::string_view event,
                       const char* value = "$arg1", const char* mutex = "") {
    for (const char* const name : names)
      all.push_back({std::string("pthread_") + name, event, value, mutex});
  };
  add({"mutex_lock", "mutex_timedlock", "mutex_clocklock"}, kTakenMutex);
  add({"mutex_trylock"}, kTriedMutex);
  add({"rwlock_rdlock", "rwlock_timedrdlock", "rwlock_clockrdlock"}, kTakenByReader);
  add({"rwlock_tryrdlock"}, kTriedByReader);
  add({"rwlock_wrlock", "rwlock_timedwrlock", "rwlock_clockwrlock"}, kTakenByWriter);
  add({"rwlock_trywrlock"}, kTriedByWriter);
  add({"mutex_unlock", "rwlock_unlock"}, kReleased);
  add({"cond_wait", "cond_timedwait", "cond_clockwait"}, kWaitBegins, "$arg1", "$arg2");
  add({"cond_wait", "cond_timedwait", "cond_clockwait"}, kWaited, "$arg1", "$arg2");
  add({"cond_signal", "cond_broadcast"}, kSignalled);
  return all;
}

// `option` is that of the text: a function, the lock as an expression or none, and a condition or
// none.
Result<LockFunction, Message> named_lock_function(const std::string& text, const char* option,
                                                  std::string_view event) {
  const select::Spec spec = select::split_spec(text);
  const bool is_one_value =
      spec.value.empty() || select::end_of_value(spec.value) == spec.value.size();
  if (spec.point.empty() || spec.at_return || !is_one_value || select::is_span(text))
    return fail(bad_lock_function(option, text));
  LockFunction function = {std::string(spec.point), event};
  function.has_result = false;
  if (!spec.value.empty()) function.value = std::string(spec.value);
  if (spec.condition) function.condition = "(" + std::string(*spec.condition) + ")";
  return function;
}

}  // namespace

bool is_recursive(uint64_t kind) {
  constexpr uint64_t kType = 3, kRecursive = 1;
  return (kind & kType) == kRecursive;
}

bool has_taken(uint64_t result) {
  const auto number = static_cast<int32_t>(result);
  return number == 0 || number == EOWNERDEAD;
}

// With --slower nothing is held as far as is known, so nothing that releases is of interest. Nor is
// what only tries, as it does not wait.
Result<std::vector<std::string>, Message> lock_patterns(const Options& options) {
  std::vector<LockFunction> functions;
  if (options.lockers.empty()) functions = posix_threads();
  for (const std::string& text : options.lockers) {
    auto function = named_lock_function(text, "--lock", kTakenOwn);
    if (!function) return fail(function.error());
    functions.push_back(*std::move(function));
  }
  for (const std::string& text : options.unlockers) {
    auto function = named_lock_function(text, "--unlock", kReleased);
    if (!function) return fail(function.error());
    functions.push_back(*std::move(function));
  }
  std::vector<std::string> patterns;
  for (const LockFunction& function : functions)
    if (may_wait(function) || !options.limits.slower_ns)
      patterns.push_back(pattern_of(function, options));
  return patterns;
}

}  // namespace pinprick::cli
