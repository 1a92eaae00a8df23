#include "arch/known_code.h"

#include <string.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace pinprick::arch {
namespace {

// The arguments of the call, all six, move to where the kernel has them; then the call.
constexpr uint8_t kCancellableCall[] = {0x49, 0x89, 0xfb, 0x48, 0x89, 0xf0, 0x48, 0x89, 0xd7,
                                        0x48, 0x89, 0xce, 0x4c, 0x89, 0xc2, 0x4d, 0x89, 0xca,
                                        0x4c, 0x8b, 0x44, 0x24, 0x08, 0x4c, 0x8b, 0x4c, 0x24,
                                        0x10, 0x4c, 0x89, 0x5c, 0x24, 0x08, 0x0f, 0x05};

// mov (%rdi),%eax; ret; mov %esi,%eax; ret, and the same with 64 bits.
constexpr uint8_t kSafeFetch[] = {0x8b, 0x07, 0xc3, 0x89, 0xf0, 0xc3, 0x48,
                                  0x8b, 0x07, 0xc3, 0x48, 0x89, 0xf0, 0xc3};

// cmpl $0,(%rbp); jne; syscall: QEMU makes the emulated program's call if no signal is pending.
constexpr uint8_t kPendingCheck[] = {0x83, 0x7d, 0x00, 0x00, 0x75};
constexpr uint8_t kPendingCall[] = {0x0f, 0x05};

// jmp *distance(%rip)
constexpr uint8_t kJumpThrough[] = {0xff, 0x25};
constexpr size_t kJumpThroughSize = sizeof kJumpThrough + sizeof(int32_t);

// The number in a template that stands for one that is not known yet.
constexpr uint8_t kToBeWritten[] = {0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0};

template <class Take>
void for_each(std::span<const uint8_t> code, std::span<const uint8_t> wanted, const Take& take) {
  const uint8_t* at = code.data();
  const uint8_t* const end = at + code.size();
  while ((at = static_cast<const uint8_t*>(::memmem(at, static_cast<size_t>(end - at),
                                                    wanted.data(), wanted.size()))) != nullptr)
    take(static_cast<size_t>(at++ - code.data()));
}

// Is this the immediate of a movabs?
bool is_moved(std::span<const uint8_t> code, size_t number) {
  return number >= 2 && (code[number - 2] & 0xfe) == 0x48 && (code[number - 1] & 0xf8) == 0xb8;
}

// Does the jump read its target from the code itself?
bool jumps_through_code(std::span<const uint8_t> code, size_t jump) {
  if (code.size() - jump < kJumpThroughSize) return false;
  int32_t distance;
  std::memcpy(&distance, code.data() + jump + sizeof kJumpThrough, sizeof distance);
  const int64_t pointer = static_cast<int64_t>(jump + kJumpThroughSize) + distance;
  return pointer >= 0 && pointer + int64_t{sizeof(uint64_t)} <= std::ssize(code);
}

}  // namespace

std::vector<KnownCode> find_known_code(std::span<const uint8_t> code) {
  std::vector<KnownCode> found;
  for_each(code, kCancellableCall, [&](size_t at) {
    found.push_back({at, sizeof kCancellableCall});
  });
  for_each(code, kSafeFetch, [&](size_t at) { found.push_back({at, sizeof kSafeFetch}); });
  for_each(code, kToBeWritten, [&](size_t at) {
    if (is_moved(code, at))
      found.push_back({at - 2, 2 + sizeof kToBeWritten, KnownCode::Proof::stores_first});
  });
  for_each(code, kPendingCheck, [&](size_t at) {
    constexpr size_t kCall = sizeof kPendingCheck + 1, kSize = kCall + sizeof kPendingCall;
    if (code.size() - at >= kSize &&
        std::equal(std::begin(kPendingCall), std::end(kPendingCall), code.begin() + at + kCall))
      found.push_back({at, kSize});
  });
  for_each(code, kJumpThrough, [&](size_t at) {
    if (jumps_through_code(code, at))
      found.push_back({at, kJumpThroughSize, KnownCode::Proof::is_instruction});
  });
  std::sort(found.begin(), found.end(),
            [](const KnownCode& a, const KnownCode& b) { return a.offset < b.offset; });
  return found;
}

bool is_template(std::span<const uint8_t> function) {
  constexpr uint8_t kStore[] = {0x48, 0x89, 0x37};  // mov %rsi,(%rdi)
  return function.size() >= sizeof kStore &&
         std::equal(std::begin(kStore), std::end(kStore), function.begin());
}

}  // namespace pinprick::arch
