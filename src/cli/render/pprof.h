// `-o FILE.pb.gz`: hits, calls and their time as a profile for pprof (export/pprof.h).
#pragma once

#include <cstdint>
#include <string>

#include "cli/options.h"
#include "cli/render/export.h"
#include "export/pprof.h"

namespace pinprick::cli {

class PprofRenderer : public ExportRenderer {
 public:
  PprofRenderer(TextRenderer text, const Options& options);

  // Calls, and their time without that of calls within, if they have one.
  void call_paths(const RecordedPaths& recorded) override;

 private:
  void add(const Report& report) override;
  void finish() override;

  exports::Profile profile_;
  uint64_t started_ns_;  // by CLOCK_REALTIME
  double seconds_ = 0;
};

}  // namespace pinprick::cli
