#include "session/timed_calls.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/clock.h"
#include "engine/calls/calls_in_flight.h"
#include "image/maps.h"
#include "image/match.h"
#include "ledger/discovery.h"
#include "session/left_over.h"
#include "target/procfs.h"

namespace pinprick::session {
namespace {

uint64_t age_ns(uint64_t tsc, uint64_t now) {
  __extension__ using Wide = unsigned __int128;
  // The clocks of two CPUs may differ by a tick.
  return tsc < now ? static_cast<uint64_t>(Wide{now - tsc} * ns_multiplier() >> 32) : 0;
}

TimedFunction function_of(const layout::Session& journal, const engine::CallInFlight& call) {
  const auto in_object = [&](const layout::ProbeEntry& probe, std::string name) {
    const layout::ObjectEntry& object = journal.objects[probe.object];
    return TimedFunction{std::string(journal.name(object.name)), std::move(name),
                         journal.address_in_file(probe), std::string(journal.name(object.path))};
  };
  if (call.is_span) {
    const layout::SpanEntry& span = journal.spans[call.metric];
    return in_object(journal.probes[span.start], std::string(journal.name(span.name)));
  }
  const layout::ProbeName name = journal.probe_name(call.metric);
  return in_object(journal.probes[call.metric], image::name_at(name.function, name.offset));
}

// A call that several owners time started when the first of them saw it.
std::vector<engine::CallInFlight> each_once(const std::vector<engine::CallInFlight>& calls) {
  std::vector<engine::CallInFlight> once;
  std::map<std::pair<Address, Address>, size_t> known;
  for (const engine::CallInFlight& call : calls) {
    if (!call.is_span) {
      const auto [at, is_new] = known.try_emplace({call.stack, call.site}, once.size());
      if (!is_new) {
        if (call.tsc < once[at->second].tsc) once[at->second] = call;
        continue;
      }
    }
    once.push_back(call);
  }
  return once;
}

// Those that the program which the process runs has in its memory. A forked child has its parent's.
std::vector<ledger::FoundSession> sessions_in(pid_t pid, const std::vector<image::Mapping>& maps,
                                              std::vector<ledger::FileError>& unreadable) {
  auto found = ledger::find_sessions(pid);
  unreadable = std::move(found.unreadable);
  const PresentProgram program(pid);
  std::erase_if(found.sessions, [&](const ledger::FoundSession& one) {
    return !one.target_lives || one.journal.header.state == layout::SessionState::preparing ||
           !program.has(one);
  });
  auto inherited = ledger::find_inherited(pid, maps);
  std::move(inherited.begin(), inherited.end(), std::back_inserter(found.sessions));
  return std::move(found.sessions);
}

}  // namespace

Result<TimedCalls, SystemError> timed_calls(pid_t pid, image::ObjectStore& store,
                                            const WantedCalls& wanted) {
  const auto memory = target::Memory::open(pid);
  if (!memory) return fail(memory.error());
  const auto maps = image::read_maps(pid);
  if (!maps) return fail(maps.error());
  TimedCalls result;
  const auto sessions = sessions_in(pid, *maps, result.unreadable);
  std::vector<const layout::Session*> journals;
  journals.reserve(sessions.size());
  for (const ledger::FoundSession& one : sessions) journals.push_back(&one.journal);
  auto look = engine::look_at_calls(pid, *memory, *maps, journals);
  if (!wanted.for_each_owner) look.calls = each_once(look.calls);
  result.is_timed = look.is_timed;
  CodeNames names(pid, *memory, store);
  std::map<pid_t, std::string> threads;
  for (const engine::CallInFlight& call : look.calls) {
    TimedCall timed;
    timed.age_ns = age_ns(call.tsc, look.now);
    if (timed.age_ns < wanted.least_age_ns) continue;
    if (call.session == engine::CallInFlight::kProgram) {
      const CodeName& code = names.of_instruction(call.site);
      const auto name = look.program_names.find(call.site);
      timed.function = {code.object, name == look.program_names.end() ? code.text() : name->second,
                        code.address, code.file};
    } else {
      const layout::Session& journal = *journals[call.session];
      timed.function = function_of(journal, call);
      if (journal.header.is_kept != 0) timed.statistic = journal.name(journal.header.statistic);
    }
    if (wanted.is_wanted && !wanted.is_wanted(timed.function)) continue;
    timed.is_span = call.is_span;
    timed.thread = call.thread;
    if (call.caller != 0 && wanted.with_callers) timed.caller = names.of_return(call.caller);
    if (const auto [known, is_new] = threads.try_emplace(call.thread); call.thread != 0 && is_new)
      if (const auto status = target::read_thread_status(pid, call.thread))
        known->second = status->command;
    timed.thread_name = threads[call.thread];
    result.calls.push_back(std::move(timed));
  }
  std::stable_sort(result.calls.begin(), result.calls.end(),
                   [](const TimedCall& a, const TimedCall& b) { return a.age_ns > b.age_ns; });
  return result;
}

}  // namespace pinprick::session
