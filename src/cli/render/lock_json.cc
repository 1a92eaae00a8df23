#include "cli/render/json.h"
#include "cli/render/json_record.h"

namespace pinprick::cli {

static Json fields_of(const LockUse& use, const LockReport& report) {
  const auto held = [&](uint64_t number) { return report.tells_holding ? Json(number) : Json(); };
  return {{"taken", use.taken},
          {"not_taken", use.not_taken},
          {"waits", use.waits},
          {"waited_ns", use.waited_ns},
          {"longest_wait_ns", use.longest_wait_ns},
          {"holds", held(use.holds)},
          {"held_ns", held(use.held_ns)},
          {"longest_hold_ns", held(use.longest_hold_ns)}};
}

void JsonRenderer::locks(const LockReport& report) {
  const Json common = {{"seconds", report.seconds}, {"final", report.is_final}};
  for (const auto* const rows : {&report.locks, &report.conditions})
    for (const LockRow& row : *rows) {
      Json record = {{"type", "lock"}};
      record.update(common);
      record.update({{"pid", row.pid},
                     {"kind", row.type},
                     {"address", row.address},
                     {"name", row.name.empty() ? Json() : Json(row.name)},
                     {"signals", row.signals}});
      record.update(fields_of(row.use, report));
      Json stacks = Json::array();
      for (const LockRow::ByStack& one : row.by_stack) {
        Json of_stack = {{"function", one.function}, {"stack", frames(one.stack)}};
        of_stack.update(fields_of(one.use, report));
        stacks.push_back(of_stack);
      }
      record["stacks"] = stacks;
      write_record(data_, record);
    }
  for (const LockOrder& order : report.orders) {
    Json steps = Json::array();
    for (const LockOrder::Step& step : order.steps)
      steps.push_back({{"thread", step.thread},
                       {"held", step.held},
                       {"taken", step.taken},
                       {"held_stack", frames(step.held_stack)},
                       {"taken_stack", frames(step.taken_stack)}});
    Json record = {{"type", "lock_order"}};
    record.update(common);
    record.update({{"pid", order.pid}, {"steps", steps}});
    write_record(data_, record);
  }
  Json total = {{"type", "locks"}};
  total.update(common);
  total.update({{"locks", report.locks.size()},
                {"conditions", report.conditions.size()},
                {"orders", report.orders.size()},
                {"least_wait_ns", report.least_wait_ns},
                {"unknown_releases", report.unknown_releases},
                {"unseen_releases", report.unseen_releases},
                {"no_room", report.no_room},
                {"no_room_for_stacks", report.no_room_for_stacks},
                {"no_room_for_orders", report.no_room_for_orders},
                {"dropped", report.dropped}});
  put_record(data_, total);
}

static Json fields_of(const session::LockWait& wait) {
  return {{"thread", wait.thread},
          {"thread_name", wait.thread_name},
          {"kind", session::word_of(wait.kind)},
          {"address", wait.lock},
          {"lock", wait.lock_name},
          {"owner", wait.owner == 0 ? Json() : Json(wait.owner)},
          {"owner_name", wait.owner_name},
          {"owner_has_ended", wait.owner_has_ended},
          {"gives_up", wait.gives_up},
          {"stack", wait.stack},
          {"owner_stack", wait.owner_stack}};
}

void JsonRenderer::deadlocks(const session::LockWaits& waits) {
  for (const std::vector<size_t>& ring : waits.deadlocks) {
    Json threads = Json::array();
    for (const size_t i : ring) threads.push_back(fields_of(waits.waits[i]));
    put_record(data_, {{"type", "deadlock"}, {"pid", waits.process.pid}, {"threads", threads}});
  }
}

void JsonRenderer::lock_waits(const session::LockWaits& waits) {
  for (const session::LockWait& wait : waits.waits) {
    Json record = {{"type", "lock_wait"}, {"pid", waits.process.pid}};
    record.update(fields_of(wait));
    write_record(data_, record);
  }
  deadlocks(waits);
  put_record(data_, {{"type", "lock_waits"},
                     {"pid", waits.process.pid},
                     {"threads", waits.threads},
                     {"waits", waits.waits.size()},
                     {"deadlocks", waits.deadlocks.size()}});
}

}  // namespace pinprick::cli
