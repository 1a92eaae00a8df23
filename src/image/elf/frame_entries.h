// The records of .eh_frame: CIEs, which hold what functions share, and FDEs, one per range of code.
// Their call frame instructions are interpreted elsewhere (unwind_info.h, frame_rows.h).
//
// Pure. The bytes may be hostile. Records that do not parse are left out; a record whose length
// does not fit ends the table.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"

namespace pinprick::image {

// The pointer encoding that stands for "no pointer" (LSB, "DWARF Extensions").
inline constexpr uint8_t kOmittedPointer = 0xff;

// Reads a number in the format that the lowest four bits of `encoding` name.
uint64_t read_encoded_number(ByteReader& reader, uint8_t encoding);

// Reads a pointer. The reader's first byte is at `start`. Only absolute and PC-relative pointers
// occur in .eh_frame; others clear the reader's ok().
uint64_t read_encoded_pointer(ByteReader& reader, uint8_t encoding, Address start);

// A common information entry.
struct CommonFrameEntry {
  uint8_t pointer_encoding = 0;
  uint8_t lsda_encoding = kOmittedPointer;
  bool has_augmentation = false;
  bool is_signal_frame = false;
  Address personality = 0;
  bool personality_is_indirect = false;
  uint64_t code_alignment = 0;
  int64_t data_alignment = 0;
  uint64_t return_address_register = 0;
  ByteReader instructions{{}};
};

// A frame description entry. Its code is not empty.
struct CodeFrameEntry {
  Range code;
  Address lsda = 0;   // exception table; 0: none
  size_t common = 0;  // index in FrameEntryReader::commons()
  // The reader's positions are offsets in the section, which PC-relative operands need.
  ByteReader instructions{{}};
};

class FrameEntryReader {
 public:
  // Reads a section at `address`. The bytes must outlive the reader and its entries.
  FrameEntryReader(std::span<const uint8_t> bytes, Address address)
      : bytes_(bytes), address_(address), reader_(bytes), common_budget_(bytes.size()) {}

  // Returns the next FDE, in the section's order; nullopt at the end. Throws Cancelled if the task
  // was cancelled.
  std::optional<CodeFrameEntry> next();

  // The CIEs of the FDEs so far.
  const std::vector<CommonFrameEntry>& commons() const { return commons_; }

 private:
  std::optional<size_t> common_at(size_t offset);
  std::optional<CommonFrameEntry> parse_common_at(size_t offset);

  std::span<const uint8_t> bytes_;
  Address address_;
  ByteReader reader_;
  std::vector<CommonFrameEntry> commons_;
  // Indices in commons_ by the CIE's offset; nullopt: does not parse.
  std::map<size_t, std::optional<size_t>> common_index_;
  // CIEs do not overlap, so together they are no longer than the section. Hostile ones may overlap,
  // and reading all of them would take time quadratic in the section's size.
  size_t common_budget_;
};

}  // namespace pinprick::image
