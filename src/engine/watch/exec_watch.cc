#include "engine/watch/exec_watch.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace pinprick::engine {

using layout::ExecHandshake;
using layout::ExecSlot;

std::shared_ptr<ExecWatch> ExecWatch::start(int file, const layout::Session& journal,
                                            Address handshake, std::vector<Range> code) {
  const uint64_t offset = journal.header.exec_handshake_offset;
  Fd own(::fcntl(file, F_DUPFD_CLOEXEC, 0));
  struct stat status = {};
  if (offset == 0 || !own || ::fstat(own.get(), &status) != 0) return nullptr;
  return std::shared_ptr<ExecWatch>(
      new ExecWatch(std::move(own), offset, handshake, std::move(code), status.st_ino));
}

ExecWatch::ExecWatch(Fd file, uint64_t offset, Address handshake, std::vector<Range> code,
                     uint64_t inode)
    : file_(std::move(file)),
      offset_(offset),
      handshake_(handshake),
      code_(std::move(code)),
      inode_(inode),
      stale_since_ns_(layout::kExecSlots) {}

bool ExecWatch::read(ExecHandshake& handshake) const {
  const auto done =
      read_at(file_.get(), {reinterpret_cast<uint8_t*>(&handshake), sizeof handshake}, offset_);
  return static_cast<bool>(done);
}

void ExecWatch::write(size_t field, uint32_t value) const {
  static_cast<void>(write_at(file_.get(), {reinterpret_cast<const uint8_t*>(&value), sizeof value},
                             offset_ + field));
}

namespace {

size_t field_of(size_t slot) {
  return offsetof(ExecHandshake, slots) + slot * sizeof(ExecSlot) + offsetof(ExecSlot, state);
}

}  // namespace

std::vector<ExecWatch::Request> ExecWatch::requests(uint64_t now_ns) {
  constexpr uint64_t kStaleNs = 2'000'000'000;
  std::vector<Request> all;
  ExecHandshake handshake;
  if (is_closed_ || !read(handshake)) return all;
  if (handshake.controller_gone != 0) write(offsetof(ExecHandshake, controller_gone), 0);
  for (size_t i = 0; i < layout::kExecSlots; ++i) {
    const ExecSlot& slot = handshake.slots[i];
    if (slot.state == ExecSlot::asks) all.push_back({i, static_cast<pid_t>(slot.tid)});
    uint64_t& since_ns = stale_since_ns_[i];
    if (slot.state == ExecSlot::free || slot.state == ExecSlot::asks)
      since_ns = 0;
    else if (since_ns == 0)
      since_ns = now_ns;
    else if (now_ns - since_ns > kStaleNs)
      write(field_of(i), ExecSlot::free);
  }
  return all;
}

bool ExecWatch::is_waiting(const Request& request, const arch::Registers& registers) const {
  const Address at = arch::instruction_pointer(registers);
  return registers.rbx == handshake_ + field_of(request.slot) &&
         std::any_of(code_.begin(), code_.end(), [&](Range range) { return range.contains(at); });
}

void ExecWatch::answer(const Request& request) {
  ExecHandshake handshake;
  if (!read(handshake)) return;
  const ExecSlot& slot = handshake.slots[request.slot];
  if (slot.state == ExecSlot::asks && static_cast<pid_t>(slot.tid) == request.tid)
    write(field_of(request.slot), ExecSlot::answered);
}

uint64_t ExecWatch::missed() const {
  ExecHandshake handshake;
  return read(handshake) ? handshake.missed : 0;
}

void ExecWatch::heartbeat() {
  write(offsetof(ExecHandshake, heartbeat), ++heartbeat_);
}

void ExecWatch::close() {
  if (!std::exchange(is_closed_, true)) write(offsetof(ExecHandshake, controller_gone), 1);
}

}  // namespace pinprick::engine
