#include "session/borrowing.h"

#include <algorithm>
#include <cstring>

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

}  // namespace

std::vector<Range> rooms(const image::ProcessImage& image) {
  std::vector<Range> found;
  const auto add = [&](Range free) {
    const Address begin = align_up(free.begin, 16);
    if (begin + layout::kLoanSize <= free.end) found.push_back({begin, begin + layout::kLoanSize});
  };
  for (const auto& object : image.objects)
    for (Range code : object->executable_ranges()) add({code.end, align_up(code.end, kPageSize)});
  add(image.vdso_padding);
  return found;
}

Result<void, SessionError> with_borrowed_thread(
    target::Stop& stop, const target::RemoteTarget& target, const std::vector<Range>& rooms,
    SessionFile& file, layout::Session& journal,
    const std::function<Result<void, SessionError>(target::BorrowedThread&)>& work) {
  using target::AttachCause;
  using target::AttachError;
  target::Room room;
  room.original.resize(layout::kLoanSize);
  const auto readable = std::find_if(rooms.begin(), rooms.end(), [&](Range range) {
    return target.memory().read(range.begin, room.original);
  });
  if (readable == rooms.end())
    return fail(SessionError(AttachError{AttachCause::no_room, target.pid(), 0, 0, {}}));
  room.address = readable->begin;

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
  if (!target.memory().write(loan.address, loan.original)) return;
  loan.active = 0;
  static_cast<void>(file.write_header(journal.header));
}

}  // namespace pinprick::session
