// Any bytes as a function that may look at its return address.
#include "arch/x86_64/return_address.h"

#include "fuzzer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> function(data, size);
  const bool reads = pinprick::arch::reads_return_address(function);
  CHECK(reads == pinprick::arch::reads_return_address(function));
  return 0;
}

std::vector<Input> seeds() {
  std::vector<Input> all = {
      {0x48, 0x8b, 0x04, 0x24, 0xc3},                          // mov (%rsp), %rax; ret
      {0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x45, 0x08, 0xc3},  // push %rbp; ...; mov 8(%rbp), %rax
      {0x5e, 0xff, 0xe6},                                      // pop %rsi; jmp *%rsi
      {0x48, 0x83, 0xec, 0x18, 0x48, 0x8b, 0x4c, 0x24, 0x18, 0xc3},
  };
  const Input library = pinprick::fuzz::file("/lib/x86_64-linux-gnu/libc.so.6");
  for (size_t at = library.size() / 5; at + 256 < library.size() && all.size() < 50;
       at += library.size() / 100)
    all.emplace_back(library.begin() + static_cast<ptrdiff_t>(at),
                     library.begin() + static_cast<ptrdiff_t>(at + 256));
  return all;
}
