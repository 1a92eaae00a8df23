#include "session/borrowing.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "arch/syscall.h"
#include "patch/text_edit.h"

namespace pinprick::session {

namespace {

// Does for the thread what the code that it runs on would do.
bool bring_home(target::Stop& stop, const target::RemoteTarget& target, Range loan,
                target::StoppedThread& thread) {
  std::vector<uint8_t> code(loan.size());
  if (!target.memory().read(loan.begin, code)) return false;
  const auto home = arch::home_of_borrowed_call(loan.begin, code);
  if (!home) return false;
  thread.registers = arch::registers_at_home(*home, thread.registers);
  stop.set_signal_mask(thread, home->signal_mask);
  stop.move(thread, thread.instruction_pointer());
  return true;
}

// Free bytes at the end of code, and of what: a path as in maps.
struct Room {
  Range range;
  std::string path;
};

// In what stays mapped as long as the program runs: the program, its loader, the vDSO.
std::vector<Room> rooms(const image::ProcessImage& image, pid_t pid) {
  std::vector<Room> found;
  const auto add = [&](Range free, const std::string& path) {
    const Address begin = align_up(free.begin, 16);
    if (begin + layout::kLoanSize <= free.end)
      found.push_back({{begin, begin + layout::kLoanSize}, path});
  };
  const Address headers = image::auxiliary_value(pid, AT_PHDR);
  const Address loader = image::auxiliary_value(pid, AT_BASE);
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

// What a loan's code lies in can be told by the code alone.
bool is_lent(Address at, std::span<const uint8_t> bytes) {
  return arch::home_of_borrowed_call(at, bytes).has_value();
}

}  // namespace

Result<void, SessionError> with_borrowed_thread(
    const target::RemoteTarget& target, const image::ProcessImage& image, SessionFile& file,
    layout::Session& journal,
    const std::function<Result<void, SessionError>(target::BorrowedThread&)>& work) {
  using target::AttachCause;
  using target::AttachError;
  const auto refuse = [&](AttachCause cause) {
    return fail(SessionError(AttachError{cause, target.pid(), 0, 0, {}}));
  };
  const auto maps = image::read_maps(target.pid());
  const std::vector<Room> all = rooms(image, target.pid());
  target::Room room;
  room.original.resize(layout::kLoanSize);
  const auto usable = std::find_if(all.begin(), all.end(), [&](const Room& one) {
    return maps && is_still_there(one, *maps) &&
           target.memory().read(one.range.begin, room.original) &&
           !is_lent(one.range.begin, room.original);
  });
  layout::LoanEntry& loan = journal.header.loan;
  // The journal holds one. (An earlier one that could not be repaid.)
  if (usable == all.end() || loan.active != 0) return refuse(AttachCause::no_room);
  room.address = usable->range.begin;
  loan.address = room.address;
  loan.active = 1;
  std::memcpy(loan.original, room.original.data(), sizeof loan.original);
  if (auto written = file.write_header(journal.header); !written)
    return fail(SessionError(written.error()));

  Result<void, SessionError> result;
  bool is_over = true;
  if (auto stop = target::stop_one_to_borrow(target.pid(), target.memory(), room.address); !stop) {
    result = fail(SessionError(stop.error()));
  } else if (!target.same_image()) {
    result = refuse(AttachCause::exec_during_attach);
  } else {
    auto thread = target::BorrowedThread::borrow(*stop, target.memory(), std::move(room));
    result = thread ? work(*thread) : fail(SessionError(thread.error()));
    is_over = !thread || !thread->went_home();
    // Whatever of it failed then.
    if (thread && thread->has_ended())
      result = refuse(target.ends() ? AttachCause::exited : AttachCause::exec_during_attach);
  }
  if (!is_over) return result;
  loan.active = 0;
  if (auto written = file.write_header(journal.header); !written && result)
    return fail(SessionError(written.error()));
  return result;
}

void repay_loan(target::Stop& stop, const target::RemoteTarget& target, SessionFile& file,
                layout::Session& journal) {
  layout::LoanEntry& loan = journal.header.loan;
  if (loan.active == 0) return;
  const Range range = {loan.address, loan.address + sizeof loan.original};
  const auto maps = image::read_maps(target.pid());
  for (auto& thread : stop.threads()) {
    if (!maps || patch::signal_returns_to(*maps, target.memory(), thread, {&range, 1})) return;
    if (range.contains(thread.instruction_pointer()) && !bring_home(stop, target, range, thread))
      return;
  }
  // Something else may lie there by now, or nothing: then there is nothing of ours to take back.
  std::vector<uint8_t> there(range.size());
  const bool is_ours = target.memory().read(range.begin, there) && is_lent(range.begin, there);
  if (is_ours && !target.memory().write(loan.address, loan.original)) return;
  loan.active = 0;
  static_cast<void>(file.write_header(journal.header));
}

}  // namespace pinprick::session
