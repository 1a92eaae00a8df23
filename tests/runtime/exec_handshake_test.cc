// The exec handshake in this process: the hook's stub as in a target, and a controller that
// answers, is gone, or vanishes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "arch/stub.h"
#include "base/clock.h"
#include "call_with_registers.h"
#include "executable_memory.h"
#include "layout/session_file.h"
#include "runtime/image.h"

namespace pinprick::runtime {
namespace {

using layout::ExecSlot;

std::atomic_ref<uint32_t> shared(uint32_t& word) {
  return std::atomic_ref(word);
}

// A function that does nothing, with the hook at its entry, and a red zone.
class Hooked {
 public:
  Hooked() : code_(2 * kPageSize) {
    static constexpr uint8_t kRet[] = {0xc3};
    code_.write(kPageSize, kRet);
    arch::Assembler stub(code_.address());
    const arch::StubAction waits = {
        .stack = arch::StackUse::keep_red_zone,
        .what = arch::CallRoutine{.routine = exec_handshake_code(),
                                  .argument = reinterpret_cast<Address>(&handshake_)}};
    begin_ =
        arch::emit_stub(stub, {}, {.actions = {&waits, 1}}, {code_.address() + kPageSize, kRet})
            .begin;
    code_.write(0, *stub.finish());
    code_.seal();
    handshake_.timeout = (uint64_t{1'000'000'000} << 32) / ns_multiplier();  // a second
    handshake_.tid_offset = 0;  // the lower half of the thread pointer
  }

  layout::ExecHandshake& handshake() { return handshake_; }
  ExecSlot& slot(size_t i) { return handshake_.slots[i]; }
  void call() { code_.function<void()>(begin_ - code_.address())(); }
  void* function() { return code_.function<void>(begin_ - code_.address()); }

  void wait_for_request(size_t slot) {
    while (shared(handshake_.slots[slot].state) != ExecSlot::asks) std::this_thread::yield();
  }
  void answer(size_t slot) { shared(handshake_.slots[slot].state) = ExecSlot::answered; }

 private:
  layout::ExecHandshake handshake_;
  ExecutableMemory code_;
  Address begin_ = 0;
};

TEST(ExecHandshake, KeepsAllRegistersAndFlags) {
  Hooked hooked;
  CallRegisters in{};
  uint64_t value = 0x0123'4567'89ab'cdef;
  for (uint64_t* reg = &in.rax; reg != &in.flags; ++reg) *reg = value *= 3;
  for (const uint64_t flags : {kArithmeticFlags, uint64_t{0}})
    for (const uint32_t gone : {0, 1}) {
      hooked.handshake().controller_gone = gone;
      std::thread controller([&] {
        if (gone != 0) return;
        hooked.wait_for_request(0);
        hooked.answer(0);
      });
      in.flags = flags;
      CallRegisters out = in;
      call_with_registers(hooked.function(), &out);
      out.flags &= kArithmeticFlags;
      EXPECT_EQ(std::memcmp(&out, &in, sizeof in), 0);
      controller.join();
    }
  EXPECT_EQ(hooked.handshake().missed, 2u);
}

TEST(ExecHandshake, WaitsInASlotOfItsOwnUntilThatIsAnswered) {
  Hooked hooked;
  std::atomic<int> through = 0;
  const auto caller = [&] {
    hooked.call();
    ++through;
  };
  std::thread first(caller);
  hooked.wait_for_request(0);
  std::thread second(caller);
  hooked.wait_for_request(1);
  EXPECT_NE(hooked.slot(0).tid, hooked.slot(1).tid);
  EXPECT_EQ(through, 0);
  hooked.answer(1);
  second.join();
  EXPECT_EQ(through, 1);
  EXPECT_EQ(shared(hooked.slot(1).state), ExecSlot::free);
  hooked.answer(0);
  first.join();
  EXPECT_EQ(hooked.slot(0).state, ExecSlot::free);
  EXPECT_EQ(hooked.handshake().missed, 0u);
}

TEST(ExecHandshake, GoesOnWhereNoSlotIsFree) {
  Hooked hooked;
  for (ExecSlot& slot : hooked.handshake().slots) slot.state = ExecSlot::taken;
  hooked.call();
  EXPECT_EQ(hooked.handshake().missed, 1u);
  for (ExecSlot& slot : hooked.handshake().slots) EXPECT_EQ(slot.state, ExecSlot::taken);
}

TEST(ExecHandshake, GoesOnWhenItsSlotWasFreedForAnother) {
  Hooked hooked;
  std::thread caller([&] { hooked.call(); });
  hooked.wait_for_request(0);
  shared(hooked.slot(0).state) = ExecSlot::taken;
  caller.join();
  EXPECT_EQ(hooked.slot(0).state, ExecSlot::taken) << "it is the other's";
}

TEST(ExecHandshake, TimesOutWithoutAHeartbeatAndThenNoThreadWaits) {
  Hooked hooked;
  hooked.call();
  EXPECT_EQ(hooked.handshake().controller_gone, 1u);
  EXPECT_EQ(hooked.slot(0).state, ExecSlot::free);
  hooked.call();
  EXPECT_EQ(hooked.handshake().missed, 2u);
}

TEST(ExecHandshake, WaitsAsLongAsTheControllerIsAtWork) {
  Hooked hooked;
  std::thread caller([&] { hooked.call(); });
  hooked.wait_for_request(0);
  constexpr uint64_t kLongerThanTimeoutNs = 1'500'000'000;
  for (const uint64_t begin = monotonic_ns(); monotonic_ns() - begin < kLongerThanTimeoutNs;)
    ++shared(hooked.handshake().heartbeat);
  EXPECT_EQ(shared(hooked.handshake().controller_gone), 0u);
  hooked.answer(0);
  caller.join();
}

}  // namespace
}  // namespace pinprick::runtime
