#include "session/left_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "ledger/turn.h"

namespace pinprick::session {
namespace {

using Form = engine::Session::FieldForm;

// As forms are in the file: a form of another meaning shows a number.
std::vector<Form> field_forms_of(const action::EventForm& form) {
  std::vector<Form> all;
  for (const uint8_t one : form.shown)
    all.push_back(one <= static_cast<uint8_t>(Form::stack_pointer) ? static_cast<Form>(one)
                                                                   : Form::number);
  return all;
}

}  // namespace

bool keeps_newest_events(const ledger::FoundSession& found) {
  const layout::FileHeader& header = found.journal.header;
  return header.event_log2 != 0 && header.rings != layout::EventRings::oldest &&
         header.state == layout::SessionState::armed;
}

bool has_left_events(const ledger::FoundSession& found) {
  return !found.controller_lives && keeps_newest_events(found);
}

bool records_tree(const layout::Session& journal) {
  return std::ranges::any_of(journal.functions, [&](const layout::FunctionEntry& function) {
    const auto form = action::event_form(journal.name(function.value));
    return form && std::ranges::find(form->shown, static_cast<uint8_t>(Form::stack_pointer)) !=
                       form->shown.end();
  });
}

// Looks up the texts of the rings, and the names of code.
class LeftEvents::Tables : public EventSource {
 public:
  Tables(const Rings& rings, CodeNames* code) : rings_(rings), code_(code) {}

  std::vector<ledger::ReadText> texts_from(uint64_t number) const override {
    if (rings_.journal.header.texts_offset == 0) return {};
    return rings_.file.read_texts_from(rings_.journal, number);
  }
  std::string name_of_code(Address address, uint64_t before) const override {
    if (code_ == nullptr) return fmt::format("{:#x}", address);
    return (before == 0 ? code_->of_instruction(address) : code_->of_return(address)).text();
  }

 private:
  const Rings& rings_;
  CodeNames* code_;  // null: none is known
};

LeftEvents::LeftEvents(ProcessName process, Program program, image::ObjectStore& store)
    : process_(std::move(process)), commands_(process_) {
  if (program == Program::gone) return;
  auto memory = target::Memory::open(process_.pid);
  if (!memory) return;
  memory_.emplace(*std::move(memory));
  code_.emplace(process_.pid, *memory_, store);
}

Result<void, ledger::SessionError> LeftEvents::add(const ledger::FoundSession& found) {
  auto file = ledger::SessionFile::open(found.file.path(), ledger::SessionFile::Lock::exclusive);
  if (!file) return fail(ledger::SessionError(file.error()));
  auto journal = file->read();  // again, now that the file is locked
  if (!journal) return fail(ledger::SessionError(journal.error()));
  if (found.target_lives && !ledger::is_trusted(*file, process_.pid))
    return fail(ledger::SessionError(
        ledger::FileError{ledger::FileError::Cause::untrusted, file->path(), 0, {}, 0}));
  Rings& rings = all_.emplace_back(Rings{.file = *std::move(file), .journal = *std::move(journal)});
  rings.file.stop_events(rings.journal);
  name_probes(rings);
  return {};
}

void LeftEvents::name_probes(Rings& rings) {
  using Kind = layout::ProbeEntry::Kind;
  const layout::Session& journal = rings.journal;
  rings.probes.resize(journal.probes.size());
  std::set<Address> returning;
  for (size_t i = 0; i < journal.probes.size(); ++i) {
    const layout::ProbeEntry& probe = journal.probes[i];
    if (probe.kind != Kind::event) continue;
    const layout::ProbeName known = journal.probe_name(i);
    const auto [form, is_new] = rings.forms.try_emplace(known.value);
    if (is_new) form->second = action::event_form(known.value);
    if (!form->second) continue;
    const layout::ObjectEntry& object = journal.objects[probe.object];
    rings.probes[i].form = &*form->second;
    rings.probes[i].name = {.object = journal.name(object.name),
                            .function = known.function,
                            .offset = known.offset,
                            .condition = known.condition,
                            .is_point = known.is_point,
                            .at_return = probe.at_return != 0,
                            .file = journal.name(object.path),
                            .address = journal.address_in_file(probe),
                            .event = form->second->action.event,
                            .site = journal.sites[probe.site].address + probe.offset};
    if (probe.at_return != 0 && !form->second->action.triggers_end)
      returning.insert(rings.probes[i].name.site);
  }
  for (OfProbe& one : rings.probes)
    one.has_return_event = one.form != nullptr && !one.name.at_return &&
                           !one.form->action.triggers_end && returning.contains(one.name.site);
}

void LeftEvents::tell(Rings& rings, const ledger::Event& event, EventSink& sink) {
  OfProbe* const probe = event.probe < rings.probes.size() ? &rings.probes[event.probe] : nullptr;
  const bool is_known = probe != nullptr && probe->form != nullptr;
  // The last value of a call's return is how long it took.
  if (!is_known || event.values.size() != probe->form->action.fields.size() ||
      (probe->name.at_return && event.values.empty())) {
    ++strange_;
    return;
  }
  ++probe->events;
  last_ns_ = clock_.time_of(event.tsc);
  const action::Action& action = probe->form->action;
  const auto tid = static_cast<pid_t>(event.tid);
  const std::string_view command = commands_.of(tid, clock_.now_ns());
  rings.values.fill(event.values, field_forms_of(*probe->form), action, command,
                    Tables(rings, code_ ? &*code_ : nullptr));
  std::span<const EventValue> values = rings.values.values();
  std::optional<uint64_t> latency_ns;
  if (probe->name.at_return && !values.empty()) {
    latency_ns = values.back().number;
    values = values.first(values.size() - 1);
  }
  sink.event({process_, event.tsc, last_ns_, tid, std::nullopt, command, probe->name, values,
              latency_ns, probe->has_return_event, action.span_part, rings.values.stack_pointer(),
              action.triggers_end});
}

void LeftEvents::hand_over(EventSink& sink) {
  clock_.look();
  for (Rings& rings : all_) {
    rings.next.emplace(rings.file.newest_events(rings.journal));
  }
  while (!all_.empty()) {
    const auto first = std::ranges::min_element(
        all_, {}, [](const Rings& rings) { return rings.next->next_tsc(); });
    if (first->next->next_tsc() == UINT64_MAX) break;
    tell(*first, first->next->take(), sink);
  }
}

void LeftEvents::add_rows(const Rings& rings, std::vector<Row>& rows) {
  const bool lacks_older = rings.file.has_overwritten_events(rings.journal);
  const auto unread = rings.file.read_unread(rings.journal);
  const auto dropped = rings.file.read_dropped(rings.journal);
  const auto at = [](const std::vector<uint64_t>& all, size_t probe) {
    return probe < all.size() ? all[probe] : 0;
  };
  for (size_t i = 0; i < rings.probes.size(); ++i) {
    const OfProbe& probe = rings.probes[i];
    if (probe.form == nullptr || probe.events + at(dropped, i) == 0) continue;
    Row row = {.name = probe.name,
               .kind = placement::Kind::event,
               .hits = probe.events,
               .distribution = Distribution{stats::Histogram(0), 0, {}},
               .lacks_older_events = lacks_older};
    row.distribution->losses[layout::Loss::unread] = at(unread, i);
    row.distribution->losses[layout::Loss::dropped] = at(dropped, i);
    rows.push_back(std::move(row));
  }
}

// They are of the time from when the probes came in to the last event.
Report LeftEvents::report() const {
  Report report;
  report.process = process_;
  report.kind = placement::Kind::event;
  report.is_final = true;
  uint64_t from_ns = last_ns_;
  for (const Rings& rings : all_) {
    add_rows(rings, report.rows);
    from_ns = std::min(from_ns, rings.journal.header.created_ns);
  }
  report.seconds = static_cast<double>(last_ns_ - from_ns) / 1e9;
  return report;
}

}  // namespace pinprick::session
