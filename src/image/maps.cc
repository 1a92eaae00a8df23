#include "image/maps.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "base/process_folder.h"

namespace pinprick::image {
namespace {

constexpr std::string_view kDeleted = " (deleted)";

// Takes the token up to `separator` off the front of `line`.
std::string_view take(std::string_view& line, char separator) {
  const size_t at = line.find(separator);
  const std::string_view token = line.substr(0, at);
  line.remove_prefix(at == line.npos ? line.size() : at + 1);
  return token;
}

bool number(std::string_view text, uint64_t& value, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc{} && end == text.data() + text.size();
}

// The kernel writes a newline in a path as \012.
std::string unescape(std::string_view path) {
  std::string out;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path.substr(i, 4) == "\\012") {
      out += '\n';
      i += 3;
    } else {
      out += path[i];
    }
  }
  return out;
}

bool parse_line(std::string_view line, Mapping& mapping) {
  uint64_t major = 0, minor = 0;
  const std::string_view begin = take(line, '-');
  const std::string_view end = take(line, ' ');
  const std::string_view access = take(line, ' ');
  const std::string_view offset = take(line, ' ');
  const std::string_view device_major = take(line, ':');
  const std::string_view device_minor = take(line, ' ');
  const std::string_view inode = take(line, ' ');
  if (!number(begin, mapping.range.begin, 16) || !number(end, mapping.range.end, 16) ||
      access.size() != 4 || !number(offset, mapping.offset, 16) ||
      !number(device_major, major, 16) || !number(device_minor, minor, 16) ||
      !number(inode, mapping.inode, 10) || mapping.range.empty())
    return false;
  mapping.device = makedev(static_cast<unsigned>(major), static_cast<unsigned>(minor));
  mapping.readable = access[0] == 'r';
  mapping.writable = access[1] == 'w';
  mapping.executable = access[2] == 'x';
  mapping.shared = access[3] == 's';
  const size_t path = line.find_first_not_of(' ');
  if (path != line.npos) line.remove_prefix(path);
  if (line.ends_with(kDeleted)) {
    mapping.deleted = true;
    line.remove_suffix(kDeleted.size());
  }
  mapping.path = unescape(line);
  return true;
}

// PROCMAP_QUERY of <linux/fs.h>, since Linux 6.11: the mapping that covers an address.
struct ProcmapQuery {
  uint64_t size = sizeof(ProcmapQuery);
  uint64_t flags = 0;
  uint64_t address = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t unused[8] = {};
};
static_assert(sizeof(ProcmapQuery) == 104);
constexpr unsigned long kProcmapQuery = _IOWR('f', 17, ProcmapQuery);

}  // namespace

std::vector<Mapping> parse_maps(std::string_view text) {
  std::vector<Mapping> maps;
  while (!text.empty()) {
    Mapping mapping;
    if (parse_line(take(text, '\n'), mapping)) maps.push_back(std::move(mapping));
  }
  return maps;
}

Result<std::vector<Mapping>, SystemError> read_maps(pid_t pid) {
  const auto text = read_process_file(pid, "maps");
  if (!text) return fail(text.error());
  if (text->empty()) return fail(SystemError{ESRCH});
  return parse_maps(*text);
}

// Without the line of flags, nothing is known.
std::vector<DetailedMapping> parse_detailed_maps(std::string_view text) {
  constexpr std::string_view kKey = "ProtectionKey:", kFlags = "VmFlags:";
  // Devices and the like, large pages, userfaultfd, shadow stacks.
  constexpr std::string_view kExtraordinary[] = {"io", "pf", "ht", "um", "uw", "ui", "ss"};
  std::vector<DetailedMapping> maps;
  bool has_key = false;
  while (!text.empty()) {
    std::string_view line = take(text, '\n');
    Mapping mapping;
    if (parse_line(line, mapping)) {
      maps.push_back({std::move(mapping)});
      has_key = false;
    } else if (maps.empty()) {
      continue;
    } else if (line.starts_with(kKey)) {
      has_key = line.substr(kKey.size()).find_first_not_of(" 0") != line.npos;
    } else if (line.starts_with(kFlags)) {
      maps.back().is_ordinary = !has_key;
      line.remove_prefix(kFlags.size());
      while (!line.empty())
        if (const auto flag = take(line, ' ');
            std::find(std::begin(kExtraordinary), std::end(kExtraordinary), flag) !=
            std::end(kExtraordinary))
          maps.back().is_ordinary = false;
    }
  }
  return maps;
}

Result<std::vector<DetailedMapping>, SystemError> read_detailed_maps(pid_t pid) {
  const auto text = read_process_file(pid, "smaps");
  if (!text) return fail(text.error());
  if (text->empty()) return fail(SystemError{ESRCH});
  return parse_detailed_maps(*text);
}

// /proc/PID/pagemap has a word for each page. A page without an entry is read from the file at the
// next access.
std::optional<std::vector<Range>> own_pages(pid_t pid, Range range) {
  constexpr uint64_t kPresent = uint64_t{1} << 63, kSwapped = uint64_t{1} << 62;
  constexpr uint64_t kOfFile = uint64_t{1} << 61, kGuard = uint64_t{1} << 58;
  constexpr size_t kAtOnce = 512;
  const auto pagemap = open_file(process_folder(pid) + "/pagemap", O_RDONLY);
  if (!pagemap) return std::nullopt;
  std::vector<Range> own;
  std::array<uint64_t, kAtOnce> pages;
  const uint64_t end = align_up(range.end, kPageSize) / kPageSize;
  for (uint64_t page = range.begin / kPageSize; page < end;) {
    const auto some = std::span(pages).first(std::min<uint64_t>(kAtOnce, end - page));
    const auto size = static_cast<ssize_t>(some.size_bytes());
    if (::pread(pagemap->get(), some.data(), some.size_bytes(),
                static_cast<off_t>(page * sizeof(uint64_t))) != size)
      return std::nullopt;
    for (const uint64_t entry : some) {
      const Address at = page++ * kPageSize;
      const bool is_copy = (entry & (kPresent | kSwapped)) != 0 && (entry & kOfFile) == 0;
      if (!is_copy && (entry & kGuard) == 0) continue;
      if (own.empty() || own.back().end != at) own.push_back({at, at});
      own.back().end = at + kPageSize;
    }
  }
  return own;
}

MappingLookup::MappingLookup(pid_t pid) {
  if (auto maps = open_file(process_folder(pid) + "/maps", O_RDONLY)) maps_ = *std::move(maps);
}

std::optional<Range> MappingLookup::range_at(Address address) {
  if (!all_) {
    ProcmapQuery query;
    query.address = address;
    if (::ioctl(maps_.get(), kProcmapQuery, &query) == 0) return Range{query.begin, query.end};
    if (errno == ENOENT) return std::nullopt;
    all_.emplace();
    if (const auto text = read_all(maps_.get())) all_ = parse_maps(*text);
  }
  for (const Mapping& mapping : *all_)
    if (mapping.range.contains(address)) return mapping.range;
  return std::nullopt;
}

std::vector<Range> free_ranges(const std::vector<Mapping>& maps, Address lowest, Address highest) {
  std::vector<Range> free;
  Address at = lowest;
  for (const Mapping& mapping : maps) {
    if (mapping.range.begin >= highest) break;
    if (mapping.range.begin > at) free.push_back({at, mapping.range.begin});
    at = std::max(at, mapping.range.end);
  }
  if (at < highest) free.push_back({at, highest});
  return free;
}

bool is_anonymous_code(const Mapping& mapping) {
  if (!mapping.executable) return false;
  // Shared anonymous memory appears as /dev/zero.
  if (mapping.inode != 0) return mapping.path.starts_with("/memfd:") || mapping.path == "/dev/zero";
  // The kernel's own code has a name, and so does memory that was given one: [anon:...], [heap].
  return mapping.path != "[vdso]" && mapping.path != "[vsyscall]" && mapping.path != "[uprobes]";
}

}  // namespace pinprick::image
