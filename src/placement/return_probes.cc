#include "placement/return_probes.h"

#include <algorithm>
#include <vector>

#include "arch/code.h"
#include "arch/return_address.h"

namespace pinprick::placement {
namespace {

struct Rule {
  std::string_view name;  // a trailing * stands for anything
  std::optional<plan::Reason> reason;
};

constexpr Rule kRules[] = {
    // return twice
    {"setjmp", plan::Reason::returns_otherwise},
    {"_setjmp", plan::Reason::returns_otherwise},
    {"__setjmp", plan::Reason::returns_otherwise},
    {"sigsetjmp", plan::Reason::returns_otherwise},
    {"__sigsetjmp", plan::Reason::returns_otherwise},
    {"savectx", plan::Reason::returns_otherwise},
    {"vfork", plan::Reason::returns_otherwise},
    {"__vfork", plan::Reason::returns_otherwise},
    {"__libc_vfork", plan::Reason::returns_otherwise},
    {"getcontext", plan::Reason::returns_otherwise},
    {"__getcontext", plan::Reason::returns_otherwise},
    // return on another stack
    {"setcontext", plan::Reason::returns_otherwise},
    {"__setcontext", plan::Reason::returns_otherwise},
    {"swapcontext", plan::Reason::returns_otherwise},
    {"__swapcontext", plan::Reason::returns_otherwise},
    {"__start_context", plan::Reason::returns_otherwise},
    {"clone", plan::Reason::returns_otherwise},
    {"__clone", plan::Reason::returns_otherwise},
    {"clone3", plan::Reason::returns_otherwise},
    {"__clone3", plan::Reason::returns_otherwise},
    {"__clone_internal*", plan::Reason::returns_otherwise},
    {"__restore_rt", plan::Reason::returns_otherwise},
    // walk their own stack, or leave it
    {"_Unwind_DeleteException", std::nullopt},  // only frees memory
    {"_Unwind_*", plan::Reason::returns_otherwise},
    {"unw_*", plan::Reason::returns_otherwise},
    {"__unw_*", plan::Reason::returns_otherwise},
    {"__libunwind_*", plan::Reason::returns_otherwise},
    {"unwind_phase2*", plan::Reason::returns_otherwise},
    {"_ZN9libunwind*", plan::Reason::returns_otherwise},
    {"_ULx86_64_*", plan::Reason::returns_otherwise},
    {"_Ux86_64_*", plan::Reason::returns_otherwise},
    {"__longjmp*", plan::Reason::returns_otherwise},
    {"____longjmp*", plan::Reason::returns_otherwise},
    // called with registers that no stub may change
    {"_dl_runtime_resolve*", plan::Reason::returns_otherwise},
    {"_dl_runtime_profile*", plan::Reason::returns_otherwise},
    {"_dl_tlsdesc_*", plan::Reason::returns_otherwise},
    {"__tls_get_addr*", plan::Reason::returns_otherwise},
    {"___tls_get_addr", plan::Reason::returns_otherwise},
    {"__fentry__", plan::Reason::reads_return_address},
    {"mcount", plan::Reason::reads_return_address},
    {"_mcount", plan::Reason::reads_return_address},
    // look at their return address
    {"dlopen", plan::Reason::reads_return_address},
    {"dlmopen", plan::Reason::reads_return_address},
    {"dlsym", plan::Reason::reads_return_address},
    {"dlvsym", plan::Reason::reads_return_address},
    {"__libc_dlopen_mode", plan::Reason::reads_return_address},
    {"dl_iterate_phdr", plan::Reason::reads_return_address},
};

// What compilers call and jump to in place of an indirect call or jump. A jump may come from the
// midst of a function, with anything on top of the stack.
constexpr std::string_view kThunks[] = {"__x86_indirect_thunk*", "__x86_return_thunk",
                                        "__llvm_retpoline_*", "__llvm_lvi_thunk_*"};

bool matches(std::string_view rule, std::string_view name) {
  if (!rule.ends_with('*')) return rule == name;
  return name.starts_with(rule.substr(0, rule.size() - 1));
}

bool is_thunk(std::span<const std::string_view> names) {
  return std::any_of(names.begin(), names.end(), [](std::string_view name) {
    return std::any_of(std::begin(kThunks), std::end(kThunks),
                       [&](std::string_view thunk) { return matches(thunk, name); });
  });
}

std::optional<plan::Reason> reason_by_name(std::string_view name) {
  const auto* rule = std::find_if(std::begin(kRules), std::end(kRules),
                                  [&](const Rule& r) { return matches(r.name, name); });
  return rule == std::end(kRules) ? std::nullopt : rule->reason;
}

std::optional<arch::Instruction> instruction_at(image::Object& object, Address at) {
  auto instruction = arch::decode(object.code_from(at), at);
  if (instruction && instruction->special == arch::Special::landing_pad)
    instruction = arch::decode(object.code_from(instruction->end()), instruction->end());
  return instruction;
}

// If there is an entry of a procedure linkage table at the address, the name of the function to
// which it leads; otherwise empty.
std::string_view import_through(image::Object& object, Address at) {
  const auto jump = instruction_at(object, at);
  return jump && jump->flow == arch::Flow::jump_indirect && jump->has_rip_operand
             ? object.imported_at(jump->memory)
             : std::string_view();
}

// Looks at a function, and at the functions to which it passes its return address on.
class Forwarding {
 public:
  explicit Forwarding(image::Object& object) : object_(object) {}

  std::optional<plan::Reason> reason(std::span<const std::string_view> names,
                                     std::span<const uint8_t> code, Address begin) {
    for (std::string_view name : names)
      if (const auto reason = reason_by_name(name)) return reason;
    const auto use = arch::use_of_return_address(code, begin);
    if (use.is_read) return plan::Reason::reads_return_address;
    seen_.push_back(begin);
    for (Address target : use.forwards_to)
      if (const auto why = reason(target)) return why;
    for (Address pointer : use.forwards_through)
      if (const auto why = reason_by_name(object_.imported_at(pointer))) return why;
    return std::nullopt;
  }

 private:
  std::optional<plan::Reason> reason(Address target) {
    constexpr size_t kMostFollowed = 64;
    if (seen_.size() == kMostFollowed ||
        std::find(seen_.begin(), seen_.end(), target) != seen_.end())
      return std::nullopt;
    const std::string_view import = import_through(object_, target);
    if (!import.empty()) return reason_by_name(import);
    const image::Function* const function = object_.functions().find(target);
    if (function == nullptr) return std::nullopt;
    const uint64_t inside = target - function->range.begin;
    const auto code = object_.code(*function);
    const auto own = code.first(std::min<uint64_t>(code.size(), function->range.size()));
    if (inside >= own.size()) return std::nullopt;
    return reason(object_.functions().names(*function), own.subspan(inside), target);
  }

  image::Object& object_;
  std::vector<Address> seen_;
};

// A call that reports the function and its caller to a profiler.
struct ProfilerCall {
  Address end = 0;
  bool is_at_entry = false;  // it calls __fentry__, which finds the caller on top of the stack
};

// The first call of the function, if no branch comes before it and it calls a profiler.

std::optional<ProfilerCall> find_profiler_call(image::Object& object, std::span<const uint8_t> code,
                                               Address begin) {
  std::optional<arch::Instruction> one;
  bool is_first = true;
  for (size_t at = 0; at < code.size(); at += one->length) {
    one = arch::decode(code.subspan(at), begin + at);
    if (!one) return std::nullopt;
    if (one->flow != arch::Flow::next) break;
    is_first = is_first && one->special == arch::Special::landing_pad;
  }
  if (!one || !one->is_call()) return std::nullopt;
  const auto is = [&](std::string_view wanted) {
    if (one->flow == arch::Flow::call_indirect)
      return one->has_rip_operand && object.imported_at(one->memory) == wanted;
    if (import_through(object, one->target) == wanted) return true;
    const image::Function* const callee = object.functions().find(one->target);
    if (callee == nullptr) return false;
    const auto names = object.functions().names(*callee);
    return std::find(names.begin(), names.end(), wanted) != names.end();
  };
  if (is("__fentry__")) return ProfilerCall{one->end(), is_first};
  if (is("mcount") || is("_mcount")) return ProfilerCall{one->end(), false};
  return std::nullopt;
}

}  // namespace

std::optional<plan::Refusal> why_nothing_return_probed(image::Object& object) {
  if (object.elf().is_go()) return plan::Refusal{plan::Reason::stack_moves, 0};
  const auto runtime = object.stack_reading_runtime();
  if (!runtime) return std::nullopt;
  return plan::Refusal{plan::Reason::runtime_reads_stack, 0, *runtime};
}

std::optional<plan::Reason> why_not_return_probed(const ReturnCandidate& function) {
  if (function.is_program_entry || function.entered == Entered::by_jump || is_thunk(function.names))
    return plan::Reason::not_called;
  if (function.entered == Entered::by_own_jump) return plan::Reason::entered_again;
  if (function.is_in_unwinder) return plan::Reason::returns_otherwise;
  if (auto reason =
          Forwarding(*function.object).reason(function.names, function.code, function.begin))
    return reason;
  // mcount finds the caller through the function's frame.
  const auto call = find_profiler_call(*function.object, function.code, function.begin);
  if (call && !call->is_at_entry) return plan::Reason::reads_return_address;
  return std::nullopt;
}

Address return_site(image::Object& object, std::span<const uint8_t> code, Address begin,
                    Address entry) {
  const auto call = find_profiler_call(object, code, begin);
  return call && call->is_at_entry ? call->end : entry;
}

}  // namespace pinprick::placement
