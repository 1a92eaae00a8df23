// Probes with handlers in one's own process.
//
//     auto probe = pinprick::Probe::place({.where = "libc:malloc",
//                                          .pre = pinprick::on_call<void*(size_t)>(
//                                              [&](size_t size) { sizes.add(size); })});
//     if (!probe) std::cerr << probe.error().message() << '\n';
//
// A probe is in place from place() until the object is destroyed. Functions here may be called from
// any thread and from handlers, but not from signal handlers. They may allocate and take locks;
// what they do themselves hits no probe, and is counted as missed there.
//
// A probe is a jump in the function's code, written while all threads run on (docs/library.md). For
// this the library takes SIGTRAP; a handler that the program has set before is called for traps
// that are not ours. No thread may block SIGTRAP: place() refuses (Cause::signal_blocked) as long
// as one does.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pinprick/error.h"
#include "pinprick/handler.h"

namespace pinprick {

// An instruction: an address, or a name, `[object:]function[+0xoffset]`, that has to mean exactly
// one.
class Where {
 public:
  Where(const void* address) : place_(address) {}
  Where(std::string name) : place_(std::move(name)) {}
  Where(std::string_view name) : place_(std::string(name)) {}
  Where(const char* name) : place_(std::string(name)) {}
  template <class R, class... Args>
  Where(R (*function)(Args...)) : place_(reinterpret_cast<const void*>(function)) {}

  const void* const* address() const { return std::get_if<const void*>(&place_); }
  const std::string* name() const { return std::get_if<std::string>(&place_); }

 private:
  std::variant<const void*, std::string> place_;
};

// The functions that a pattern means (`libc:mall*`), as addresses.
Result<std::vector<Where>, Error> find_functions(std::string_view pattern);

enum class Placement : uint8_t {
  jump,
  breakpoint,  // a hit costs microseconds: a signal
  disabled,    // nothing at the moment; or all are disarmed
  gone,        // its code is not mapped any more
};

struct ProbeSpec {
  Where where;
  Handler pre = {};   // before the instruction
  Handler post = {};  // behind it; not on branches and calls
  // Of several probes at one address the higher ones run first; of equal ones the older.
  int priority = 0;
  // Where no jump fits; and as long as there is a probe between the instructions under its jump,
  // which is refused otherwise. A thread that blocks SIGTRAP later, and hits it, ends the process.
  bool allow_breakpoint = false;
  bool enabled = true;
};

namespace detail {
struct ProbeState;
struct ReturnState;
struct CounterState;
}  // namespace detail

class Probe {
 public:
  static Result<Probe, Error> place(ProbeSpec spec);
  // All of them, or none.
  static Result<std::vector<Probe>, Error> place(std::vector<ProbeSpec> specs);
  // Many at once take about as long as one. What handlers still run when this is called from
  // outside of handlers has ended when it returns.
  static void remove(std::vector<Probe> probes);

  Probe(Probe&&) noexcept;
  Probe& operator=(Probe&&) noexcept;
  ~Probe();  // removes it, as remove() does

  // Hits of a disabled probe cost nothing, and are not counted as missed.
  Result<void, Error> enable();
  Result<void, Error> disable();
  // Many take about as long as one. All of them, or none: after an error each probe is enabled or
  // disabled as it was before. One that was moved from is left out.
  static Result<void, Error> enable(std::span<Probe> probes);
  static Result<void, Error> disable(std::span<Probe> probes);

  const void* address() const;
  std::string name() const;  // function+0xoffset
  Placement placement() const;
  // Of a breakpoint: why it is no jump, or is none at the moment.
  std::string_view why_no_jump() const;
  // Hits that ran no handler, since they came from a handler or from the library.
  uint64_t missed() const;

 private:
  explicit Probe(detail::ProbeState* state) : state_(state) {}
  detail::ProbeState* state_;
};

struct ReturnProbeSpec {
  Where where;  // a function
  // Before the call; one that answers false leaves this call out.
  Handler on_entry = {};
  Handler on_return = {};  // registers.return_value(); may change it
  // Bytes, at most 4096, zeroed at first only, that are handed from on_entry to on_return of the
  // same call.
  size_t data_size = 0;
  // Calls that are followed at once; others are missed. 0: as many as there are slots (8192 in the
  // process), or with data 1024.
  uint32_t max_active = 0;
  bool allow_breakpoint = false;  // as of a probe
  bool enabled = true;
};

// Calls a handler when a function returns. Exceptions, cancellation and backtraces find their way
// through followed calls; a call that ends so is counted as unwound, and its on_return does not
// run. Nor does that of calls which began before the probe was placed, or end after it was removed.
// A call that longjmp leaves is not seen to end: it is counted as abandoned when what it holds is
// needed again.
class ReturnProbe {
 public:
  static Result<ReturnProbe, Error> place(ReturnProbeSpec spec);
  static Result<std::vector<ReturnProbe>, Error> place(std::vector<ReturnProbeSpec> specs);
  static void remove(std::vector<ReturnProbe> probes);

  ReturnProbe(ReturnProbe&&) noexcept;
  ReturnProbe& operator=(ReturnProbe&&) noexcept;
  ~ReturnProbe();

  // As of a probe. Calls that are followed when it is disabled are followed to their end.
  Result<void, Error> enable();
  Result<void, Error> disable();
  static Result<void, Error> enable(std::span<ReturnProbe> probes);
  static Result<void, Error> disable(std::span<ReturnProbe> probes);

  const void* address() const;
  uint64_t missed() const;
  uint64_t unwound() const;
  uint64_t abandoned() const;

 private:
  explicit ReturnProbe(detail::ReturnState* state) : state_(state) {}
  detail::ReturnState* state_;
};

// Counts hits, exactly, without a handler: about a nanosecond each.
class Counter {
 public:
  static Result<Counter, Error> place(Where where);
  static Result<std::vector<Counter>, Error> place(std::vector<Where> where);
  static void remove(std::vector<Counter> counters);

  Counter(Counter&&) noexcept;
  Counter& operator=(Counter&&) noexcept;
  ~Counter();

  const void* address() const;
  uint64_t value() const;  // since it was placed

 private:
  explicit Counter(detail::CounterState* state) : state_(state) {}
  detail::CounterState* state_;
};

// Whether probes are jumps where they can be, as they are at first. Otherwise all are breakpoints,
// those that do not allow it included: for looking into what jumps do. As the kernel's
// debug.kprobes-optimization. No probed code may run with SIGTRAP blocked then.
Result<void, Error> optimise(bool wanted);

// Takes everything that is placed out of the text, or puts it back: probes, return probes, counters
// and what is in latency.h. As the kernel's debug file kprobes/enabled. Each probe stays enabled or
// disabled: a disabled one stays so after arm_all(), and one that is placed or enabled while all
// are disarmed takes effect with arm_all(). Until then hits cost nothing, and are neither counted
// nor missed; counts stay what they were. Calls that are followed when all are disarmed are
// followed to their end.
//
// What handlers still run when disarm_all() is called from outside of handlers has ended when it
// returns. All or nothing: an error leaves everything as it was. All are armed at first.
Result<void, Error> disarm_all();
Result<void, Error> arm_all();

// No probe may be placed in this function from now on.
Result<void, Error> block(const Where& function);
// What must not be probed, a line each: `0xBEGIN-0xEND<TAB>name`.
std::string blocked();

// What is placed, a line each, as the kernel lists its probes:
// `ADDRESS  k|r  function+0xoffset  object [GONE][DISABLED][OPTIMIZED]`.
std::string list_probes();

}  // namespace pinprick
