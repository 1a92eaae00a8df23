#include "engine/memory/frame_rules.h"

#include <algorithm>
#include <cstring>

#include "image/elf/frame_rows.h"

namespace pinprick::engine {
namespace {

// Room for libraries that are loaded later. A program that has just started has none yet.
constexpr uint64_t kToCome = 32 << 20;
// Rows leave this much of the room for lists.
constexpr uint64_t kForLists = 1 << 20;

template <class T>
void append_values(std::vector<uint8_t>& bytes, const std::vector<T>& values) {
  const size_t before = bytes.size();
  bytes.resize(before + values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data() + before, values.data(), values.size() * sizeof(T));
}

uint64_t list_size(size_t objects) {
  return sizeof(layout::UnwindList) + (objects + 1) * sizeof(layout::UnwindObject);
}

}  // namespace

bool FrameRules::update(const image::ProcessImage& image) {
  std::vector<Name> present;
  bool is_changed = false;
  for (const auto& object : image.objects) {
    const image::FileNumber file = image.file_of(*object);
    for (const Range code : object->executable_ranges()) {
      const Name name = {code.begin, file, object->path()};
      present.push_back(name);
      const auto [known, is_new] = known_.try_emplace(name);
      if (!is_new && known->second.code == code) continue;
      is_changed = true;
      known->second = {.code = code, .rows = {}};
      const auto table = object->elf().eh_frame();
      if (!table) continue;
      const uint64_t bias = object->bias();
      known->second.rows =
          image::frame_rows(table->data, table->address, {code.begin - bias, code.end - bias});
      known->second.row_count = known->second.rows.size();
    }
  }
  std::sort(present.begin(), present.end());
  present.erase(std::unique(present.begin(), present.end()), present.end());
  is_changed = is_changed || present != present_;
  present_ = std::move(present);
  return is_changed;
}

uint64_t FrameRules::room() const {
  uint64_t bytes = list_size(present_.size());
  for (const auto& [name, known] : known_) bytes += known.row_count * sizeof(layout::FrameRow);
  return align_up(2 * bytes + kToCome, kPageSize);
}

std::vector<runtime::Piece> FrameRules::pieces() {
  std::vector<runtime::Piece> pieces;
  std::vector<layout::UnwindObject> objects;
  for (const Name& name : present_) {
    Known& known = known_[name];
    if (known.row_count == 0) continue;
    const uint64_t size = known.row_count * sizeof(layout::FrameRow);
    if (known.at == 0 && size + kForLists <= room_.end - next_) {
      append_values(pieces.emplace_back(runtime::Piece{next_, {}}).bytes, known.rows);
      known.at = std::exchange(next_, next_ + size);
      known.rows = {};
    }
    if (known.at != 0)
      objects.push_back({known.code.begin, known.code.size(), known.at, known.row_count});
  }
  // Without any object, one of no size follows the count.
  const uint64_t size = list_size(objects.size());
  Address at = 0;  // no list, if there is no room for one
  if (size <= room_.end - next_) {
    std::vector<uint8_t> list;
    append_values(list, std::vector<layout::UnwindList>{{objects.size()}});
    append_values(list, objects);
    list.resize(size);
    pieces.push_back({next_, std::move(list)});
    at = std::exchange(next_, next_ + size);
  }
  append_values(pieces.emplace_back(runtime::Piece{list_, {}}).bytes, std::vector<Address>{at});
  // Numbers come again after a thousand changes.
  constexpr uint64_t kGenerations = uint64_t{1} << (64 - PP_GENERATION_SHIFT);
  generation_ = generation_ % (kGenerations - 1) + 1;
  append_values(pieces.emplace_back(runtime::Piece{list_ + sizeof(Address), {}}).bytes,
                std::vector<uint64_t>{generation_ << PP_GENERATION_SHIFT});
  return pieces;
}

}  // namespace pinprick::engine
