#include "image/store/object_store.h"

#include <link.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <string_view>

#include "base/build_id.h"
#include "base/bytes.h"
#include "image/store/packed.h"

namespace pinprick::image {
namespace {

constexpr std::array<char, 8> kMagic = {'p', 'i', 'n', 'p', 'r', 'i', 'c', '1'};

struct FileHead {
  std::array<char, 8> magic = kMagic;
  uint64_t kind = 0;
  uint64_t size = 0;  // of the value
  uint64_t key_high = 0, key_low = 0;
  uint64_t checksum_high = 0, checksum_low = 0;
};
static_assert(std::has_unique_object_representations_v<FileHead>);

struct Program {
  std::vector<uint8_t> build_ids;
  bool is_known = true;
};

// The program comes first, then its libraries, in an order that the program determines.
int add_build_id(dl_phdr_info* object, size_t, void* data) {
  auto& program = *static_cast<Program*>(data);
  if (std::string_view(object->dlpi_name).starts_with("linux-vdso")) return 0;
  const std::span<const uint8_t> id = build_id_of(*object);
  program.is_known = program.is_known && !id.empty();
  append(program.build_ids, uint64_t{id.size()});
  program.build_ids.insert(program.build_ids.end(), id.begin(), id.end());
  return 0;
}

}  // namespace

ObjectStore::ObjectStore(std::optional<CacheFolder> folder) : folder_(std::move(folder)) {
  Program program;
  ::dl_iterate_phdr(&add_build_id, &program);
  if (!program.is_known) folder_.reset();
  key_ = folder_ ? folder_->key() : HashKey::random();
  ContentHasher hasher(key_);
  hasher.add(program.build_ids);
  program_ = hasher.finish();
}

ObjectStore::~ObjectStore() {
  write_pending();
}

ContentHasher ObjectStore::hasher() const {
  ContentHasher hasher(key_);
  hasher.add(program_);
  return hasher;
}

std::optional<ContentHash> ObjectStore::recall(const Versions& files) {
  const std::lock_guard lock(mutex_);
  const auto found = remembered_.find(files);
  if (found == remembered_.end()) return std::nullopt;
  ++recalled_;
  return found->second;
}

void ObjectStore::remember(const Versions& files, ContentHash contents) {
  constexpr size_t kMost = 4096;
  const std::lock_guard lock(mutex_);
  if (remembered_.size() >= kMost) remembered_.clear();
  remembered_.insert_or_assign(files, contents);
}

std::shared_ptr<const ObjectText> ObjectStore::recall_text(const Versions& files) {
  const std::lock_guard lock(mutex_);
  const auto found = remembered_texts_.find(files);
  auto text = found != remembered_texts_.end() ? found->second.lock() : nullptr;
  if (text != nullptr) keep_in_mind(text, 0);
  return text;
}

void ObjectStore::remember_text(const Versions& files, std::shared_ptr<const ObjectText> text) {
  constexpr size_t kMost = 4096;
  const std::lock_guard lock(mutex_);
  if (remembered_texts_.size() >= kMost) remembered_texts_.clear();
  remembered_texts_.insert_or_assign(files, text);
  uint64_t size = 0;
  for (const SegmentBytes& segment : *text) size += segment.bytes.size();
  keep_in_mind(std::move(text), size);
}

namespace {

std::string cache_key(std::span<const std::string_view> names) {
  std::string all;
  for (const std::string_view name : names) (all += name) += '\0';
  return all;
}

}  // namespace

std::optional<bool> ObjectStore::recall_names(const Versions& files,
                                              std::span<const std::string_view> names) {
  const std::lock_guard lock(mutex_);
  const auto found = remembered_names_.find({files, cache_key(names)});
  if (found == remembered_names_.end()) return std::nullopt;
  return found->second;
}

void ObjectStore::remember_names(const Versions& files, std::span<const std::string_view> names,
                                 bool are_there) {
  constexpr size_t kMost = 4096;
  const std::lock_guard lock(mutex_);
  if (remembered_names_.size() >= kMost) remembered_names_.clear();
  remembered_names_.insert_or_assign({files, cache_key(names)}, are_there);
}

ObjectStore::Starts ObjectStore::recall_matches(ContentHash contents, const std::string& pattern) {
  const std::lock_guard lock(mutex_);
  const auto found = remembered_matches_.find({contents, pattern});
  return found == remembered_matches_.end() ? nullptr : found->second;
}

void ObjectStore::remember_matches(ContentHash contents, const std::string& pattern,
                                   Starts starts) {
  constexpr size_t kMost = 4096;
  const std::lock_guard lock(mutex_);
  if (remembered_matches_.size() >= kMost) remembered_matches_.clear();
  remembered_matches_.insert_or_assign({contents, pattern}, std::move(starts));
}

// The latest ones are at the end. `size` is only needed for a value that is not among them.
void ObjectStore::keep_in_mind(std::shared_ptr<const void> value, uint64_t size) {
  constexpr size_t kMost = 256;
  constexpr uint64_t kLargest = uint64_t{512} << 20;
  if (!keeps_latest_) return;
  const auto known = std::find_if(latest_.begin(), latest_.end(),
                                  [&](const Kept& one) { return one.value == value; });
  if (known != latest_.end()) {
    std::rotate(known, std::next(known), latest_.end());
    return;
  }
  latest_.push_back({std::move(value), size});
  latest_size_ += size;
  while (latest_.size() > kMost || (latest_size_ > kLargest && latest_.size() > 1)) {
    latest_size_ -= latest_.front().size;
    latest_.pop_front();
  }
}

std::string ObjectStore::file_name(ContentHash key, Kind kind) {
  return to_hex(key) + (kind == Kind::functions ? ".functions" : ".code");
}

std::vector<uint8_t> ObjectStore::wrapped(ContentHash key, Kind kind,
                                          std::span<const uint8_t> value) const {
  FileHead head;
  head.kind = static_cast<uint64_t>(kind);
  head.size = value.size();
  head.key_high = key.high;
  head.key_low = key.low;
  ContentHasher hasher(key_);
  hasher.add({reinterpret_cast<const uint8_t*>(&head), sizeof head});
  hasher.add(value);
  const ContentHash checksum = hasher.finish();
  head.checksum_high = checksum.high;
  head.checksum_low = checksum.low;
  std::vector<uint8_t> file;
  file.reserve(sizeof head + value.size());
  append(file, head);
  file.insert(file.end(), value.begin(), value.end());
  return file;
}

std::optional<std::span<const uint8_t>> ObjectStore::unwrapped(
    ContentHash key, Kind kind, std::span<const uint8_t> file) const {
  ByteReader reader(file);
  auto head = reader.read<FileHead>();
  if (!reader.ok() || head.magic != kMagic || head.kind != static_cast<uint64_t>(kind) ||
      head.key_high != key.high || head.key_low != key.low || head.size != reader.remaining())
    return std::nullopt;
  const ContentHash checksum = {head.checksum_high, head.checksum_low};
  head.checksum_high = head.checksum_low = 0;
  const auto value = reader.take(head.size);
  ContentHasher hasher(key_);
  hasher.add({reinterpret_cast<const uint8_t*>(&head), sizeof head});
  hasher.add(value);
  if (hasher.finish() != checksum) return std::nullopt;
  return value;
}

template <class T, class Parse>
std::shared_ptr<const T> ObjectStore::find(std::map<ContentHash, std::weak_ptr<const T>>& known,
                                           ContentHash key, Kind kind, Parse&& parse) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known.find(key); found != known.end())
      if (auto value = found->second.lock()) {
        ++found_in_use_;
        keep_in_mind(value, 0);
        return value;
      }
  }
  if (!folder_) return nullptr;
  const std::string name = file_name(key, kind);
  const auto file = folder_->read(name);
  if (!file) return nullptr;
  const auto bytes = unwrapped(key, kind, *file);
  auto value = bytes ? parse(*bytes) : std::nullopt;
  const std::lock_guard lock(mutex_);
  if (!value) {
    folder_->remove(name);
    return nullptr;
  }
  ++found_in_files_;
  auto kept = std::make_shared<const T>(*std::move(value));
  known[key] = kept;
  keep_in_mind(kept, 0);
  return kept;
}

template <class T>
std::shared_ptr<const T> ObjectStore::keep(std::map<ContentHash, std::weak_ptr<const T>>& known,
                                           ContentHash key, T value) {
  auto kept = std::make_shared<const T>(std::move(value));
  const std::lock_guard lock(mutex_);
  if (auto before = known[key].lock()) return before;
  known[key] = kept;
  keep_in_mind(kept, 0);
  if (folder_) add_pending(key, kept);
  return kept;
}

std::shared_ptr<const FunctionTable> ObjectStore::find_functions(
    ContentHash key, std::span<const Segment> segments) {
  return find(functions_, key, Kind::functions,
              [&](std::span<const uint8_t> bytes) { return parse_functions(bytes, segments); });
}

std::shared_ptr<const ObjectCode> ObjectStore::find_code(ContentHash key,
                                                         std::span<const Segment> segments) {
  return find(code_, key, Kind::code,
              [&](std::span<const uint8_t> bytes) { return parse_code(bytes, segments); });
}

std::shared_ptr<const FunctionTable> ObjectStore::keep(ContentHash key, FunctionTable value) {
  return keep(functions_, key, std::move(value));
}

std::shared_ptr<const ObjectCode> ObjectStore::keep(ContentHash key, ObjectCode value) {
  return keep(code_, key, std::move(value));
}

void ObjectStore::write_pending() {
  const std::lock_guard lock(mutex_);
  if (pending_.empty()) return;
  const auto write = [&](ContentHash key, Kind kind, std::span<const uint8_t> value) {
    folder_->write(file_name(key, kind), wrapped(key, kind, value));
  };
  for (const Pending& one : std::exchange(pending_, {})) {
    if (one.functions) write(one.key, Kind::functions, to_bytes(*one.functions));
    if (one.code) write(one.key, Kind::code, to_bytes(*one.code));
  }
  folder_->trim();
}

}  // namespace pinprick::image
