// Makes reports of coverage (--once) of reports of hits: how often something was hit until its
// probe was out says nothing, but whether it was. An interval has what was executed in it for the
// first time, however many batches, programs or processes have it. For one thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "session/report.h"
#include "session/results.h"

namespace pinprick::cli {

class CoverageReports : public session::ReportSink {
 public:
  // The reports go on to `next`, which must outlive this.
  explicit CoverageReports(session::ReportSink& next) : next_(next) {}

  // The next reports are of such a period. At the end all that was not executed is wanted as well,
  // whatever is shown of it, since it is summed up by object.
  void begin(session::Period period) { period_ = period; }
  bool shows_idle(size_t) const override { return period_ == session::Period::whole; }
  void report(const session::Report& report) override;

 private:
  // File, function, condition, offset and address: the file alone does not say which function it is
  // if it was replaced meanwhile.
  using Key =
      std::tuple<std::string_view, std::string_view, std::string_view, uint64_t, Address, bool>;

  Key key_of(const engine::ProbeName& name);
  std::string_view kept(std::string_view name);

  session::ReportSink& next_;
  session::Period period_ = session::Period::whole;
  std::map<pid_t, std::set<Key>> executed_;  // in all intervals; 0: of the sum of all processes
  std::set<std::string, std::less<>> names_;
};

}  // namespace pinprick::cli
