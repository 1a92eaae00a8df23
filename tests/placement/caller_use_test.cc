// Functions of this program, in assembly, that pass their callers on in all ways but through other
// libraries (tests/cli/callers.bats has those), and how that is found out.
#include "placement/caller_use.h"

#include <gtest/gtest.h>
#include <sys/uio.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "image/match.h"
#include "image/process.h"

asm(R"(
  .macro function name
    .balign 16, 0xcc
    .globl \name
    .hidden \name
    .type \name, @function
    .cfi_startproc
    \name:
  .endm
  .macro end_of name
    .cfi_endproc
    .size \name, . - \name
  .endm
  .macro jumps name, to:vararg
    function \name
      jmp \to
    end_of \name
  .endm

  .data
  .balign 8
  use_reader: .quad use_reads
  use_nothing: .quad 0
  .text

  function use_reads
    mov (%rsp), %rax
    ret
  end_of use_reads
  function use_keeps
    xor %eax, %eax
    ret
  end_of use_keeps
  function use_calls
    sub $8, %rsp
    call use_reads
    add $8, %rsp
    ret
  end_of use_calls

  jumps use_jumps, use_reads
  jumps use_jumps_to_keeper, use_keeps
  jumps use_chain, use_reads
  .rept 200
    .balign 16, 0xcc
    .cfi_startproc
    jmp . - 16
    .cfi_endproc
  .endr
  jumps use_end_of_chain, . - 16

  function use_circle_a
    test %edi, %edi
    je use_circle_b
    ret
  end_of use_circle_a
  jumps use_circle_b, use_circle_a
  function use_way_out_a
    test %edi, %edi
    je use_way_out_b
    jmp use_keeps
  end_of use_way_out_a
  function use_way_out_b
    test %edi, %edi
    je use_way_out_a
    jmp use_reads
  end_of use_way_out_b

  jumps use_variable, *use_reader(%rip)
  jumps use_null_variable, *use_nothing(%rip)
  jumps use_field, *16(%rdi)
  function use_register
    mov use_reader(%rip), %rcx
    jmp *%rcx
  end_of use_register

  function __x86_indirect_thunk_rax
    call 2f
  1: pause
    lfence
    jmp 1b
  2: mov %rax, (%rsp)
    ret
  end_of __x86_indirect_thunk_rax
  function use_thunk
    mov use_reader(%rip), %rax
    jmp __x86_indirect_thunk_rax
  end_of use_thunk
  function use_thunk_of_field
    mov 16(%rdi), %rax
    jmp __x86_indirect_thunk_rax
  end_of use_thunk_of_field

  jumps mcount, use_keeps
  jumps __fentry__, use_keeps
  function use_mcount
    push %rbp
    mov %rsp, %rbp
    call mcount
    pop %rbp
    ret
  end_of use_mcount
  function use_fentry
    call __fentry__
    ret
  end_of use_fentry
  jumps use_jumps_to_mcount, use_mcount
  jumps use_jumps_to_fentry, use_fentry
)");

namespace pinprick::placement {
namespace {

bool read_own(Address at, std::span<uint8_t> out) {
  const iovec to = {out.data(), out.size()};
  const iovec from = {reinterpret_cast<void*>(at), out.size()};
  return ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) == static_cast<ssize_t>(out.size());
}

class OwnCallers : public testing::Test {
 protected:
  void SetUp() override {
    auto loaded = image::load_process(::getpid(), read_own);
    ASSERT_TRUE(loaded);
    image_ = *std::move(loaded);
  }
  image::Match match(const std::string& name) {
    image::Match one;
    one.object = image_.objects.front().get();
    const std::string_view names[] = {name};
    one.function = one.object->functions_named(names).front();
    return one;
  }
  static std::optional<plan::Reason> reason(CallerUse& callers, const image::Match& one) {
    callers.look_at({&one, 1});
    return callers.reason(*one.object, *one.function);
  }

  image::ProcessImage image_;
};

TEST_F(OwnCallers, ArePassedOnByJumpsToAnyDepth) {
  constexpr auto kReads = plan::Reason::reads_return_address;
  const struct {
    const char* function;
    std::optional<plan::Reason> reason;
  } kCases[] = {
      {"use_reads", kReads},
      {"use_keeps", {}},
      {"use_calls", {}},
      {"use_jumps", kReads},
      {"use_jumps_to_keeper", {}},
      {"use_end_of_chain", kReads},
      {"use_circle_a", {}},
      {"use_circle_b", {}},
      {"use_way_out_a", kReads},
      {"use_way_out_b", kReads},
      {"use_variable", kReads},
      {"use_null_variable", {}},
      {"use_field", {}},
      {"use_register", kReads},
      {"use_thunk", kReads},
      {"use_thunk_of_field", {}},
      // These two report their callers themselves; where they are timed from is return_site()'s.
      {"use_mcount", {}},
      {"use_fentry", {}},
      {"use_jumps_to_mcount", kReads},
      {"use_jumps_to_fentry", kReads},
  };
  // Each alone, all one after the other, and all at once.
  CallerUse by_turns(image_), at_once(image_);
  std::vector<image::Match> all;
  for (const auto& one : kCases) all.push_back(match(one.function));
  at_once.look_at(all);
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_NE(all[i].function, nullptr) << kCases[i].function;
    CallerUse alone(image_);
    EXPECT_EQ(reason(alone, all[i]), kCases[i].reason) << kCases[i].function;
    EXPECT_EQ(reason(by_turns, all[i]), kCases[i].reason) << kCases[i].function;
    EXPECT_EQ(at_once.reason(*all[i].object, *all[i].function), kCases[i].reason)
        << kCases[i].function;
  }
}

// Most functions may be timed: refusing what is merely not understood would refuse many.
TEST_F(OwnCallers, AreOfNoUseToNearlyAllFunctionsOfLibraries) {
  CallerUse callers(image_);
  for (const auto& object : image_.objects) {
    const bool is_checked = object->name().starts_with("libstdc++.so") ||
                            object->name().starts_with("libc.so") ||
                            object->name().starts_with("libm.so");
    if (!is_checked) continue;
    std::vector<image::Match> all;
    for (const image::Function& function : object->functions().functions())
      if (function.entered_by_call) {
        image::Match one;
        one.object = object.get();
        one.function = &function;
        all.push_back(one);
      }
    object->load_text();
    object->imported_at(0);
    callers.look_at(all);
    const auto refused = std::count_if(all.begin(), all.end(), [&](const image::Match& one) {
      return callers.reason(*one.object, *one.function).has_value();
    });
    EXPECT_LT(static_cast<size_t>(refused), all.size() / 50 + 1) << object->name();
  }
}

}  // namespace
}  // namespace pinprick::placement
