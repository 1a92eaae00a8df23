// What runs when a probe is hit: any callable.
//
//     Handler([&](Registers& registers) { ... })          probes; of return probes also bool(...)
//     Handler([&](Registers& registers, void* data) ...)  return probes with data for each call
//     on_call<int(const char*, size_t)>([&](const char* name, size_t size) { ... })
//     on_return<int>([&](int result) { ... })
//     integer_only<&function>(user)                       the fast way, see below
//
// A handler runs in the thread that hit the probe, before the instruction, in place of whatever
// that thread was doing:
//
//   - It may do what the code around the probe may do at this point. A handler in the middle of
//     malloc must not allocate; at the entry of malloc it may. It must not wait for a lock that the
//     probed code can hold.
//   - Hits of probes while it runs, in its own thread, run no handlers: each probe counts them as
//     missed.
//   - It may place, enable, disable and remove probes, itself included. What it removes may run
//     until it returns, and is destroyed later.
//   - An exception that it throws ends there, and is counted (handler_exceptions()). It must not
//     leave by longjmp, nor end its thread.
//   - It may fork; handlers go on in both processes.
//
// Vector and floating-point registers: a compiler uses them for anything, copying for example. So
// all of them are saved around handlers, which takes some hundred nanoseconds, and handlers may see
// and change them. A function that is compiled without them can be declared so, and costs a few
// nanoseconds:
//
//     PINPRICK_INTEGER_ONLY void count(Registers&) noexcept { ++hits; }
//     probe.pre = integer_only<&count>();
//
// Everything that it calls has to be compiled so as well. Getting this wrong damages the program's
// floating-point data, silently.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "pinprick/registers.h"

namespace pinprick {

namespace detail {

using Call = bool (*)(Registers& registers, void* closure, void* activation) noexcept;

void count_handler_exception() noexcept;

// f(registers) or f(registers, data); what answers nothing answers true.
template <class F>
bool invoke_handler(F& f, Registers& registers, void* data) {
  const auto run = [&]() -> decltype(auto) {
    if constexpr (std::is_invocable_v<F&, Registers&, void*>)
      return f(registers, data);
    else
      return f(registers);
  };
  if constexpr (std::is_convertible_v<decltype(run()), bool>) {
    return run();
  } else {
    run();
    return true;
  }
}

template <class F>
bool call_and_catch(Registers& registers, void* closure, void* data) noexcept {
  try {
    return invoke_handler(*static_cast<F*>(closure), registers, data);
  } catch (...) {
    count_handler_exception();
    return true;
  }
}

template <auto kFunction>
PINPRICK_INTEGER_ONLY bool call_integer_only(Registers& registers, void* user,
                                             void* data) noexcept {
  using F = decltype(kFunction);
  if constexpr (std::is_nothrow_invocable_r_v<bool, F, Registers&, void*, void*>) {
    return kFunction(registers, user, data);
  } else if constexpr (std::is_nothrow_invocable_v<F, Registers&, void*, void*>) {
    kFunction(registers, user, data);
  } else if constexpr (std::is_nothrow_invocable_v<F, Registers&, void*>) {
    kFunction(registers, user);
  } else {
    static_assert(std::is_nothrow_invocable_v<F, Registers&>,
                  "(Registers&), (Registers&, void* user) or (Registers&, void* user, void* data); "
                  "and noexcept");
    kFunction(registers);
  }
  return true;
}

}  // namespace detail

class Handler {
 public:
  Handler() = default;  // none

  template <class F>
  requires(std::is_invocable_v<F&, Registers&> || std::is_invocable_v<F&, Registers&, void*>)
      Handler(F f)
      : call_(&detail::call_and_catch<F>), closure_(std::make_shared<F>(std::move(f))) {}

  Handler(detail::Call function, void* user, bool is_integer_only)
      : call_(function), closure_(std::shared_ptr<void>(), user), integer_only_(is_integer_only) {}

  explicit operator bool() const { return call_ != nullptr; }
  detail::Call call() const { return call_; }
  void* closure() const { return closure_.get(); }
  bool integer_only() const { return integer_only_; }

 private:
  detail::Call call_ = nullptr;
  std::shared_ptr<void> closure_;
  bool integer_only_ = false;
};

// A function marked PINPRICK_INTEGER_ONLY: (Registers&), (Registers&, void* user) or
// (Registers&, void* user, void* data); noexcept. `user` has to live as long as the handler.
template <auto kFunction>
Handler integer_only(void* user = nullptr) {
  return Handler(&detail::call_integer_only<kFunction>, user, true);
}

namespace detail {

// Reads arguments in the order of the ABI.
class Arguments {
 public:
  explicit Arguments(const Registers& registers) : registers_(registers) {}

  template <class T>
  T next() {
    if constexpr (std::is_same_v<T, float>) {
      const double raw = registers_.vector(vectors_++);
      float value;
      std::memcpy(&value, &raw, sizeof value);
      return value;
    } else if constexpr (std::is_same_v<T, double>) {
      return registers_.vector(vectors_++);
    } else {
      return as<T>(registers_.argument(integers_++));
    }
  }

  template <class T>
  PINPRICK_INTEGER_ONLY static T as(uint64_t value) {
    static_assert(std::is_pointer_v<T> || std::is_integral_v<T> || std::is_enum_v<T>,
                  "integers, pointers, float and double");
    if constexpr (std::is_pointer_v<T>)
      return reinterpret_cast<T>(value);
    else
      return static_cast<T>(value);
  }

 private:
  const Registers& registers_;
  size_t integers_ = 0, vectors_ = 0;
};

template <class Signature>
struct Typed;
template <class R, class... Args>
struct Typed<R(Args...)> {
  static_assert((... && !std::is_reference_v<Args>), "write a pointer for a reference");

  template <class F>
  static void call(F& f, const Registers& registers) {
    Arguments arguments(registers);
    std::tuple<Args...> values{arguments.next<Args>()...};  // in order
    std::apply(f, values);
  }
};

template <class F>
struct IntegerCall;
template <class... Args>
struct IntegerCall<void (*)(Args...) noexcept> {
  static_assert(sizeof...(Args) <= 6, "the others lie on the stack: use Registers");

  template <auto kFunction, size_t... kIndices>
  PINPRICK_INTEGER_ONLY static void unpack(const Registers& r, std::index_sequence<kIndices...>) {
    const uint64_t values[] = {r.rdi, r.rsi, r.rdx, r.rcx, r.r8, r.r9};
    kFunction(Arguments::as<Args>(values[kIndices])...);
  }
  template <auto kFunction>
  PINPRICK_INTEGER_ONLY static void enter(Registers& registers) noexcept {
    unpack<kFunction>(registers, std::index_sequence_for<Args...>());
  }
};

}  // namespace detail

// Calls f with the arguments of a function of this signature; for its entry. Structures passed by
// value, long double and __int128 are not integers or pointers: read them from Registers.
template <class Signature, class F>
Handler on_call(F f) {
  return Handler(
      [f = std::move(f)](Registers& r) mutable { detail::Typed<Signature>::call(f, r); });
}

// Calls f with the value that the function returns; for return handlers.
template <class R, class F>
Handler on_return(F f) {
  return Handler([f = std::move(f)](Registers& r) mutable {
    if constexpr (std::is_floating_point_v<R>)
      detail::Typed<void(R)>::call(f, r);
    else
      f(detail::Arguments::as<R>(r.rax));
  });
}

// on_call for a function of at most six integers or pointers, marked PINPRICK_INTEGER_ONLY, that
// answers nothing; noexcept. Their types are the function's own.
template <auto kFunction>
Handler integer_call() {
  return integer_only<&detail::IntegerCall<decltype(kFunction)>::template enter<kFunction>>();
}

// Exceptions that handlers have thrown, in the whole process.
uint64_t handler_exceptions();

}  // namespace pinprick
