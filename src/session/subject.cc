#include "session/subject.h"

#include <elf.h>

#include <utility>

#include "base/clock.h"
#include "engine/memory/kept_memory.h"
#include "engine/owners/shared_sites.h"
#include "image/loader.h"
#include "ledger/turn.h"
#include "target/held_thread.h"
#include "target/procfs.h"

namespace pinprick::session {
namespace {

// Has the process ended, or is it ending? It loses its memory before it counts as ended.
bool is_gone(const target::RemoteTarget& target) {
  return target.has_exited() || !target.same_image();
}

// Is the kernel about to map a program that the process has executed? The last thing that it does
// is to set the auxiliary vector. Before that, the program or its loader may be missing.
bool is_in_exec(pid_t pid) {
  return image::AuxiliaryVector::read(pid).value(AT_ENTRY) == 0;
}

// Loads the image while neither the kernel nor the loader is mapping objects, if possible: while
// they are at work, objects may be missing that others need, an unwinder, say.
Result<image::ProcessImage, SystemError> load_settled(const target::RemoteTarget& target,
                                                      std::vector<image::Mapping> maps,
                                                      const image::MemoryReader& reader,
                                                      image::ObjectStore& store) {
  constexpr uint64_t kTimeoutNs = 300'000'000;
  const pid_t pid = target.pid();
  // The loader of a thread that we hold makes no progress.
  if (target::HeldThread::holds_any_of(pid))
    return image::load_process(pid, std::move(maps), reader, &store);
  for (const uint64_t begin = monotonic_ns();; sleep_ns(1'000'000)) {
    const bool was_idle = !is_in_exec(pid) && !image::loader_is_at_work(pid, reader);
    auto image = image::load_process(pid, reader, &store);
    const bool settled = was_idle && !image::loader_is_at_work(pid, reader);
    if (settled || !image || is_gone(target) || monotonic_ns() - begin > kTimeoutNs) return image;
  }
}

}  // namespace

// Needs the turn: while another controller has stopped the process, it is traced.
Result<target::RemoteTarget, ledger::SessionError> open_target(pid_t pid) {
  const auto turn = ledger::Turn::take(pid);
  if (!turn) return fail(turn.error());
  auto target = target::RemoteTarget::open(pid);
  if (!target) return fail(ledger::SessionError(target.error()));
  // The parent's threads, which can write its text as well, would not be stopped.
  if (target::shares_memory_with_parent(pid))
    return fail(ledger::SessionError(
        target::AttachError{target::AttachCause::shares_memory, pid, 0, 0, {}}));
  return *std::move(target);
}

Result<Subject, ledger::SessionError> look_at(pid_t pid, image::ObjectStore& store) {
  auto target = open_target(pid);
  if (!target) return fail(target.error());
  return look_at(*target, store);
}

Result<Subject, ledger::SessionError> look_at(const target::RemoteTarget& target,
                                              image::ObjectStore& store, Progress progress,
                                              const std::vector<image::Mapping>* held) {
  using target::AttachCause;
  const pid_t pid = target.pid();
  const auto refuse = [&](AttachCause cause, int system_error) {
    return fail(ledger::SessionError(target::AttachError{cause, pid, 0, system_error, {}}));
  };
  auto maps = held != nullptr ? Result<std::vector<image::Mapping>, SystemError>(*held)
                              : image::read_maps(pid);
  if (!maps && is_gone(target)) return refuse(AttachCause::exited, 0);
  if (!maps) return refuse(AttachCause::not_permitted, maps.error().number);
  const auto others = std::make_shared<const engine::OtherSites>(
      engine::OtherSites::find(pid, target.memory(), *maps));
  const auto reader = engine::reader_without_jumps(others, target);
  auto image = progress == Progress::before_relocation
                   ? image::load_process(pid, *std::move(maps), reader, &store)
                   : load_settled(target, *std::move(maps), reader, store);
  if (image) {
    image->taken = others->taken();
    image->kept_stubs = engine::kept_stubs(pid, target.memory(), image->maps);
    image->probes_itself = others->program().is_there();
  }
  const bool incomplete = !image || image->objects.empty() || !image->unreadable.empty();
  if (incomplete && is_gone(target)) return refuse(AttachCause::exited, 0);
  if (!image) return refuse(AttachCause::not_permitted, image.error().number);
  if (image->objects.empty()) {
    if (image->unreadable.empty()) return refuse(AttachCause::exited, 0);
    return fail(ledger::SessionError(image->unreadable.front().error));
  }
  return Subject{target, std::make_unique<image::ProcessImage>(*std::move(image))};
}

}  // namespace pinprick::session
