// Functions for the specification of the planner: a few annotated bytes, and what leads into them.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "bytes.h"
#include "plan/function_plan.h"
#include "plan/planner.h"

namespace pinprick::plan {

inline constexpr Address kBegin = 0x401000;
constexpr Address at(uint64_t offset) {
  return kBegin + offset;
}

// Bytes to show in another way.
struct Mark {
  Address address;
  uint64_t length;
  const char* as;
};

// A function at kBegin: its code, and what follows up to the next function or object.
class Function {
 public:
  explicit Function(Bytes code, Bytes following = {})
      : size_(code.size()), bytes_(joined({code, following})) {}

  Function& branch_to(uint64_t offset) {
    targets_.add(at(offset));
    return *this;
  }
  // An instruction takes the address, to call it or to read there.
  Function& take_address(uint64_t offset) {
    targets_.add_callee(at(offset));
    return *this;
  }
  // The function has a computed jump that nothing explains.
  Function& unresolved() {
    targets_.mark_unresolved_jump(kBegin);
    return *this;
  }
  Function& reserve(uint64_t begin, uint64_t end) {
    reserved_.push_back({at(begin), at(end)});
    return *this;
  }
  // The compiler has left these bytes at the entry to be replaced.
  Function& room(uint64_t begin, uint64_t end) {
    room_ = {at(begin), at(end)};
    return *this;
  }
  Function& of_go() {
    is_go_ = true;
    return *this;
  }
  // A runtime looks up faults and calls by the addresses of its instructions.
  Function& managed() {
    is_managed_ = true;
    return *this;
  }
  // There are tables between its instructions, somewhere.
  Function& with_tables() {
    has_tables_ = true;
    return *this;
  }
  // As if the end of the text could not be read.
  Function& readable(size_t bytes) {
    bytes_.resize(bytes);
    return *this;
  }

  FunctionCode code() const {
    FunctionCode code;
    code.range = {kBegin, at(size_)};
    code.bytes = bytes_;
    code.targets = &targets_;
    code.reserved = reserved_;
    code.room = room_;
    code.is_go = is_go_;
    code.is_managed = is_managed_;
    code.has_tables = has_tables_;
    return code;
  }
  Result<Patch, Refusal> plan(uint64_t offset = 0) const { return plan_site(code(), at(offset)); }

  FunctionPlan plan_all(std::vector<uint64_t> offsets, Placing placing = Placing::anywhere) const {
    std::vector<Address> sites;
    for (uint64_t offset : offsets) sites.push_back(at(offset));
    return plan_function(code(), sites, placing);
  }

  // All bytes, in hexadecimal, and what is marked.
  std::string after(const std::vector<Mark>& marks) const {
    std::string text;
    for (size_t i = 0; i < bytes_.size(); ++i) {
      char byte[4];
      std::snprintf(byte, sizeof byte, "%02x", bytes_[i]);
      std::string shown = byte;
      for (const Mark& mark : marks)
        if (at(i) - mark.address < mark.length) shown = mark.as;
      text += (i == 0 ? "" : " ") + shown;
    }
    return text;
  }

 private:
  size_t size_;
  Bytes bytes_;
  image::BranchTargets targets_{{{kBegin - 0x1000, kBegin + 0x2000}}};
  std::vector<Range> reserved_;
  Range room_;
  bool is_go_ = false;
  bool is_managed_ = false;
  bool has_tables_ = false;
};

inline const Bytes kEndbr64 = {0xf3, 0x0f, 0x1e, 0xfa};
inline const Bytes kRet = {0xc3};
inline const Bytes kPushRbp = {0x55};
inline const Bytes kMovRspRbp = {0x48, 0x89, 0xe5};
inline const Bytes kSub16 = {0x48, 0x83, 0xec, 0x10};                // sub $16,%rsp
inline const Bytes kMov5 = {0xb8, 0x2a, 0, 0, 0};                    // mov $42,%eax
inline const Bytes kXorEax = {0x31, 0xc0};                           // xor %eax,%eax
inline const Bytes kNop5 = {0x0f, 0x1f, 0x44, 0, 0};                 // nopl 0(%rax,%rax)
inline const Bytes kNop9 = {0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0};  // nopw 0L(%rax,%rax)

}  // namespace pinprick::plan
