// Probes of ours in a process, found and armed the way the command line does it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/messages.h"
#include "engine/session.h"
#include "image/process.h"
#include "placement/probe_set.h"
#include "session/subject.h"

namespace pinprick::bench {

struct Found {
  session::Subject subject;
  std::vector<image::Match> matches;
};

Result<Found, cli::Message> find(pid_t pid, const std::vector<std::string>& patterns);

struct Armed {
  std::unique_ptr<image::ProcessImage> image;
  engine::Session session;
};

// Looks at the process anew each time: symbols, decoding and planning are part of arming.
// `wanted` empty: whatever matches.
Result<Armed, cli::Message> arm(pid_t pid, const std::vector<std::string>& patterns,
                                placement::Kind kind,
                                const std::function<bool(const image::Match&)>& wanted = {},
                                const engine::ArmOptions& options = {});

// Fails unless everything that was armed came out.
Result<engine::DisarmReport, cli::Message> disarm(engine::Session& session);

// Removes, when it goes, the records of sessions whose memory had to stay in a process that has
// ended since. So it has to go after the process.
class LeftRecords {
 public:
  explicit LeftRecords(pid_t pid) : pid_(pid) {}
  LeftRecords(LeftRecords&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  LeftRecords& operator=(LeftRecords&&) = delete;
  ~LeftRecords();

 private:
  pid_t pid_;  // 0: moved from
};

// Hits that were counted, or calls that were measured, by all probes together.
uint64_t hits(const engine::Session& session);

}  // namespace pinprick::bench
