#include "image/linkage.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "arch/code.h"
#include "base/task.h"

namespace pinprick::image {
namespace {

Range vdso_of(const std::vector<Mapping>& maps) {
  for (const Mapping& mapping : maps)
    if (mapping.path == "[vdso]") return mapping.range;
  return {};
}

std::vector<Object*> objects_of(const ProcessImage& image) {
  std::vector<Object*> all;
  for (const auto& object : image.objects) all.push_back(object.get());
  return all;
}

// What the file has there: zero after its part of a segment.
uint64_t word_in_file(const Object& object, Address at) {
  uint64_t word = 0;
  const auto bytes = object.elf().read({at, at + sizeof word});
  if (bytes.size() == sizeof word) std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

std::optional<uint64_t> word_in_memory(const Object& object, Address at) {
  uint64_t word = 0;
  if (!object.read(at + object.bias(), {reinterpret_cast<uint8_t*>(&word), sizeof word}))
    return std::nullopt;
  return word;
}

void add(LinkTargets& targets, CodeAddress one) {
  if (one.object->contains_code(one.address + one.object->bias()) &&
      std::find(targets.known.begin(), targets.known.end(), one) == targets.known.end())
    targets.known.push_back(one);
}

}  // namespace

Linkage::Linkage(std::vector<Object*> objects) : objects_(std::move(objects)) {
  for (Object* const object : objects_)
    for (const Range range : object->executable_ranges()) code_.emplace_back(range, object);
  std::sort(code_.begin(), code_.end(),
            [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
}

Linkage::Linkage(const ProcessImage& image) : Linkage(objects_of(image)) {
  is_process_ = !image.maps.empty();
  vdso_ = vdso_of(image.maps);
}

Object* Linkage::object_at(Address code) const {
  const auto above = std::upper_bound(
      code_.begin(), code_.end(), code,
      [](Address address, const auto& entry) { return address < entry.first.begin; });
  if (above == code_.begin()) return nullptr;
  const auto& [range, object] = *std::prev(above);
  return range.contains(code) ? object : nullptr;
}

// In the data of an object lies a variable, to which nothing jumps.
bool Linkage::is_in_object(Address address) const {
  return std::any_of(objects_.begin(), objects_.end(),
                     [&](const Object* object) { return object->extent().contains(address); });
}

const LinkTargets& Linkage::targets(Object& object, Address pointer) {
  const Address key = pointer + object.bias();
  if (const auto known = targets_.find(key); known != targets_.end()) return known->second;
  check_cancelled();
  LinkTargets found = find_targets(object, pointer);
  return targets_.insert_or_assign(key, std::move(found)).first->second;
}

LinkTargets Linkage::find_targets(Object& object, Address pointer) {
  LinkTargets targets;
  const Relocation* const link = object.linked_at(pointer);
  const bool is_import = link != nullptr && link->kind == Relocation::Kind::symbol;
  uint64_t held = 0;
  if (is_process_) {
    const auto word = word_in_memory(object, pointer);
    if (!word) return {{}, is_import};
    held = *word;
    Object* const there = object_at(held);
    if (there != nullptr) add(targets, {there, held - there->bias()});
    // Until it is filled in, it holds what the file has, which the loader may already have moved to
    // where the object is. Only of a file is that known.
    const uint64_t in_file = word_in_file(object, pointer);
    const bool is_filled_in =
        !object.elf().is_in_memory() && held != in_file && held != in_file + object.bias();
    if (is_filled_in) {
      targets.may_lead_elsewhere =
          is_import && held != 0 && !is_in_object(held) && !vdso_.contains(held);
      return targets;
    }
  }
  if (link == nullptr) {
    if (const auto own = object.relocated_at(pointer)) add(targets, {&object, *own});
    return targets;
  }
  if (!is_import) {
    add_results(object, static_cast<Address>(link->addend), targets);
    return targets;
  }
  const bool is_settled = add_definitions(*link, object, targets);
  // A pointer that is null until the object is relocated is filled in then, when all is there that
  // the object needs, and stays null if nothing defines the name. Others are filled in at any time.
  if (is_process_ && !is_settled && (held != 0 || !needed_by(object).are_all_there))
    targets.may_lead_elsewhere = true;
  return targets;
}

const std::vector<Linkage::Exported>& Linkage::definitions(std::string_view name) {
  const auto [known, is_new] = definitions_.try_emplace(name);
  if (!is_new) return known->second;
  const HashedName hashed(name);
  for (Object* const object : objects_)
    for (const Definition& one : object->exports().find(hashed))
      known->second.push_back({object, one});
  return known->second;
}

bool Linkage::add_definitions(const Relocation& link, Object& importer, LinkTargets& targets) {
  bool is_settled = false;
  for (const auto& [object, definition] : definitions(link.symbol)) {
    if (definition.is_resolver)
      add_results(*object, definition.address, targets);
    else
      add(targets, {object, definition.address + static_cast<uint64_t>(link.addend)});
    is_settled = is_settled || needed_by(*objects_.front()).objects.contains(object) ||
                 needed_by(importer).objects.contains(object);
  }
  return is_settled;
}

const Linkage::Needed& Linkage::needed_by(Object& object) {
  const auto [known, is_new] = needed_.try_emplace(&object);
  Needed& all = known->second;
  if (!is_new) return all;
  if (by_name_.empty())
    for (Object* const one : objects_) {
      by_name_.emplace(one->exports().soname(), one);
      for (const std::string& name : one->names()) by_name_.emplace(name, one);
    }
  all.objects.insert(&object);
  std::vector<Object*> pending = {&object};
  while (!pending.empty()) {
    const Exports& exports = pending.back()->exports();
    pending.pop_back();
    for (const std::string_view name : exports.needed()) {
      const auto [first, last] = by_name_.equal_range(name);
      all.are_all_there = all.are_all_there && first != last;
      for (auto other = first; other != last; ++other)
        if (all.objects.insert(other->second).second) pending.push_back(other->second);
    }
  }
  return all;
}

// Functions that the resolver calls, or jumps to, may take the addresses for it.
void Linkage::add_results(Object& object, Address resolver, LinkTargets& targets) {
  constexpr size_t kMostFunctions = 8;
  const size_t before = targets.known.size();
  std::vector<const Function*> functions;
  const auto look_at = [&](Address address) {
    const Function* const function = object.functions().find(address);
    if (function != nullptr && functions.size() < kMostFunctions &&
        std::find(functions.begin(), functions.end(), function) == functions.end())
      functions.push_back(function);
  };
  const auto take = [&](Address address) {
    if (object.functions().starts_at(address)) add(targets, {&object, address});
  };
  look_at(resolver);
  size_t looked_at = 0;
  while (looked_at < functions.size()) {
    const Range range = functions[looked_at++]->range;
    const auto code = object.code_at(range);
    for (size_t at = 0; at < code.size();) {
      const auto one = arch::decode(code.subspan(at), range.begin + at);
      if (!one) break;
      if (one->has_target() && !range.contains(one->target)) look_at(one->target);
      if (one->special == arch::Special::lea) take(one->memory);
      if (!object.elf().position_independent() && one->immediate_size >= 4) take(one->immediate);
      if (one->has_rip_operand && one->special != arch::Special::lea && !is_in_resolver_) {
        is_in_resolver_ = true;
        for (const CodeAddress& target : find_targets(object, one->memory).known)
          add(targets, target);
        is_in_resolver_ = false;
      }
      at += one->length;
    }
  }
  if (targets.known.size() == before) targets.may_lead_elsewhere = is_process_;
}

}  // namespace pinprick::image
