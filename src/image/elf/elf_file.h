// ElfFile: one ELF file, or the image of one in memory: segments, symbols, notes, relocations,
// unwind tables.
//
// The file is not trusted: everything is checked, and a broken table reads as missing. Not
// thread-safe (libelf loads lazily). Addresses are the file's own; adding the load bias is up to
// the caller.
#pragma once

#include <elf.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/file_version.h"
#include "base/result.h"
#include "image/elf/dynamic_tables.h"
#include "image/elf/file_bytes.h"

struct Elf;
struct Elf_Scn;

namespace pinprick::image {

enum class ElfCause : uint8_t {
  unreadable,    // cannot be opened or read: `system_error`
  not_elf,       // not an ELF file
  truncated,     // headers or segments lie past the end of the file, or have more than it has
  not_x86_64,    // another machine, or 32-bit
  not_loadable,  // an object file or a core: nothing to execute
  // Of an object in a process:
  other_code,   // its code in memory is not that of its file
  shared_code,  // its code is in shared memory that the process cannot write
  huge_pages,   // its code is in reserved huge pages, before Linux 6.14
};

struct ElfError {
  ElfCause cause = ElfCause::unreadable;
  std::string path;
  int system_error = 0;
};

struct Segment {
  Range range;  // in memory
  uint64_t offset = 0;
  uint64_t file_size = 0;
  bool readable = false;
  bool writable = false;
  bool executable = false;
};

struct Symbol {
  Address address = 0;
  uint64_t size = 0;
  std::string_view name;  // lives as long as the ElfFile
  // untyped: assembly may leave out the type; it may also be the name of data. data: a variable
  // that is not thread-local.
  enum class Kind : uint8_t { function, ifunc, untyped, data, other } kind = Kind::other;
  bool global = false;

  bool is_function() const { return kind == Kind::function || kind == Kind::ifunc; }
};

struct SymbolName {
  std::string_view name;  // lives as long as the ElfFile
  bool defined = false;   // else imported
};

struct Relocation {
  Address address = 0;
  enum class Kind : uint8_t { relative, irelative, symbol, other } kind = Kind::other;
  int64_t addend = 0;
  std::string_view symbol;  // empty: none
};

struct EndElf {
  void operator()(Elf* elf) const;
};

class ElfFile {
 public:
  // code: an object that is loaded. symbols: a separate debug file, whose segments are not in it.
  enum class Use : uint8_t { code, symbols };
  using Proof = FileBytes::Proof;
  using Descriptor = FileBytes::Descriptor;
  using Part = FileBytes::Part;
  static Result<ElfFile, ElfError> open(const std::string& path, Use use = Use::code,
                                        Proof proof = Proof::none,
                                        Descriptor descriptor = Descriptor::kept);
  // `bytes` are laid out as in the file; section headers may be missing or garbage. `bias` is what
  // the loader may already have added to addresses in the dynamic section. `descriptor` is for its
  // debug file.
  static Result<ElfFile, ElfError> from_bytes(std::vector<uint8_t> bytes, std::string name,
                                              uint64_t bias = 0, Use use = Use::code,
                                              Descriptor descriptor = Descriptor::kept);
  // Returns a copy of everything that is ever read of `file`, which cannot change any more.
  // Sections with debug information, which may be large, are zeros in it.
  static Result<ElfFile, ElfError> copy_of(const ElfFile& file);

  const std::string& path() const { return path_; }
  Address entry() const { return entry_; }
  // Returns where the kernel and the loader enter, with or without symbols: the entry, DT_INIT and
  // DT_FINI.
  std::vector<Address> startup_addresses() const;
  bool position_independent() const { return position_independent_; }
  const std::vector<Segment>& segments() const { return segments_; }
  // Returns the pages from the lowest to the highest address of all segments.
  Range extent() const;
  bool in_executable_segment(Address address) const;
  // Returns the whole pages that the loader writes and then makes read-only; empty: none.
  Range read_only_after_relocation() const {
    const Range pages = {relro_.begin, align_down(relro_.end, kPageSize)};
    return pages.empty() ? Range{} : pages;
  }
  // Returns whether the bytes are in an open file, not in memory.
  bool is_open_file() const { return bytes_.fd() >= 0; }
  // Returns whether these are not the bytes of a file, but of a copy in memory.
  bool is_in_memory() const { return bytes_.is_in_memory(); }
  // Returns the descriptor of an open file, which belongs to this object; else -1.
  int fd() const { return bytes_.fd(); }
  uint64_t file_size() const { return bytes_.size(); }
  // These are as FileBytes has them.
  std::optional<FileVersion> unchanged_version() const { return bytes_.unchanged_version(); }
  Proof proof() const { return bytes_.proof(); }
  Descriptor descriptor() const { return bytes_.descriptor(); }
  bool is_file(uint64_t device, uint64_t inode) const { return bytes_.is_file(device, inode); }
  bool read(const Part& part, std::span<uint8_t> out) const {
    return bytes_.read(out, part.offset);
  }

  // Returns the parts that are ever read, in order of offsets: everything but sections with debug
  // information.
  std::vector<Part> parts() const;

  // Hexadecimal, lower case; empty if there is none.
  const std::string& build_id() const { return build_id_; }
  // Returns the entries of the dynamic section, without DT_NULL. The addresses of tables in them
  // are the file's own.
  std::vector<Elf64_Dyn> dynamic_entries() const;
  // Returns the string that such an entry, or a dynamic symbol, has at this offset; empty if there
  // is none. Valid as long as this object.
  std::string_view dynamic_string(uint64_t offset) const;
  // Returns whether the loader writes into its code when it relocates it (DT_TEXTREL).
  bool has_text_relocations() const;
  // Returns whether Go linked it: then its code runs on stacks that Go's runtime moves, reads and
  // suspends.
  bool is_go() const { return is_go_; }
  struct DebugLink {
    std::string file;
    uint32_t crc = 0;
  };
  std::optional<DebugLink> debug_link() const;
  // Returns .note.stapsdt (sdt_notes.h), valid as long as this object; empty if there is none.
  std::span<const uint8_t> sdt_notes() const;
  // Returns the address of .stapsdt.base, from which notes measure how far the object was moved.
  std::optional<Address> sdt_base() const;
  // The compiler's lists of entry sites (entry_sites.h), as they are in the file, and the addresses
  // of these lists. Valid as long as this object; empty if there is none.
  struct Section {
    Address address = 0;
    std::span<const uint8_t> bytes;
  };
  struct Bytes {
    Address address = 0;
    std::vector<uint8_t> data;
  };
  Section patchable_entries() const;  // __patchable_function_entries
  Section profiling_calls() const;    // __mcount_loc
  Section xray_map() const;           // xray_instr_map
  // The same of pinprick_points (point_records.h), and of the table of Go's functions (go_table.h).
  Section point_records() const;
  Section go_table() const;
  // Returns what PT_NOTE segments hold.
  std::vector<Bytes> notes() const;
  // Returns .gnu_debugdata, a compressed debug file; empty if there is none.
  std::span<const uint8_t> compressed_debug_file() const;

  // Has it .debug_info, which says what variables there are?
  bool has_debug_information() const;
  bool has_symtab() const;
  // Returns the defined symbols of .symtab, or those that the loader reads.
  std::vector<Symbol> symtab() const;
  std::vector<Symbol> dynamic_symbols() const;
  // Returns where a thread-local variable of a program, of at least `bytes`, lies relative to the
  // thread pointer. Returns nullopt if there is none of that name, or several. A library's are
  // elsewhere.
  std::optional<int64_t> thread_local_offset(std::string_view name, uint64_t bytes) const;
  // Returns false if no symbol of either table contains one of these names. For names that cannot
  // be read this is unknown, and returns true.
  bool may_name_any(std::span<const std::string_view> names) const;
  // The same of the symbols that relocations may have.
  bool may_import_any(std::span<const std::string_view> names) const;
  // Returns the names of all symbols in either table.
  std::vector<SymbolName> symbol_names() const;
  // Returns whether stubs of the procedure linkage table push this word for the loader, or jump to
  // it through the word.
  bool is_for_loader(Address word) const { return dynamic().tables.is_for_loader(word); }
  // Returns what the loader relocates or, in a static program, the startup code.
  std::vector<Relocation> relocations() const;

  // Sections with code, as the section headers say; empty without these.
  struct CodeSection {
    std::string_view name;
    Range range;
  };
  bool has_section_headers() const;
  std::vector<CodeSection> code_sections() const;
  std::vector<Range> procedure_linkage_tables() const;
  // Returns .eh_frame, found by its section header, else through .eh_frame_hdr.
  std::optional<Bytes> eh_frame() const;

  // Returns the file's bytes for [range): fewer if the file has fewer (.bss), none on error.
  std::vector<uint8_t> read(Range range) const;

 private:
  ElfFile(std::string path, FileBytes bytes, Use use);
  static Result<ElfFile, ElfError> from_memory(FileBytes bytes, std::string name, uint64_t bias,
                                               Use use);
  Result<void, ElfError> load();
  // Calls `visit(const GElf_Sym&, std::string_view name)` for each symbol of .symtab that has a
  // name.
  template <class F>
  void visit_symbols(F&& visit) const;
  // What the dynamic section leads to, as far as it was asked for.
  struct Dynamic {
    DynamicTables tables;
    std::optional<std::vector<char>> names;  // empty: none, or unreadable
    std::optional<std::vector<Elf64_Sym>> symbols;
  };
  Dynamic& dynamic() const;
  std::span<const char> dynamic_names() const;
  std::span<const Elf64_Sym> dynamic_symbol_table() const;
  std::string_view name_of(const Elf64_Sym& dynamic_symbol) const;
  std::vector<RelocationTable> relocation_tables() const;
  // These make sure that libelf finds the bytes of a file that is not kept open before it looks at
  // them; for other files they do nothing. They return false if the bytes cannot be read.
  bool bring_headers();
  bool bring(Elf_Scn* section) const;
  // Returns the section's bytes as they are in the file; empty if they cannot be read.
  std::span<const uint8_t> raw_bytes(Elf_Scn* section) const;
  void read_notes(std::span<const uint8_t> notes);
  bool has_go_table() const;
  // Returns the first section of that name; null if there is none.
  Elf_Scn* find_section(std::string_view wanted) const;
  // Returns the section as it is in the file, valid as long as this object; empty if there is none
  // of that name.
  std::span<const uint8_t> section(std::string_view wanted) const;
  Section addressed_section(std::string_view wanted) const;

  std::string path_;
  FileBytes bytes_;
  Use use_ = Use::code;
  std::unique_ptr<Elf, EndElf> elf_;
  Address entry_ = 0;
  uint64_t bias_ = 0;
  bool position_independent_ = false;
  std::vector<Segment> segments_;
  std::optional<Range> dynamic_;
  std::optional<Range> eh_frame_header_;
  std::vector<Range> note_segments_;
  Range relro_;
  std::optional<Range> thread_local_;  // the initial values of thread-local variables
  uint64_t thread_local_alignment_ = 0;
  std::string build_id_;
  bool is_go_ = false;
  mutable std::unique_ptr<Dynamic> dynamic_tables_;
};

}  // namespace pinprick::image
