#include "cli/verbs/session_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/clock.h"
#include "engine/calls/slot_use.h"
#include "engine/forked_session.h"
#include "engine/owners/shared_sites.h"
#include "select/spec.h"
#include "session/keyed_rows.h"
#include "session/left_events.h"
#include "session/left_over.h"
#include "session/row_sum.h"
#include "session/thread_commands.h"

namespace pinprick::cli {
namespace {

using ledger::FoundSession;

SessionRow::State state_of(const FoundSession& found) {
  if (found.controller_lives) return SessionRow::State::live;
  if (!found.target_lives || is_of_earlier_program(found)) return SessionRow::State::target_gone;
  if (found.is_kept()) return SessionRow::State::kept;
  return found.journal.header.state == layout::SessionState::disarmed
             ? SessionRow::State::left_behind
             : SessionRow::State::orphaned;
}

// A name from a file that another user may have made: a line of output is to stay one.
template <size_t N>
std::string field_text(const char (&field)[N]) {
  std::string text(field, std::find(field, field + N, '\0'));
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return (static_cast<unsigned char>(c) < ' ') || c == '\x7f'; }, '?');
  return text;
}

// Only calls that are timed take slots.
std::optional<SlotFigures> slots_of(const FoundSession& found) {
  using layout::MappingEntry;
  const auto& probes = found.journal.probes;
  if (std::none_of(probes.begin(), probes.end(),
                   [](const layout::ProbeEntry& probe) { return probe.times_calls(); }))
    return std::nullopt;
  const auto& mappings = found.journal.mappings;
  const auto data = std::find_if(mappings.begin(), mappings.end(), [](const MappingEntry& entry) {
    return entry.kind == MappingEntry::Kind::runtime_data;
  });
  if (data == mappings.end() || !found.target_lives) return std::nullopt;
  const auto memory = target::Memory::open(found.journal.header.pid);
  if (!memory) return std::nullopt;
  const pid_t pid = found.journal.header.pid;
  const auto others = engine::OtherSites::find(pid, *memory, found.file.path());
  std::vector<Range> code = others.code();
  for (const MappingEntry& entry : mappings)
    if (layout::is_code(entry.kind)) code.push_back({entry.address, entry.address + entry.size});
  const auto look = [&] {
    auto use = engine::look_at_slots(*memory, *data, others.slots(), others.program().slots());
    if (!use.kept.empty())
      engine::leave_out_slots_on(use, engine::stacks_in_code(pid, *memory, code));
    return use;
  };
  const engine::SlotUse before = look();
  const engine::SlotUse use = look();
  if (use.room == 0) return std::nullopt;
  // While a thread runs, its call may end between the looks at its slot and at its stack: it was
  // left by longjmp only if it seems so twice.
  const auto was_kept = [&](size_t slot) {
    return std::binary_search(before.kept.begin(), before.kept.end(), slot) &&
           before.slots[slot].tsc == use.slots[slot].tsc &&
           before.slots[slot].stack == use.slots[slot].stack;
  };
  const auto abandoned =
      static_cast<size_t>(std::count_if(use.kept.begin(), use.kept.end(), was_kept));
  const auto taken =
      static_cast<size_t>(std::count_if(use.slots.begin(), use.slots.end(),
                                        [](const auto& slot) { return slot.return_address != 0; }));
  return SlotFigures{taken - std::min(taken, abandoned), abandoned, use.slots.size(), use.room};
}

// Adds up the sites of each SDT point.
std::vector<session::Row> summed(std::vector<session::Row> rows) {
  session::RowSum sum;
  sum.add_all(std::move(rows));
  return sum.take();
}

// Those that have not gone with an unloaded object, and were not removed.
size_t probes_in_place(const layout::Session& journal) {
  return static_cast<size_t>(std::count_if(
      journal.probes.begin(), journal.probes.end(),
      [&](const layout::ProbeEntry& probe) { return journal.sites[probe.site].is_in_text(); }));
}

// How long its figures took to come together; 0 if that is not known: neither when a statistic was
// reset is in its file, nor when the program has ended, or the probes were taken out.
double measured_s(const layout::FileHeader& header, SessionRow::State state, uint64_t now) {
  using State = SessionRow::State;
  const bool is_over = state == State::target_gone || state == State::left_behind;
  if (header.resets != 0 || (is_over && header.is_stopped == 0)) return 0;
  const uint64_t end = header.is_stopped != 0 ? std::min(header.stopped_ns, now) : now;
  return end > header.created_ns ? static_cast<double>(end - header.created_ns) / 1e9 : 0;
}

SessionRow row_of(const FoundSession& found, Slots slots) {
  const layout::Session& journal = found.journal;
  SessionRow row;
  row.process = {journal.header.pid, command_of(found)};
  row.file = found.file.path();
  row.state = state_of(found);
  row.controller = journal.header.controller;
  if (found.is_kept()) row.statistic = journal.name(journal.header.statistic);
  row.is_replaced = row.state == SessionRow::State::target_gone && found.target_lives;
  const uint64_t now = realtime_ns();
  row.age_s = now > journal.header.created_ns
                  ? static_cast<double>(now - journal.header.created_ns) / 1e9
                  : 0;
  row.measured_s = measured_s(journal.header, row.state, now);
  row.is_stopped = journal.header.is_stopped != 0;
  row.has_events = session::has_left_events(found);
  row.sites = probes_in_place(journal);
  if (row.state == SessionRow::State::target_gone || row.state == SessionRow::State::left_behind) {
    auto forked = engine::processes_with(found.file);
    std::erase(forked, journal.header.pid);
    row.forked = forked.size();
  }
  if (slots == Slots::included) row.slots = slots_of(found);
  const auto counters = found.file.read_counters(journal);
  const auto extremes = found.file.read_extremes(journal);
  const auto keys = found.file.read_keys(journal, extremes);
  const auto& texts = row.texts.emplace_back(found.file.read_texts(journal));
  std::deque<std::string>& names_of_keys = row.names_of_keys.emplace_back();
  session::ThreadCommands commands(row.process);
  const auto unread = found.file.read_unread(journal);
  const auto sums = found.file.read_sums(journal);
  const auto rests = found.file.read_rests(journal);
  const auto losses = found.file.read_losses(journal);
  const auto histograms = found.file.read_histograms(journal);
  const auto cells = journal.cells_of_probes();
  for (size_t i = 0; i < journal.probes.size(); ++i) {
    const layout::ProbeEntry& probe = journal.probes[i];
    const auto [function, offset, value, condition, is_point, is_signed, at_return, sum,
                is_sum_signed, is_sum_real, key, is_key_signed, is_key_real, is_key_text,
                is_key_code, key_parts] = journal.probe_name(i);
    const ProbeName name = {.object = journal.name(journal.objects[probe.object].name),
                            .function = function,
                            .offset = offset,
                            .value = value,
                            .condition = condition,
                            .is_point = is_point,
                            .is_signed = is_signed,
                            .sum = sum,
                            .is_sum_signed = is_sum_signed,
                            .is_sum_real = is_sum_real,
                            .key = key,
                            .is_key_signed = is_key_signed,
                            .is_key_real = is_key_real,
                            .is_key_text = is_key_text,
                            .is_key_code = is_key_code,
                            .is_key_command = select::is_command_key(key),
                            .key_parts = key_parts,
                            .at_return = at_return,
                            .file = journal.name(journal.objects[probe.object].path),
                            .address = journal.address_in_file(probe)};
    using Kind = layout::ProbeEntry::Kind;
    // Events have figures with their reader alone.
    if (probe.kind == Kind::span || probe.kind == Kind::event) continue;
    const bool has_keys = !key.empty() || !sum.empty();
    const size_t cell = cells[i];
    const auto at = [&](const std::vector<uint64_t>& all) {
      return cell < all.size() ? all[cell] : 0;
    };
    Row own;
    if (probe.has_counter()) {
      own = {
          .name = name, .kind = placement::Kind::count, .hits = counters[cell], .distribution = {}};
      if (!sum.empty()) own.sum = at(sums);
    } else if (probe.kind == Kind::count) {
      own = Row::of_returns(name, histograms[cell], losses[cell]);
      if (has_keys) own.hits = at(rests.hits);
      if (!sum.empty()) own.sum = at(rests.sums);
    } else if (probe.kind == Kind::value) {
      own = Row::of_values(name, histograms[cell], losses[cell]);
    } else {
      own = Row::of_times(name, placement::Kind::latency, histograms[cell], losses[cell]);
    }
    if (!key.empty()) own.key.emplace();
    if (!sum.empty() && !extremes.empty()) {
      const uint64_t owner = layout::owner_of_keys(journal.header, probe, cell);
      const uint64_t index = owner / sizeof(uint64_t);
      own.extremes = index < extremes.size() ? extremes[index] : layout::Extremes();
    }
    if (probe.has_counter() && i < unread.size()) own.add_unread(unread[i]);
    const size_t first = row.rows.size();
    if (has_keys)
      session::add_keyed_rows(
          own, session::keys_of(keys, layout::owner_of_keys(journal.header, probe, cell)), {},
          row.rows);
    else
      row.rows.push_back(own);
    const auto command_of = [&](pid_t tid) -> std::string_view {
      return names_of_keys.emplace_back(
          found.target_lives ? std::string(commands.of(tid, monotonic_ns())) : std::to_string(tid));
    };
    for (size_t added = first; added < row.rows.size(); ++added) {
      auto& own_key = row.rows[added].key;
      const auto name_of_code = [](uint64_t address, uint64_t) {
        return fmt::format("{:#x}", address);
      };
      if (name.is_key_list() && own_key->value) {
        auto parts = session::parts_of_key(*own_key->value, key_parts, texts, name_of_code);
        session::name_commands(parts, name, command_of);
        own_key = {.value = session::RowKey::kText,
                   .text = names_of_keys.emplace_back(session::as_text(parts))};
        if (parts.empty()) own_key = {.value = session::RowKey::kUnread};
      } else if (is_key_text && own_key->value)
        own_key = session::key_of_text(*own_key->value, texts);
      else if (is_key_code && own_key->value)
        own_key = {.value = session::RowKey::kText,
                   .text = names_of_keys.emplace_back(name_of_code(*own_key->value, 1))};
      else if (name.is_key_command && own_key->value)
        own_key = {.value = session::RowKey::kText,
                   .text = command_of(static_cast<pid_t>(*own_key->value))};
      row.rows[added].tell_negative();
    }
    if (session::has_command(name)) session::add_same_keys(row.rows, first);
  }
  row.rows = summed(std::move(row.rows));
  for (size_t i = 0; i < journal.spans.size(); ++i) {
    const layout::SpanEntry& span = journal.spans[i];
    const layout::ProbeEntry& start = journal.probes[span.start];
    const ProbeName name = {.object = journal.name(journal.objects[start.object].name),
                            .function = journal.name(span.name),
                            .file = journal.name(journal.objects[start.object].path),
                            .address = journal.address_in_file(start)};
    const size_t cell = layout::first_span_of(journal.header) + i;
    row.rows.push_back(
        session::Row::of_times(name, placement::Kind::span, histograms[cell], losses[cell]));
  }
  return row;
}

}  // namespace

bool is_of_earlier_program(const FoundSession& found) {
  return found.target_lives && found.journal.header.state == layout::SessionState::armed &&
         !session::PresentProgram(found.journal.header.pid).has(found);
}

std::string command_of(const FoundSession& found) {
  return field_text(found.journal.header.command);
}

std::vector<SessionRow> session_rows(std::span<const FoundSession> sessions, Slots slots) {
  std::vector<SessionRow> rows;
  std::vector<session::RowSum> sums;  // by row
  for (const FoundSession& session : sessions) {
    SessionRow row = row_of(session, slots);
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const SessionRow& other) {
      return other.process.pid == row.process.pid && other.state == row.state &&
             other.is_replaced == row.is_replaced && other.controller == row.controller &&
             other.statistic == row.statistic;
    });
    session::RowSum& sum = same == rows.end() ? sums.emplace_back() : sums[same - rows.begin()];
    sum.add_all(std::move(row.rows));
    if (same == rows.end()) {
      rows.push_back(std::move(row));
      continue;
    }
    std::move(row.texts.begin(), row.texts.end(), std::back_inserter(same->texts));
    std::move(row.names_of_keys.begin(), row.names_of_keys.end(),
              std::back_inserter(same->names_of_keys));
    same->age_s = std::max(same->age_s, row.age_s);
    same->measured_s = std::max(same->measured_s, row.measured_s);
    same->sites += row.sites;
    same->has_events |= row.has_events;
    same->forked = std::max(same->forked, row.forked);
    if (same->slots && row.slots) {
      same->slots->in_use += row.slots->in_use;
      same->slots->abandoned += row.slots->abandoned;
      same->slots->most += row.slots->most;
      same->slots->room += row.slots->room;
    }
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].rows = sums[i].take();
    session::mark_namesakes(rows[i].rows);
  }
  return rows;
}

}  // namespace pinprick::cli
