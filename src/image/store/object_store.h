// ObjectStore: values of objects (object_value.h), by the contents that they depend on: in this
// process as long as they are in use, and in files of the user's cache. Thread-safe.
//
// Why a stored value always equals what decoding would give:
//   - A value is a function of bytes (Object::contents() says which) and of the program that
//     decodes them. It is computed from exactly the bytes that its key is the hash of: from the
//     file, if that is proved to have been unchanged from before it was hashed until afterwards
//     (base/file_version.h), or else from a private copy. So changing the file in between, and
//     back, has no effect.
//   - It is looked up by the hash of the bytes that are there now. No size, time or inode is taken
//     to mean that a file is unchanged, but for files that this store has hashed before and that
//     are proved to have been unchanged since (base/file_version.h). A user who can choose the
//     bytes of a library must not be able to choose bytes with the key of another library: the hash
//     sees to that (content_hash.h), with a secret that is in the folder.
//   - The key also covers the program, by the build ids of its own file and of its libraries.
//     Another pinprick, or another version of its decoder, does not find these values. Without such
//     ids nothing is written or read.
//   - A file contains its key and the kind of its value, and has a checksum, by the same hash, over
//     these and the value. So a damaged or shortened file, or one under a wrong name, reads as
//     missing; it is removed and written again.
//   - Only this user may write there: cache_folder.h sees to that.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cache_folder.h"
#include "base/content_hash.h"
#include "base/file_version.h"
#include "image/store/object_value.h"

namespace pinprick::image {

// The bytes of a segment, in the object's own addresses.
struct SegmentBytes {
  Address address = 0;
  std::unique_ptr<uint8_t[]> storage;
  std::span<const uint8_t> bytes = {};
};
// The executable segments of an object.
using ObjectText = std::vector<SegmentBytes>;

class ObjectStore {
 public:
  // Without a folder, values are kept in this process only.
  explicit ObjectStore(std::optional<CacheFolder> folder = std::nullopt);
  // Writes pending values.
  ~ObjectStore();
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;

  // Returns a hasher for keys, to which the program has been added.
  ContentHasher hasher() const;

  // The files that an object's functions are read from; the second is its debug file.
  using Versions = std::pair<FileVersion, std::optional<FileVersion>>;
  // Returns the hash that remember() got for files of these versions.
  std::optional<ContentHash> recall(const Versions& files);
  // All of these versions must have been settled before the files were hashed.
  void remember(const Versions& files, ContentHash contents);

  // The same for the text of such files: it need not be read again where a process has it as it is
  // in the file. It is known as long as someone has it.
  std::shared_ptr<const ObjectText> recall_text(const Versions& files);
  void remember_text(const Versions& files, std::shared_ptr<const ObjectText> text);
  // Whether they may name any of these functions.
  std::optional<bool> recall_names(const Versions& files, std::span<const std::string_view> names);
  void remember_names(const Versions& files, std::span<const std::string_view> names,
                      bool are_there);
  // The starts of the functions that match a pattern with this text, in files with this hash.
  using Starts = std::shared_ptr<const std::vector<Address>>;
  Starts recall_matches(ContentHash contents, const std::string& pattern);
  void remember_matches(ContentHash contents, const std::string& pattern, Starts starts);
  // Keeps the texts and values of the latest files that were asked for, as long as this lives: for
  // a controller that looks at the same files again and again, in processes that come and go.
  void keep_latest() { keeps_latest_ = true; }

  // Returns null if there is no such value. `segments` are those of the object.
  std::shared_ptr<const FunctionTable> find_functions(ContentHash key,
                                                      std::span<const Segment> segments);
  std::shared_ptr<const ObjectCode> find_code(ContentHash key, std::span<const Segment> segments);
  // Returns the value that is kept: `value`, or an equal one that another caller has added. Files
  // are written by write_pending().
  std::shared_ptr<const FunctionTable> keep(ContentHash key, FunctionTable value);
  std::shared_ptr<const ObjectCode> keep(ContentHash key, ObjectCode value);

  // Writes new values to the folder. This takes milliseconds, so not while something waits.
  void write_pending();

  // For tests: how many values were read from files, and found in use.
  size_t found_in_files() const { return found_in_files_; }
  size_t found_in_use() const { return found_in_use_; }
  size_t recalled() const { return recalled_; }

 private:
  enum class Kind : uint32_t { functions = 1, code = 2 };
  static std::string file_name(ContentHash key, Kind kind);
  // wrapped() returns the bytes of a file with this value. unwrapped() returns the value, if the
  // file is intact and has this key and kind.
  std::vector<uint8_t> wrapped(ContentHash key, Kind kind, std::span<const uint8_t> value) const;
  std::optional<std::span<const uint8_t>> unwrapped(ContentHash key, Kind kind,
                                                    std::span<const uint8_t> file) const;
  template <class T, class Parse>
  std::shared_ptr<const T> find(std::map<ContentHash, std::weak_ptr<const T>>& known,
                                ContentHash key, Kind kind, Parse&& parse);
  template <class T>
  std::shared_ptr<const T> keep(std::map<ContentHash, std::weak_ptr<const T>>& known,
                                ContentHash key, T value);

  std::mutex mutex_;
  std::optional<CacheFolder> folder_;
  HashKey key_;
  ContentHash program_;
  std::map<Versions, ContentHash> remembered_;
  std::map<Versions, std::weak_ptr<const ObjectText>> remembered_texts_;
  std::map<std::pair<Versions, std::string>, bool> remembered_names_;
  std::map<std::pair<ContentHash, std::string>, Starts> remembered_matches_;
  void keep_in_mind(std::shared_ptr<const void> value, uint64_t size);
  struct Kept {
    std::shared_ptr<const void> value;
    uint64_t size = 0;  // of a text
  };
  bool keeps_latest_ = false;
  std::deque<Kept> latest_;
  uint64_t latest_size_ = 0;
  std::map<ContentHash, std::weak_ptr<const FunctionTable>> functions_;
  std::map<ContentHash, std::weak_ptr<const ObjectCode>> code_;
  struct Pending {
    ContentHash key;
    std::shared_ptr<const FunctionTable> functions;  // either this
    std::shared_ptr<const ObjectCode> code;
  };
  void add_pending(ContentHash key, std::shared_ptr<const FunctionTable> value) {
    pending_.push_back({key, std::move(value), nullptr});
  }
  void add_pending(ContentHash key, std::shared_ptr<const ObjectCode> value) {
    pending_.push_back({key, nullptr, std::move(value)});
  }
  std::vector<Pending> pending_;
  size_t found_in_files_ = 0, found_in_use_ = 0, recalled_ = 0;
};

}  // namespace pinprick::image
