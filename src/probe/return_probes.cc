#include "probe/return_probes.h"

#include <algorithm>

#include "arch/x86_64/return_address.h"

namespace pinprick::probe {
namespace {

struct Rule {
  std::string_view name;  // a trailing * stands for anything
  plan::Reason reason;
};

constexpr Rule kRules[] = {
    // come back twice
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
    // come back on another stack
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
    // walk the stack that they are on, or leave it
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
    // called with registers that no function may touch
    {"_dl_runtime_resolve*", plan::Reason::returns_otherwise},
    {"_dl_runtime_profile*", plan::Reason::returns_otherwise},
    {"_dl_tlsdesc_*", plan::Reason::returns_otherwise},
    {"__tls_get_addr*", plan::Reason::returns_otherwise},
    {"___tls_get_addr", plan::Reason::returns_otherwise},
    {"__fentry__", plan::Reason::reads_return_address},
    {"mcount", plan::Reason::reads_return_address},
    {"_mcount", plan::Reason::reads_return_address},
    // ask for their caller
    {"dlopen", plan::Reason::reads_return_address},
    {"dlmopen", plan::Reason::reads_return_address},
    {"dlsym", plan::Reason::reads_return_address},
    {"dlvsym", plan::Reason::reads_return_address},
    {"__libc_dlopen_mode", plan::Reason::reads_return_address},
    {"dl_iterate_phdr", plan::Reason::reads_return_address},
};

bool matches(std::string_view rule, std::string_view name) {
  if (!rule.ends_with('*')) return rule == name;
  return name.starts_with(rule.substr(0, rule.size() - 1));
}

}  // namespace

std::optional<plan::Reason> why_not_return_probed(const ReturnCandidate& function) {
  if (function.is_program_entry || !function.is_called) return plan::Reason::not_called;
  if (function.is_in_unwinder) return plan::Reason::returns_otherwise;
  for (std::string_view name : function.names) {
    const auto* rule = std::find_if(std::begin(kRules), std::end(kRules),
                                    [&](const Rule& r) { return matches(r.name, name); });
    if (rule != std::end(kRules)) return rule->reason;
  }
  if (arch::reads_return_address(function.code)) return plan::Reason::reads_return_address;
  return std::nullopt;
}

}  // namespace pinprick::probe
