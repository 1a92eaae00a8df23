// Our probes in a process, matched and armed as by the command line.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/messages/messages.h"
#include "engine/session.h"
#include "image/process.h"
#include "placement/probe_set.h"
#include "session/subject.h"

namespace pinprick::bench {

struct Found {
  session::Subject subject;
  std::vector<image::Match> matches;
  action::Actions actions;
};

Result<Found, cli::Message> find(pid_t pid, const std::vector<std::string>& patterns,
                                 placement::Kind kind = placement::Kind::count,
                                 const std::string& key = {});

struct Armed {
  std::unique_ptr<image::ProcessImage> image;
  engine::Session session;
};

// Looks at the process anew each time, as symbols, decoding and planning are part of arming. If
// `wanted` is empty, arms all matches.
Result<Armed, cli::Message> arm(pid_t pid, const std::vector<std::string>& patterns,
                                placement::Kind kind,
                                const std::function<bool(const image::Match&)>& wanted = {},
                                const engine::ArmOptions& options = {},
                                placement::Ends ends = placement::Ends::automatic);

// Hits of one function by a key, as `pinprick count FUNCTION --by KEY` takes them.
Result<Armed, cli::Message> arm_by_key(pid_t pid, const std::string& function,
                                       const std::string& key);

// The same for one span, as `pinprick latency X..Y` takes it.
Result<Armed, cli::Message> arm_span(pid_t pid, const std::string& span);

// Fails unless everything that was armed is taken out.
Result<engine::DisarmReport, cli::Message> disarm(engine::Session& session);

// Its destructor removes the files of sessions whose memory had to stay in a process that has ended
// since. So it must be destroyed after the process.
class LeftRecords {
 public:
  explicit LeftRecords(pid_t pid) : pid_(pid) {}
  LeftRecords(LeftRecords&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  LeftRecords& operator=(LeftRecords&&) = delete;
  ~LeftRecords();

 private:
  pid_t pid_;  // 0 after a move
};

// The number of counted hits, or measured calls or spans, of all probes together.
uint64_t hits(const engine::Session& session);

}  // namespace pinprick::bench
