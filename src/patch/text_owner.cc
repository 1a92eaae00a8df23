#include "patch/text_owner.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/address.h"
#include "layout/session_file.h"

namespace pinprick::patch {
namespace {

constexpr uint64_t kLibraryMagic = 0x3046'4c45'5350'5050;  // "PPPSELF0"

// The kernel's name for shared anonymous memory, which never merges with its neighbours.
constexpr std::string_view kSharedMemory = "/dev/zero";

bool is_own_text_claimed = false;

}  // namespace

bool library_changes_text(const target::Memory& memory, const std::vector<image::Mapping>& maps) {
  return std::any_of(maps.begin(), maps.end(), [&](const image::Mapping& mapping) {
    uint64_t magic = 0;
    return mapping.shared && mapping.path == kSharedMemory && mapping.range.size() == kPageSize &&
           memory.read_value(mapping.range.begin, magic) && magic == kLibraryMagic;
  });
}

std::optional<layout::FileHeader> mapped_session(const target::Memory& memory,
                                                 const image::Mapping& mapping) {
  layout::FileHeader header;
  if (!mapping.shared || mapping.writable || mapping.offset != 0 ||
      mapping.path.find(layout::kFileSuffix) == mapping.path.npos ||
      !memory.read_value(mapping.range.begin, header) || header.magic != layout::kFileMagic)
    return std::nullopt;
  return header;
}

std::optional<AttachedSession> session_changes_text(const target::Memory& memory,
                                                    const std::vector<image::Mapping>& maps) {
  for (const image::Mapping& mapping : maps) {
    const auto header = mapped_session(memory, mapping);
    if (!header) continue;
    // If it is of another version, nothing more can be read.
    if (header->version != layout::kFileVersion) return AttachedSession{};
    if (header->state != layout::SessionState::disarmed) return AttachedSession{header->controller};
  }
  return std::nullopt;
}

Result<std::optional<AttachedSession>, SystemError> session_in_own_text(
    const target::Memory& memory) {
  if (is_own_text_claimed) return std::optional<AttachedSession>();
  const auto maps = image::read_maps(::getpid());
  if (!maps) return fail(maps.error());
  return session_changes_text(memory, *maps);
}

Result<std::optional<AttachedSession>, SystemError> claim_own_text(const target::Memory& memory) {
  // The look that counts is the second one. But a session that is there already must not see the
  // page when it arms a library that was loaded later.
  auto session = session_in_own_text(memory);
  if (is_own_text_claimed || !session || *session) return session;
  void* const page =
      ::mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return fail(SystemError{errno});
  std::memcpy(page, &kLibraryMagic, sizeof kLibraryMagic);
  session = session_in_own_text(memory);
  is_own_text_claimed = session && !*session;
  if (!is_own_text_claimed) ::munmap(page, kPageSize);
  return session;
}

}  // namespace pinprick::patch
