// Values of objects (object_value.h), found by the contents that they depend on: in this process as
// long as anybody uses them, and in files of the user's cache.
//
// Why no value is used that decoding would not give:
//   - A value is a function of bytes (Object::contents() says which) and of the program that
//   decodes
//     them. It is computed from a private copy of exactly the bytes that its key is a hash of: to
//     change the file meanwhile, and back, changes neither.
//   - It is looked up by the hash of the bytes that are there now. No size, time or inode says that
//     a file is the same. That others who can choose a library's bytes cannot choose bytes with
//     another library's key is what the hash is for (content_hash.h): its own key is in the folder.
//   - The key covers the program, too, by the build ids of its own file and of its libraries:
//   another
//     pinprick, or another decoder under it, finds nothing of this one's. Without such ids nothing
//     is written or read.
//   - A file says which key and which kind of value it is of, and has a checksum by the same hash
//     over all of that and the value. So a damaged or shortened file, or one under another's name,
//     reads as none; it is removed and made again.
//   - Who may write there is up to cache_folder.h: this user alone.
//
// By any number of threads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/cache_folder.h"
#include "base/content_hash.h"
#include "image/object_value.h"

namespace pinprick::image {

class ObjectStore {
 public:
  // Without a folder values are kept in this process only.
  explicit ObjectStore(std::optional<CacheFolder> folder = std::nullopt);
  // Writes what is still to be written.
  ~ObjectStore();
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;

  // A hasher for keys, which knows the program already.
  ContentHasher hasher() const;

  // Null: there is none. `segments`: of the object that is looked at.
  std::shared_ptr<const FunctionTable> find_functions(ContentHash key,
                                                      std::span<const Segment> segments);
  std::shared_ptr<const ObjectCode> find_code(ContentHash key, std::span<const Segment> segments);
  // Returns what is kept: `value`, or an equal one that somebody else has brought. Files are
  // written by write_pending().
  std::shared_ptr<const FunctionTable> keep(ContentHash key, FunctionTable value);
  std::shared_ptr<const ObjectCode> keep(ContentHash key, ObjectCode value);

  // Writes what is new into the folder. Takes milliseconds: not before what has to be quick.
  void write_pending();

  // For tests: how many values were found in files, and in use.
  size_t found_in_files() const { return found_in_files_; }
  size_t found_in_use() const { return found_in_use_; }

 private:
  enum class Kind : uint32_t { functions = 1, code = 2 };
  static std::string file_name(ContentHash key, Kind kind);
  // A file's bytes, with the value's; and the value's, if the file is whole and means this.
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
  std::map<ContentHash, std::weak_ptr<const FunctionTable>> functions_;
  std::map<ContentHash, std::weak_ptr<const ObjectCode>> code_;
  struct Pending {
    ContentHash key;
    std::shared_ptr<const FunctionTable> functions;  // or
    std::shared_ptr<const ObjectCode> code;
  };
  void add_pending(ContentHash key, std::shared_ptr<const FunctionTable> value) {
    pending_.push_back({key, std::move(value), nullptr});
  }
  void add_pending(ContentHash key, std::shared_ptr<const ObjectCode> value) {
    pending_.push_back({key, nullptr, std::move(value)});
  }
  std::vector<Pending> pending_;
  size_t found_in_files_ = 0, found_in_use_ = 0;
};

}  // namespace pinprick::image
