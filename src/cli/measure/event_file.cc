#include "cli/measure/event_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/fd.h"
#include "cli/messages/event_line_messages.h"
#include "cli/messages/verb_messages.h"
#include "image/elf/elf_file.h"
#include "select/event_lines.h"

namespace pinprick::cli {
namespace {

using Cause = select::EventLineError::Cause;

// The files of this machine, as pinprick sees them.
class FilesHere : public select::EventFiles {
 public:
  Result<std::string, Cause> object_of(std::string_view path) override;
  Result<uint64_t, Cause> address_of(std::string_view path, uint64_t offset) override;

 private:
  std::map<std::string, std::optional<image::ElfFile>, std::less<>> opened_;  // by path
};

// Returns the path without links; nullopt if there is no such file.
std::optional<std::string> real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real ? std::optional<std::string>(real.get()) : std::nullopt;
}

// Maps of the process have the name of the file, and not those of links to it.
Result<std::string, Cause> FilesHere::object_of(std::string_view path) {
  constexpr std::string_view kOfPatterns = "*?:+%";
  std::string name(path);
  if (path.find('/') != path.npos) {
    const auto real = real_path(name);
    struct stat status = {};
    if (!real || ::stat(real->c_str(), &status) != 0) return fail(Cause::file_not_found);
    if (!S_ISREG(status.st_mode)) return fail(Cause::no_regular_file);
    name = real->substr(real->rfind('/') + 1);
  }
  if (name.find_first_of(kOfPatterns) != name.npos) return fail(Cause::bad_address);
  return name;
}

Result<uint64_t, Cause> FilesHere::address_of(std::string_view path, uint64_t offset) {
  if (path.find('/') == path.npos) return fail(Cause::file_not_found);
  auto known = opened_.find(path);
  if (known == opened_.end()) {
    auto file = image::ElfFile::open(std::string(path));
    known = opened_.emplace(path, std::nullopt).first;
    if (file) known->second = *std::move(file);
  }
  if (known->second)
    for (const image::Segment& segment : known->second->segments())
      if (offset >= segment.offset && offset - segment.offset < segment.file_size)
        return segment.range.begin + (offset - segment.offset);
  return fail(Cause::not_executable);
}

}  // namespace

Result<void, Message> append_event_lines(const std::string& path, std::vector<std::string>& specs) {
  const bool is_input = path == "-";
  const auto text = is_input ? read_all(STDIN_FILENO) : read_file(path);
  if (!text) return fail(cannot_read(is_input ? "the standard input" : path, text.error().number));
  FilesHere files;
  const std::string_view all = *text;
  size_t number = 0;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find('\n', begin), all.size());
    const std::string_view line = all.substr(begin, end - begin);
    ++number;
    auto spec = select::spec_of_event_line(line, files);
    if (!spec)
      return fail(bad_event_line(is_input ? "(standard input)" : path, number, line, spec.error()));
    if (*spec) specs.push_back(**std::move(spec));
    begin = end + 1;
  }
  return {};
}

}  // namespace pinprick::cli
