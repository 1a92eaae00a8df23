// Seccomp filters: the kernel and our code run the same programs, and must get the same results.
#include "target/seccomp.h"

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <random>

#include "target/child.h"

namespace pinprick::target {
namespace {

using Program = std::vector<sock_filter>;

// A call that takes any arguments and does nothing if it is allowed.
constexpr int kNumber = SYS_getppid;

sock_filter statement(int code, uint32_t k) {
  return BPF_STMT(static_cast<uint16_t>(code), k);
}

sock_filter branch(int code, uint32_t k, uint8_t jt, uint8_t jf) {
  return BPF_JUMP(static_cast<uint16_t>(code), k, jt, jf);
}

seccomp_data call_with(const std::array<uint64_t, 6>& arguments) {
  seccomp_data call = {kNumber, AUDIT_ARCH_X86_64, 0, {}};
  std::copy(arguments.begin(), arguments.end(), call.args);
  return call;
}

// The errno that a child under the filter gets for the call; 0 if it is allowed.
int kernels_errno(const Program& program, const std::array<uint64_t, 6>& arguments) {
  Child child([&](Shared& shared) {
    const sock_fprog code = {static_cast<uint16_t>(program.size()),
                             const_cast<sock_filter*>(program.data())};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &code) != 0)
      _exit(2);
    const auto& a = arguments;
    const long result = syscall(kNumber, a[0], a[1], a[2], a[3], a[4], a[5]);
    shared.rounds = result < 0 ? static_cast<uint64_t>(errno) : 0;
  });
  EXPECT_EQ(child.finish(), 0);
  return static_cast<int>(child.shared().rounds);
}

// Returns eight bits of A as the errno, so that the calculation shows.
void answer_by_errno(Program& program) {
  program.push_back(statement(BPF_ALU | BPF_AND | BPF_K, 0xff));
  program.push_back(statement(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO));
  program.push_back(statement(BPF_RET | BPF_A, 0));
}

// Other calls must be allowed.
Program only_our_call() {
  return {statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
          branch(BPF_JMP | BPF_JEQ | BPF_K, kNumber, 1, 0),
          statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
}

Program any_program(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<int> codes) {
    return *(codes.begin() + random() % codes.size());
  };
  const auto number = [&] { return static_cast<uint32_t>(random()); };
  Program program = only_our_call();
  for (uint32_t k = 0; k < BPF_MEMWORDS; ++k) program.push_back(statement(BPF_ST, k));
  for (int i = 0; i < 40; ++i) {
    const int source = pick({BPF_K, BPF_X});
    const uint32_t word = number() % BPF_MEMWORDS, field = number() % 16 * 4;
    switch (random() % 8) {
      case 0:
        program.push_back(statement(BPF_LD | BPF_W | BPF_ABS, field));
        break;
      case 1:
        program.push_back(statement(pick({BPF_LD, BPF_LDX}) | BPF_MEM, word));
        break;
      case 2:
        program.push_back(statement(pick({BPF_LD, BPF_LDX}) | BPF_IMM, number()));
        break;
      case 3:
        program.push_back(statement(pick({BPF_ST, BPF_STX}), word));
        break;
      case 4:
        program.push_back(statement(BPF_MISC | pick({BPF_TAX, BPF_TXA}), 0));
        break;
      case 5:
        program.push_back(statement(pick({BPF_LD, BPF_LDX}) | BPF_W | BPF_LEN, 0));
        break;
      case 6: {
        const int condition = pick({BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET});
        program.push_back(branch(BPF_JMP | condition | source, number(), 1, 0));
        program.push_back(statement(BPF_ALU | BPF_NEG, 0));
        break;
      }
      default: {
        // Shifts by fewer than 32 bits, and divisors that are not zero.
        const bool shifts = random() % 3 == 0;
        const int operation = shifts ? pick({BPF_LSH, BPF_RSH})
                                     : pick({BPF_ADD, BPF_SUB, BPF_MUL, BPF_AND, BPF_OR, BPF_XOR});
        program.push_back(statement(BPF_ALU | operation | (shifts ? BPF_K : source),
                                    shifts ? number() % 32 : number()));
        program.push_back(statement(BPF_ALU | BPF_DIV | BPF_K, number() % 7 + 1));
      }
    }
  }
  answer_by_errno(program);
  return program;
}

bool filters_work() {
  Child child([](Shared&) { _exit(prctl(PR_GET_SECCOMP) == 0 ? 0 : 1); });
  return child.finish() == 0;
}

TEST(SeccompFilter, DecidesAsTheKernelDoes) {
  if (!filters_work()) GTEST_SKIP() << "this process is under a filter itself";
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    const Program program = any_program(random);
    const std::array<uint64_t, 6> arguments = {
        random(), random() * uint64_t{5'000'000'007}, 0, 1, ~uint64_t{0}, random()};
    // Only the kernel knows the address of the calling instruction (two fields).
    const bool knows = std::none_of(program.begin(), program.end(), [](const sock_filter& step) {
      return step.code == (BPF_LD | BPF_W | BPF_ABS) && (step.k == 8 || step.k == 12);
    });
    if (!knows) continue;
    const uint32_t ours = run_seccomp_filter(program, call_with(arguments));
    ASSERT_EQ(ours & SECCOMP_RET_ACTION_FULL, static_cast<uint32_t>(SECCOMP_RET_ERRNO));
    EXPECT_EQ(static_cast<int>(ours & SECCOMP_RET_DATA), kernels_errno(program, arguments)) << i;
  }
}

TEST(SeccompFilter, KillsIfItIsNoValidProgram) {
  const seccomp_data call = call_with({});
  const uint32_t kills = SECCOMP_RET_KILL_PROCESS;
  EXPECT_EQ(run_seccomp_filter({}, call), kills);
  const Program endless = {statement(BPF_LD | BPF_IMM, SECCOMP_RET_ALLOW)};
  const Program behind_the_end = {branch(BPF_JMP | BPF_JA, 7, 0, 0),
                                  statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const Program outside = {statement(BPF_LD | BPF_W | BPF_ABS, sizeof call),
                           statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const Program no_memory = {statement(BPF_ST, BPF_MEMWORDS),
                             statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  for (const Program& program : {endless, behind_the_end, outside, no_memory})
    EXPECT_EQ(run_seccomp_filter(program, call), kills);
}

}  // namespace
}  // namespace pinprick::target
