#include "engine/memory/remote_calls.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "arch/syscall.h"
#include "patch/thread_stacks.h"

namespace pinprick::engine {

namespace {

// Does for the thread what the code of the hijack would do: it gets its own registers and signal
// mask back. Returns false if that code cannot be read or is not ours.
bool give_back(target::Stop& stop, const target::RemoteTarget& target, Range hijack,
               target::StoppedThread& thread) {
  std::vector<uint8_t> code(hijack.size());
  if (!target.memory().read(hijack.begin, code)) return false;
  const auto origin = arch::origin_of_remote_call(hijack.begin, code);
  if (!origin) return false;
  thread.registers = arch::registers_at_origin(*origin, thread.registers);
  stop.set_signal_mask(thread, origin->signal_mask);
  stop.move(thread, thread.instruction_pointer());
  return true;
}

// Free bytes after the end of an object's code, and the object's path, as in the maps.
struct Room {
  Range range;
  std::string path;
};

// The free bytes in objects that stay mapped as long as the program runs: the program itself, its
// loader, and the vDSO.
std::vector<Room> rooms(const image::ProcessImage& image) {
  std::vector<Room> found;
  const auto add = [&](Range free, const std::string& path) {
    const Address begin = align_up(free.begin, 16);
    if (begin + layout::kHijackSize <= free.end)
      found.push_back({{begin, begin + layout::kHijackSize}, path});
  };
  const Address headers = image.auxiliary.value(AT_PHDR);
  const Address loader = image.auxiliary.value(AT_BASE);
  for (const auto& object : image.objects) {
    const bool stays =
        object->extent().contains(headers) || (loader != 0 && object->extent().contains(loader));
    if (!stays) continue;
    for (Range code : object->executable_ranges())
      add({code.end, align_up(code.end, kPageSize)}, object->path());
  }
  add(image.vdso_padding, "[vdso]");
  return found;
}

bool is_still_there(const Room& room, const std::vector<image::Mapping>& maps) {
  return std::any_of(maps.begin(), maps.end(), [&](const image::Mapping& mapping) {
    return mapping.range.contains(room.range) && mapping.executable && mapping.path == room.path;
  });
}

// Do these bytes hold the code of a hijack?
bool is_hijack_code(Address at, std::span<const uint8_t> bytes) {
  return arch::origin_of_remote_call(at, bytes).has_value();
}

}  // namespace

Result<void, ledger::SessionError> with_hijacked_thread(
    const target::RemoteTarget& target, const image::ProcessImage& image, ledger::SessionFile& file,
    layout::Session& journal,
    const std::function<Result<void, ledger::SessionError>(target::HijackedThread&)>& work,
    const std::function<Result<void, ledger::SessionError>(target::Stop&)>& all) {
  using target::AttachCause;
  using target::AttachError;
  const auto refuse = [&](AttachCause cause) {
    return fail(ledger::SessionError(AttachError{cause, target.pid(), 0, 0, {}}));
  };
  const auto maps = image::read_maps(target.pid());
  const std::vector<Room> free = rooms(image);
  target::Room room;
  room.original.resize(layout::kHijackSize);
  const auto usable = std::find_if(free.begin(), free.end(), [&](const Room& one) {
    return maps && is_still_there(one, *maps) &&
           target.memory().read(one.range.begin, room.original) &&
           !is_hijack_code(one.range.begin, room.original);
  });
  layout::HijackEntry& hijack = journal.header.hijack;
  // The journal has room for one hijack. An active one could not be undone.
  if (usable == free.end() || hijack.active != 0) return refuse(AttachCause::no_room);
  room.address = usable->range.begin;
  hijack.address = room.address;
  hijack.active = 1;
  std::memcpy(hijack.original, room.original.data(), sizeof hijack.original);
  if (auto written = file.write_header(journal.header); !written)
    return fail(ledger::SessionError(written.error()));

  Result<void, ledger::SessionError> result;
  bool is_over = true;
  auto stop = all ? target::Stop::all_threads(target.pid())
                  : target::stop_one_to_hijack(target.pid(), target.memory(), room.address);
  if (!stop)
    result = fail(ledger::SessionError(stop.error()));
  else if (!target.same_image())
    result = refuse(target.why_gone());
  else if (all)
    result = all(*stop);
  if (result) {
    auto thread = target::HijackedThread::hijack(*stop, target.memory(), std::move(room));
    result = thread ? work(*thread) : fail(ledger::SessionError(thread.error()));
    is_over = !thread || !thread->resumed_itself();
    // Then these are the cause of any error.
    if (thread && thread->is_frozen()) result = refuse(AttachCause::frozen);
    if (thread && thread->has_ended())
      result = refuse(target.ends() ? AttachCause::exited : target.why_gone());
  }
  if (!is_over) return result;
  hijack.active = 0;
  if (auto written = file.write_header(journal.header); !written && result)
    return fail(ledger::SessionError(written.error()));
  return result;
}

void undo_hijack(target::Stop& stop, const target::RemoteTarget& target, ledger::SessionFile& file,
                 layout::Session& journal) {
  layout::HijackEntry& hijack = journal.header.hijack;
  if (hijack.active == 0) return;
  const Range range = {hijack.address, hijack.address + sizeof hijack.original};
  const auto maps = image::read_maps(target.pid());
  for (auto& thread : stop.threads()) {
    if (!maps || patch::signal_returns_to(*maps, target.memory(), thread, {&range, 1})) return;
    if (range.contains(thread.instruction_pointer()) && !give_back(stop, target, range, thread))
      return;
  }
  // If something else lies there by now, or nothing, there is nothing of ours to undo.
  std::vector<uint8_t> there(range.size());
  const bool is_ours =
      target.memory().read(range.begin, there) && is_hijack_code(range.begin, there);
  if (is_ours && !target.memory().write(hijack.address, hijack.original)) return;
  hijack.active = 0;
  static_cast<void>(file.write_header(journal.header));
}

}  // namespace pinprick::engine
