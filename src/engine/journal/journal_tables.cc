#include "engine/journal/journal_tables.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/task.h"
#include "engine/plan/span_points.h"
#include "engine/text/point_sites.h"
#include "engine/text/semaphores.h"
#include "plan/pun.h"

namespace pinprick::engine {
namespace {

using layout::ProbeEntry;
using layout::SiteEntry;
using placement::SitePatch;

ProbeEntry::Kind kind_in_journal(placement::Kind kind) {
  switch (kind) {
    case placement::Kind::count:
      return ProbeEntry::Kind::count;
    case placement::Kind::latency:
      return ProbeEntry::Kind::latency;
    case placement::Kind::value:
      return ProbeEntry::Kind::value;
    case placement::Kind::span:
      return ProbeEntry::Kind::span;
    case placement::Kind::event:
      return ProbeEntry::Kind::event;
  }
  return ProbeEntry::Kind::count;
}

class TableWriter {
 public:
  TableWriter(ArmingPlan& plan, Switches switches, const EventText& text_of_events,
              layout::Session& journal)
      : plan_(plan),
        set_(plan.set),
        switches_(switches),
        text_of_events_(text_of_events),
        journal_(journal) {}

  void reserve();
  void add_object(const image::Object& object);
  void add_patch(size_t number, size_t object);
  void add_spans();
  uint32_t add_name(std::string_view name);
  void add_names() { journal_.names.assign(names_.begin(), names_.end()); }

 private:
  void add_function(const placement::Probe& probe, size_t index);
  uint32_t add_event_text(const placement::Probe& probe);
  void add_site(size_t number);
  void add_trampoline(size_t number);
  void add_probe(size_t index, size_t object);

  ArmingPlan& plan_;
  const placement::ProbeSet& set_;
  Switches switches_;
  const EventText& text_of_events_;
  layout::Session& journal_;
  std::map<std::string, uint32_t> event_texts_;  // where they are in the names: most are the same
  std::string names_ = std::string(1, '\0');     // offset 0 is the empty name
};

void TableWriter::reserve() {
  journal_.sites.reserve(set_.patches.size());
  journal_.probes.reserve(set_.probes.size());
  plan_.states.resize(set_.patches.size());
}

uint32_t TableWriter::add_name(std::string_view name) {
  const auto offset = static_cast<uint32_t>(names_.size());
  names_.append(name).push_back('\0');
  return offset;
}

uint32_t TableWriter::add_event_text(const placement::Probe& probe) {
  std::string text = text_of_events_ ? text_of_events_(probe) : std::string();
  if (text.empty()) return 0;
  const auto [known, is_new] = event_texts_.try_emplace(std::move(text), 0);
  if (is_new) known->second = add_name(known->first);
  return known->second;
}

void TableWriter::add_object(const image::Object& object) {
  layout::ObjectEntry entry;
  entry.bias = object.bias();
  entry.name = add_name(object.name());
  entry.path = add_name(object.path());
  copy_text(entry.build_id, object.elf().build_id());
  journal_.objects.push_back(entry);
}

void TableWriter::add_function(const placement::Probe& probe, size_t index) {
  if (index != 0 && set_.probes[index - 1].match == probe.match) return;
  const image::Match& match = set_.matches[probe.match];
  // A function's entry may lie after an endbr64; it is still the function itself.
  const Address begin = match.each_instruction
                            ? match.site
                            : set_.patches[probe.patch].site() + probe.offset - match.offset();
  layout::FunctionEntry function;
  function.begin = begin;
  function.first_probe = static_cast<uint32_t>(index);
  function.name = add_name(match.function_name);
  function.is_point = match.point != nullptr ? 1 : 0;
  const action::Action& action = set_.action_of(probe);
  if (!action.value.empty()) {
    function.value = add_name(action.value.text);
    function.is_signed = set_.has_signed_value(probe) ? 1 : 0;
  }
  if (action.kind == placement::Kind::event) function.value = add_event_text(probe);
  if (action.has_sum()) {
    function.sum = add_name(action.sum.text);
    if (set_.is_signed(probe, action.sum)) function.is_signed |= 2;
    if (action.adds_reals()) function.is_signed |= 64;
  }
  if (action.has_key()) {
    function.key = add_name(action.key.text);
    if (action.has_list_key()) {
      function.is_signed |= 32;
      function.key_parts = set_.key_parts(probe);
    } else if (action.has_text_key())
      function.is_signed |= 8;
    else if (action.has_caller_key())
      function.is_signed |= 16;
    else if (select::is_real(action.key.expression))
      function.is_signed |= 128;
    else if (set_.is_signed(probe, action.key))
      function.is_signed |= 4;
  }
  if (!action.condition.empty()) function.condition = add_name(action.condition.text);
  journal_.functions.push_back(function);
}

void TableWriter::add_site(size_t number) {
  const SitePatch& patch = set_.patches[number];
  SiteEntry site;
  site.address = patch.site();
  static_assert(plan::kLongestPun <= layout::kMaxSiteLength);
  site.length = patch.plan.patch.written & 15;
  site.own = patch.plan.own() & 15;
  site.tactic = static_cast<uint8_t>(patch.plan.patch.tactic) & 63;
  site.at_start = patch.plan.patch.at_start;
  site.displaced = patch.plan.patch.displaced;
  site.link = plan_.kind_of_link(number);
  using Phase = SiteEntry::Phase;
  if (patch.plan.trampoline || patch.plan.ends_in_next_jump) site.phase = Phase::dependent;
  site.has_inner_end = patch.plan.has_inner_end() ? 1 : 0;
  if (patch.hook)
    site.phase = patch.hook->is_for_probes() ? Phase::unwinder_hook : Phase::loader_hook;
  std::copy_n(patch.original().begin(), site.own, site.original);
  journal_.sites.push_back(site);
}

void TableWriter::add_trampoline(size_t number) {
  const SitePatch& patch = set_.patches[number];
  SiteEntry trampoline;
  trampoline.address = patch.plan.trampoline->address + patch.object->bias();
  trampoline.length = trampoline.own = patch.plan.trampoline->length & 15;
  trampoline.tactic = static_cast<uint8_t>(patch.plan.patch.tactic) & 63;
  trampoline.link = plan_.kind_of_link(number);
  std::copy_n(patch.plan.trampoline->original.begin(), trampoline.own, trampoline.original);
  journal_.sites.push_back(trampoline);
}

void TableWriter::add_probe(size_t index, size_t object) {
  const placement::Probe& planned = set_.probes[index];
  add_function(planned, index);
  ProbeEntry probe;
  probe.object = static_cast<uint16_t>(object);
  probe.kind = kind_in_journal(set_.kind_of(planned));
  probe.at_return = set_.action_of(planned).at_return ? 1 : 0;
  probe.site = plan_.states[planned.patch].site;
  probe.offset = static_cast<uint8_t>(planned.offset);
  journal_.probes.push_back(probe);
  if (switches_ == Switches::for_each_probe) journal_.switches.push_back({});
}

void TableWriter::add_patch(size_t number, size_t object) {
  check_cancelled();
  plan_.states[number].site = static_cast<uint32_t>(journal_.sites.size()) & PatchState::kMostSites;
  add_site(number);
  if (set_.patches[number].plan.trampoline) add_trampoline(number);
  for (size_t i : set_.patches[number].probes) add_probe(i, object);
}

void TableWriter::add_spans() {
  journal_.spans = span_entries(set_);
  for (size_t i = 0; i < journal_.spans.size(); ++i)
    journal_.spans[i].name = add_name(set_.spans[i].text);
}

}  // namespace

uint32_t fill_tables(ArmingPlan& plan, std::span<const Arena> arenas, Switches switches,
                     std::string_view statistic, const EventText& text_of_events,
                     layout::Session& journal) {
  TableWriter tables(plan, switches, text_of_events, journal);
  tables.reserve();
  for (const Arena& arena : arenas) tables.add_object(*arena.object);
  for (size_t object = 0; object < arenas.size(); ++object) {
    for (size_t i : arenas[object].patches) tables.add_patch(i, object);
    const auto semaphores = semaphores_of(plan.set, arenas[object].patches, object);
    const auto points = point_sites_of(plan.set, arenas[object].patches, semaphores,
                                       static_cast<uint32_t>(journal.semaphores.size()));
    journal.semaphores.insert(journal.semaphores.end(), semaphores.begin(), semaphores.end());
    journal.point_sites.insert(journal.point_sites.end(), points.begin(), points.end());
  }
  tables.add_spans();
  const uint32_t name = tables.add_name(statistic);
  tables.add_names();
  return name;
}

layout::SessionCounts count_tables(const ArmingPlan& plan, const layout::Session& journal,
                                   size_t mappings) {
  layout::SessionCounts counts;
  counts.mappings = mappings;
  counts.objects = journal.objects.size();
  counts.sites = journal.sites.size();
  counts.probes = journal.probes.size();
  counts.functions = journal.functions.size();
  counts.counters = plan.counters();
  counts.spans = journal.spans.size();
  counts.histograms = plan.histograms() + counts.spans;
  if (plan.gap != layout::Gap::none) ++counts.histograms;
  counts.gap = plan.gap;
  counts.switches = journal.switches.size();
  counts.semaphores = journal.semaphores.size();
  counts.point_sites = journal.point_sites.size();
  counts.name_bytes = journal.names.size();
  counts.loader_handshake = plan.has_hook(placement::Hook::Kind::loader);
  counts.exec_handshake = plan.has_hook(placement::Hook::Kind::exec);
  return counts;
}

}  // namespace pinprick::engine
