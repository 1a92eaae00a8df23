// One loaded object (or a file looked at on its own): its names, functions and branch targets.
//
// Loads lazily and caches; not thread-safe. Addresses in the interface are run-time addresses; a
// file on its own has bias 0.
//
// With a store (object_store.h) its functions are a value of the object's file. So are its branch
// targets, where its code lies in segments that nobody may write, that no relocation changes, and
// that hold in memory what they hold in the file. Then everything that could hold an address of its
// code is in the file, or was made of what is there: an instruction, a relocation, a word of data.
// What a process has written into its own data is looked at all the same, each time: words that are
// addresses of text, and descriptors of restartable sequences. A table of distances that it could
// have written explains no jump (ObjectBytes::changing). In every other case, as where somebody's
// breakpoints or probes are in the text, all is read from memory, and nothing is kept.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/address.h"
#include "image/branch_targets.h"
#include "image/elf_file.h"
#include "image/functions.h"
#include "image/maps.h"
#include "image/object_store.h"

namespace pinprick::image {

// Reads memory of the process; false where any of it is not readable.
using MemoryReader = std::function<bool(Address, std::span<uint8_t>)>;

class Object {
 public:
  // `names[0]` is the one to show. `reader` empty: bytes come from the file. `store` may be null;
  // else it outlives the object.
  Object(ElfFile elf, uint64_t bias, std::vector<std::string> names, std::string path,
         std::string root, MemoryReader reader, ObjectStore* store = nullptr);

  const std::string& name() const { return names_[0]; }
  const std::vector<std::string>& names() const { return names_; }
  const std::string& path() const { return path_; }
  const ElfFile& elf() const { return elf_; }
  uint64_t bias() const { return bias_; }
  Range extent() const;
  std::vector<Range> executable_ranges() const;
  bool contains_code(Address address) const { return elf_.in_executable_segment(address - bias_); }
  Address entry() const { return elf_.entry() + bias_; }

  const FunctionTable& functions();  // in the object's own addresses
  // False: none of its functions has one of these for its name, or in it. Quicker than to look at
  // their names.
  bool may_name_any(std::span<const std::string_view> names);
  const BranchTargets& targets();  // likewise; decodes the whole text the first time
  const std::vector<Relocation>& relocations();
  // The symbol whose address the loader puts there, as into an entry of the global offset table;
  // empty: none.
  std::string_view imported_at(Address address);
  // The runtime that makes return addresses on the stack untouchable in all of its code; nothing if
  // there is none that is known (language_runtime.h).
  std::optional<std::string_view> stack_reading_runtime();
  // Unwind entries, in the object's own addresses; and where unwinders enter its functions, as the
  // exception tables of the first `most` functions say that have some.
  const std::vector<FrameEntry>& frames();
  std::vector<Address> landing_pads(size_t most);
  // Ranges that must not be touched, in the object's own addresses.
  const std::vector<Range>& reserved();
  // System calls that may start a child in the same memory (arch::find_vforks()), likewise.
  const std::vector<Address>& vforks();
  // The function's bytes up to its limit, as they were in memory when the object's code was first
  // looked at. As long as the object.
  std::span<const uint8_t> code(const Function& function);
  // The same from an address of the object's own, as far as its segment goes; empty: not code.
  std::span<const uint8_t> code_from(Address address);
  bool read(Address address, std::span<uint8_t> out) const;

  // What to call the function: the symbol, demangled; `name+0xoff` without one. Lives as long as
  // the object.
  std::string_view function_name(const Function& function, std::string_view symbol);

 private:
  struct SegmentBytes {
    Address address = 0;
    std::unique_ptr<uint8_t[]> storage;
    std::span<const uint8_t> bytes = {};
  };
  // The files that functions are read from, as nobody can change them any more.
  struct Copy {
    ElfFile elf;
    std::optional<ElfFile> debug;
    std::vector<FrameEntry> frames;
  };
  SegmentBytes segment_bytes(const Segment& segment) const;
  const std::vector<SegmentBytes>& text();
  const ElfFile* debug_file();
  const std::optional<ContentHash>& contents();
  std::optional<ContentHash> contents_of_code();
  Copy* copy();
  bool text_is_of(const Copy& copy);
  ObjectCode scan_memory();
  ObjectCode scan_copy(const Copy& copy);
  void scan_code();
  void add_what_memory_shows();

  ElfFile elf_;
  uint64_t bias_;
  std::vector<std::string> names_;
  std::string path_;
  std::string root_;
  MemoryReader reader_;
  ObjectStore* store_;
  // The hash of all that its functions depend on; nothing: no value is kept.
  std::optional<std::optional<ContentHash>> contents_;
  std::optional<std::unique_ptr<Copy>> copy_;
  std::optional<std::unique_ptr<ElfFile>> debug_;
  std::optional<std::vector<FrameEntry>> frames_;
  std::optional<std::vector<Relocation>> relocations_;
  std::optional<std::vector<SegmentBytes>> text_;
  std::shared_ptr<const FunctionTable> functions_;
  std::optional<std::optional<std::string_view>> stack_reading_runtime_;
  std::optional<std::vector<std::pair<Address, std::string_view>>> imports_;  // by address
  // Held so that the store finds it for the next image, while this one lives.
  std::shared_ptr<const ObjectCode> code_;
  std::optional<BranchTargets> targets_;
  std::vector<Range> reserved_;
  std::vector<Address> vforks_;
  std::unordered_map<const char*, std::string> demangled_;   // by symbol
  std::unordered_map<Address, std::string> without_symbol_;  // by where the function begins
};

}  // namespace pinprick::image
