#include "session/generated_names.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <utility>
#include <vector>

#include "base/process_folder.h"
#include "target/procfs.h"

namespace pinprick::session {
namespace {

// Takes a number in hexadecimal, with or without 0x, and the blank after it off the text.
std::optional<uint64_t> take_number(std::string_view& text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (error != std::errc{} || !text.starts_with(' ')) return std::nullopt;
  text.remove_prefix(1);
  return number;
}

}  // namespace

void GeneratedCode::add_lines(std::string_view lines) {
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    const auto start = take_number(line);
    const auto size = start ? take_number(line) : std::nullopt;
    if (size && !line.empty()) add(*start, *size, line);
  }
}

void GeneratedCode::add(Address start, uint64_t size, std::string_view name) {
  if (size == 0 || start + size < start) return;
  auto next = functions_.lower_bound(start);
  if (next != functions_.begin() && std::prev(next)->first + std::prev(next)->second.size > start)
    --next;
  while (next != functions_.end() && next->first < start + size) next = functions_.erase(next);
  if (functions_.size() < kMostFunctions)
    functions_.emplace_hint(next, start, Function{size, std::string(name)});
}

const std::pair<const Address, GeneratedCode::Function>* GeneratedCode::find(
    Address address) const {
  const auto next = functions_.upper_bound(address);
  if (next == functions_.begin()) return nullptr;
  const auto& found = *std::prev(next);
  return address - found.first < found.second.size ? &found : nullptr;
}

void GeneratedNames::open() {
  if (file_) return;
  const std::string folder = process_folder(pid_);
  const pid_t inside = target::tid_inside(pid_, pid_);
  struct stat process = {}, of_file = {};
  if (inside == 0 || ::stat(folder.c_str(), &process) != 0) return;
  auto file = open_file(fmt::format("{}/root/tmp/perf-{}.map", folder, inside),
                        O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (!file || ::fstat(file->get(), &of_file) != 0 || !S_ISREG(of_file.st_mode) ||
      (of_file.st_uid != 0 && of_file.st_uid != process.st_uid))
    return;
  file_ = *std::move(file);
}

const std::pair<const Address, GeneratedCode::Function>* GeneratedNames::find(Address address) {
  if (const auto* const known = code_.find(address)) return known;
  open();
  if (!file_) return nullptr;
  while (read_more())
    if (const auto* const known = code_.find(address)) return known;
  return nullptr;
}

// Returns false if there is nothing more. A runtime that writes its list anew begins with an empty
// file.
bool GeneratedNames::read_more() {
  constexpr uint64_t kMost = 16 << 20;        // at once
  constexpr uint64_t kMostOfAll = 256 << 20;  // the file is another user's
  constexpr size_t kTail = 64;
  struct stat now = {};
  if (::fstat(file_.get(), &now) != 0) return false;
  const uint64_t size = std::min(static_cast<uint64_t>(now.st_size), kMostOfAll);
  std::vector<uint8_t> before(tail_.size());
  const bool is_same =
      size >= read_ && read_at(file_.get(), before, read_ - tail_.size()) && before == tail_;
  if (!is_same) {
    read_ = 0;
    tail_.clear();
    code_ = {};
  }
  if (size <= read_) return false;
  std::vector<uint8_t> bytes(std::min(size - read_, kMost));
  if (!read_at(file_.get(), bytes, read_)) return false;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t end = text.rfind('\n');
  if (end == text.npos) return false;
  code_.add_lines(text.substr(0, end + 1));
  read_ += end + 1;
  const size_t kept = std::min(end + 1, kTail);
  tail_.assign(bytes.begin() + static_cast<ptrdiff_t>(end + 1 - kept),
               bytes.begin() + static_cast<ptrdiff_t>(end + 1));
  return true;
}

}  // namespace pinprick::session
