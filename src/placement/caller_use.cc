#include "placement/caller_use.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include "arch/return_address.h"
#include "base/parallel.h"
#include "base/task.h"
#include "placement/profiler_call.h"

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

std::optional<plan::Reason> reason_by_name(std::string_view name) {
  const auto* rule = std::find_if(std::begin(kRules), std::end(kRules),
                                  [&](const Rule& r) { return matches(r.name, name); });
  return rule == std::end(kRules) ? std::nullopt : rule->reason;
}

std::optional<plan::Reason> reason_by_names(std::span<const std::string_view> names) {
  for (const std::string_view name : names)
    if (const auto reason = reason_by_name(name)) return reason;
  return std::nullopt;
}

}  // namespace

bool is_thunk(std::span<const std::string_view> names) {
  return std::any_of(names.begin(), names.end(), [](std::string_view name) {
    return std::any_of(std::begin(kThunks), std::end(kThunks),
                       [&](std::string_view thunk) { return matches(thunk, name); });
  });
}

// Code that belongs to no function, such as an entry of a procedure linkage table, is a few
// instructions that end with a jump, perhaps by way of a thunk.
CallerUse::Code CallerUse::look_at_code(image::Object& object, Address address) {
  constexpr uint64_t kWithoutFunction = 64;
  Code code;
  code.at = {&object, address};
  const image::Function* const function = object.functions().find(address);
  std::span<const std::string_view> names;
  std::span<const uint8_t> bytes;
  if (function != nullptr) {
    names = object.functions().names(*function);
    bytes = object.code(*function);
    bytes = bytes.first(std::min<uint64_t>(bytes.size(), function->range.size()));
    bytes = bytes.subspan(std::min<uint64_t>(bytes.size(), address - function->range.begin));
  } else {
    bytes = code_at_most(object, address, kWithoutFunction);
  }
  code.is_thunk = is_thunk(names);
  code.reason = bytes.empty() ? std::optional(plan::Reason::unreadable) : reason_by_names(names);
  if (code.reason || code.is_thunk) return code;
  auto use = arch::use_of_return_address(bytes, address);
  if (use.is_read) {
    code.reason = plan::Reason::reads_return_address;
    return code;
  }
  code.reports_caller = find_profiler_call(object, bytes, address).has_value();
  code.forwards_to = std::move(use.forwards_to);
  code.forwards_through = std::move(use.forwards_through);
  if (function == nullptr) {
    std::erase(code.forwards_to, address + bytes.size());
    code.forwards_through.insert(code.forwards_through.end(), use.loads.begin(), use.loads.end());
  } else if (!code.forwards_to.empty()) {
    code.loads = std::move(use.loads);
  }
  return code;
}

void CallerUse::look_at(std::span<const image::Match> matches) {
  std::vector<image::CodeAddress> functions;
  for (const image::Match& match : matches) {
    const Address begin = match.function->range.begin;
    const bool is_first = functions.empty() || functions.back().object != match.object ||
                          functions.back().address != begin;
    if (is_first && !by_address_.contains(begin + match.object->bias()))
      functions.push_back({match.object, begin});
  }
  constexpr size_t kPiece = 256;
  std::vector<Code> looked_at(functions.size());
  for_each_piece((functions.size() + kPiece - 1) / kPiece, usable_threads(), [&](size_t piece) {
    const size_t end = std::min(functions.size(), (piece + 1) * kPiece);
    for (size_t i = piece * kPiece; i < end; ++i) {
      advance(1);
      looked_at[i] = look_at_code(*functions[i].object, functions[i].address);
    }
  });
  for (Code& code : looked_at)
    if (!by_address_.contains(code.at.address + code.at.object->bias())) add(std::move(code));
  while (!pending_.empty()) {
    check_cancelled();
    const auto [node, code] = std::move(pending_.back());
    pending_.pop_back();
    connect(node, code);
  }
}

uint32_t CallerUse::add(Code code) {
  const auto node = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({code.reason, code.reports_caller, code.is_thunk, {}});
  by_address_.emplace(code.at.address + code.at.object->bias(), node);
  if (!code.reason && !(code.forwards_to.empty() && code.forwards_through.empty()))
    pending_.emplace_back(node, std::move(code));
  return node;
}

uint32_t CallerUse::node_at(image::CodeAddress at) {
  const auto known = by_address_.find(at.address + at.object->bias());
  return known != by_address_.end() ? known->second : add(look_at_code(*at.object, at.address));
}

// The definition of an import may be missing (in a file on its own), so its name is looked at
// first.
void CallerUse::connect(uint32_t from, const Code& code) {
  image::Object& object = *code.at.object;
  std::vector<image::CodeAddress> targets;
  std::vector<Address> pointers = code.forwards_through;
  for (const Address target : code.forwards_to) {
    if (!object.contains_code(target + object.bias())) continue;
    targets.push_back({&object, target});
    if (nodes_[node_at(targets.back())].is_thunk)
      pointers.insert(pointers.end(), code.loads.begin(), code.loads.end());
  }
  for (const Address pointer : pointers) {
    if (const auto reason = reason_by_name(object.imported_at(pointer))) return mark(from, *reason);
    const image::LinkTargets& linked = linkage_.targets(object, pointer);
    if (linked.may_lead_elsewhere) return mark(from, plan::Reason::unresolved_import);
    targets.insert(targets.end(), linked.known.begin(), linked.known.end());
  }
  for (const image::CodeAddress& target : targets) {
    const uint32_t to = node_at(target);
    if (nodes_[to].reason) return mark(from, *nodes_[to].reason);
    if (nodes_[to].reports_caller) return mark(from, plan::Reason::reads_return_address);
    nodes_[to].reached_from.push_back(from);
  }
}

// Marks all that pass their callers on to the node, as well.
void CallerUse::mark(uint32_t node, plan::Reason reason) {
  std::vector<uint32_t> marked = {node};
  while (!marked.empty()) {
    const uint32_t one = marked.back();
    marked.pop_back();
    if (nodes_[one].reason) continue;
    nodes_[one].reason = reason;
    const auto from = std::exchange(nodes_[one].reached_from, {});
    marked.insert(marked.end(), from.begin(), from.end());
  }
}

std::optional<plan::Reason> CallerUse::reason(const image::Object& object,
                                              const image::Function& function) const {
  const auto known = by_address_.find(function.range.begin + object.bias());
  assert(known != by_address_.end());
  return nodes_[known->second].reason;
}

}  // namespace pinprick::placement
