#include "cli/measure/coverage_reports.h"

#include <algorithm>
#include <utility>

namespace pinprick::cli {

using session::Row;

std::string_view CoverageReports::kept(std::string_view name) {
  auto known = names_.find(name);
  if (known == names_.end()) known = names_.emplace(name).first;
  return *known;
}

CoverageReports::Key CoverageReports::key_of(const engine::ProbeName& name) {
  return {kept(name.file),
          kept(name.function),
          kept(name.condition),
          name.offset,
          name.is_point ? 0 : name.address,
          name.at_return};
}

void CoverageReports::report(const session::Report& report) {
  session::Report own = report;
  const size_t all = own.rows.size() + own.idle;
  if (own.is_final) {
    const auto executed = std::count_if(own.rows.begin(), own.rows.end(),
                                        [](const Row& row) { return row.has_calls(); });
    own.coverage = {static_cast<size_t>(executed), all};
  } else {
    std::set<Key>& known = executed_[own.process.pid];
    std::erase_if(own.rows, [&](const Row& row) {
      return !row.has_calls() || !known.insert(key_of(row.name)).second;
    });
    own.idle = all - own.rows.size();
    own.coverage = {known.size(), all};
  }
  std::stable_sort(own.rows.begin(), own.rows.end(), [](const Row& a, const Row& b) {
    return std::tie(a.name.object, a.name.file, a.name.address) <
           std::tie(b.name.object, b.name.file, b.name.address);
  });
  next_.report(own);
}

}  // namespace pinprick::cli
