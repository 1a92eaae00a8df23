// Runs a program instruction by instruction and records where execution arrived other than by
// falling through. Capstone says what an instruction is, the processor what it does: nothing here
// comes from the code under test.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "arch/disassembler.h"
#include "base/address.h"
#include "base/fd.h"

namespace pinprick::image {

class SteppedProgram {
 public:
  explicit SteppedProgram(const std::vector<std::string>& command) {
    pid_ = ::fork();
    if (pid_ == 0) become(command);
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    if (!WIFSTOPPED(status)) {
      ADD_FAILURE() << command[0] << " did not start";
      pid_ = -1;
      return;
    }
    EXPECT_EQ(::ptrace(PTRACE_SETOPTIONS, pid_, 0, PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL), 0);
    memory_ = Fd(::open(("/proc/" + std::to_string(pid_) + "/mem").c_str(), O_RDWR | O_CLOEXEC));
  }
  SteppedProgram(const SteppedProgram&) = delete;
  SteppedProgram& operator=(const SteppedProgram&) = delete;
  ~SteppedProgram() {
    if (pid_ <= 0) return;
    // A signal does not end the stop of a program that is already exiting.
    ::kill(pid_, SIGKILL);
    int status = 0;
    do ::ptrace(PTRACE_CONT, pid_, 0, 0);
    while (::waitpid(pid_, &status, 0) == pid_ && WIFSTOPPED(status));
  }

  pid_t pid() const { return pid_; }
  bool read(Address address, std::span<uint8_t> out) const {
    return ::pread(memory_.get(), out.data(), out.size(), static_cast<off_t>(address)) ==
           static_cast<ssize_t>(out.size());
  }

  // Runs at full speed to an address that is executed once, such as the program's entry.
  void run_to(Address address) {
    uint8_t original = 0;
    constexpr uint8_t kBreakpoint = 0xcc;
    int status = 0;
    const auto offset = static_cast<off_t>(address);
    if (!read(address, {&original, 1}) || ::pwrite(memory_.get(), &kBreakpoint, 1, offset) != 1 ||
        ::ptrace(PTRACE_CONT, pid_, 0, 0) != 0 || ::waitpid(pid_, &status, 0) != pid_ ||
        !WIFSTOPPED(status) || ::pwrite(memory_.get(), &original, 1, offset) != 1) {
      ADD_FAILURE() << "cannot run to " << std::hex << address;
      return;
    }
    user_regs_struct at_breakpoint = registers();
    ASSERT_EQ(at_breakpoint.rip, address + 1);
    at_breakpoint.rip = address;
    ASSERT_EQ(::ptrace(PTRACE_SETREGS, pid_, 0, &at_breakpoint), 0);
  }

  // Runs until the program is about to exit, while its memory is still there, or for that many
  // steps.
  void step(size_t limit) {
    user_regs_struct before = registers();
    int signal = 0;
    for (; steps_ < limit && pid_ > 0; ++steps_) {
      const Instruction& instruction = at(before.rip);
      const bool returns_from_signal = instruction.is_syscall && before.rax == SYS_rt_sigreturn;
      int status = 0;
      if (::ptrace(PTRACE_SINGLESTEP, pid_, 0, signal) != 0 ||
          ::waitpid(pid_, &status, 0) != pid_ || !WIFSTOPPED(status)) {
        ADD_FAILURE() << "lost the program at " << std::hex << before.rip;
        pid_ = -1;
        return;
      }
      if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8)) {
        exits_ = true;
        return;
      }
      signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
      const user_regs_struct after = registers();
      if (!returns_from_signal) note_step(before.rip, after.rip, signal != 0);
      before = after;
    }
  }

  bool exits() const { return exits_; }
  size_t steps() const { return steps_; }
  // Where execution arrived, and from where it first did.
  const std::unordered_map<Address, Address>& arrivals() const { return arrivals_; }
  // Return addresses of calls. No window contains such an address, since a call ends it.
  bool after_call(Address address) const { return after_calls_.contains(address); }

 private:
  static constexpr size_t kLongestInstruction = 15;
  // Instructions that a program may execute and a hypervisor intercepts.
  static inline const std::unordered_set<std::string> kEmulated = {"cpuid", "rdtsc", "rdtscp",
                                                                   "rdpmc", "xgetbv"};
  struct Instruction {
    size_t length = 0;  // 0: unknown
    bool is_call = false;
    bool is_syscall = false;
    bool is_emulated = false;  // some hypervisors may execute it themselves
  };

  // A step from one address to another. After an instruction that a hypervisor executes there is no
  // trap: the step then included the next instruction, whose arrival counts as well.
  void note_step(Address from, Address to, bool has_signal) {
    if (!has_signal && to != from)
      for (; at(from).is_emulated && to != from + at(from).length; from += at(from).length) {
      }
    const Instruction& instruction = at(from);
    if (instruction.is_call) after_calls_.insert(from + instruction.length);
    // The same address again: a string instruction that repeats.
    if (!falls_through(instruction, from, to) && to != from) arrivals_.emplace(to, from);
  }

  [[noreturn]] static void become(const std::vector<std::string>& command) {
    const int null = ::open("/dev/null", O_RDWR);
    for (int fd : {0, 1, 2}) ::dup2(null, fd);
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::ptrace(PTRACE_TRACEME, 0, 0, 0);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }

  user_regs_struct registers() const {
    user_regs_struct registers = {};
    if (pid_ > 0) {
      EXPECT_EQ(::ptrace(PTRACE_GETREGS, pid_, 0, &registers), 0);
    }
    return registers;
  }

  // Capstone does not know all of AVX-512, but every branch.
  static bool falls_through(const Instruction& instruction, Address from, Address to) {
    if (instruction.length != 0) return to == from + instruction.length;
    return to > from && to <= from + kLongestInstruction;
  }

  const Instruction& at(Address address) {
    const auto [known, is_new] = instructions_.try_emplace(address);
    if (is_new) {
      uint8_t bytes[kLongestInstruction];
      const ssize_t size = ::pread(memory_.get(), bytes, sizeof bytes, static_cast<off_t>(address));
      const std::span code(bytes, size < 0 ? 0 : static_cast<size_t>(size));
      known->second.length = disassembler_.length(code, address);
      const std::string text = disassembler_.text(code.first(known->second.length), address);
      known->second.is_syscall = text.find("syscall") != text.npos;
      known->second.is_call = !known->second.is_syscall && text.find("call") != text.npos;
      known->second.is_emulated = kEmulated.contains(text);
    }
    return known->second;
  }

  pid_t pid_ = -1;
  Fd memory_;
  arch::Disassembler disassembler_;
  std::unordered_map<Address, Instruction> instructions_;
  std::unordered_map<Address, Address> arrivals_;
  std::unordered_set<Address> after_calls_;
  size_t steps_ = 0;
  bool exits_ = false;
};

}  // namespace pinprick::image
