#include "image/elf/unwind_info.h"

#include <algorithm>

#include "arch/elf.h"
#include "base/bytes.h"
#include "image/elf/frame_entries.h"

namespace pinprick::image {
namespace {

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

// The rules at the first instruction, as far as the CIE has them.
EntryRules rules_of(const CommonFrameEntry& common) {
  EntryRules rules;
  run_to_first_row(common.instructions, common.data_alignment, rules);
  // The code of a signal's frame is not a function that is called.
  return common.is_signal_frame ? EntryRules() : rules;
}

}  // namespace

std::vector<FrameEntry> parse_eh_frame(std::span<const uint8_t> bytes, Address address) {
  std::vector<FrameEntry> entries;
  FrameEntryReader reader(bytes, address);
  std::vector<EntryRules> common_rules;  // of reader.commons()
  while (const auto entry = reader.next()) {
    for (size_t i = common_rules.size(); i < reader.commons().size(); ++i)
      common_rules.push_back(rules_of(reader.commons()[i]));
    const CommonFrameEntry& common = reader.commons()[entry->common];
    EntryRules rules = common_rules[entry->common];
    run_to_first_row(entry->instructions, common.data_alignment, rules);
    FrameEntry out;
    out.code = entry->code;
    out.lsda = entry->lsda;
    out.personality = common.personality;
    out.personality_is_indirect = common.personality_is_indirect;
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
  const Address start = start_encoding == kOmittedPointer
                            ? code.begin
                            : read_encoded_pointer(reader, start_encoding, address);
  const uint8_t type_encoding = reader.u8();
  if (type_encoding != kOmittedPointer) reader.uleb();
  const uint8_t site_encoding = reader.u8();
  ByteReader table = reader.sub(reader.uleb());
  while (table.ok() && table.remaining() > 0 && pads.size() < most) {
    read_encoded_number(table, site_encoding);
    read_encoded_number(table, site_encoding);
    const uint64_t pad = read_encoded_number(table, site_encoding);
    table.uleb();
    if (table.ok() && pad != 0) pads.push_back(start + pad);
  }
  return pads;
}

}  // namespace pinprick::image
