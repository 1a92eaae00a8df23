// Functions that read their own return address, and functions that only seem to.
#include "arch/return_address.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bytes.h"
#include "image/process.h"
#include "library_path.h"

namespace pinprick::arch {
namespace {

struct Case {
  const char* assembly;
  Bytes bytes;
};

TEST(ReturnAddress, IsReadThroughTheStackPointerWhereverItHasMoved) {
  const Case kCases[] = {
      {"mov (%rsp),%rax; ret", {0x48, 0x8b, 0x04, 0x24, 0xc3}},
      {"push %rbx; mov 8(%rsp),%rax", {0x53, 0x48, 0x8b, 0x44, 0x24, 0x08}},
      {"push %r12; push %rbx; mov 16(%rsp),%rdi", {0x41, 0x54, 0x53, 0x48, 0x8b, 0x7c, 0x24, 0x10}},
      {"sub $24,%rsp; mov 24(%rsp),%rsi", {0x48, 0x83, 0xec, 0x18, 0x48, 0x8b, 0x74, 0x24, 0x18}},
      {"sub $0x118,%rsp; mov 0x118(%rsp),%rax",
       {0x48, 0x81, 0xec, 0x18, 0x01, 0, 0, 0x48, 0x8b, 0x84, 0x24, 0x18, 0x01, 0, 0}},
      {"add $-128,%rsp; mov 128(%rsp),%rax",
       {0x48, 0x83, 0xc4, 0x80, 0x48, 0x8b, 0x84, 0x24, 0x80, 0, 0, 0}},
      {"push %rbx; pop %rbx; mov (%rsp),%rax", {0x53, 0x5b, 0x48, 0x8b, 0x04, 0x24}},
      {"pushfq; mov 8(%rsp),%rax", {0x9c, 0x48, 0x8b, 0x44, 0x24, 0x08}},
      {"endbr64; mov (%rsp),%rdx", {0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8b, 0x14, 0x24}},
      {"cmp %rdi,(%rsp)", {0x48, 0x39, 0x3c, 0x24}},
      {"push (%rsp)", {0xff, 0x34, 0x24}},
      {"xchg %rax,(%rsp)", {0x48, 0x87, 0x04, 0x24}},
      {"orq $8,(%rsp)", {0x48, 0x83, 0x0c, 0x24, 0x08}},
      {"jmp *(%rsp)", {0xff, 0x24, 0x24}},
      {"pushfq; popfq; mov (%rsp),%rax", {0x9c, 0x9d, 0x48, 0x8b, 0x04, 0x24}},
      {"enter $16,$0; leave; mov (%rsp),%rax",
       {0xc8, 0x10, 0x00, 0x00, 0xc9, 0x48, 0x8b, 0x04, 0x24}},
  };
  for (const Case& c : kCases) EXPECT_TRUE(reads_return_address(c.bytes)) << c.assembly;
}

TEST(ReturnAddress, IsReadThroughAFrameBuiltOnRbp) {
  const Case kCases[] = {
      {"push %rbp; mov %rsp,%rbp; mov 8(%rbp),%rax",
       {0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x45, 0x08}},
      {"push %rbp; mov %rsp,%rbp; and $-32,%rsp; mov 8(%rbp),%rax",
       {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xe0, 0x48, 0x8b, 0x45, 0x08}},
      {"push %rbp; mov %rsp,%rbp; sub %rdi,%rsp; mov 8(%rbp),%rax",
       {0x55, 0x48, 0x89, 0xe5, 0x48, 0x29, 0xfc, 0x48, 0x8b, 0x45, 0x08}},
      // the other encoding of mov %rsp,%rbp
      {"push %rbp; mov %rsp,%rbp; mov 8(%rbp),%rax",
       {0x55, 0x48, 0x8b, 0xec, 0x48, 0x8b, 0x45, 0x08}},
  };
  for (const Case& c : kCases) EXPECT_TRUE(reads_return_address(c.bytes)) << c.assembly;
}

// gcc addresses the arguments through a register then, and copies the return address to its place
// in the frame.
TEST(ReturnAddress, IsReadInAFunctionThatAlignsItsStack) {
  const Bytes kAligned = {0x4c, 0x8d, 0x54, 0x24, 0x08,  // lea 8(%rsp),%r10
                          0x48, 0x83, 0xe4, 0xc0,        // and $-64,%rsp
                          0x41, 0xff, 0x72, 0xf8,        // push -8(%r10)
                          0x55,                          // push %rbp
                          0x48, 0x89, 0xe5};             // mov %rsp,%rbp
  const auto with = [&](const Bytes& more) {
    Bytes all = kAligned;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  EXPECT_TRUE(reads_return_address(with({0x48, 0x8b, 0x45, 0x08}))) << "mov 8(%rbp),%rax";
  EXPECT_TRUE(reads_return_address(with({0x49, 0x8b, 0x42, 0xf8}))) << "mov -8(%r10),%rax";
  EXPECT_FALSE(reads_return_address(with({0x49, 0x8b, 0x42, 0x00}))) << "mov (%r10),%rax";
  EXPECT_FALSE(reads_return_address(with({0xc9, 0x49, 0x8d, 0x62, 0xf8, 0xc3})))
      << "leave; lea -8(%r10),%rsp; ret";
}

TEST(ReturnAddress, IsTakenOffTheStackByAPop) {
  // pop %rdx; mov %rdx,%rcx; jmp *%rcx: how vfork leaves the stack to its child
  EXPECT_TRUE(reads_return_address(Bytes{0x5a, 0x48, 0x89, 0xd1, 0xff, 0xe1}));
  // push %rbx; pop %rbx; pop %rdx
  EXPECT_TRUE(reads_return_address(Bytes{0x53, 0x5b, 0x5a}));
}

TEST(ReturnAddress, IsTrackedPastCallsAndConditionalJumps) {
  // sub $8,%rsp; call; mov 8(%rsp),%rax
  EXPECT_TRUE(reads_return_address(
      Bytes{0x48, 0x83, 0xec, 0x08, 0xe8, 0, 0, 0, 0, 0x48, 0x8b, 0x44, 0x24, 0x08}));
  // test %edi,%edi; je .+2+4; mov (%rsp),%rax
  EXPECT_TRUE(reads_return_address(Bytes{0x85, 0xff, 0x74, 0x04, 0x48, 0x8b, 0x04, 0x24}));
}

TEST(ReturnAddress, IsTrackedAlongEveryPath) {
  const Case kCases[] = {
      {"je 1f; ret; 1: mov (%rsp),%rax; ret", {0x74, 0x01, 0xc3, 0x48, 0x8b, 0x04, 0x24, 0xc3}},
      {"jmp 1f; int3; 1: mov (%rsp),%rax", {0xeb, 0x01, 0xcc, 0x48, 0x8b, 0x04, 0x24}},
      {"jmp 1f; 2: mov (%rsp),%rax; ret; 1: jmp 2b",
       {0xeb, 0x05, 0x48, 0x8b, 0x04, 0x24, 0xc3, 0xeb, 0xf9}},
      {"push %rbx; je 1f; pop %rbx; ret; 1: pop %rbx; pop %rdx",
       {0x53, 0x74, 0x02, 0x5b, 0xc3, 0x5b, 0x5a}},
      {"push %rbp; mov %rsp,%rbp; je 1f; leave; ret; 1: leave; mov (%rsp),%rax",
       {0x55, 0x48, 0x89, 0xe5, 0x74, 0x02, 0xc9, 0xc3, 0xc9, 0x48, 0x8b, 0x04, 0x24}},
      {"push %rbp; mov %rsp,%rbp; push %rbx; lea -8(%rbp),%rsp; pop %rbx; pop %rbp; pop %rax",
       {0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x8d, 0x65, 0xf8, 0x5b, 0x5d, 0x58}},
      {"push %rbp; mov %rsp,%rbp; sub %rdi,%rsp; mov %rbp,%rsp; pop %rbp; pop %rax",
       {0x55, 0x48, 0x89, 0xe5, 0x48, 0x29, 0xfc, 0x48, 0x89, 0xec, 0x5d, 0x58}},
  };
  for (const Case& c : kCases) EXPECT_TRUE(reads_return_address(c.bytes)) << c.assembly;
}

TEST(ReturnAddress, IsForwardedByJumpsWithTheStackAsAtEntry) {
  constexpr Address kBegin = 0x1000;
  struct {
    Case code;
    std::vector<Address> to;
  } const kCases[] = {
      {{"xor %esi,%esi; jmp 0x2000", {0x31, 0xf6, 0xe9, 0xf9, 0x0f, 0, 0}}, {0x2000}},
      {{"endbr64; jmp 0x2000", {0xf3, 0x0f, 0x1e, 0xfa, 0xe9, 0xf7, 0x0f, 0, 0}}, {0x2000}},
      {{"je 0x2000; ret", {0x0f, 0x84, 0xfa, 0x0f, 0, 0, 0xc3}}, {0x2000}},
      {{"push %rbx; pop %rbx; jmp 0x1010", {0x53, 0x5b, 0xeb, 0x0c}}, {0x1010}},
      {{"push %rbp; mov %rsp,%rbp; leave; jmp 0x1010", {0x55, 0x48, 0x89, 0xe5, 0xc9, 0xeb, 0x09}},
       {0x1010}},
      {{"xor %esi,%esi, and on into what follows", {0x31, 0xf6}}, {0x1002}},
      {{"push %rbx; jmp 0x2000: with something above it", {0x53, 0xe9, 0xfa, 0x0f, 0, 0}}, {}},
      {{"call 0x2000; ret", {0xe8, 0xfb, 0x0f, 0, 0, 0xc3}}, {}},
      {{"call 0x2000, which does not come back", {0xe8, 0xfb, 0x0f, 0, 0}}, {}},
      {{"jmp *%rax", {0xff, 0xe0}}, {}},
      {{"jmp 1f; 1: ret: inside", {0xeb, 0x00, 0xc3}}, {}},
  };
  for (const auto& [code, to] : kCases) {
    const auto use = use_of_return_address(code.bytes, kBegin);
    EXPECT_FALSE(use.is_read) << code.assembly;
    EXPECT_EQ(use.forwards_to, to) << code.assembly;
  }
}

// As code does that is compiled with -fno-plt.
TEST(ReturnAddress, IsForwardedByJumpsThroughAPointer) {
  constexpr Address kBegin = 0x1000;
  struct {
    Case code;
    std::vector<Address> through;
  } const kCases[] = {
      {{"jmp *0x100(%rip)", {0xff, 0x25, 0x00, 0x01, 0, 0}}, {0x1106}},
      {{"bnd jmp *0x100(%rip)", {0xf2, 0xff, 0x25, 0x00, 0x01, 0, 0}}, {0x1107}},
      {{"jmp *0x404018", {0xff, 0x24, 0x25, 0x18, 0x40, 0x40, 0x00}}, {0x404018}},
      {{"mov 0x100(%rip),%rax; jmp *%rax", {0x48, 0x8b, 0x05, 0x00, 0x01, 0, 0, 0xff, 0xe0}},
       {0x1107}},
      {{"mov 0x100(%rip),%r11; mov 0x200(%rip),%rdi; jmp *%r11",
        {0x4c, 0x8b, 0x1d, 0x00, 0x01, 0, 0, 0x48, 0x8b, 0x3d, 0x00, 0x02, 0, 0, 0x41, 0xff, 0xe3}},
       {0x1107}},
      {{"mov 0x100(%rip),%rax; mov %rax,%rcx; xor %eax,%eax; jmp *%rcx",
        {0x48, 0x8b, 0x05, 0x00, 0x01, 0, 0, 0x48, 0x89, 0xc1, 0x31, 0xc0, 0xff, 0xe1}},
       {0x1107}},
      {{"push %rbx; mov 0x100(%rip),%rbx; call 0x2000; mov %rbx,%rax; pop %rbx; jmp *%rax",
        {0x53, 0x48, 0x8b, 0x1d, 0x00, 0x01, 0, 0, 0xe8, 0xf3, 0x0f, 0, 0, 0x48, 0x89, 0xd8, 0x5b,
         0xff, 0xe0}},
       {0x1108}},
      {{"mov 0x100(%rip),%rax; test %rax,%rax; je 1f; jmp *%rax; 1: ret",
        {0x48, 0x8b, 0x05, 0x00, 0x01, 0, 0, 0x48, 0x85, 0xc0, 0x74, 0x02, 0xff, 0xe0, 0xc3}},
       {0x1107}},
      // Two paths to one jump, of which the first that is followed does not load the pointer.
      {{"test %edi,%edi; jne 1f; call 0x2000; jmp 2f; 1: mov 0x100(%rip),%rax; 2: jmp *%rax",
        {0x85, 0xff, 0x75, 0x07, 0xe8, 0xf7, 0x0f, 0, 0,    0xeb,
         0x07, 0x48, 0x8b, 0x05, 0x00, 0x01, 0,    0, 0xff, 0xe0}},
       {0x1112}},
      {{"push %rbx; jmp *0x100(%rip): with something above it",
        {0x53, 0xff, 0x25, 0x00, 0x01, 0, 0}},
       {}},
      {{"call *0x100(%rip); ret", {0xff, 0x15, 0x00, 0x01, 0, 0, 0xc3}}, {}},
  };
  for (const auto& [code, through] : kCases) {
    const auto use = use_of_return_address(code.bytes, kBegin);
    EXPECT_FALSE(use.is_read) << code.assembly;
    EXPECT_EQ(use.forwards_through, through) << code.assembly;
  }
}

TEST(ReturnAddress, IsForwardedElsewhereByJumpsThroughOtherPointers) {
  struct {
    Case code;
    bool elsewhere;
  } const kCases[] = {
      {{"jmp *%rax", {0xff, 0xe0}}, true},
      {{"jmp *0x10(%rdi)", {0xff, 0x67, 0x10}}, true},
      {{"jmp *0x1000(,%rax,8)", {0xff, 0x24, 0xc5, 0x00, 0x10, 0x00, 0x00}}, true},
      {{"jmp *%fs:0x10", {0x64, 0xff, 0x24, 0x25, 0x10, 0x00, 0x00, 0x00}}, true},
      {{"mov 0x10(%rdi),%rax; jmp *%rax", {0x48, 0x8b, 0x47, 0x10, 0xff, 0xe0}}, true},
      {{"mov 0x100(%rip),%rax; call 0x2000; jmp *%rax: a call changes it",
        {0x48, 0x8b, 0x05, 0x00, 0x01, 0, 0, 0xe8, 0xf4, 0x0f, 0, 0, 0xff, 0xe0}},
       true},
      {{"mov 0x100(%rip),%rax; mov %ecx,%eax; jmp *%rax",
        {0x48, 0x8b, 0x05, 0x00, 0x01, 0, 0, 0x89, 0xc8, 0xff, 0xe0}},
       true},
      {{"mov 0x100(%rip),%eax; jmp *%rax: half of a pointer",
        {0x8b, 0x05, 0x00, 0x01, 0, 0, 0xff, 0xe0}},
       true},
      {{"mov 0x100(%rip),%rax; add $8,%rax; jmp *%rax",
        {0x48, 0x8b, 0x05, 0x00, 0x01, 0, 0, 0x48, 0x83, 0xc0, 0x08, 0xff, 0xe0}},
       true},
      {{"push %rbx; jmp *%rax: with something above it", {0x53, 0xff, 0xe0}}, false},
      {{"jmp *0x100(%rip)", {0xff, 0x25, 0x00, 0x01, 0, 0}}, false},
      {{"call *%rax; ret", {0xff, 0xd0, 0xc3}}, false},
  };
  for (const auto& [code, elsewhere] : kCases) {
    const auto use = use_of_return_address(code.bytes, 0x1000);
    EXPECT_FALSE(use.is_read) << code.assembly;
    EXPECT_EQ(use.forwards_elsewhere, elsewhere) << code.assembly;
  }
}

TEST(ReturnAddress, IsNotReadByOrdinaryFrames) {
  const Case kCases[] = {
      {"ret", {0xc3}},
      {"push %rbp; mov %rsp,%rbp; mov -8(%rbp),%rax; pop %rbp; ret",
       {0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x45, 0xf8, 0x5d, 0xc3}},
      {"mov 8(%rsp),%rax: the first argument on the stack", {0x48, 0x8b, 0x44, 0x24, 0x08, 0xc3}},
      {"push %rbp; mov %rsp,%rbp; mov 16(%rbp),%rax: the same with a frame",
       {0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x45, 0x10, 0x5d, 0xc3}},
      {"mov -8(%rsp),%rax: the red zone", {0x48, 0x8b, 0x44, 0x24, 0xf8, 0xc3}},
      {"sub $24,%rsp; mov (%rsp),%rax; add $24,%rsp; ret",
       {0x48, 0x83, 0xec, 0x18, 0x48, 0x8b, 0x04, 0x24, 0x48, 0x83, 0xc4, 0x18, 0xc3}},
      {"push %rbx; push %r12; pop %r12; pop %rbx; ret", {0x53, 0x41, 0x54, 0x41, 0x5c, 0x5b, 0xc3}},
      {"lea 8(%rsp),%rax: an address, not what lies there", {0x48, 0x8d, 0x44, 0x24, 0x08, 0xc3}},
      {"lea (%rsp),%rax", {0x48, 0x8d, 0x04, 0x24, 0xc3}},
      {"lock orq $0,(%rsp): a barrier", {0xf0, 0x48, 0x83, 0x0c, 0x24, 0x00, 0xc3}},
      {"lock orl $0,(%rsp)", {0xf0, 0x83, 0x0c, 0x24, 0x00, 0xc3}},
      {"lock addl $0,(%rsp)", {0xf0, 0x83, 0x04, 0x24, 0x00, 0xc3}},
      {"mov %rdi,%rbp; mov 8(%rbp),%rax: rbp is no frame",
       {0x48, 0x89, 0xfd, 0x48, 0x8b, 0x45, 0x08, 0xc3}},
      {"mov 8(%rbp),%rax: the caller's frame", {0x48, 0x8b, 0x45, 0x08, 0xc3}},
      {"push %rbp; mov %rsp,%rbp; mov %rdi,%rbp; mov 8(%rbp),%rax",
       {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xfd, 0x48, 0x8b, 0x45, 0x08, 0xc3}},
      {"sub %rdi,%rsp; mov (%rsp),%rax: somewhere below",
       {0x48, 0x29, 0xfc, 0x48, 0x8b, 0x04, 0x24, 0xc3}},
      {"mov (%rsp,%rcx,8),%rax: an array", {0x48, 0x8b, 0x04, 0xcc, 0xc3}},
  };
  for (const Case& c : kCases) EXPECT_FALSE(reads_return_address(c.bytes)) << c.assembly;
}

TEST(ReturnAddress, IsNotLookedForPastTheEnd) {
  const Case kCases[] = {
      {"ret; mov (%rsp),%rax", {0xc3, 0x48, 0x8b, 0x04, 0x24}},
      {"jmp .-3; mov (%rsp),%rax", {0xeb, 0xfb, 0x48, 0x8b, 0x04, 0x24}},
      {"jmp *%rax; mov (%rsp),%rax", {0xff, 0xe0, 0x48, 0x8b, 0x04, 0x24}},
      {"no instruction; mov (%rsp),%rax", {0x06, 0x48, 0x8b, 0x04, 0x24}},
      {"mov (%rsp),%rax, cut off", {0x48, 0x8b, 0x04}},
      {"nothing", {}},
  };
  for (const Case& c : kCases) EXPECT_FALSE(reads_return_address(c.bytes)) << c.assembly;
}

// --- Real functions

class Library {
 public:
  explicit Library(const std::string& soname) {
    auto process = image::load_file(library_path(soname));
    EXPECT_TRUE(process) << soname;
    if (process) image_ = *std::move(process);
  }
  image::Object& object() { return *image_.objects[0]; }

  Bytes code(const image::Function& function) {
    const auto code = object().code(function);
    Bytes bytes(code.begin(), code.end());
    bytes.resize(std::min<size_t>(bytes.size(), function.range.size()));
    return bytes;
  }
  // Returns the code of the function that has this name, among others; empty if there is none.
  Bytes code(std::string_view name) {
    for (const auto& function : object().functions().functions()) {
      const auto names = object().functions().names(function);
      if (std::find(names.begin(), names.end(), name) != names.end()) return code(function);
    }
    return {};
  }

 private:
  image::ProcessImage image_;
};

TEST(ReturnAddress, IsReadByFunctionsOfLibcThatKeepItOrCheckTheirCaller) {
  Library libc("libc.so.6");
  for (const char* name : {"__sigsetjmp", "vfork", "getcontext", "swapcontext", "dlopen", "dlsym",
                           "dlvsym", "dlmopen", "dl_iterate_phdr"}) {
    const Bytes code = libc.code(name);
    ASSERT_FALSE(code.empty()) << name;
    EXPECT_TRUE(reads_return_address(code)) << name;
  }
}

TEST(ReturnAddress, IsReadByTheUnwinder) {
  Library unwinder("libgcc_s.so.1");
  for (const char* name :
       {"_Unwind_RaiseException", "_Unwind_Resume", "_Unwind_ForcedUnwind", "_Unwind_Backtrace"})
    EXPECT_TRUE(reads_return_address(unwinder.code(name))) << name;
}

TEST(ReturnAddress, IsNotReadByOrdinaryFunctionsOfLibc) {
  Library libc("libc.so.6");
  for (const char* name : {"strlen", "malloc", "free", "qsort", "printf", "fopen", "getenv", "read",
                           "pthread_create", "pthread_mutex_lock", "strtod", "longjmp", "raise"}) {
    const Bytes code = libc.code(name);
    ASSERT_FALSE(code.empty()) << name;
    EXPECT_FALSE(reads_return_address(code)) << name;
  }
}

TEST(ReturnAddress, IsReadByHardlyAnyFunctionAtAll) {
  const auto count = [](const std::string& soname) {
    Library library(soname);
    size_t readers = 0;
    for (const auto& function : library.object().functions().functions())
      if (function.entered_by_call) readers += reads_return_address(library.code(function));
    return readers;
  };
  // libc: 14 in Debian 12, those above and the functions that profile calls.
  EXPECT_LT(count("libc.so.6"), 30u);
  EXPECT_EQ(count("libstdc++.so.6"), 0u);
  EXPECT_EQ(count("libm.so.6"), 0u);
}

}  // namespace
}  // namespace pinprick::arch
