#include "image/elf/debug_file.h"

#include <fcntl.h>
#include <lzma.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>
#include <vector>

#include "base/task.h"

namespace pinprick::image {
namespace {

// More than any real debug file. One with holes can be as large as its owner likes.
constexpr uint64_t kLargestDebugFile = uint64_t{8} << 30;

// The checksum of .gnu_debuglink is zlib's crc32.
bool has_checksum(const std::string& path, uint32_t wanted) {
  const auto file = open_file(path, O_RDONLY);
  if (!file) return false;
  std::vector<uint8_t> piece(size_t{1} << 20);
  uLong sum = 0;
  for (uint64_t done = 0; done <= kLargestDebugFile;) {
    check_cancelled();
    const ssize_t size = ::read(file->get(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return false;
    if (size == 0) return sum == wanted;
    sum = crc32_z(sum, piece.data(), static_cast<size_t>(size));
    done += static_cast<uint64_t>(size);
  }
  return false;
}

// Decompresses xz streams, one after the other. Returns nullopt if they are none, or if they take
// more memory or get longer than any real ones.
std::optional<std::vector<uint8_t>> decompress(std::span<const uint8_t> packed) {
  constexpr size_t kLargest = size_t{64} << 20;
  constexpr size_t kFirst = 1 << 20;
  constexpr uint64_t kMostMemory = uint64_t{66}
                                   << 20;  // what `xz -9` takes: a dictionary of 64 MiB
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, kMostMemory, LZMA_CONCATENATED) != LZMA_OK) return std::nullopt;
  stream.next_in = packed.data();
  stream.avail_in = packed.size();
  std::vector<uint8_t> out;
  lzma_ret result = LZMA_OK;
  while (result == LZMA_OK && out.size() < kLargest) {
    const size_t done = out.size();
    out.resize(std::clamp(2 * done, kFirst, kLargest));
    stream.next_out = out.data() + done;
    stream.avail_out = out.size() - done;
    result = lzma_code(&stream, LZMA_FINISH);
    out.resize(out.size() - stream.avail_out);
  }
  lzma_end(&stream);
  if (result != LZMA_STREAM_END) return std::nullopt;
  return out;
}

}  // namespace

std::optional<ElfFile> embedded_debug_file(const ElfFile& object) {
  const auto packed = object.compressed_debug_file();
  if (packed.empty()) return std::nullopt;
  auto bytes = decompress(packed);
  if (!bytes) return std::nullopt;
  auto file = ElfFile::from_bytes(*std::move(bytes), object.path(), 0, ElfFile::Use::symbols);
  // One of another build would name other functions. It need not have an id.
  if (!file || (!file->build_id().empty() && file->build_id() != object.build_id()))
    return std::nullopt;
  return *std::move(file);
}

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
      auto file = ElfFile::open(prefix + candidate, ElfFile::Use::symbols, object.proof(),
                                object.descriptor());
      if (!file || file->file_size() > kLargestDebugFile) continue;
      const bool same =
          id.empty() ? link && has_checksum(prefix + candidate, link->crc) : file->build_id() == id;
      if (same && file->has_symtab()) return std::move(*file);
      if (root.empty()) break;
    }
  }
  return std::nullopt;
}

}  // namespace pinprick::image
