#include "cli/top/measurement_rows.h"

#include "target/stop.h"

namespace pinprick::cli::top {
namespace {

class Forwarder : public session::ReportSink {
 public:
  explicit Forwarder(const RowSource::TakeReport& take) : take_(take) {}

  // Functions with the same name are told apart by their order, so none may be left out.
  bool shows_idle(size_t) const override { return true; }
  void report(const session::Report& report) override { take_(report); }

 private:
  const RowSource::TakeReport& take_;
};

}  // namespace

uint64_t MeasurementRows::look_after() {
  measured_.notice_ends();
  return measured_.look_after();
}

void MeasurementRows::read(const TakeReport& take) {
  Forwarder forwarder(take);
  for (session::Measurement& one : measured_.all()) {
    const pid_t pid = one.process().pid;
    if (finished_.contains(pid)) continue;
    if (one.has_ended()) finished_.insert(pid);
    one.report(session::Period::interval, forwarder);
  }
}

std::vector<pid_t> MeasurementRows::ended() const {
  std::vector<pid_t> pids;
  for (const session::Measurement& one : measured_.all())
    if (one.has_ended()) pids.push_back(one.process().pid);
  return pids;
}

// A thread that was interrupted in the kernel stops when it comes out of it, until we resume it.
bool MeasurementRows::can_be_left_alone() {
  return !measured_.holds_budget() && target::Stop::settle() == 0;
}

}  // namespace pinprick::cli::top
