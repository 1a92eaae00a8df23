#include "image/elf/unwind_info.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "arch/elf.h"
#include "base/bytes.h"
#include "base/task.h"

namespace pinprick::image {
namespace {

// Pointer encodings of the exception frames (LSB, "DWARF Extensions").
constexpr uint8_t kOmit = 0xff;
constexpr uint8_t kFormatMask = 0x0f;
constexpr uint8_t kApplicationMask = 0x70;
constexpr uint8_t kPcRelative = 0x10;

uint64_t read_format(ByteReader& reader, uint8_t encoding) {
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

// Reads a pointer in a section at `section`. Only absolute and PC-relative ones occur in .eh_frame.
uint64_t read_pointer(ByteReader& reader, uint8_t encoding, Address section) {
  if (encoding == kOmit) return 0;
  const Address here = section + reader.position();
  const uint64_t value = read_format(reader, encoding);
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

// The rules at a function's first instruction that matter here.
struct EntryRules {
  bool cfa_is_stack_plus_8 = false;
  bool return_address_at_cfa_minus_8 = false;
};

// Runs call frame instructions up to the first that advances the location.
void run_to_first_row(ByteReader reader, int64_t data_alignment, EntryRules& rules) {
  uint64_t cfa_register = rules.cfa_is_stack_plus_8 ? arch::kDwarfStackPointer : UINT64_MAX;
  uint64_t cfa_offset = rules.cfa_is_stack_plus_8 ? 8 : 0;
  const auto set_rule = [&](uint64_t reg, bool at_cfa_minus_8) {
    if (reg == arch::kDwarfReturnAddress) rules.return_address_at_cfa_minus_8 = at_cfa_minus_8;
  };
  const auto is_minus_8 = [&](auto factor) {
    int64_t offset = 0;
    return !__builtin_mul_overflow(factor, data_alignment, &offset) && offset == -8;
  };
  while (reader.ok() && reader.remaining() > 0) {
    const uint8_t op = reader.u8();
    const uint8_t high = op & 0xc0;
    if (high == 0x40) break;  // advance_loc
    if (high == 0x80) {       // offset
      set_rule(op & 0x3f, is_minus_8(reader.uleb()));
      continue;
    }
    if (high == 0xc0) continue;           // restore
    if (op >= 0x01 && op <= 0x04) break;  // set_loc, advance_loc1/2/4
    switch (op) {
      case 0x00:  // nop
      case 0x0a:  // remember_state
      case 0x0b:  // restore_state
        break;
      case 0x05: {  // offset_extended
        const uint64_t reg = reader.uleb();
        set_rule(reg, is_minus_8(reader.uleb()));
        break;
      }
      case 0x06:  // restore_extended
        reader.uleb();
        break;
      case 0x07:  // undefined
      case 0x08:  // same_value
        set_rule(reader.uleb(), false);
        break;
      case 0x09:  // register
        set_rule(reader.uleb(), false);
        reader.uleb();
        break;
      case 0x0c:  // def_cfa
        cfa_register = reader.uleb();
        cfa_offset = reader.uleb();
        break;
      case 0x0d:  // def_cfa_register
        cfa_register = reader.uleb();
        break;
      case 0x0e:  // def_cfa_offset
        cfa_offset = reader.uleb();
        break;
      case 0x0f:  // def_cfa_expression
        reader.skip(reader.uleb());
        cfa_register = UINT64_MAX;
        break;
      case 0x10:    // expression
      case 0x16: {  // val_expression
        set_rule(reader.uleb(), false);
        reader.skip(reader.uleb());
        break;
      }
      case 0x2e:  // GNU_args_size
        reader.uleb();
        break;
      default:  // compilers put nothing else before the first instruction
        rules = {};
        return;
    }
  }
  rules.cfa_is_stack_plus_8 =
      reader.ok() && cfa_register == arch::kDwarfStackPointer && cfa_offset == 8;
}

// Common information entry: what the frame entries that refer to it share.
struct Common {
  uint8_t pointer_encoding = 0;
  uint8_t lsda_encoding = kOmit;
  bool has_augmentation = false;
  Address personality = 0;
  bool personality_is_indirect = false;
  int64_t data_alignment = 0;
  EntryRules rules;
};

// `address` is that of the reader's bytes.
std::optional<Common> parse_common(ByteReader reader, Address address) {
  Common common;
  const uint8_t version = reader.u8();
  if (version != 1 && version != 3) return std::nullopt;
  const std::string_view augmentation = reader.c_string();
  reader.uleb();  // code alignment
  common.data_alignment = reader.sleb();
  version == 1 ? reader.u8() : reader.uleb();  // return address register
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
          if (encoding == kOmit || (application != 0 && application != kPcRelative)) {
            read_format(data, encoding);
            break;
          }
          common.personality = read_pointer(data, encoding, data_address);
          common.personality_is_indirect = (encoding & kIndirect) != 0;
          break;
        }
        case 'S':  // a signal frame, which is not a function that is called
        case 'B':
          break;
        default:
          return std::nullopt;
      }
      if (!data.ok()) return std::nullopt;
    }
  }
  run_to_first_row(reader, common.data_alignment, common.rules);
  if (augmentation.find('S') != augmentation.npos) common.rules = {};
  if (!reader.ok()) return std::nullopt;
  return common;
}

}  // namespace

std::vector<FrameEntry> parse_eh_frame(std::span<const uint8_t> bytes, Address address) {
  std::vector<FrameEntry> entries;
  std::map<size_t, std::optional<Common>> commons;
  ByteReader reader(bytes);
  while (reader.remaining() >= 8) {
    check_cancelled();
    uint64_t length = reader.u32();
    if (length == 0) break;
    if (length == UINT32_MAX) length = reader.u64();
    const size_t content = reader.position();
    if (!reader.ok() || reader.remaining() < length || length < 4) break;
    reader.skip(length);
    const auto entry = bytes.first(content + length);
    ByteReader fields(entry, content);
    const uint32_t id = fields.u32();
    if (id == 0 || id > content) continue;  // a CIE: parsed when an FDE refers to it

    const size_t common_at = content - id;
    auto found = commons.find(common_at);
    if (found == commons.end()) {
      std::optional<Common> common;
      ByteReader head(bytes, common_at);
      const uint32_t common_length = head.u32();
      if (head.ok() && common_length >= 4 && common_length != UINT32_MAX && head.u32() == 0 &&
          head.ok()) {
        ByteReader inner(bytes, common_at + 8);
        ByteReader rest = inner.sub(common_length - 4);
        if (inner.ok()) common = parse_common(rest, address + common_at + 8);
      }
      found = commons.emplace(common_at, common).first;
    }
    if (!found->second) continue;
    const Common& common = *found->second;

    FrameEntry out;
    out.personality = common.personality;
    out.personality_is_indirect = common.personality_is_indirect;
    out.code.begin = read_pointer(fields, common.pointer_encoding, address);
    const uint64_t size = read_format(fields, common.pointer_encoding & kFormatMask);
    out.code.end = out.code.begin + size;
    if (common.has_augmentation) {
      const uint64_t augmentation_length = fields.uleb();
      ByteReader augmentation(entry, fields.position());
      fields.skip(augmentation_length);
      if (common.lsda_encoding != kOmit && augmentation_length != 0)
        out.lsda = read_pointer(augmentation, common.lsda_encoding, address);
    }
    if (!fields.ok() || out.code.begin == 0 || out.code.empty()) continue;
    EntryRules rules = common.rules;
    run_to_first_row(fields, common.data_alignment, rules);
    out.entered_by_call = rules.cfa_is_stack_plus_8 && rules.return_address_at_cfa_minus_8;
    entries.push_back(out);
  }
  std::sort(entries.begin(), entries.end(),
            [](const FrameEntry& a, const FrameEntry& b) { return a.code < b.code; });
  return entries;
}

std::vector<Address> parse_landing_pads(std::span<const uint8_t> bytes, Address address, Range code,
                                        size_t most) {
  std::vector<Address> pads;
  ByteReader reader(bytes);
  const uint8_t start_encoding = reader.u8();
  const Address start =
      start_encoding == kOmit ? code.begin : read_pointer(reader, start_encoding, address);
  const uint8_t type_encoding = reader.u8();
  if (type_encoding != kOmit) reader.uleb();
  const uint8_t site_encoding = reader.u8();
  ByteReader table = reader.sub(reader.uleb());
  while (table.ok() && table.remaining() > 0 && pads.size() < most) {
    read_format(table, site_encoding);
    read_format(table, site_encoding);
    const uint64_t pad = read_format(table, site_encoding);
    table.uleb();
    if (table.ok() && pad != 0) pads.push_back(start + pad);
  }
  return pads;
}

}  // namespace pinprick::image
