// The functions of one object: ranges, names, and how they are entered.
//
// Made from the symbol tables and the unwind tables together, so that stripped objects have
// functions too. Immutable once built, and independent of the file and its symbols; thread-safe.
// Addresses are the object's own (add the bias).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "image/elf/elf_file.h"
#include "image/elf/unwind_info.h"
#include "image/scan/code_layout.h"

namespace pinprick::image {

struct Function {
  Range range;
  Address limit = 0;  // start of what comes next; [range.end, limit) can only be padding
  Address lsda = 0;
  // The unwind tables prove that the return address is at the top of the stack at entry; or they do
  // not describe this function, and it has a symbol.
  bool entered_by_call = false;
  bool ifunc = false;  // a resolver: a call returns the address of the implementation
  // Its names are labels without a type. Assembly may have one at any place that needs an unwind
  // entry of its own.
  bool is_label = false;
  uint32_t first_name = 0;
  uint32_t name_count = 0;

  friend bool operator==(const Function&, const Function&) = default;
};

// Returns whether the symbol names a part of a function that lies elsewhere: `foo.cold`,
// `foo.cold.3`, `foo.warm`.
bool names_part(std::string_view symbol);

// Returns the range of the function that starts with `code`, at `begin`, by its direct jumps.
// Returns nullopt if it has computed jumps, if anything jumps into its first instructions, or if it
// is longer than such functions are.
std::optional<Range> extent_of_function(std::span<const uint8_t> code, Address begin);

class FunctionTable {
 public:
  // Symbols may name one function several times.
  static FunctionTable build(const ElfFile& object, const CodeLayout& layout,
                             std::span<const Symbol> symbols, std::span<const FrameEntry> frames);

  const std::vector<Function>& functions() const { return functions_; }
  // Returns its names, the preferred one first: the shortest global one without leading
  // underscores.
  std::span<const std::string_view> names(const Function& function) const {
    return std::span(names_).subspan(function.first_name, function.name_count);
  }
  // Returns whether any function's name contains one of these.
  bool may_name_any(std::span<const std::string_view> wanted) const;
  // Returns the function whose range contains the address; null if there is none.
  const Function* find(Address address) const;
  bool starts_at(Address address) const;
  // Returns every address that a symbol, an unwind entry or the loader's tables name: execution may
  // enter there.
  const std::vector<Address>& named_addresses() const { return named_addresses_; }

  // Appends it as in a file of the cache (object_value.h).
  void append_to(std::vector<uint8_t>& bytes) const;
  // Returns nullopt if the bytes are damaged, or if functions lie outside the code of these
  // segments.
  static std::optional<FunctionTable> parse(ByteReader& reader, std::span<const Segment> segments);

  friend bool operator==(const FunctionTable& a, const FunctionTable& b) {
    return a.functions_ == b.functions_ && a.names_ == b.names_ &&
           a.named_addresses_ == b.named_addresses_;
  }

 private:
  void keep_names();

  std::vector<Function> functions_;  // by range.begin, which is unique
  std::vector<std::string_view> names_;
  std::shared_ptr<const std::vector<char>> text_;  // the names, each with a terminating zero
  std::vector<Address> named_addresses_;
};

}  // namespace pinprick::image
