#include "compare/read_run.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>

namespace pinprick::compare {
namespace {

// A histogram has some 100 KB at most, and a key some KB.
constexpr size_t kLongestLine = size_t{16} << 20;

ReadCause cause_of(Fault fault) {
  switch (fault) {
    case Fault::not_json:
      return ReadCause::broken_line;
    case Fault::not_a_record:
      return ReadCause::not_a_record;
    case Fault::other_version:
      return ReadCause::other_version;
    case Fault::wrong_field:
      return ReadCause::wrong_field;
  }
  return ReadCause::wrong_field;
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == line.npos;
}

}  // namespace

Result<void, ReadError> RunText::add_line(std::string_view line) {
  ++lines_;
  if (is_blank(line)) return {};
  // Only the last line may be broken.
  if (has_broken_line_) return fail(ReadError{ReadCause::broken_line, 0, lines_ - 1, {}});
  const auto record = parse_record(line);
  if (record) {
    builder_.add(*record);
    return {};
  }
  if (record.error() == Fault::not_json && !builder_.first_type().empty()) {
    has_broken_line_ = true;
    return {};
  }
  const bool is_text = record.error() == Fault::not_json;
  return fail(ReadError{is_text ? ReadCause::not_json : cause_of(record.error()), 0, lines_, {}});
}

Result<void, ReadError> RunText::add(std::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (rest_.size() + std::min(end, text.size()) > kLongestLine)
      return fail(ReadError{ReadCause::line_too_long, 0, lines_ + 1, {}});
    rest_ += text.substr(0, end);
    if (end == text.npos) return {};
    const std::string line = std::exchange(rest_, {});
    if (auto added = add_line(line); !added) return added;
    text.remove_prefix(end + 1);
  }
  return {};
}

Result<Run, ReadError> RunText::finish() {
  if (!rest_.empty())
    if (auto added = add_line(std::exchange(rest_, {})); !added) return fail(added.error());
  if (builder_.first_type().empty()) return fail(ReadError{ReadCause::empty, 0, 0, {}});
  if (!builder_.has_figures() && !builder_.error().empty())
    return fail(ReadError{ReadCause::failed, 0, 0, builder_.error()});
  if (!builder_.has_figures())
    return fail(ReadError{ReadCause::no_figures, 0, 0, builder_.first_type()});
  Run run = builder_.finish();
  run.was_cut_short = has_broken_line_;
  return run;
}

Result<Run, ReadError> read_run(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto unreadable = [] { return fail(ReadError{ReadCause::unreadable, errno, 0, {}}); };
  if (!fd) return unreadable();
  RunText text;
  std::array<char, size_t{1} << 16> piece;
  for (;;) {
    const ssize_t size = ::read(fd.get(), piece.data(), piece.size());
    if (size == 0) break;
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return unreadable();
    if (auto added = text.add({piece.data(), static_cast<size_t>(size)}); !added)
      return fail(added.error());
  }
  auto run = text.finish();
  if (run) run->path = path;
  return run;
}

}  // namespace pinprick::compare
