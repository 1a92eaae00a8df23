// The loader handshake in this process: the hook's stub as in a target, and a controller that
// answers, is gone, or vanishes.
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <thread>

#include "arch/stub.h"
#include "base/clock.h"
#include "call_with_registers.h"
#include "executable_memory.h"
#include "layout/session_file.h"
#include "runtime/image.h"

namespace pinprick::runtime {
namespace {

std::atomic_ref<uint32_t> shared(uint32_t& word) {
  return std::atomic_ref(word);
}

// A loader's function that does nothing, with the hook at its entry.
class Hooked {
 public:
  Hooked() : code_(2 * kPageSize) {
    static constexpr uint8_t kRet[] = {0xc3};
    code_.write(kPageSize, kRet);
    arch::Assembler stub(code_.address());
    const arch::StubAction waits = {
        .what = arch::CallRoutine{.routine = loader_handshake_code(),
                                  .argument = reinterpret_cast<Address>(&handshake_)}};
    begin_ =
        arch::emit_stub(stub, {}, {.actions = {&waits, 1}}, {code_.address() + kPageSize, kRet})
            .begin;
    code_.write(0, *stub.finish());
    code_.seal();
    handshake_.timeout = (uint64_t{1'000'000'000} << 32) / ns_multiplier();  // a second
  }

  layout::LoaderHandshake& handshake() { return handshake_; }
  void call() { code_.function<void()>(begin_ - code_.address())(); }
  void* function() { return code_.function<void>(begin_ - code_.address()); }

  void wait_for_request(uint32_t number) {
    while (shared(handshake_.requests) != number) std::this_thread::yield();
  }
  void answer(uint32_t number) {
    shared(handshake_.answered) = number;
    ::syscall(SYS_futex, &handshake_.answered, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }

 private:
  layout::LoaderHandshake handshake_;
  ExecutableMemory code_;
  Address begin_ = 0;
};

TEST(LoaderHandshake, KeepsAllRegistersAndFlags) {
  Hooked hooked;
  hooked.handshake().answered = 2;
  CallRegisters in{};
  uint64_t value = 0x0123'4567'89ab'cdef;
  for (uint64_t* reg = &in.rax; reg != &in.flags; ++reg) *reg = value *= 3;
  in.flags = kArithmeticFlags;
  for (const uint64_t flags : {kArithmeticFlags, uint64_t{0}}) {
    in.flags = flags;
    CallRegisters out = in;
    call_with_registers(hooked.function(), &out);
    out.flags &= kArithmeticFlags;
    EXPECT_EQ(std::memcmp(&out, &in, sizeof in), 0);
  }
  EXPECT_EQ(hooked.handshake().requests, 2u);
  EXPECT_EQ(hooked.handshake().controller_gone, 0u);
}

TEST(LoaderHandshake, WaitsUntilItsOwnRequestIsAnswered) {
  Hooked hooked;
  std::atomic<int> through = 0;
  std::thread first([&] {
    hooked.call();
    ++through;
  });
  hooked.wait_for_request(1);
  std::thread second([&] {
    hooked.call();
    ++through;
  });
  hooked.wait_for_request(2);
  EXPECT_EQ(through, 0);
  hooked.answer(1);
  first.join();
  EXPECT_EQ(through, 1);
  hooked.answer(2);
  second.join();
  EXPECT_EQ(hooked.handshake().controller_gone, 0u);
}

TEST(LoaderHandshake, CountsPastTheLargestNumber) {
  Hooked hooked;
  hooked.handshake().requests = UINT32_MAX;
  hooked.handshake().answered = UINT32_MAX;
  std::thread caller([&] { hooked.call(); });
  hooked.wait_for_request(0);
  hooked.answer(0);
  caller.join();
  EXPECT_EQ(hooked.handshake().controller_gone, 0u);
}

TEST(LoaderHandshake, DoesNotWaitForAControllerThatIsGone) {
  Hooked hooked;
  hooked.handshake().controller_gone = 1;
  hooked.call();
  EXPECT_EQ(hooked.handshake().requests, 1u) << "but tells";
}

TEST(LoaderHandshake, TimesOutWithoutAHeartbeat) {
  Hooked hooked;
  hooked.call();
  EXPECT_EQ(hooked.handshake().controller_gone, 1u);
}

TEST(LoaderHandshake, WaitsAsLongAsTheControllerIsAtWork) {
  Hooked hooked;
  std::thread caller([&] { hooked.call(); });
  hooked.wait_for_request(1);
  constexpr uint64_t kLongerThanTimeoutNs = 1'500'000'000;
  for (const uint64_t begin = monotonic_ns(); monotonic_ns() - begin < kLongerThanTimeoutNs;)
    ++shared(hooked.handshake().heartbeat);
  EXPECT_EQ(shared(hooked.handshake().controller_gone), 0u);
  hooked.answer(1);
  caller.join();
}

}  // namespace
}  // namespace pinprick::runtime
