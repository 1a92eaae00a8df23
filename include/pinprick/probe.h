// Probe, ReturnProbe, Counter: probes in one's own process.
//
//     auto probe = pinprick::Probe::place({.where = "libc:malloc",
//                                          .pre = pinprick::on_call<void*(size_t)>(
//                                              [&](size_t size) { sizes.add(size); })});
//     if (!probe) std::cerr << probe.error().message() << '\n';
//
// A probe is in place from place() until its object is destroyed. All functions here may be called
// from any thread and from handlers, but not from signal handlers. They may allocate and take
// locks. Probes that they hit themselves run no handlers, and count the hits as missed.
//
// The objects can be moved. One that was moved from has no probe: it may be asked anything, and
// returns nullptr, an empty string, zero and Placement::gone.
//
// A probe is a jump in the function's code, written while all threads keep running
// (docs/library.md). For this the library installs a SIGTRAP handler; a handler that the program
// installed before is called for traps that are not the library's. No thread may block SIGTRAP:
// while one does, place() fails with Cause::signal_blocked. While a debugger or strace traces a
// process of several threads, it fails with Cause::debugger; in a process of one thread, only where
// it takes a breakpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pinprick/error.h"
#include "pinprick/handler.h"
#include "pinprick/miss.h"

namespace pinprick {

// An instruction, by address or by name: `[object:]function[+0xoffset]`. A name must match exactly
// one function.
class Where {
 public:
  Where(const void* address) : location_(address) {}
  Where(std::string name) : location_(std::move(name)) {}
  Where(std::string_view name) : location_(std::string(name)) {}
  Where(const char* name) : location_(std::string(name)) {}
  template <class R, class... Args>
  Where(R (*function)(Args...)) : location_(reinterpret_cast<const void*>(function)) {}

  const void* const* address() const { return std::get_if<const void*>(&location_); }
  const std::string* name() const { return std::get_if<std::string>(&location_); }

 private:
  std::variant<const void*, std::string> location_;
};

// Returns the entries of all functions that the pattern matches (`libc:mall*`). Fails if none does.
Result<std::vector<Where>, Error> find_functions(std::string_view pattern);

enum class Placement : uint8_t {
  jump,
  breakpoint,  // a hit raises a signal, which costs microseconds
  disabled,    // nothing is written now: it is disabled, or all are disarmed
  gone,        // the code has been unmapped, or the object was moved from
};

// Why a probe is not, or not currently, a jump. The errors are those with which the kernel's
// kprobes refuse an optimisation for the same reason; docs/placing.md explains each.
enum class NoJump : uint8_t {
  none,                // it is a jump, or is one whenever it is in the code
  switched_off,        // by optimise(false)
  too_short,           // the function ends, and no padding follows (EILSEQ)
  branch_inside,       // a branch leads into the bytes of the jump (EILSEQ)
  call_inside,         // a call would return there
  indirect_jumps,      // computed jumps could lead there (EILSEQ)
  undecodable,         // bytes there are no instruction (EILSEQ)
  privileged,          // an instruction there faults in a program (EILSEQ)
  inexact,             // an instruction there cannot be moved exactly (EILSEQ)
  foreign_breakpoint,  // a breakpoint of the program or of another tool is there (EILSEQ)
  page_edge,           // the jump would lie in two pages
  reserved,            // others need the bytes: rseq, the signal restorer (EBUSY)
  neighbour,           // another probe is there (EEXIST)
  out_of_reach,        // there is no free memory within 2 GB (ERANGE)
};
std::string_view name(NoJump why);      // as in this list: "branch_inside"
std::string_view sentence(NoJump why);  // for people: lower case, no full stop; empty for none

struct ProbeSpec {
  Where where;
  Handler pre = {};   // runs before the instruction
  Handler post = {};  // runs after it; not allowed on branches and calls
  // Of several probes at one address, those of higher priority run first; of equal ones, the
  // oldest.
  int priority = 0;
  // Allows a breakpoint where no jump fits. It also lets another probe be placed between the
  // instructions under this probe's jump, in which case this one becomes a breakpoint while the
  // other exists; otherwise that placement is refused. With a breakpoint, a thread that comes to
  // block SIGTRAP later and hits it kills the process.
  bool allow_breakpoint = false;
  bool enabled = true;
  bool count_hits = false;  // for hits(); adds about a nanosecond to each hit
};

// A spec of a batch that could not be placed.
struct Refusal {
  size_t index = 0;  // in the batch
  Error error;  // why, and where: error.site names the function even if the spec has an address
};

// What place_possible() has done.
template <class T>
struct PlacedSome {
  std::vector<T> placed;         // in the order of the specs, without those that were refused
  std::vector<Refusal> refused;  // in the order of the specs
};

namespace detail {
struct ProbeState;
struct ReturnState;
struct CounterState;
}  // namespace detail

// How a Counter or a Latency is placed: as a Probe.
struct PlaceOptions {
  bool allow_breakpoint = false;
  bool enabled = true;
};

class Probe {
 public:
  // Places a probe, which is in effect on all threads when place() returns. On error nothing has
  // changed, and error().cause says why (error.h).
  static Result<Probe, Error> place(ProbeSpec spec);
  // Places all of them, or none. Many at once take about as long as one.
  static Result<std::vector<Probe>, Error> place(std::vector<ProbeSpec> specs);
  // Places those that can be placed, and returns the others with the reasons. Fails, and has
  // changed nothing, if none could be placed now, wherever it is: with Cause::debugger if there are
  // several threads, with signal_blocked or system, or with attached if nothing is known of the
  // pinprick.
  static Result<PlacedSome<Probe>, Error> place_possible(std::vector<ProbeSpec> specs);
  // Removes all of them; many at once take about as long as one. Outside a handler it returns only
  // after the handlers that were running have returned. Within a handler it does not wait.
  static void remove(std::vector<Probe> probes);

  Probe(Probe&&) noexcept;
  Probe& operator=(Probe&&) noexcept;
  ~Probe();  // as remove() does

  // Both take effect before they return, and do nothing if the probe is in that state already. On
  // error nothing has changed. Hits of a disabled probe cost nothing, and are not counted as
  // missed.
  Result<void, Error> enable();
  Result<void, Error> disable();
  // Enables (disables) all of them in about the time of one. On error none has changed. Moved-from
  // probes are skipped.
  static Result<void, Error> enable(std::span<Probe> probes);
  static Result<void, Error> disable(std::span<Probe> probes);

  // Returns the address of the probed instruction. At a function's entry that is after an endbr64.
  const void* address() const;
  // Returns the function's name, with `+0xoffset` unless the probe is at its entry. It is the same
  // for all probes at one instruction.
  std::string name() const;
  // Returns how the probe is written in the code at this moment.
  Placement placement() const;
  // Returns why the probe is not, or not currently, a jump, if placement() is breakpoint.
  NoJump why_no_jump() const;
  // Returns the hits of all threads while it was enabled, those that were missed included; nullopt
  // if ProbeSpec::count_hits is not set. A hit that comes while place(), enable() or disable() is
  // running may be counted without a run of the handler, or run it without being counted.
  std::optional<uint64_t> hits() const;
  // Returns the number of hits that ran no handler because a handler or the library caused them.
  uint64_t missed() const;
  uint64_t missed(Miss why) const;

 private:
  explicit Probe(detail::ProbeState* state) : state_(state) {}
  detail::ProbeState* state_;
};

struct ReturnProbeSpec {
  Where where;  // the entry of a function
  // Runs before the call. If it returns false, this call is not tracked: on_return does not run for
  // it.
  Handler on_entry = {};
  Handler on_return = {};  // reads, and may change, registers.return_value()
  // Size of the data that on_entry hands to on_return of the same call: at most 4096 bytes. They
  // are zero at first; later calls find what earlier ones left.
  size_t data_size = 0;
  // How many calls are tracked at once; further ones are missed. 0: as many as there are slots
  // (8192 in the process), or 1024 if data_size is not 0.
  uint32_t max_active = 0;
  // Of several return probes on one function, the on_entry of those of higher priority runs first,
  // and their on_return last; of equal ones, likewise the oldest's.
  int priority = 0;
  bool allow_breakpoint = false;  // as for a Probe
  bool enabled = true;
};

// Runs a handler when a function returns.
//
// Exceptions, cancellation and backtraces work through tracked calls. A call that ends in one of
// these ways is counted as unwound, and its on_return does not run. on_return does not run either
// for calls that started before the probe was placed, or that return after it was removed. A call
// that longjmp leaves cannot be seen to end: it is counted as abandoned, once its slot is needed
// again.
class ReturnProbe {
 public:
  // These are as for a Probe.
  static Result<ReturnProbe, Error> place(ReturnProbeSpec spec);
  static Result<std::vector<ReturnProbe>, Error> place(std::vector<ReturnProbeSpec> specs);
  static Result<PlacedSome<ReturnProbe>, Error> place_possible(std::vector<ReturnProbeSpec> specs);
  static void remove(std::vector<ReturnProbe> probes);

  ReturnProbe(ReturnProbe&&) noexcept;
  ReturnProbe& operator=(ReturnProbe&&) noexcept;
  ~ReturnProbe();

  // As for a Probe. Calls that are tracked when the probe is disabled are tracked to their end.
  Result<void, Error> enable();
  Result<void, Error> disable();
  static Result<void, Error> enable(std::span<ReturnProbe> probes);
  static Result<void, Error> disable(std::span<ReturnProbe> probes);

  // Returns the address of the function's first probed instruction.
  const void* address() const;
  std::string name() const;  // these three are as for a Probe
  Placement placement() const;
  NoJump why_no_jump() const;
  // These return numbers of calls since the probe was placed, for which on_return did not run.
  uint64_t missed() const;  // for the reasons that Miss lists, in all
  uint64_t missed(Miss why) const;
  uint64_t unwound() const;    // an exception or the like ended the call
  uint64_t abandoned() const;  // longjmp left the call, as far as is known yet

 private:
  explicit ReturnProbe(detail::ReturnState* state) : state_(state) {}
  detail::ReturnState* state_;
};

// Counts hits exactly, without a handler. A hit costs about a nanosecond.
class Counter {
 public:
  // These are as for a Probe.
  static Result<Counter, Error> place(Where where, PlaceOptions options = {});
  static Result<std::vector<Counter>, Error> place(std::vector<Where> where,
                                                   PlaceOptions options = {});
  static Result<PlacedSome<Counter>, Error> place_possible(std::vector<Where> where,
                                                           PlaceOptions options = {});
  static void remove(std::vector<Counter> counters);

  Counter(Counter&&) noexcept;
  Counter& operator=(Counter&&) noexcept;
  ~Counter();

  // As for a Probe.
  Result<void, Error> enable();
  Result<void, Error> disable();
  static Result<void, Error> enable(std::span<Counter> counters);
  static Result<void, Error> disable(std::span<Counter> counters);

  const void* address() const;
  std::string name() const;
  Placement placement() const;
  NoJump why_no_jump() const;
  // Returns the hits of all threads while it was enabled.
  uint64_t value() const;

 private:
  explicit Counter(detail::CounterState* state) : state_(state) {}
  detail::CounterState* state_;
};

// Sets whether probes are jumps where that is possible (the default), like the kernel's
// debug.kprobes-optimization. With optimise(false) all become breakpoints, even those without
// allow_breakpoint, which helps to tell whether a jump causes a problem. No probed code may then
// run with SIGTRAP blocked.
Result<void, Error> optimise(bool wanted);

// Removes all that is placed from the text (disarm_all), or writes it back (arm_all), like the
// kernel's debugfs file kprobes/enabled: probes, return probes, counters, and what latency.h
// places. All are armed at first.
//
// Each probe keeps its own state: a disabled one stays disabled after arm_all(), and one that is
// placed or enabled while all are disarmed takes effect with arm_all(). While all are disarmed,
// hits cost nothing and are neither counted nor missed; counts keep their values. Calls that are
// tracked when disarm_all() is called are tracked to their end.
//
// Outside a handler, disarm_all() returns only after the handlers that were running have returned.
// On error nothing has changed.
Result<void, Error> disarm_all();
Result<void, Error> arm_all();

// Forbids probes in this function from now on. Fails if the function is not found or ambiguous.
Result<void, Error> block(const Where& function);
// Returns what must not be probed, one line each: `0xBEGIN-0xEND<TAB>name`.
std::string blocked();

// Returns what is placed, one line each, as the kernel lists its probes: `ADDRESS k|r
// function+0xoffset object [GONE][DISABLED][OPTIMIZED]`.
std::string list_probes();

}  // namespace pinprick
