#include "session/borrowing.h"

#include <algorithm>
#include <cstring>

namespace pinprick::session {

std::vector<Range> rooms(const image::ProcessImage& image) {
  std::vector<Range> found;
  for (const auto& object : image.objects) {
    for (Range code : object->executable_ranges()) {
      const Address end = align_up(code.end, kPageSize);
      const Address begin = align_up(code.end, 16);
      if (begin + layout::kLoanSize <= end) found.push_back({begin, begin + layout::kLoanSize});
    }
  }
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
  for (const auto& thread : stop.threads())
    if (range.contains(thread.registers.rip)) return;
  if (!target.memory().write(loan.address, loan.original)) return;
  loan.active = 0;
  static_cast<void>(file.write_header(journal.header));
}

}  // namespace pinprick::session
