#include "arch/differential.h"

#include <cpuid.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "arch/code.h"
#include "arch/relocate.h"

namespace pinprick::arch {
namespace {

constexpr uint8_t kInt3 = 0xcc;
constexpr uint64_t kMega = 1 << 20;
constexpr uint64_t kGiga = 1 << 30;

// In the order of Reg.
constexpr std::array kRegisterSlots = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                       REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                       REG_R12, REG_R13, REG_R14, REG_R15};
constexpr std::array kRegisterNames = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                       "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::abort();
}

// The kernel's signal frame holds the extended state in xsave's standard layout.
struct Component {
  unsigned number;
  size_t offset;
  size_t size;
};

constexpr unsigned kX87 = 0, kSse = 1;
constexpr size_t kControlWord = 0, kInstructionPointer = 8, kMxcsr = 24, kXmm = 160;
constexpr size_t kLegacyEnd = 416, kStateBits = 512, kHeaderEnd = 576;
constexpr size_t kFrameSize = 480;  // struct _fpx_sw_bytes::xstate_size: of what is in this frame
constexpr uint16_t kInitialControlWord = 0x37f;
constexpr uint32_t kInitialMxcsr = 0x1f80;

// All that the kernel has enabled; a frame may hold less.
size_t extended_size() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  __cpuid_count(0xd, 0, a, b, c, d);
  return b;
}

// What programs compute with: SSE, AVX, and the masks and registers of AVX-512.
const std::vector<Component>& vector_components() {
  static const std::vector<Component> components = [] {
    std::vector<Component> found = {{kSse, kXmm, kLegacyEnd - kXmm}};
    unsigned low = 0, b = 0, c = 0, d = 0;
    __cpuid_count(0xd, 0, low, b, c, d);
    for (unsigned number : {2u, 5u, 6u, 7u}) {
      unsigned size = 0, offset = 0;
      if (!(low >> number & 1)) continue;
      __cpuid_count(0xd, number, size, offset, c, d);
      found.push_back({number, offset, size});
    }
    return found;
  }();
  return components;
}

template <class T>
void store(uint8_t* at, T value) {
  std::memcpy(at, &value, sizeof value);
}
template <class T>
T load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void set_initial_x87(uint8_t* image) {
  std::memset(image, 0, kMxcsr);
  std::memset(image + 32, 0, kXmm - 32);
  store(image + kControlWord, kInitialControlWord);
}

void load_extended(uint8_t* frame, const Bytes& extended) {
  auto bits = load<uint64_t>(frame + kStateBits);
  set_initial_x87(frame);
  store(frame + kMxcsr, extended.empty() ? kInitialMxcsr : load<uint32_t>(&extended[kMxcsr]));
  bits |= 1 << kX87;
  for (const Component& component : vector_components()) {
    const uint64_t bit = uint64_t{1} << component.number;
    if (extended.empty()) {
      std::memset(frame + component.offset, 0, component.size);
    } else {
      std::memcpy(frame + component.offset, &extended[component.offset], component.size);
    }
    bits |= bit;
  }
  store(frame + kStateBits, bits);
}

// Saves it into memory of the right size, since a signal handler must not allocate. Components in
// their initial state need not have been written to the frame.
void save_extended(const uint8_t* frame, Bytes& extended) {
  std::fill(extended.begin(), extended.end(), uint8_t{0});
  const auto bits = load<uint64_t>(frame + kStateBits);
  std::memcpy(extended.data(), frame, kXmm);
  if (!(bits >> kX87 & 1)) set_initial_x87(extended.data());
  for (const Component& component : vector_components())
    if (bits >> component.number & 1)
      std::memcpy(&extended[component.offset], frame + component.offset, component.size);
  // State of the last x87 instruction: necessarily differs, and only debuggers read it.
  store(extended.data() + kInstructionPointer, uint64_t{0});
}

struct Run {
  Run() {
    outcome.state.extended.resize(extended_size());
    own_extended.resize(extended_size());
  }
  const MachineState* start = nullptr;
  Outcome outcome;
  bool inside = false;
  gregset_t own_registers;
  Bytes own_extended;
  size_t own_size = 0;
};
thread_local Run* current_run = nullptr;

void on_signal(int signal, siginfo_t* info, void* context) {
  // Code may have left the alignment check on, which this code is not written for.
  asm volatile("pushfq; andl $~0x40000, (%%rsp); popfq" ::: "memory", "cc");
  auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
  auto* extended = reinterpret_cast<uint8_t*>(machine.fpregs);
  Run* run = current_run;
  if (run == nullptr || (!run->inside && signal != SIGTRAP)) {
    ::signal(signal, SIG_DFL);  // a bug of the test itself: let it end as it would have
    return;
  }
  if (!run->inside) {
    run->inside = true;
    std::memcpy(run->own_registers, machine.gregs, sizeof machine.gregs);
    run->own_size = std::min<size_t>(load<uint32_t>(extended + kFrameSize), extended_size());
    std::memcpy(run->own_extended.data(), extended, run->own_size);
    for (size_t i = 0; i < kRegisterSlots.size(); ++i)
      machine.gregs[kRegisterSlots[i]] = static_cast<greg_t>(run->start->general[i]);
    machine.gregs[REG_EFL] = static_cast<greg_t>(run->start->flags | 0x202);
    machine.gregs[REG_RIP] = static_cast<greg_t>(run->start->rip);
    load_extended(extended, run->start->extended);
    return;
  }
  Outcome& outcome = run->outcome;
  for (size_t i = 0; i < kRegisterSlots.size(); ++i)
    outcome.state.general[i] = static_cast<uint64_t>(machine.gregs[kRegisterSlots[i]]);
  outcome.state.flags = static_cast<uint64_t>(machine.gregs[REG_EFL]);
  outcome.state.rip = static_cast<uint64_t>(machine.gregs[REG_RIP]);
  save_extended(extended, outcome.state.extended);
  outcome.signal = signal;
  outcome.code = info->si_code;
  outcome.fault_address = reinterpret_cast<Address>(info->si_addr);
  if (signal == SIGTRAP && info->si_code == SI_KERNEL) {  // int3: rip is after it
    --outcome.state.rip;
    outcome.signal = outcome.code = 0;
    outcome.fault_address = 0;
  }
  std::memcpy(machine.gregs, run->own_registers, sizeof machine.gregs);
  std::memcpy(extended, run->own_extended.data(), run->own_size);
  run->inside = false;
  current_run = nullptr;
}

Address map_code(int file, Address at, off_t offset) {
  void* mapped = mmap(reinterpret_cast<void*>(at), kPageSize, PROT_READ | PROT_EXEC,
                      MAP_SHARED | MAP_FIXED, file, offset);
  if (mapped == MAP_FAILED) give_up("sandbox: code");
  return at;
}

std::string describe(const char* what, uint64_t in_place, uint64_t away) {
  char text[128];
  std::snprintf(text, sizeof text, "%s: in place %#lx, moved %#lx\n", what, in_place, away);
  return text;
}

}  // namespace

Sandbox::Sandbox(Where where) {
  vector_components();  // allocates the first time, which the signal handler must not
  const bool low = where == Where::low;
  const uint64_t size = low ? 1536 * kMega : 6 * kGiga;
  const Address wanted = low ? 256 * kMega : 0;
  void* reserved =
      mmap(reinterpret_cast<void*>(wanted), size, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (low ? MAP_FIXED_NOREPLACE : 0), -1, 0);
  if (reserved == MAP_FAILED) give_up("sandbox: address space");
  reserved_.begin = reinterpret_cast<Address>(reserved);
  reserved_.end = reserved_.begin + size;

  const int file = memfd_create("sandbox", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, 2 * kPageSize) != 0) give_up("sandbox: memory");
  home_page_ = map_code(file, reserved_.begin + size / 2, 0);
  away_page_ = map_code(file, home_page_ + 256 * kMega, kPageSize);
  void* writable = mmap(nullptr, 2 * kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (writable == MAP_FAILED) give_up("sandbox: writable code");
  close(file);
  code_ = static_cast<uint8_t*>(writable);
  std::memset(code_, kInt3, 2 * kPageSize);

  data_ = home_page_ - 64 * kMega;
  if (mprotect(reinterpret_cast<void*>(data_), kDataSize, PROT_READ | PROT_WRITE) != 0)
    give_up("sandbox: data");

  signal_stack_.resize(256 * 1024);
  stack_t stack = {};
  stack.ss_sp = signal_stack_.data();
  stack.ss_size = signal_stack_.size();
  if (sigaltstack(&stack, &previous_stack_) != 0) give_up("sandbox: signal stack");
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (size_t i = 0; i < kSignals.size(); ++i)
    sigaction(kSignals[i], &action, &previous_actions_[i]);
}

Sandbox::~Sandbox() {
  for (size_t i = 0; i < kSignals.size(); ++i)
    sigaction(kSignals[i], &previous_actions_[i], nullptr);
  sigaltstack(&previous_stack_, nullptr);
  munmap(code_, 2 * kPageSize);
  munmap(reinterpret_cast<void*>(reserved_.begin), reserved_.size());
}

uint64_t Sandbox::word(Address address) const {
  return load<uint64_t>(reinterpret_cast<const uint8_t*>(address));
}

void Sandbox::set_word(Address address, uint64_t value) {
  store(reinterpret_cast<uint8_t*>(address), value);
}

void Sandbox::place(Address page, Address at, std::span<const uint8_t> code) {
  uint8_t* begin = code_ + (page == home_page_ ? 0 : kPageSize);
  if (at - page + code.size() > kPageSize) give_up("sandbox: too much code");
  std::memset(begin, kInt3, kPageSize);
  std::copy(code.begin(), code.end(), begin + (at - page));
}

Outcome Sandbox::run(const MachineState& start) {
  Run run;
  run.start = &start;
  current_run = &run;
  asm volatile("int3" ::: "memory");
  return std::move(run.outcome);
}

void fill_randomly(std::span<uint8_t> memory, std::mt19937_64& random) {
  for (size_t i = 0; i + 8 <= memory.size(); i += 8) store(&memory[i], random());
}

MachineState random_state(std::mt19937_64& random, const Sandbox& sandbox) {
  MachineState state;
  for (uint64_t& value : state.general) value = random();
  state[Reg::rsp] = sandbox.data_middle() + (random() & 0x3f0);
  state.flags = random() & kVisibleFlags;
  state.extended.resize(extended_size());
  store(&state.extended[kMxcsr], kInitialMxcsr);
  for (const Component& component : vector_components())
    fill_randomly(std::span(state.extended).subspan(component.offset, component.size), random);
  return state;
}

std::string difference_of(const Outcome& in_place, const Outcome& away) {
  std::string text;
  const auto compare = [&](const char* what, uint64_t a, uint64_t b) {
    if (a != b) text += describe(what, a, b);
  };
  for (size_t i = 0; i < kRegisterNames.size(); ++i)
    compare(kRegisterNames[i], in_place.state.general[i], away.state.general[i]);
  compare("flags", in_place.state.flags, away.state.flags);
  compare("rip", in_place.state.rip, away.state.rip);
  compare("signal", static_cast<uint64_t>(in_place.signal), static_cast<uint64_t>(away.signal));
  compare("signal's code", static_cast<uint64_t>(in_place.code), static_cast<uint64_t>(away.code));
  compare("fault address", in_place.fault_address, away.fault_address);
  const auto& a = in_place.state.extended;
  const auto& b = away.state.extended;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    // The bytes between the legacy area and the first component belong to the kernel and the
    // processor.
    if (a[i] == b[i] || (i >= kLegacyEnd && i < kHeaderEnd)) continue;
    text += describe(("extended state at " + std::to_string(i)).c_str(), a[i], b[i]);
    break;
  }
  return text;
}

Comparison compare_moved(Sandbox& sandbox, std::span<const uint8_t> instruction,
                         const MachineState& start) {
  Comparison result;
  const auto decoded = decode(instruction, sandbox.home());
  if (!decoded || displaceable(instruction, *decoded) != Displaceable::yes) {
    result.difference = "not displaceable";
    return result;
  }
  Assembler code(sandbox.away());
  relocate(code, instruction, *decoded);
  const size_t copy_size = code.size();
  if (decoded->falls_through() && !decoded->is_call()) code.jmp(decoded->end());
  auto copy = code.finish();
  if (!copy) {
    result.difference = "out of reach";
    return result;
  }
  result.moved = true;
  result.copy = *std::move(copy);

  const auto memory = sandbox.memory();
  const Bytes before(memory.begin(), memory.end());
  MachineState at_start = start;
  at_start.rip = sandbox.home();
  sandbox.place_home(instruction.first(decoded->length));
  result.in_place = sandbox.run(at_start);
  const Bytes memory_in_place(memory.begin(), memory.end());

  // The instruction is removed from home, so that a copy that leads back to it fails.
  std::copy(before.begin(), before.end(), memory.begin());
  sandbox.place_home({});
  sandbox.place_away(result.copy);
  at_start.rip = sandbox.away();
  result.away = sandbox.run(at_start);
  const Range copied = {sandbox.away(), sandbox.away() + copy_size};
  if (result.away.signal != 0 && copied.contains(result.away.state.rip))
    result.away.state.rip = sandbox.home();
  if (copied.contains(result.away.fault_address)) result.away.fault_address = sandbox.home();

  result.difference = difference_of(result.in_place, result.away);
  const auto [a, b] = std::mismatch(memory_in_place.begin(), memory_in_place.end(), memory.begin());
  if (a != memory_in_place.end())
    result.difference += describe(
        ("memory at rsp + " +
         std::to_string(static_cast<int64_t>(sandbox.data() +
                                             static_cast<uint64_t>(a - memory_in_place.begin()) -
                                             start[Reg::rsp])))
            .c_str(),
        *a, *b);
  return result;
}

}  // namespace pinprick::arch
