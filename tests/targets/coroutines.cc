// C++20 coroutines that are started on one thread, resumed on another, ended by exceptions and
// destroyed halfway, ROUNDS times. Prints a sum, and how often yields() was called.
#include <coroutine>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>

#include "noinline.h"

class Generator {
 public:
  struct promise_type {
    long value = 0;
    std::exception_ptr thrown;
    Generator get_return_object() {
      return Generator(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(long next) {
      value = next;
      return {};
    }
    void return_void() {}
    void unhandled_exception() { thrown = std::current_exception(); }
  };

  explicit Generator(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Generator(Generator&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  ~Generator() {
    if (handle_) handle_.destroy();
  }
  // Returns false if it has ended.
  NOINLINE bool next(long& value) {
    if (handle_.done()) return false;
    handle_.resume();
    if (handle_.promise().thrown) std::rethrow_exception(handle_.promise().thrown);
    value = handle_.promise().value;
    return !handle_.done();
  }

 private:
  std::coroutine_handle<promise_type> handle_;
};

static long yielded;

NOINLINE long yields(long x) {
  yielded++;
  if (x == 40) throw std::runtime_error("forty");
  return x * x;
}

NOINLINE Generator squares(long from, long to) {
  for (long x = from; x < to; ++x) co_yield yields(x);
}

NOINLINE long all_of(long from, long to) {
  Generator generator = squares(from, to);
  long sum = 0, value = 0;
  try {
    generator.next(value);
    std::thread([&] { generator.next(sum); }).join();
    sum += value;
    while (sum % 7 != 3 && generator.next(value)) sum += value;
  } catch (const std::runtime_error&) {
    sum += 1000000;
  }
  return sum;
}

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? std::atol(argv[1]) : 0;
  long sum = 0;
  for (long i = 0; i < rounds; ++i) sum += all_of(i % 38, i % 60 + 3);
  std::printf("%ld\nyields %ld\n", sum, yielded);
}
