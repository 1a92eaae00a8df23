// Runs an instruction where it was made for, and its copy where it was moved to, from the same
// state of processor and memory, and reports every difference that a program could see.
//
// Code is entered and left by signals: a handler puts the initial state into the frame that the
// kernel returns through, and takes the final state from the frame of the next signal. So any
// register may have any value, rsp included, and anything may end a run: the int3 that fills the
// sandbox where there is no code, a fault, or a jump to an invalid address. A run takes about 10
// us.
//
// A run that never traps hangs the test, for example an instruction that jumps to itself. One run
// at a time per thread. The sandbox owns SIGTRAP, SIGSEGV, SIGBUS, SIGILL and SIGFPE while it
// exists.
#pragma once

#include <signal.h>

#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "arch/x86_64/emit.h"
#include "base/address.h"
#include "bytes.h"

namespace pinprick::arch {

inline constexpr uint64_t kCarry = 1 << 0;
inline constexpr uint64_t kZero = 1 << 6;
inline constexpr uint64_t kDirection = 1 << 10;
inline constexpr uint64_t kOverflow = 1 << 11;
inline constexpr uint64_t kArithmetic = 0x8d5;  // CF PF AF ZF SF OF
inline constexpr uint64_t kVisibleFlags = kArithmetic | kDirection;

struct MachineState {
  std::array<uint64_t, 16> general{};  // by Reg
  uint64_t flags = 0;
  Address rip = 0;
  // In the layout of xsave: x87, vectors, masks. Empty: as at the start of a program.
  Bytes extended;

  uint64_t& operator[](Reg reg) { return general[static_cast<size_t>(reg)]; }
  uint64_t operator[](Reg reg) const { return general[static_cast<size_t>(reg)]; }
};

// How a run ended. `state.rip` is where; for an int3, its own address.
struct Outcome {
  MachineState state;
  int signal = 0;  // 0: at an int3 that fills the sandbox
  int code = 0;    // siginfo's si_code
  Address fault_address = 0;
};

// Memory for runs: `home` for instructions in place, `away` for their copies, and data. Nothing
// else is mapped within 2 GB of either, so that stray accesses fault.
class Sandbox {
 public:
  static constexpr uint64_t kDataSize = 4 * kPageSize;

  enum class Where : uint8_t {
    high,  // above 4 GB
    low,   // below 2 GB: addresses fit a sign-extended immediate
  };
  explicit Sandbox(Where where = Where::high);
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;
  ~Sandbox();

  Address home() const { return home_page_ + kPageSize / 2; }
  Address away() const { return away_page_; }
  Address data() const { return data_; }
  Address data_middle() const { return data_ + kDataSize / 2; }
  std::span<uint8_t> memory() { return {reinterpret_cast<uint8_t*>(data_), kDataSize}; }
  // Words of the data, at any alignment.
  uint64_t word(Address address) const;
  void set_word(Address address, uint64_t value);

  // Puts code at home() or away(), and int3 in the rest of its page.
  void place_home(std::span<const uint8_t> code) { place(home_page_, home(), code); }
  void place_away(std::span<const uint8_t> code) { place(away_page_, away(), code); }

  // Starts at start.rip. Memory of the sandbox stays as the code leaves it.
  Outcome run(const MachineState& start);

 private:
  void place(Address page, Address at, std::span<const uint8_t> code);

  static constexpr std::array kSignals = {SIGTRAP, SIGSEGV, SIGBUS, SIGILL, SIGFPE};

  Range reserved_;
  Address home_page_ = 0;
  Address away_page_ = 0;
  Address data_ = 0;
  uint8_t* code_ = nullptr;  // both code pages again, writable
  Bytes signal_stack_;
  stack_t previous_stack_{};
  std::array<struct sigaction, kSignals.size()> previous_actions_{};
};

// Random registers, vectors and flags; rsp in the middle of the data, 16-byte aligned.
MachineState random_state(std::mt19937_64& random, const Sandbox& sandbox);
void fill_randomly(std::span<uint8_t> memory, std::mt19937_64& random);

// Describes the differences of two runs, one per line: registers, flags, extended state, where and
// how they ended.
std::string difference_of(const Outcome& in_place, const Outcome& away);

struct Comparison {
  bool moved = false;      // else it cannot be moved: `difference` says why
  std::string difference;  // empty: there is none
  Outcome in_place;
  Outcome away;
  Bytes copy;  // what ran instead of the instruction, with the jump back
};

// Runs `instruction` at home and its copy from relocate() away, both from `start` (except for rip)
// and from the same memory. Compares all registers and flags, memory, where execution went and
// which signal ended it. Memory stays as the run away left it. A fault in the copy counts as one at
// home.
Comparison compare_moved(Sandbox& sandbox, std::span<const uint8_t> instruction,
                         const MachineState& start);

}  // namespace pinprick::arch
