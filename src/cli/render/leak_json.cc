#include "cli/render/json.h"
#include "cli/render/json_record.h"

namespace pinprick::cli {

void JsonRenderer::leaks(const LeakReport& report) {
  const Json common = {
      {"seconds", report.seconds}, {"final", report.is_final}, {"sample", report.sample}};
  for (const LeakRow& row : report.rows) {
    Json record = {{"type", "leak"}};
    record.update(common);
    record.update({{"function", row.function},
                   {"stack", frames(row.stack)},
                   {"bytes", row.bytes},
                   {"blocks", row.blocks},
                   {"oldest_ns", row.oldest_ns}});
    write_record(data_, record);
  }
  Json total = {{"type", "leaks"}};
  total.update(common);
  total.update({{"bytes", report.bytes},
                {"blocks", report.blocks},
                {"least_age_ns", report.least_age_ns},
                {"young_bytes", report.young_bytes},
                {"young_blocks", report.young_blocks},
                {"allocated", report.allocated},
                {"freed", report.freed},
                {"unknown_freed", report.tells_unknown ? Json(report.unknown_freed) : Json()},
                {"reused", report.reused},
                {"no_room", report.no_room},
                {"dropped", report.dropped}});
  put_record(data_, total);
}

}  // namespace pinprick::cli
