#include "image/elf/frame_entries.h"

#include <string_view>

#include "base/task.h"

namespace pinprick::image {
namespace {

// Parts of a pointer encoding.
constexpr uint8_t kFormatMask = 0x0f;
constexpr uint8_t kApplicationMask = 0x70;
constexpr uint8_t kPcRelative = 0x10;

// `address` is that of the reader's bytes.
std::optional<CommonFrameEntry> parse_common(ByteReader reader, Address address) {
  CommonFrameEntry common;
  const uint8_t version = reader.u8();
  if (version != 1 && version != 3) return std::nullopt;
  const std::string_view augmentation = reader.c_string();
  common.code_alignment = reader.uleb();
  common.data_alignment = reader.sleb();
  common.return_address_register = version == 1 ? reader.u8() : reader.uleb();
  if (!augmentation.empty()) {
    if (augmentation[0] != 'z') return std::nullopt;
    common.has_augmentation = true;
    const uint64_t size = reader.uleb();
    const Address data_address = address + reader.position();
    ByteReader data = reader.sub(size);
    for (char letter : augmentation.substr(1)) {
      switch (letter) {
        case 'R':
          common.pointer_encoding = data.u8();
          break;
        case 'L':
          common.lsda_encoding = data.u8();
          break;
        case 'P': {
          constexpr uint8_t kIndirect = 0x80;
          const uint8_t encoding = data.u8();
          const uint8_t application = encoding & kApplicationMask;
          if (encoding == kOmittedPointer || (application != 0 && application != kPcRelative)) {
            read_encoded_number(data, encoding);
            break;
          }
          common.personality = read_encoded_pointer(data, encoding, data_address);
          common.personality_is_indirect = (encoding & kIndirect) != 0;
          break;
        }
        case 'S':
          common.is_signal_frame = true;
          break;
        case 'B':
          break;
        default:
          return std::nullopt;
      }
      if (!data.ok()) return std::nullopt;
    }
  }
  if (!reader.ok()) return std::nullopt;
  common.instructions = reader;
  return common;
}

}  // namespace

uint64_t read_encoded_number(ByteReader& reader, uint8_t encoding) {
  switch (encoding & kFormatMask) {
    case 0x00:
    case 0x04:
    case 0x0c:
      return reader.u64();
    case 0x01:
      return reader.uleb();
    case 0x02:
      return reader.u16();
    case 0x03:
      return reader.u32();
    case 0x09:
      return static_cast<uint64_t>(reader.sleb());
    case 0x0a:
      return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int16_t>(reader.u16())));
    case 0x0b:
      return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(reader.u32())));
    default:
      reader.skip(UINT64_MAX);
      return 0;
  }
}

uint64_t read_encoded_pointer(ByteReader& reader, uint8_t encoding, Address start) {
  if (encoding == kOmittedPointer) return 0;
  const Address here = start + reader.position();
  const uint64_t value = read_encoded_number(reader, encoding);
  switch (encoding & kApplicationMask) {
    case 0:
      return value;
    case kPcRelative:
      return value == 0 ? 0 : here + value;
    default:
      reader.skip(UINT64_MAX);
      return 0;
  }
}

std::optional<CommonFrameEntry> FrameEntryReader::parse_common_at(size_t offset) {
  ByteReader head(bytes_, offset);
  const uint32_t length = head.u32();
  if (!head.ok() || length < 4 || length == UINT32_MAX || head.u32() != 0 || !head.ok())
    return std::nullopt;
  if (length > common_budget_) return std::nullopt;
  common_budget_ -= length;
  const size_t content = head.position();
  ByteReader fields = head.sub(length - 4);
  if (!head.ok()) return std::nullopt;
  return parse_common(fields, address_ + content);
}

std::optional<size_t> FrameEntryReader::common_at(size_t offset) {
  const auto found = common_index_.find(offset);
  if (found != common_index_.end()) return found->second;
  std::optional<size_t> index;
  if (const auto common = parse_common_at(offset)) {
    index = commons_.size();
    commons_.push_back(*common);
  }
  common_index_.emplace(offset, index);
  return index;
}

std::optional<CodeFrameEntry> FrameEntryReader::next() {
  while (reader_.remaining() >= 8) {
    check_cancelled();
    uint64_t length = reader_.u32();
    if (length == 0) break;
    if (length == UINT32_MAX) length = reader_.u64();
    const size_t content = reader_.position();
    if (!reader_.ok() || reader_.remaining() < length || length < 4) break;
    reader_.skip(length);
    const auto entry = bytes_.first(content + length);
    ByteReader fields(entry, content);
    const uint32_t id = fields.u32();
    if (id == 0 || id > content) continue;  // a CIE: parsed when an FDE refers to it
    const auto index = common_at(content - id);
    if (!index) continue;
    const CommonFrameEntry& common = commons_[*index];

    CodeFrameEntry out;
    out.common = *index;
    out.code.begin = read_encoded_pointer(fields, common.pointer_encoding, address_);
    const uint64_t size = read_encoded_number(fields, common.pointer_encoding);
    out.code.end = out.code.begin + size;
    if (common.has_augmentation) {
      const uint64_t augmentation_length = fields.uleb();
      ByteReader augmentation(entry, fields.position());
      fields.skip(augmentation_length);
      if (common.lsda_encoding != kOmittedPointer && augmentation_length != 0)
        out.lsda = read_encoded_pointer(augmentation, common.lsda_encoding, address_);
    }
    if (!fields.ok() || out.code.begin == 0 || out.code.empty()) continue;
    out.instructions = fields;
    return out;
  }
  reader_ = ByteReader({});
  return std::nullopt;
}

}  // namespace pinprick::image
