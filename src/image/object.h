// Object: one loaded object, or a file on its own: its names, functions and branch targets.
//
// Loads lazily and caches; not thread-safe. Addresses in the interface are run-time addresses; a
// file on its own has bias 0.
//
// With a store (object_store.h), the object's functions are a value that depends only on its file.
// So are its branch targets, if its code lies in segments that cannot be written, that no
// relocation changes, and that are in memory as they are in the file. Everything that could hold an
// address of its code is then in the file, or was made from the file: an instruction, a relocation,
// a word of data. What a process has written into the object's data is read each time nevertheless:
// words that are addresses of text, and descriptors of restartable sequences. A table of distances
// that the process could have written explains no jump (ObjectBytes::changing). In all other cases,
// such as with breakpoints or probes of another owner in the text, everything is read from memory,
// and nothing is stored. Text that is proved to be the file's is read from the file, a part when it
// is first asked for. While the file is proved to be unchanged, that is what one look at all of the
// memory, at the first of these moments, would have seen.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/address.h"
#include "image/elf/elf_file.h"
#include "image/elf/exports.h"
#include "image/functions.h"
#include "image/maps.h"
#include "image/memory_reader.h"
#include "image/notes/entry_sites.h"
#include "image/notes/point_records.h"
#include "image/notes/sdt_notes.h"
#include "image/pattern.h"
#include "image/scan/branch_targets.h"
#include "image/scan/code_layout.h"
#include "image/scan/managed_code.h"
#include "image/store/object_store.h"

namespace pinprick::image {

class Object {
 public:
  // Returns the pages of a range that the process has written to; all others have the file's bytes,
  // and zeros after the file's part of a segment. Returns nullopt if that is not known.
  using OwnPages = std::function<std::optional<std::vector<Range>>(Range)>;
  // `names[0]` is the one to show. If `reader` is empty, bytes come from the file. `store` may be
  // null; else it must outlive the object. If `own_pages` is empty, that is never known.
  Object(ElfFile elf, uint64_t bias, std::vector<std::string> names, std::string path,
         std::string root, MemoryReader reader, ObjectStore* store = nullptr,
         OwnPages own_pages = {});

  const std::string& name() const { return names_[0]; }
  const std::vector<std::string>& names() const { return names_; }
  const std::string& path() const { return path_; }
  const ElfFile& elf() const { return elf_; }
  uint64_t bias() const { return bias_; }
  Range extent() const;
  std::vector<Range> executable_ranges() const;
  bool contains_code(Address address) const { return elf_.in_executable_segment(address - bias_); }
  Address entry() const { return elf_.entry() + bias_; }

  const FunctionTable& functions();  // addresses are the object's own
  const CodeLayout& layout();        // the same
  // Returns the functions that have a name which the pattern matches, by address. The pattern must
  // have no wildcard.
  std::vector<const Function*> functions_named(const Pattern& pattern);
  // Returns a function for each of the names; null if there is none.
  std::vector<const Function*> functions_named(std::span<const std::string_view> names);
  // Returns true if this process knows the object's text, and so what was found in it: then code()
  // and targets() take microseconds.
  bool is_at_hand();
  // Returns false if no function's name contains one of these. Faster than looking at all names.
  bool may_name_any(std::span<const std::string_view> names);
  const BranchTargets& targets();  // the same; if they are not stored, decodes the whole text
  const std::vector<Relocation>& relocations();
  // Returns the variable that has the byte at an address of the object's own; nullopt if no symbol
  // says so. Its name is valid as long as the object.
  std::optional<Symbol> variable_at(Address address);
  // Returns the symbol whose address the loader writes there, such as into an entry of the global
  // offset table; empty if there is none.
  std::string_view imported_at(Address address);
  // Returns the relocation by which the loader fills the word there with an address that it looks
  // up by name, or has a resolver compute; null if there is none.
  const Relocation* linked_at(Address address);
  // Returns the address of the object's own that the loader makes of the word there; nullopt if it
  // does not relocate it so.
  std::optional<Address> relocated_at(Address address);
  const Exports& exports();
  // Returns the language runtime that forbids changing return addresses in all code of this object;
  // nullopt if none is known (language_runtime.h).
  std::optional<std::string_view> stack_reading_runtime();
  // Returns what it has of code that the runtime of .NET or Mono reads (managed_code.h), in the
  // object's own addresses. Code that may not be changed is also in reserved().
  const ManagedCode& managed_code();
  // Returns the code from which calls may be timed: executable_ranges() without managed methods,
  // whose runtime looks for the calls that they make.
  std::vector<Range> calling_code();
  // frames() returns the unwind entries, in the object's own addresses. landing_pads() returns
  // where unwinders enter its functions, from the exception tables of the first `most` functions
  // that have one.
  const std::vector<FrameEntry>& frames();
  std::vector<Address> landing_pads(size_t most);
  // Returns the ranges that must not be changed, in the object's own addresses.
  const std::vector<Range>& reserved();
  // Returns the system calls that may start a child in the same memory (arch::find_vforks()), in
  // the object's own addresses.
  const std::vector<Address>& vforks();
  // Returns the sites of SDT points (sdt_notes.h), in the object's own addresses. They, and the
  // function of one of them, are valid as long as the object. Where no function is known, the site
  // alone counts as one.
  const std::vector<SdtSite>& sdt_sites();
  const Function& function_of(const SdtSite& site);
  // Returns the function that starts at an address which is called, in the object's own addresses:
  // one of functions(), or one that neither a symbol nor an unwind entry names, as those of musl in
  // a stripped program. Returns null if there is none, or if the latter has computed jumps. It is
  // valid as long as the object.
  const Function* function_starting_at(Address address);
  // Returns the sites of tracepoints (point_records.h), by nop, in the object's own addresses.
  const std::vector<PointRecord>& point_records();
  // Returns the entry site that the compiler has listed for the function; null if there is none. It
  // is valid as long as the object.
  const EntrySite* entry_site(const Function& function);
  // Reads all text, if it is not there yet.
  void load_text();
  // Returns the function's bytes up to its limit, as they were in memory when the object's code was
  // first read; empty if it is not code. Valid as long as the object. This, code_at() and
  // code_from() may be called by several threads after targets(). Before a call has asked for all
  // text, no more is read than this function.
  std::span<const uint8_t> code(const Function& function);
  // The same for a range of the object's own addresses.
  std::span<const uint8_t> code_at(Range range);
  // The same from an address up to the end of its segment. This asks for all text.
  std::span<const uint8_t> code_from(Address address);
  bool read(Address address, std::span<uint8_t> out) const;
  // Returns the file that has the debug information of the object: its own, or a separate one. Null
  // if there is none, or if files are not kept open.
  const ElfFile* file_with_debug_information();

  // Returns the name to show: the symbol, demangled; without a symbol `name+0xoff`. Valid as long
  // as the object.
  std::string_view function_name(const Function& function, std::string_view symbol);
  // Returns a copy of a name to show that is valid as long as the object.
  std::string_view keep_name(std::string name);

 private:
  // Larger files are neither stored by their contents nor copied: a hostile one may have any size.
  static constexpr uint64_t kLargestCopied = uint64_t{2} << 30;
  // The files that functions are read from, with the bytes that contents() hashed: as long as they
  // are proved to be unchanged, the files themselves, and else private copies.
  struct Copy {
    std::optional<ElfFile> own_elf, own_debug;
    const ElfFile* elf = nullptr;
    const ElfFile* debug = nullptr;
    std::vector<FrameEntry> frames;
  };
  enum class From : bool { memory, file };
  SegmentBytes segment_bytes(const Segment& segment, From from) const;
  std::vector<SegmentBytes> written_data() const;
  std::shared_ptr<const ObjectText> read_text(From from) const;
  std::shared_ptr<const ObjectText> find_text();
  const ObjectText& text();
  std::optional<std::span<const uint8_t>> part_of_file(Range range);
  const ElfFile* debug_file();
  const std::optional<ContentHash>& contents();
  bool has_text_of_file() const;
  bool is_in_memory_as_in_file(const Segment& segment) const;
  bool is_text_of_file();
  std::optional<ContentHash> contents_of_code();
  Copy* copy();
  bool are_files_unchanged() const;
  bool text_is_of(const Copy& copy);
  bool may_be_stored(const Copy& copy);
  bool file_may_name_any(std::span<const std::string_view> names);
  std::vector<const Function*> recall_functions(const std::string& question,
                                                const std::function<std::vector<Address>()>& find);
  ObjectCode scan_memory();
  ObjectCode scan_copy(const Copy& copy);
  void scan_code();
  void name_points_of_sites();
  void add_what_memory_shows();
  void add_what_runtimes_read();

  ElfFile elf_;
  uint64_t bias_;
  std::vector<std::string> names_;
  std::string path_;
  std::string root_;
  MemoryReader reader_;
  ObjectStore* store_;
  OwnPages own_pages_;
  // The hash of everything that its functions depend on; inner nullopt: no value is stored.
  std::optional<std::optional<ContentHash>> contents_;
  // Of the files when they were hashed, if they are proved to be unchanged from before on.
  std::optional<ObjectStore::Versions> hashed_;
  std::optional<std::unique_ptr<Copy>> copy_;
  std::optional<std::unique_ptr<ElfFile>> debug_;
  std::optional<std::vector<FrameEntry>> frames_;
  std::optional<std::vector<Relocation>> relocations_;
  std::optional<std::vector<Symbol>> variables_;  // by address
  std::optional<bool> is_text_of_file_;
  // Text is asked for by several threads, and read by the first.
  std::mutex text_mutex_;
  std::shared_ptr<const ObjectText> text_;               // all of it
  std::atomic<const ObjectText*> known_text_ = nullptr;  // the same, once it is there
  std::map<Range, std::vector<uint8_t>> parts_of_text_;  // what was asked for before that
  std::optional<CodeLayout> layout_;
  std::shared_ptr<const FunctionTable> functions_;
  std::optional<std::optional<std::string_view>> stack_reading_runtime_;
  std::optional<ManagedCode> managed_code_;
  std::optional<std::vector<Relocation>> links_;                       // by address
  std::optional<std::vector<std::pair<Address, Address>>> relocated_;  // by address
  std::optional<Exports> exports_;
  // Held so that the store finds it for the next image, while this one lives.
  std::shared_ptr<const ObjectCode> code_;
  std::optional<BranchTargets> targets_;
  std::vector<Range> reserved_;
  std::vector<Address> vforks_;
  std::optional<std::vector<SdtSite>> sdt_sites_;
  std::optional<std::vector<EntrySite>> entry_sites_;
  std::optional<std::vector<PointRecord>> point_records_;
  std::map<Address, Function> outside_functions_;            // code that is in no known function
  std::unordered_map<const char*, std::string> demangled_;   // by symbol
  std::unordered_map<Address, std::string> without_symbol_;  // by the function's start
  std::set<std::string, std::less<>> kept_names_;
};

}  // namespace pinprick::image
