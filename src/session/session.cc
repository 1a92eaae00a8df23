#include "session/session.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "patch/text_edit.h"
#include "session/arming.h"

namespace pinprick::session {

Result<Session, SessionError> Session::arm(target::RemoteTarget target,
                                           const image::ProcessImage& image, probe::ProbeSet set,
                                           const ArmOptions& options) {
  Session session(std::move(target), image);
  session.report_.skipped = std::move(set.skipped);
  if (set.patches.empty()) return session;
  Arming arming(session, std::move(set), options);
  if (auto armed = arming.run(); !armed) {
    if (session.file_) static_cast<void>(session.disarm());
    return fail(armed.error());
  }
  return session;
}

std::vector<Unloaded> Session::note_unloaded(const image::ProcessImage& now) {
  std::vector<Unloaded> unloaded;
  if (!file_ || state_ != State::armed) return unloaded;
  using Phase = layout::SiteEntry::Phase;
  for (const layout::ObjectEntry& entry : journal_.objects) {
    const auto object = std::find_if(now.objects.begin(), now.objects.end(), [&](const auto& one) {
      return one->bias() == entry.bias && one->path() == journal_.name(entry.path);
    });
    // Unloaded and loaded again to the same place, it holds its own bytes.
    ObjectSites& sites = sites_of_objects_[static_cast<size_t>(&entry - journal_.objects.data())];
    if (sites.armed == sites.end) continue;
    // The text is the truth: a file that cannot be read just now is not gone. Unloaded and loaded
    // again to the same place, an object holds its own bytes.
    const auto edit = patch::arming(journal_.sites[sites.armed]);
    const auto held = patch::examine(target_.memory(), {&edit, 1})[0];
    if (held == patch::EditOutcome::already) continue;
    if (held == patch::EditOutcome::different && object != now.objects.end()) continue;
    for (size_t i = sites.begin; i < sites.end; ++i) journal_.sites[i].phase = Phase::gone;
    sites.armed = sites.end;
    unloaded.push_back({std::string(journal_.name(entry.name)),
                        std::string(journal_.name(entry.path)), entry.bias});
  }
  if (!unloaded.empty()) static_cast<void>(file_->write_tables(journal_));
  return unloaded;
}

// Nobody waits for this, and the target goes on meanwhile: it sees new slots when the last word is
// written.
void Session::provide_slots() {
  if (!runtime_ || state_ != State::armed) return;
  auto& [address, spec] = *runtime_;
  const Address context_at = address +
                             runtime::runtime_extent(spec.capacity, spec.cpu_count).data_size -
                             sizeof(layout::RuntimeContext);
  uint64_t fresh = 0;
  if (spec.slot_count == spec.capacity ||
      !target_.memory().read_value(context_at + offsetof(layout::RuntimeContext, fresh), fresh) ||
      fresh < spec.slot_count / 2)
    return;
  const uint64_t first = spec.slot_count;
  runtime::RuntimeSpec more = spec;
  more.slot_count = std::min(spec.capacity, 2 * first);
  const auto pieces = runtime::build_slots(address, more, first);
  if (!pieces) return;
  for (const runtime::Piece& piece : *pieces)
    if (!target_.memory().write(piece.address, piece.bytes)) return;
  if (target_.memory().write_value(context_at + offsetof(layout::RuntimeContext, fresh_limit),
                                   more.slot_count))
    spec = more;
}

bool Session::is_gone() const {
  return std::all_of(sites_of_objects_.begin(), sites_of_objects_.end(),
                     [](const ObjectSites& sites) { return sites.armed == sites.end; });
}

Session::Session(Session&& other) noexcept
    : target_(std::move(other.target_)),
      image_(other.image_),
      probes_(std::move(other.probes_)),
      report_(std::move(other.report_)),
      journal_(std::move(other.journal_)),
      file_(std::exchange(other.file_, std::nullopt)),
      sites_of_objects_(std::move(other.sites_of_objects_)),
      loader_(std::move(other.loader_)),
      runtime_(other.runtime_),
      state_(other.state_) {}

Session::~Session() {
  if (file_ && state_ == State::armed) static_cast<void>(disarm());
}

Result<DisarmReport, SessionError> Session::disarm(const image::ProcessImage* now) {
  if (!file_ || state_ == State::disarmed) return DisarmReport{};
  state_ = State::left;
  loader_.reset();
  auto report = session::disarm(target_, now != nullptr ? *now : *image_, *file_, journal_);
  if (report && !report->memory_left) state_ = State::disarmed;
  return report;
}

}  // namespace pinprick::session
