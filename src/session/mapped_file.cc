#include "session/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "base/fd.h"
#include "base/process_folder.h"
#include "image/pattern.h"
#include "target/procfs.h"

namespace pinprick::session {
namespace {

// The path of the unified hierarchy, or of any other that matches.
bool is_in_cgroup(pid_t pid, std::string_view wanted) {
  const auto text = read_file(process_folder(pid) + "/cgroup");
  if (!text) return false;
  constexpr std::string_view kMount = "/sys/fs/cgroup";
  if (wanted.starts_with(kMount)) wanted.remove_prefix(kMount.size());
  while (wanted.ends_with('/')) wanted.remove_suffix(1);
  std::string_view rest = *text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    // hierarchy:controllers:path
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? first : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view path = line.substr(second + 1);
    if (path.starts_with(wanted) && (path.size() == wanted.size() || path[wanted.size()] == '/'))
      return true;
  }
  return false;
}

bool has_user(pid_t pid, const std::vector<uid_t>& users) {
  const auto text = read_file(process_folder(pid) + "/status");
  if (!text) return false;
  const size_t at = text->find("\nUid:");
  if (at == std::string::npos) return false;
  char* end = nullptr;
  std::strtoul(text->c_str() + at + 5, &end, 10);  // the real one
  const auto effective = static_cast<uid_t>(std::strtoul(end, nullptr, 10));
  return std::find(users.begin(), users.end(), effective) != users.end();
}

}  // namespace

Result<MappedFile, SystemError> MappedFile::of(const std::string& path) {
  auto fd = open_file(path, O_RDONLY);
  if (!fd) return fail(fd.error());
  void* const page = ::mmap(nullptr, kPageSize, PROT_READ, MAP_PRIVATE, fd->get(), 0);
  if (page == MAP_FAILED) return fail(SystemError{errno});
  const auto maps = image::read_maps(::getpid());
  ::munmap(page, kPageSize);
  if (!maps) return fail(maps.error());
  for (const image::Mapping& mapping : *maps) {
    if (!mapping.range.contains(reinterpret_cast<Address>(page))) continue;
    MappedFile file;
    file.path_ = path;
    file.device_ = mapping.device;
    file.inode_ = mapping.inode;
    return file;
  }
  return fail(SystemError{ENOENT});
}

bool MappedFile::is_in(const std::vector<image::Mapping>& maps) const {
  return std::any_of(maps.begin(), maps.end(), [&](const image::Mapping& mapping) {
    return mapping.executable && is(mapping);
  });
}

bool ProcessFilter::admits_before_exec(pid_t pid) const {
  if (std::find(excluded.begin(), excluded.end(), pid) != excluded.end()) return false;
  if (!users.empty() && !has_user(pid, users)) return false;
  return cgroups.empty() || std::any_of(cgroups.begin(), cgroups.end(),
                                        [&](const auto& one) { return is_in_cgroup(pid, one); });
}

bool ProcessFilter::admits(pid_t pid) const {
  if (!admits_before_exec(pid)) return false;
  if (commands.empty()) return true;
  const auto status = target::read_status(pid);
  return status && std::any_of(commands.begin(), commands.end(), [&](const std::string& glob) {
           return image::glob_matches(glob, status->command);
         });
}

}  // namespace pinprick::session
