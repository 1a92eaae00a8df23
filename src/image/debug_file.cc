#include "image/debug_file.h"

#include <fcntl.h>
#include <zlib.h>

#include <filesystem>
#include <vector>

namespace pinprick::image {
namespace {

// crc32 of zlib is the checksum of .gnu_debuglink.
bool has_checksum(const std::string& path, uint32_t wanted) {
  auto text = read_file(path);
  if (!text) return false;
  return crc32_z(0, reinterpret_cast<const unsigned char*>(text->data()), text->size()) == wanted;
}

}  // namespace

std::optional<ElfFile> find_debug_file(const ElfFile& object, const std::string& root,
                                       const std::string& path) {
  const std::string& id = object.build_id();
  std::vector<std::string> candidates;
  if (id.size() > 2)
    candidates.push_back("/usr/lib/debug/.build-id/" + id.substr(0, 2) + "/" + id.substr(2) +
                         ".debug");
  const auto link = object.debug_link();
  if (link && link->file.find('/') == std::string::npos) {
    const std::string folder = std::filesystem::path(path).parent_path();
    candidates.push_back(folder + "/" + link->file);
    candidates.push_back(folder + "/.debug/" + link->file);
    candidates.push_back("/usr/lib/debug" + folder + "/" + link->file);
  }
  for (const std::string& candidate : candidates) {
    for (const std::string& prefix : {root, std::string()}) {
      auto file = ElfFile::open(prefix + candidate, ElfFile::Use::symbols);
      if (!file) continue;
      const bool same =
          id.empty() ? link && has_checksum(prefix + candidate, link->crc) : file->build_id() == id;
      if (same && file->has_symtab()) return std::move(*file);
      if (root.empty()) break;
    }
  }
  return std::nullopt;
}

}  // namespace pinprick::image
