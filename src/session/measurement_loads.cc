// Load tracking: objects that are loaded and unloaded while their process is measured.
#include <poll.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "image/loader.h"
#include "ledger/turn.h"
#include "session/left_over.h"
#include "session/measurement.h"

namespace pinprick::session {

Measurement::LoadedAt Measurement::loaded_at(const image::ProcessImage& image,
                                             const image::Object& object) {
  return {object.bias(), image.file_of(object), object.path()};
}

std::set<Measurement::LoadedAt> Measurement::objects_in(const image::ProcessImage& image) {
  std::set<LoadedAt> objects;
  for (const auto& object : image.objects) objects.insert(loaded_at(image, *object));
  return objects;
}

void Measurement::forget(std::string_view path, uint64_t bias) {
  std::erase_if(known_, [&](const LoadedAt& one) { return one.path == path && one.bias == bias; });
}

std::set<Measurement::MappedCode> Measurement::code_in(const std::vector<image::Mapping>& maps) {
  std::set<MappedCode> code;
  for (const image::Mapping& mapping : maps)
    if (mapping.executable && mapping.inode != 0 && !mapping.path.empty())
      code.insert({mapping.path, mapping.device, mapping.inode, mapping.range.begin});
  return code;
}

void Measurement::note_objects(const image::ProcessImage& image) {
  known_ = objects_in(image);
  object_code_ = image.calling_code();
  mapped_ = code_in(image.maps);
}

bool Measurement::has_loaded() const {
  const engine::LoaderWatch* const loader = engine_.loader();
  pollfd request = {loader != nullptr ? loader->descriptor() : -1, POLLIN, 0};
  return ::poll(&request, 1, 0) == 1;
}

// The loading thread waits until its request is answered, and has not run any loaded code.
void Measurement::track_loads() {
  const auto request = engine_.loader()->take();
  if (!request) return;
  look_again();
  if (engine_.loader()->answer(*request)) return;
  listener_->load_timed_out(process_);
  shortfall_.missed = true;
}

// Does nothing while the loader is at work: it notifies us when it starts, and again when it is
// done.
void Measurement::note_mapped() {
  if (!spec_->selection.needs_libraries()) look_again(true);
}

// Most of what a program loads has no name that the patterns name. Then there is nothing to do, and
// to see that takes a tenth of the time of looking at all objects, while the loading thread waits.
bool Measurement::changes_nothing(const std::vector<image::Mapping>& maps) const {
  // Calls are timed from all code, and executions and filters are hooked in any C library.
  if (spec_->selection.needs_libraries() || spec_->hooks_execs) return false;
  // Its code may have to be named.
  if (spec_->selection.actions.name_code()) return false;
  const auto may_match = [&](const MappedCode& code) {
    const std::vector<std::string> names = {code.path.substr(code.path.rfind('/') + 1)};
    return std::any_of(spec_->selection.wanted.begin(), spec_->selection.wanted.end(),
                       [&](const image::Pattern& pattern) {
                         return !pattern.names_object() || pattern.matches_object(names);
                       });
  };
  // Also what has gone: if it comes again, it is new.
  std::vector<MappedCode> changed;
  std::ranges::set_symmetric_difference(mapped_, code_in(maps), std::back_inserter(changed));
  return std::none_of(changed.begin(), changed.end(), may_match) &&
         std::none_of(engine_.batches().begin(), engine_.batches().end(),
                      [](const engine::Batch& batch) { return batch.session.may_be_unloaded(); });
}

void Measurement::look_again(bool although_loading) {
  if (!although_loading && image::loader_is_at_work(process_.pid, target().reader())) return;
  if (const auto maps = image::read_maps(process_.pid); maps && changes_nothing(*maps)) return;
  const auto turn = ledger::Turn::take(process_.pid);
  if (!turn) return note_load_missed(turn.error());
  auto subject = look_at(target(), *store_);
  if (!subject) return note_load_missed(subject.error());
  forget_unloaded(*subject->image);
  const std::set<LoadedAt> before = known_;
  note_objects(*subject->image);
  std::erase_if(named_, [&](const LoadedAt& one) { return !known_.contains(one); });
  for (engine::Batch& batch : engine_.batches()) batch.session.admit_frames(*subject->image);
  if (!std::includes(before.begin(), before.end(), known_.begin(), known_.end())) {
    auto armed = arm_loaded(std::move(subject->image), before);
    if (!armed && is_outdated(armed.error()))
      if (auto again = look_at(target(), *store_))
        armed = arm_loaded(std::move(again->image), before);
    if (!armed) note_load_missed(armed.error());
  }
  admit_callers();
}

void Measurement::note_load_missed(const MeasurementError& why) {
  if (target().is_over()) return;
  listener_->load_missed(process_, why);
  shortfall_.incomplete = shortfall_.missed = true;
}

Result<void, MeasurementError> Measurement::arm_loaded(std::unique_ptr<image::ProcessImage> now,
                                                       const std::set<LoadedAt>& before) {
  const auto is_new = [&](const image::Object& object) {
    return !before.contains(loaded_at(*now, object));
  };
  // The loading thread waits, so none of its code has run.
  const bool may_install_filters =
      spec_->selection.may_follow_pointers() &&
      std::any_of(now->objects.begin(), now->objects.end(), [&](const auto& object) {
        return is_new(*object) && !placement::has_own_calls(*object) &&
               placement::may_install_filters(*object);
      });
  if (may_install_filters)
    for (engine::Batch& batch : engine_.batches()) batch.session.stop_reads();
  const bool may_unmap =
      spec_->selection.may_follow_pointers() &&
      std::any_of(now->objects.begin(), now->objects.end(), [&](const auto& object) {
        return is_new(*object) && placement::may_unmap(*object);
      });
  for (engine::Batch& batch : engine_.batches())
    if (may_unmap)
      batch.session.end_direct_reads_of_load();
    else
      batch.session.note_harmless(*now);
  auto matches = match_loaded(*now, spec_->selection, is_new);
  if (!matches.empty()) note_text_without_functions(*now, is_new);
  leave_out_unfinished(matches);
  std::vector<placement::HookSite> hooks;
  if (spec_->hooks_execs) hooks = placement::exec_sites(*now);
  std::erase_if(hooks, [&](const placement::HookSite& site) {
    return before.contains(loaded_at(*now, *site.object));
  });
  return arm_matches(std::move(now), std::move(matches), hooks);
}

Result<void, MeasurementError> Measurement::arm_matches(
    std::unique_ptr<image::ProcessImage> now, std::vector<image::Match> matches,
    std::span<const placement::HookSite> hooks) {
  const uint64_t start_ns = monotonic_ns();
  if (matches.empty() && hooks.empty()) {
    if (spec_->selection.actions.name_code()) {
      now->maps.clear();
      leave_for_names(std::move(now), {});
    }
    return {};
  }
  std::vector<std::string> names;
  for (const image::Match& match : matches)
    if (names.empty() || names.back() != match.object->name())
      names.push_back(match.object->name());
  if (has_left_over_) static_cast<void>(take_out_left_overs(process_.pid, *store_));
  auto set = plan_loaded(*now, std::move(matches), *spec_, hooks);
  if (!target().same_image()) return fail(error_of_exit());  // as in plan_and_arm()
  auto batch = arm(std::move(now), std::move(set));
  if (!batch) {
    has_left_over_ = true;
    return fail(batch.error());
  }
  engine::Session& session = (*batch)->session;
  const engine::ArmReport& report = session.report();
  if (!names.empty()) listener_->loaded(process_, names, report, monotonic_ns() - start_ns);
  note_armed(report);
  if (report.armed == 0 && session.exec() == nullptr) {
    leave_for_names((*batch)->image, {});
    engine_.batches().pop_back();
    return {};
  }
  forget_unprobed(**batch, hooks);
  return {};
}

// Each object is an open file.
void Measurement::forget_unprobed(engine::Batch& batch,
                                  std::span<const placement::HookSite> hooks) {
  std::set<const image::Object*> probed;
  for (const placement::HookSite& hook : hooks) probed.insert(hook.object);
  for (const engine::ArmedProbe& one : batch.session.probes())
    probed.insert(batch.session.match_of(one).object);
  leave_for_names(batch.image, probed);
}

// Forgets the objects of an image that are neither in `probed` nor new. If code is to be named, new
// objects are kept: when it is named, they may be gone, or the process.
void Measurement::leave_for_names(const std::shared_ptr<image::ProcessImage>& image,
                                  const std::set<const image::Object*>& probed) {
  const bool names_code = spec_->selection.actions.name_code();
  std::erase_if(image->objects, [&](const auto& object) {
    const bool is_new = names_code && named_.insert(loaded_at(*image, *object)).second;
    return !is_new && !probed.contains(object.get());
  });
  if (names_code && !image->objects.empty()) code_->add(image);
}

// The loader notifies us of an object before it relocates it. Relocations in the text would be
// written into our jumps, and there is no notice when they are done.
void Measurement::leave_out_unfinished(std::vector<image::Match>& matches) {
  const image::Object* unfinished = nullptr;
  std::erase_if(matches, [&](const image::Match& match) {
    if (!match.object->elf().has_text_relocations()) return false;
    if (std::exchange(unfinished, match.object) != match.object)
      listener_->code_unfinished(process_, match.object->name());
    return true;
  });
  if (unfinished != nullptr) shortfall_.incomplete = shortfall_.missed = true;
}

// Marks the probes in objects that were unloaded.
void Measurement::forget_unloaded(const image::ProcessImage& now) {
  std::vector<std::string> names;
  for (engine::Batch& batch : engine_.batches())
    for (engine::Unloaded& object : batch.session.note_unloaded(now)) {
      forget(object.path, object.bias);
      names.push_back(std::move(object.name));
    }
  if (!names.empty()) {
    events_.forget_code();
    listener_->unloaded(process_, names);
  }
  retire_gone(now);
}

// A batch without probes in the text is taken out, except for the first one, which has the hook in
// the loader. Children that were forked before may still have a library that was unloaded. What
// cannot be taken out, since a thread is in its stubs, is tried again at the end. Returns how long
// the process was stopped.
uint64_t Measurement::retire_gone(const image::ProcessImage& now) {
  uint64_t stopped_ns = 0;
  if (engine_.batches().empty()) return stopped_ns;
  for (auto next = std::next(engine_.batches().begin()); next != engine_.batches().end();) {
    const auto batch = next++;
    if (!batch->session.is_gone() || !batch->session.forked().empty() || stuck_.contains(batch->id))
      continue;
    const auto changed = engine_.apply({.remove = engine::Engine::all_of(*batch), .now = &now});
    if (changed) stopped_ns += changed->ended.stopped_ns;
    if (!changed || changed->ended.memory_left) {
      stuck_.insert(batch->id);
      continue;
    }
    note(changed->ended);
    retire(batch);
  }
  return stopped_ns;
}

// Calls are timed if they come from objects, or from code of our batches.
void Measurement::admit_callers() {
  std::vector<Range> code = engine_.code();
  code.insert(code.end(), object_code_.begin(), object_code_.end());
  for (engine::Batch& batch : engine_.batches()) batch.session.admit_callers(code);
}

}  // namespace pinprick::session
