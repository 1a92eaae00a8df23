#include "placement/hidden_unwinder.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "arch/code.h"
#include "arch/value_flow.h"

namespace pinprick::placement {
namespace {

using arch::DirectCall;
using arch::Value;
using image::Function;

// Does all of its code lead to one call that does not return?
bool only_aborts(image::Object& object, const Function& function) {
  const auto code = object.code(function);
  for (Address next = function.range.begin; next - function.range.begin < code.size();) {
    const auto instruction = arch::decode(code.subspan(next - function.range.begin), next);
    if (!instruction) return false;
    next = instruction->end();
    if (instruction->flow == arch::Flow::call) return next == function.range.end;
    if (instruction->flow != arch::Flow::next) return instruction->flow == arch::Flow::trap;
  }
  return false;
}

// Visits the functions around this one: linkers keep the functions of one object file together.
template <class F>
void for_each_near(const image::FunctionTable& table, Address function, F&& visit) {
  constexpr ptrdiff_t kNear = 96;
  const auto& all = table.functions();
  const auto there =
      std::lower_bound(all.begin(), all.end(), function,
                       [](const Function& one, Address a) { return one.range.begin < a; });
  const auto before = std::min<ptrdiff_t>(kNear, there - all.begin());
  const auto after = std::min<ptrdiff_t>(kNear, all.end() - there);
  for (auto one = there - before; one != there + after; ++one) visit(*one);
}

// Where the function's calls and jumps lead.
std::set<Address> targets_in(image::Object& object, const Function& function) {
  std::set<Address> targets;
  const auto code = object.code(function);
  for (Address next = function.range.begin;
       next < function.range.end && next - function.range.begin < code.size();) {
    const auto instruction = arch::decode(code.subspan(next - function.range.begin), next);
    if (!instruction) break;
    if (instruction->has_target()) targets.insert(instruction->target);
    next = instruction->end();
  }
  return targets;
}

// The search for an unwinder in one object. Keeps what it decodes, as functions are looked at more
// than once.
class UnwinderSearch {
 public:
  explicit UnwinderSearch(image::Object& object) : object_(object), table_(object.functions()) {}

  std::optional<HiddenUnwinder> run();
  std::set<Address> personalities() const;
  const Function* at(Address address) const {
    const Function* const function = table_.find(address);
    return function != nullptr && function->range.begin == address ? function : nullptr;
  }

 private:
  // The function that looks up the unwind entry for the address in this field of a context, and its
  // caller.
  struct Lookup {
    Address find_table = 0;
    Address caller = 0;
    int64_t field = 0;
  };

  std::vector<Address> by_votes() const;
  const std::vector<DirectCall>& calls_of(Address function);
  std::optional<Lookup> lookup_in(Address function);
  std::optional<Lookup> lookup_from(Address resume);
  std::optional<layout::UnwinderTable> functions(Address resume, int64_t field);
  bool sets_register(Address function) const;
  bool sets_field(Address function, int64_t field) const;
  bool gets_field(Address function, int64_t field) const;
  std::set<Address> callers_of(const std::set<Address>& callees, Address near) const;

  std::optional<std::vector<arch::Path>> paths(Address function,
                                               std::optional<int64_t> second = {}) const {
    return arch::paths_through([&](Address code) { return object_.code_from(code); }, function,
                               second);
  }

  image::Object& object_;
  const image::FunctionTable& table_;
  std::map<Address, std::vector<DirectCall>> calls_;
};

const std::vector<DirectCall>& UnwinderSearch::calls_of(Address function) {
  const auto [entry, is_new] = calls_.try_emplace(function);
  if (!is_new) return entry->second;
  if (const Function* const known = at(function)) {
    const auto code = object_.code(*known);
    entry->second = arch::direct_calls(
        code.first(std::min<size_t>(code.size(), known->range.size())), function);
  }
  return entry->second;
}

// The functions that landing pads call, by the number of landing pads.
std::vector<Address> UnwinderSearch::by_votes() const {
  constexpr size_t kTables = 4096, kMost = 16;
  constexpr int kInstructions = 48;
  std::map<Address, size_t> votes;
  for (Address pad : object_.landing_pads(kTables)) {
    std::set<Address> called;
    Address next = pad;
    for (int i = 0; i < kInstructions; ++i) {
      const auto instruction = arch::decode(object_.code_from(next), next);
      if (!instruction || (!instruction->falls_through() && instruction->flow != arch::Flow::jump))
        break;
      if (instruction->flow == arch::Flow::call) called.insert(instruction->target);
      next = instruction->flow == arch::Flow::jump ? instruction->target : instruction->end();
    }
    for (Address target : called)
      if (at(target) != nullptr) ++votes[target];
  }
  std::vector<Address> all;
  all.reserve(votes.size());
  for (const auto& [target, count] : votes) all.push_back(target);
  std::stable_sort(all.begin(), all.end(),
                   [&](Address a, Address b) { return votes.at(a) > votes.at(b); });
  all.resize(std::min(all.size(), kMost));
  return all;
}

// Looks for fde = _Unwind_Find_FDE(context->ra + is_signal_frame - 1, &context->bases): the
// address, and a field that lies after it.
std::optional<UnwinderSearch::Lookup> UnwinderSearch::lookup_in(Address function) {
  std::optional<Lookup> found;
  constexpr int64_t kNear = 64;
  for (const DirectCall& call : calls_of(function)) {
    const Value &address = call.arguments[0], &bases = call.arguments[1];
    if (address.kind != Value::Kind::field || address.exact || address.argument != 0 ||
        bases.kind != Value::Kind::argument || bases.argument != 0 ||
        bases.offset <= address.offset || bases.offset > address.offset + kNear ||
        at(call.target) == nullptr)
      continue;
    if (found && found->find_table != call.target) return std::nullopt;
    found = {call.target, function, address.offset};
  }
  return found;
}

std::optional<UnwinderSearch::Lookup> UnwinderSearch::lookup_from(Address resume) {
  std::set<Address> reached;
  for (const DirectCall& call : calls_of(resume)) {
    reached.insert(call.target);
    for (const DirectCall& next : calls_of(call.target)) reached.insert(next.target);
  }
  std::optional<Lookup> found;
  for (Address function : reached) {
    const auto lookup = lookup_in(function);
    if (!lookup) continue;
    if (found && found->find_table != lookup->find_table) return std::nullopt;
    found = lookup;
  }
  return found;
}

// The personality routines. Some are found through pointers in the object's data. Those may not be
// relocated yet if it has just been loaded, so its relocations are looked at, too.
std::set<Address> UnwinderSearch::personalities() const {
  std::set<Address> all, pointers;
  for (const image::FrameEntry& frame : object_.frames())
    if (frame.personality != 0)
      (frame.personality_is_indirect ? pointers : all).insert(frame.personality);
  for (Address pointer : pointers) {
    std::array<uint8_t, sizeof(Address)> bytes{};
    Address address = 0;
    if (!object_.read(pointer + object_.bias(), bytes)) continue;
    std::memcpy(&address, bytes.data(), sizeof address);
    all.insert(address - object_.bias());
  }
  std::set<std::string_view> symbols;
  for (const image::Relocation& relocation : object_.relocations()) {
    if (!pointers.contains(relocation.address)) continue;
    if (relocation.kind == image::Relocation::Kind::relative)
      all.insert(static_cast<Address>(relocation.addend));
    else if (relocation.kind == image::Relocation::Kind::symbol)
      symbols.insert(relocation.symbol);
  }
  for (const Function& function :
       symbols.empty() ? std::span<const Function>() : table_.functions())
    for (std::string_view name : table_.names(function))
      if (symbols.contains(name)) all.insert(function.range.begin);
  std::erase_if(all, [&](Address address) { return at(address) == nullptr; });
  return all;
}

// Is this _Unwind_SetGR? It stores the value in the context's word for the register, or where that
// word points, and nowhere else.
bool UnwinderSearch::sets_register(Address function) const {
  for (int64_t number : {0, 1}) {
    const auto all = paths(function, number);
    if (!all) return false;
    size_t set = 0;
    for (const arch::Path& path : *all) {
      if (!path.returns) continue;
      if (path.stores.size() != 1 || path.stores[0].size != 8 ||
          !path.stores[0].value.is_argument(2))
        return false;
      const Value& to = path.stores[0].to;
      const Value word = {.kind = Value::Kind::field, .argument = 0, .offset = number * 8};
      if (!to.is_argument(0, number * 8) && to != word) return false;
      ++set;
    }
    if (set == 0) return false;
  }
  return true;
}

bool UnwinderSearch::sets_field(Address function, int64_t field) const {
  const auto all = paths(function);
  return all && all->size() == 1 && all->front().returns && all->front().stores.size() == 1 &&
         all->front().stores[0].size == 8 && all->front().stores[0].to.is_argument(0, field) &&
         all->front().stores[0].value.is_argument(1);
}

bool UnwinderSearch::gets_field(Address function, int64_t field) const {
  const auto all = paths(function);
  const Value value = {.kind = Value::Kind::field, .argument = 0, .offset = field};
  return all && all->size() == 1 && all->front().returns && all->front().stores.empty() &&
         all->front().result == value;
}

std::optional<layout::UnwinderTable> UnwinderSearch::functions(Address resume, int64_t field) {
  const auto is_context = [](const Value& value) {
    return value.kind == Value::Kind::argument && value.offset == 0;
  };
  layout::UnwinderTable table = {};
  for (Address personality : personalities()) {
    std::set<Address> of_first, of_second, called;
    for (const DirectCall& call : calls_of(personality)) {
      if (at(call.target) == nullptr || !is_context(call.arguments[0])) continue;
      called.insert(call.target);
      if (call.arguments[1].is_number(0)) of_first.insert(call.target);
      if (call.arguments[1].is_number(1)) of_second.insert(call.target);
    }
    table = {};
    for (Address function : called) {
      if (of_first.contains(function) && of_second.contains(function) && sets_register(function))
        table.set_gr = function;
      if (sets_field(function, field)) table.set_ip = function;
    }
    if (table.set_gr != 0 && table.set_ip != 0) break;
  }
  if (table.set_gr == 0 || table.set_ip == 0) return std::nullopt;
  for_each_near(table_, table.set_ip, [&](const Function& function) {
    constexpr uint64_t kLongest = 32;
    if (function.range.size() <= kLongest && gets_field(function.range.begin, field))
      table.get_ip = function.range.begin;  // any function that does the same will do
  });
  if (table.get_ip == 0) return std::nullopt;
  table.resume = resume;
  for (uint64_t* one : {&table.get_ip, &table.set_gr, &table.set_ip, &table.resume})
    *one += object_.bias();
  return table;
}

std::set<Address> UnwinderSearch::callers_of(const std::set<Address>& callees, Address near) const {
  std::set<Address> callers;
  for_each_near(table_, near, [&](const Function& function) {
    const auto called = targets_in(object_, function);
    if (std::any_of(callees.begin(), callees.end(),
                    [&](Address callee) { return called.contains(callee); }))
      callers.insert(function.range.begin);
  });
  return callers;
}

std::optional<HiddenUnwinder> UnwinderSearch::run() {
  for (Address resume : by_votes()) {
    const auto lookup = lookup_from(resume);
    if (!lookup) continue;
    HiddenUnwinder found;
    found.find_table = at(lookup->find_table);
    found.functions = functions(resume, lookup->field);
    // The function that looks entries up, and the one that prepares it for all that start to
    // unwind.
    std::set<Address> callees = {lookup->caller};
    for (const DirectCall& call : calls_of(resume))
      for (const DirectCall& next : calls_of(call.target))
        if (next.target == lookup->caller) callees.insert(call.target);
    found.code = with_callees(object_, callers_of(callees, resume));
    return found;
  }
  return std::nullopt;
}

constexpr uint32_t kWanted = PT_GNU_EH_FRAME;

// Functions with the number in their code.
std::set<Address> knowing_wanted(image::Object& object) {
  std::array<uint8_t, sizeof kWanted> bytes;
  std::memcpy(bytes.data(), &kWanted, sizeof kWanted);
  std::set<Address> all;
  for (const image::Segment& segment : object.elf().segments()) {
    if (!segment.executable) continue;
    const auto code = object.code_from(segment.range.begin);
    for (auto next = code.begin();; ++next) {
      next = std::search(next, code.end(), bytes.begin(), bytes.end());
      if (next == code.end()) break;
      const Function* const function =
          object.functions().find(segment.range.begin + static_cast<uint64_t>(next - code.begin()));
      if (function != nullptr) all.insert(function->range.begin);
    }
  }
  return all;
}

}  // namespace

std::vector<Range> with_callees(image::Object& object, const std::set<Address>& functions) {
  std::vector<Range> all;
  std::set<Address> added;
  const auto add = [&](const Function& function) {
    if (added.insert(function.range.begin).second)
      all.push_back({function.range.begin + object.bias(), function.range.end + object.bias()});
  };
  for (Address begin : functions) {
    const Function* const function = object.functions().find(begin);
    if (function == nullptr) continue;
    add(*function);
    const auto called = targets_in(object, *function);
    for_each_near(object.functions(), begin, [&](const Function& other) {
      if (called.contains(other.range.begin)) add(other);
    });
  }
  return all;
}

std::optional<HiddenUnwinder> find_hidden_unwinder(image::Object& object) {
  return UnwinderSearch(object).run();
}

bool may_run_landing_pads(image::Object& object) {
  const auto& functions = object.functions().functions();
  if (std::none_of(functions.begin(), functions.end(),
                   [](const Function& function) { return function.lsda != 0; }))
    return false;
  const UnwinderSearch search(object);
  const auto personalities = search.personalities();
  return personalities.empty() ||
         std::any_of(personalities.begin(), personalities.end(),
                     [&](Address one) { return !only_aborts(object, *search.at(one)); });
}

bool looks_for_unwind_tables(image::Object& object) {
  return !knowing_wanted(object).empty();
}

const Function* find_object_list(image::Object& program) {
  const auto callbacks = knowing_wanted(program);
  if (callbacks.empty()) return nullptr;
  const Function* found = nullptr;
  for (const Function& function : program.functions().functions()) {
    const auto code = program.code(function);
    const auto own = code.first(std::min<size_t>(code.size(), function.range.size()));
    Address next = function.range.begin;
    bool takes = false;
    while (!takes && next < function.range.end && next - function.range.begin < own.size()) {
      const auto instruction = arch::decode(own.subspan(next - function.range.begin), next);
      if (!instruction) break;
      takes = callbacks.contains(instruction->memory) || callbacks.contains(instruction->immediate);
      next = instruction->end();
    }
    if (!takes) continue;
    for (const DirectCall& call : arch::direct_calls(own, function.range.begin)) {
      const Value &callback = call.arguments[0], &argument = call.arguments[1];
      if (callback.kind != Value::Kind::number || argument.kind != Value::Kind::stack ||
          !callbacks.contains(static_cast<Address>(callback.offset)))
        continue;
      const Function* const target = program.function_starting_at(call.target);
      if (target == nullptr) continue;
      if (found != nullptr && found != target) return nullptr;
      found = target;
    }
  }
  return found;
}

}  // namespace pinprick::placement
