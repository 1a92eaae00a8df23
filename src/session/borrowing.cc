#include "session/borrowing.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "arch/x86_64/borrowed_call.h"

namespace pinprick::session {

namespace {

// Does for the thread what the code that it runs on would do.
bool bring_home(target::Stop& stop, const target::RemoteTarget& target, Range loan,
                target::StoppedThread& thread) {
  std::vector<uint8_t> code(loan.size());
  if (!target.memory().read(loan.begin, code)) return false;
  const auto home = arch::home_of_borrowed_call(loan.begin, code);
  if (!home) return false;
  // The rest was never changed.
  user_regs_struct registers = home->registers;
  const user_regs_struct& now = thread.registers;
  registers.eflags |= now.eflags & ~arch::kBorrowedFlags;
  registers.orig_rax = static_cast<uint64_t>(-1);
  registers.rsp = now.rsp;
  registers.cs = now.cs;
  registers.ss = now.ss;
  registers.ds = now.ds;
  registers.es = now.es;
  registers.fs = now.fs;
  registers.gs = now.gs;
  registers.fs_base = now.fs_base;
  registers.gs_base = now.gs_base;
  thread.registers = registers;
  stop.set_signal_mask(thread, home->signal_mask);
  stop.move(thread, registers.rip);
  return true;
}

// Free bytes at the end of code, and of what: a path as in maps.
struct Room {
  Range range;
  std::string path;
};

std::vector<Room> rooms(const image::ProcessImage& image) {
  std::vector<Room> found;
  const auto add = [&](Range free, const std::string& path) {
    const Address begin = align_up(free.begin, 16);
    if (begin + layout::kLoanSize <= free.end)
      found.push_back({{begin, begin + layout::kLoanSize}, path});
  };
  for (const auto& object : image.objects)
    for (Range code : object->executable_ranges())
      add({code.end, align_up(code.end, kPageSize)}, object->path());
  add(image.vdso_padding, "[vdso]");
  return found;
}

bool is_still_there(const Room& room, const std::vector<image::Mapping>& maps) {
  return std::any_of(maps.begin(), maps.end(), [&](const image::Mapping& mapping) {
    return mapping.range.contains(room.range) && mapping.executable && mapping.path == room.path;
  });
}

}  // namespace

Result<void, SessionError> with_borrowed_thread(
    target::Stop& stop, const target::RemoteTarget& target, const image::ProcessImage& image,
    SessionFile& file, layout::Session& journal,
    const std::function<Result<void, SessionError>(target::BorrowedThread&)>& work) {
  using target::AttachCause;
  using target::AttachError;
  const auto maps = image::read_maps(target.pid());
  const std::vector<Room> all = rooms(image);
  target::Room room;
  room.original.resize(layout::kLoanSize);
  const auto usable = std::find_if(all.begin(), all.end(), [&](const Room& one) {
    return maps && is_still_there(one, *maps) &&
           target.memory().read(one.range.begin, room.original);
  });
  if (usable == all.end())
    return fail(SessionError(AttachError{AttachCause::no_room, target.pid(), 0, 0, {}}));
  room.address = usable->range.begin;

  layout::LoanEntry& loan = journal.header.loan;
  // The journal holds one. (An earlier one that could not be repaid.)
  if (loan.active != 0)
    return fail(SessionError(AttachError{AttachCause::no_room, target.pid(), 0, 0, {}}));
  loan.address = room.address;
  loan.active = 1;
  std::memcpy(loan.original, room.original.data(), sizeof loan.original);
  if (auto written = file.write_header(journal.header); !written)
    return fail(SessionError(written.error()));

  Result<void, SessionError> result;
  {
    auto thread = target::BorrowedThread::borrow(stop, target.memory(), std::move(room));
    result = thread ? work(*thread) : fail(SessionError(thread.error()));
    // Whatever of it failed then.
    if (thread && thread->has_ended())
      result = fail(SessionError(AttachError{AttachCause::exited, target.pid(), 0, 0, {}}));
  }
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
  for (auto& thread : stop.threads())
    if (range.contains(thread.registers.rip) && !bring_home(stop, target, range, thread)) return;
  // Something else may lie there by now, or nothing: then there is nothing of ours to take back.
  std::vector<uint8_t> there(range.size());
  const bool is_ours = target.memory().read(range.begin, there) &&
                       arch::home_of_borrowed_call(range.begin, there).has_value();
  if (is_ours && !target.memory().write(loan.address, loan.original)) return;
  loan.active = 0;
  static_cast<void>(file.write_header(journal.header));
}

}  // namespace pinprick::session
