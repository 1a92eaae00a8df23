// What functions do with their arguments: compiled functions of this file, and handwritten code.
#include "arch/value_flow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bytes.h"

namespace pinprick::arch {
namespace {

using Kind = Value::Kind;

// Sanitizers would add branches and calls: the functions would not be those that are written here.
#if __has_attribute(disable_sanitizer_instrumentation)
#define AS_WRITTEN                                                    \
  __attribute__((noinline, used, no_sanitize("address", "undefined"), \
                 disable_sanitizer_instrumentation))
#else
#define AS_WRITTEN __attribute__((noinline, used))
#endif

// As in an unwinder.
struct Context {
  long* registers[18];
  long cfa;
  long address;
  char by_value[18];
};

extern "C" AS_WRITTEN void value_flow_sets(Context* context, long address) {
  context->address = address;
}
extern "C" AS_WRITTEN long value_flow_gets(Context* context) {
  return context->address;
}
extern "C" AS_WRITTEN void value_flow_sets_register(Context* context, int number, long value) {
  if (number > 17) __builtin_trap();
  if (context->by_value[number] != 0)
    context->registers[number] = reinterpret_cast<long*>(value);
  else
    *context->registers[number] = value;
}

constexpr size_t kLongest = 256;  // of those functions and what follows them
std::span<const uint8_t> code_at(Address address) {
  return {reinterpret_cast<const uint8_t*>(address), kLongest};
}
template <class F>
std::vector<Path> through(F* function, std::optional<int64_t> second = {}) {
  const auto all = paths_through(code_at, reinterpret_cast<Address>(function), second);
  EXPECT_TRUE(all.has_value());
  return all.value_or(std::vector<Path>());
}

std::optional<std::vector<Path>> through(const Bytes& bytes) {
  return paths_through(
      [&](Address at) {
        return at < bytes.size() ? std::span(bytes).subspan(at) : std::span<const uint8_t>();
      },
      0);
}

TEST(ValueFlow, SeesWhatIsStoredWhere) {
  const auto paths = through(&value_flow_sets);
  ASSERT_EQ(paths.size(), 1u);
  EXPECT_TRUE(paths[0].returns);
  ASSERT_EQ(paths[0].stores.size(), 1u);
  EXPECT_TRUE(paths[0].stores[0].to.is_argument(0, offsetof(Context, address)));
  EXPECT_TRUE(paths[0].stores[0].value.is_argument(1));
  EXPECT_EQ(paths[0].stores[0].size, 8);
}

TEST(ValueFlow, SeesWhatIsReturned) {
  const auto paths = through(&value_flow_gets);
  ASSERT_EQ(paths.size(), 1u);
  EXPECT_TRUE(paths[0].stores.empty());
  const Value field = {.kind = Kind::field, .argument = 0, .offset = offsetof(Context, address)};
  EXPECT_EQ(paths[0].result, field);
}

TEST(ValueFlow, FollowsBothDirectionsOfABranch) {
  int by_value = 0, by_pointer = 0;
  for (const Path& path : through(&value_flow_sets_register, 1)) {
    if (!path.returns) continue;
    ASSERT_EQ(path.stores.size(), 1u);
    EXPECT_TRUE(path.stores[0].value.is_argument(2));
    const Value pointed = {.kind = Kind::field, .argument = 0, .offset = 8};
    by_value += path.stores[0].to.is_argument(0, 8);
    by_pointer += path.stores[0].to == pointed;
  }
  EXPECT_GT(by_value, 0);
  EXPECT_GT(by_pointer, 0);
}

TEST(ValueFlow, FollowsValuesThroughTheStackAndRegisters) {
  // push %rdi; mov %rsi,%rax; pop %rcx; mov %rax,16(%rcx); ret
  const auto paths = through(Bytes{0x57, 0x48, 0x89, 0xf0, 0x59, 0x48, 0x89, 0x41, 0x10, 0xc3});
  ASSERT_TRUE(paths && paths->size() == 1);
  ASSERT_EQ(paths->front().stores.size(), 1u) << "its own stack does not count";
  EXPECT_TRUE(paths->front().stores[0].to.is_argument(0, 16));
  EXPECT_TRUE(paths->front().stores[0].value.is_argument(1));
}

TEST(ValueFlow, ClaimsNothingOfWhatItDoesNotUnderstand) {
  // bswap %rsi; mov %rsi,(%rdi,%rdx,2); ret
  auto paths = through(Bytes{0x48, 0x0f, 0xce, 0x48, 0x89, 0x34, 0x57, 0xc3});
  ASSERT_TRUE(paths && paths->size() == 1);
  ASSERT_EQ(paths->front().stores.size(), 1u);
  EXPECT_EQ(paths->front().stores[0].to.kind, Kind::unknown);
  EXPECT_EQ(paths->front().stores[0].value.kind, Kind::unknown);
  // 1: dec %edi; jne 1b; ret
  EXPECT_FALSE(through(Bytes{0xff, 0xcf, 0x75, 0xfc, 0xc3})) << "a loop";
  EXPECT_FALSE(through(Bytes{0xff, 0xe7})) << "jmp *%rdi";
  EXPECT_FALSE(through(Bytes{0x06})) << "no instruction";
  EXPECT_FALSE(through(Bytes{0x90})) << "cut off";
}

TEST(ValueFlow, SeesWhatIsPassedToCallees) {
  // mov 152(%rdi),%rdx; mov 192(%rdi),%rax; lea 168(%rdi),%rsi; shr $63,%rax;
  // lea -1(%rdx,%rax),%rdi; call +0; ret
  const Bytes code = {0x48, 0x8b, 0x97, 0x98, 0,    0,    0,    0x48, 0x8b, 0x87, 0xc0, 0,
                      0,    0,    0x48, 0x8d, 0xb7, 0xa8, 0,    0,    0,    0x48, 0xc1, 0xe8,
                      0x3f, 0x48, 0x8d, 0x7c, 0x02, 0xff, 0xe8, 0,    0,    0,    0,    0xc3};
  const auto calls = direct_calls(code, 0x1000);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].target, 0x1000 + code.size() - 1);
  const Value near = {.kind = Kind::field, .argument = 0, .exact = false, .offset = 152};
  EXPECT_EQ(calls[0].arguments[0], near);
  EXPECT_TRUE(calls[0].arguments[1].is_argument(0, 168));
}

}  // namespace
}  // namespace pinprick::arch
