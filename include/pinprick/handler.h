// Handler: what runs when a probe is hit. Any callable will do.
//
//     Handler([&](Registers& registers) { ... })          probes; of return probes also bool(...)
//     Handler([&](Registers& registers, void* data) ...)  return probes with data for each call
//     on_call<int(const char*, size_t)>([&](const char* name, size_t size) { ... })
//     on_return<int>([&](int result) { ... })
//     integer_only<&function>(user)                       the fast way, see below
//
// A handler runs on the thread that hit the probe, before the probed instruction, while that thread
// is in the middle of the probed code:
//
//   - It may do what the code around the probe may do at this point. A handler in the middle of
//     malloc must not allocate; at the entry of malloc it may. It must not wait for a lock that the
//     probed code can hold, nor for one that a thread holds while it calls this library: placing,
//     removing, enabling and disabling wait for handlers.
//   - While it runs, probes that its thread hits run no handlers; each probe counts such hits as
//     missed.
//   - It may place, enable, disable and remove probes, including its own. A removed handler may
//     still run until it returns; it is destroyed later.
//   - An exception that leaves it is caught and counted (handler_exceptions()). It must not longjmp
//     out, nor end its thread.
//   - It may call cancellation points: a thread that was cancelled ends at the first one after the
//     handler. Not so a handler that is declared as below: there, a cancellation point may end the
//     program. A thread that hits probes must not be cancelled asynchronously.
//   - It may fork; handlers run in both processes from then on.
//   - It may change errno: the program finds its own again. Only one that is declared as below must
//     leave it alone.
//
// Compilers use vector and floating-point registers freely, to copy memory for example. By default
// all of them are therefore saved around handlers, which costs some hundred nanoseconds per hit;
// such handlers can read and change them. A function that is compiled without these registers can
// be declared so, and then costs a few nanoseconds:
//
//     PINPRICK_INTEGER_ONLY void count(Registers&) noexcept { ++hits; }
//     probe.pre = integer_only<&count>();
//
// Everything that it calls must be compiled without them, too. A mistake here silently corrupts the
// program's floating-point data.
#pragma once

#include <pthread.h>

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

// Calls f(registers) or f(registers, data). Returns true if f returns nothing.
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

// While it lives, the thread is not cancelled.
class Uncancelled {
 public:
  Uncancelled() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  Uncancelled(const Uncancelled&) = delete;
  Uncancelled& operator=(const Uncancelled&) = delete;
  ~Uncancelled() { ::pthread_setcancelstate(before_, nullptr); }

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// The C library ends the program if the unwinding of a cancelled thread is caught.
template <class F>
bool call_and_catch(Registers& registers, void* closure, void* data) noexcept {
  const Uncancelled uncancelled;
#ifdef __cpp_exceptions
  try {
    return invoke_handler(*static_cast<F*>(closure), registers, data);
  } catch (...) {
    count_handler_exception();
    return true;
  }
#else
  return invoke_handler(*static_cast<F*>(closure), registers, data);
#endif
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
  Handler() = default;  // no handler

  template <class F>
  requires(std::is_invocable_v<F&, Registers&> || std::is_invocable_v<F&, Registers&, void*>)
      Handler(F f) {
    // A null pointer, or an empty std::function, is no handler.
    if constexpr (std::is_pointer_v<F> || requires { f.operator bool(); })
      if (!f) return;
    call_ = &detail::call_and_catch<F>;
    closure_ = std::make_shared<F>(std::move(f));
  }

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

// Returns a handler that calls a function marked PINPRICK_INTEGER_ONLY, without saving vector
// registers. The function is noexcept and takes (Registers&), (Registers&, void* user) or
// (Registers&, void* user, void* data). `user` must outlive the handler.
template <auto kFunction>
Handler integer_only(void* user = nullptr) {
  return Handler(&detail::call_integer_only<kFunction>, user, true);
}

namespace detail {

// Returns whether the ABI passes it as a bool: in 8 bits, those above them being undefined.
template <class T>
constexpr bool is_boolean() {
  if constexpr (std::is_enum_v<T>)
    return std::is_same_v<std::underlying_type_t<T>, bool>;
  else
    return std::is_same_v<std::remove_cv_t<T>, bool>;
}

// Reads arguments in the order in which the ABI passes them.
class Arguments {
 public:
  explicit Arguments(const Registers& registers) : registers_(registers) {}

  template <class T>
  T next() {
    if constexpr (std::is_same_v<T, float>)
      return from<float>(vector());
    else if constexpr (std::is_same_v<T, double>)
      return from<double>(vector());
    else
      return as<T>(integer());
  }

  template <class T>
  PINPRICK_INTEGER_ONLY static T as(uint64_t value) {
    static_assert(std::is_pointer_v<T> || std::is_integral_v<T> || std::is_enum_v<T>,
                  "integers, pointers, float and double");
    if constexpr (std::is_pointer_v<T>)
      return reinterpret_cast<T>(value);
    else if constexpr (is_boolean<T>())
      return static_cast<T>((value & 0xff) != 0);
    else
      return static_cast<T>(value);
  }

 private:
  static constexpr size_t kIntegers = 6, kVectors = 8;  // that are passed in registers

  PINPRICK_INTEGER_ONLY uint64_t integer() {
    return integers_ < kIntegers ? registers_.argument(integers_++) : on_stack();
  }
  uint64_t vector() {
    if (vectors_ == kVectors) return on_stack();
    return from<uint64_t>(registers_.vector(vectors_++));
  }
  // Those of both kinds lie there, one after the other.
  PINPRICK_INTEGER_ONLY uint64_t on_stack() { return registers_.argument(kIntegers + on_stack_++); }
  template <class T, class Raw>
  static T from(Raw raw) {
    static_assert(sizeof(T) <= sizeof raw);
    T value;
    std::memcpy(&value, &raw, sizeof value);
    return value;
  }

  const Registers& registers_;
  size_t integers_ = 0, vectors_ = 0, on_stack_ = 0;
};

template <class Signature>
struct Typed;
template <class R, class... Args>
struct Typed<R(Args...)> {
  static_assert((... && !std::is_reference_v<Args>), "write a pointer for a reference");

  template <class F>
  static decltype(auto) call(F& f, const Registers& registers) {
    Arguments arguments(registers);
    std::tuple<Args...> values{arguments.next<Args>()...};  // left to right
    return std::apply(f, values);
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

// Returns a handler for a function's entry: it calls f with the arguments of a function of this
// signature. If f returns bool, that is what the handler returns. Structures passed by value, long
// double and __int128 are not supported: read them from Registers.
template <class Signature, class F>
Handler on_call(F f) {
  return Handler([f = std::move(f)](Registers& r) mutable {
    if constexpr (std::is_same_v<decltype(detail::Typed<Signature>::call(f, r)), bool>)
      return detail::Typed<Signature>::call(f, r);
    else
      static_cast<void>(detail::Typed<Signature>::call(f, r));
  });
}

// Returns a handler for a function's return: it calls f with the returned value.
template <class R, class F>
Handler on_return(F f) {
  return Handler([f = std::move(f)](Registers& r) mutable {
    if constexpr (std::is_floating_point_v<R>)
      detail::Typed<void(R)>::call(f, r);
    else
      f(detail::Arguments::as<R>(r.rax));
  });
}

// Like on_call, for a function marked PINPRICK_INTEGER_ONLY that is noexcept, returns nothing and
// takes at most six integers or pointers. The argument types are those of kFunction.
template <auto kFunction>
Handler integer_call() {
  return integer_only<&detail::IntegerCall<decltype(kFunction)>::template enter<kFunction>>();
}

// Returns how many exceptions handlers have thrown, in the whole process.
uint64_t handler_exceptions();

}  // namespace pinprick
