#include "image/elf/elf_file.h"

#include <elf.h>
#include <gelf.h>
#include <libelf.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "arch/elf.h"
#include "base/bytes.h"
#include "base/zero_pages.h"
#include "image/elf/elf_sections.h"
#include "image/elf/go_table.h"

namespace pinprick::image {
namespace {

// Build ids, properties and points take kilobytes.
constexpr uint64_t kLargestNotes = uint64_t{16} << 20;

// The addresses in the dynamic section to which some loaders add the bias, as glibc's does.
constexpr int64_t kMovedByLoader[] = {DT_PLTGOT, DT_HASH, DT_GNU_HASH, DT_STRTAB, DT_SYMTAB,
                                      DT_RELA,   DT_REL,  DT_JMPREL,   DT_RELR};

}  // namespace

void EndElf::operator()(Elf* elf) const {
  elf_end(elf);
}

Result<ElfFile, ElfError> ElfFile::open(const std::string& path, Use use, Proof proof,
                                        Descriptor descriptor) {
  auto bytes = FileBytes::open(path, proof, descriptor);
  if (!bytes) return fail(ElfError{ElfCause::unreadable, path, bytes.error().number});
  ElfFile file(path, *std::move(bytes), use);
  if (!file.bring_headers()) return fail(ElfError{ElfCause::unreadable, path, EIO});
  if (auto loaded = file.load(); !loaded) return fail(loaded.error());
  file.bytes_.close_unless_kept();
  return file;
}

Result<ElfFile, ElfError> ElfFile::from_bytes(std::vector<uint8_t> bytes, std::string name,
                                              uint64_t bias, Use use, Descriptor descriptor) {
  const auto owner = std::make_shared<std::vector<uint8_t>>(std::move(bytes));
  return from_memory(FileBytes::in_memory(*owner, owner, descriptor), std::move(name), bias, use);
}

Result<ElfFile, ElfError> ElfFile::copy_of(const ElfFile& file) {
  const auto copy = std::make_shared<ZeroPages>(file.file_size());
  const auto bytes = copy->bytes();
  bool whole = bytes.size() == file.file_size();
  for (const Part& part : file.parts())
    whole = whole && file.read(part, bytes.subspan(part.offset, part.size));
  if (!whole) return fail(ElfError{ElfCause::unreadable, file.path_, EIO});
  return from_memory(FileBytes::in_memory(bytes, copy, Descriptor::kept), file.path_, file.bias_,
                     file.use_);
}

Result<ElfFile, ElfError> ElfFile::from_memory(FileBytes bytes, std::string name, uint64_t bias,
                                               Use use) {
  ElfFile file(std::move(name), std::move(bytes), use);
  file.bias_ = bias;
  if (auto loaded = file.load(); !loaded) return fail(loaded.error());
  return file;
}

ElfFile::ElfFile(std::string path, FileBytes bytes, Use use)
    : path_(std::move(path)), bytes_(std::move(bytes)), use_(use) {}

// libelf looks at the headers at once. It looks at sections only when it is asked for their bytes,
// or for a name in them. What does not lie in the file, load() or libelf refuses.
bool ElfFile::bring_headers() {
  const auto memory = bytes_.memory();
  if (memory.size() < sizeof(Elf64_Ehdr)) return true;
  Elf64_Ehdr header;
  if (!bytes_.bring({0, sizeof header})) return false;
  std::memcpy(&header, memory.data(), sizeof header);
  // The first section header has the number of sections if that is too large for the file's header.
  uint64_t sections = header.e_shnum;
  if (sections == 0 && header.e_shoff != 0 && bytes_.bring({header.e_shoff, sizeof(Elf64_Shdr)})) {
    Elf64_Shdr first;
    std::memcpy(&first, memory.data() + header.e_shoff, sizeof first);
    sections = first.sh_size;
  }
  if (sections <= memory.size() / sizeof(Elf64_Shdr))
    static_cast<void>(bytes_.bring({header.e_shoff, sections * sizeof(Elf64_Shdr)}));
  static_cast<void>(bytes_.bring({header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr)}));
  return true;
}

bool ElfFile::bring(Elf_Scn* section) const {
  GElf_Shdr header;
  if (section == nullptr || gelf_getshdr(section, &header) == nullptr) return false;
  return header.sh_type == SHT_NOBITS || bytes_.bring({header.sh_offset, header.sh_size});
}

std::span<const uint8_t> ElfFile::raw_bytes(Elf_Scn* section) const {
  return bring(section) ? bytes_of(elf_rawdata(section, nullptr)) : std::span<const uint8_t>();
}

Result<void, ElfError> ElfFile::load() {
  const auto broken = [&](ElfCause cause) { return fail(ElfError{cause, path_, 0}); };
  const uint64_t file_size = bytes_.size();
  elf_version(EV_CURRENT);
  if (const auto memory = bytes_.memory(); memory.empty() && bytes_.fd() >= 0)
    elf_.reset(elf_begin(bytes_.fd(), ELF_C_READ, nullptr));
  else
    elf_.reset(elf_memory(reinterpret_cast<char*>(memory.data()), memory.size()));
  if (size_t names = 0; elf_ != nullptr && elf_getshdrstrndx(elf_.get(), &names) == 0)
    static_cast<void>(bring(elf_getscn(elf_.get(), names)));
  uint8_t identity[EI_NIDENT] = {};
  if (file_size < sizeof identity || !bytes_.read(identity, 0) ||
      std::memcmp(identity, ELFMAG, SELFMAG) != 0)
    return broken(ElfCause::not_elf);
  if (identity[EI_CLASS] != ELFCLASS64 || identity[EI_DATA] != ELFDATA2LSB)
    return broken(ElfCause::not_x86_64);
  GElf_Ehdr header;
  if (elf_ == nullptr || gelf_getehdr(elf_.get(), &header) == nullptr)
    return broken(ElfCause::truncated);
  if (header.e_machine != arch::kElfMachine) return broken(ElfCause::not_x86_64);
  if (header.e_type != ET_EXEC && header.e_type != ET_DYN) return broken(ElfCause::not_loadable);
  entry_ = header.e_entry;
  position_independent_ = header.e_type == ET_DYN;

  // libelf silently leaves out headers past the end of the file.
  if (header.e_phoff > file_size ||
      uint64_t{header.e_phnum} * sizeof(Elf64_Phdr) > file_size - header.e_phoff)
    return broken(ElfCause::truncated);
  size_t count = 0;
  if (elf_getphdrnum(elf_.get(), &count) != 0) return broken(ElfCause::truncated);
  for (size_t i = 0; i < count; ++i) {
    GElf_Phdr program;
    if (gelf_getphdr(elf_.get(), static_cast<int>(i), &program) == nullptr)
      return broken(ElfCause::truncated);
    if (program.p_vaddr + program.p_memsz < program.p_vaddr ||
        program.p_offset + program.p_filesz < program.p_offset ||
        program.p_filesz > program.p_memsz)
      continue;
    const Range range = {program.p_vaddr, program.p_vaddr + program.p_memsz};
    switch (program.p_type) {
      case PT_LOAD:
        if (use_ == Use::code && program.p_offset + program.p_filesz > file_size)
          return broken(ElfCause::truncated);
        segments_.push_back({range, program.p_offset, program.p_filesz,
                             (program.p_flags & PF_R) != 0, (program.p_flags & PF_W) != 0,
                             (program.p_flags & PF_X) != 0});
        break;
      case PT_DYNAMIC:
        // In a debug file something else lies there.
        if (use_ == Use::code) dynamic_ = range;
        break;
      case PT_GNU_EH_FRAME:
        eh_frame_header_ = range;
        break;
      case PT_GNU_RELRO:
        relro_ = range;
        break;
      case PT_TLS:
        thread_local_ = range;
        thread_local_alignment_ = program.p_align;
        break;
      case PT_NOTE: {
        if (program.p_offset + program.p_filesz > file_size || program.p_filesz > kLargestNotes)
          break;
        std::vector<uint8_t> notes(program.p_filesz);
        if (bytes_.read(notes, program.p_offset)) read_notes(notes);
        note_segments_.push_back(range);
        break;
      }
      default:
        break;
    }
  }
  if (segments_.empty()) return broken(ElfCause::not_loadable);
  // A linker puts no byte into more than two of them. A file that repeats itself a thousand times
  // was made to take our time, and our memory.
  uint64_t in_segments = 0;
  for (const Segment& segment : segments_) {
    in_segments += segment.file_size;
    if (use_ == Use::code && in_segments > 2 * file_size) return broken(ElfCause::truncated);
  }
  is_go_ = is_go_ || has_go_table();
  return {};
}

void ElfFile::read_notes(std::span<const uint8_t> notes) {
  ByteReader reader(notes);
  while (reader.ok() && reader.remaining() >= 12) {
    const uint32_t name_size = reader.u32();
    const uint32_t size = reader.u32();
    const uint32_t type = reader.u32();
    ByteReader name = reader.sub(align_up(name_size, 4));
    const size_t at = reader.position();
    reader.skip(align_up(size, 4));
    if (!reader.ok()) break;
    if (name_size != 4) continue;
    const std::string_view owner = name.c_string();
    constexpr uint32_t kGoBuildId = 4;
    if (type == kGoBuildId && owner == "Go") is_go_ = true;
    if (type != NT_GNU_BUILD_ID || owner != "GNU" || !build_id_.empty()) continue;
    for (uint8_t byte : notes.subspan(at, size)) {
      constexpr char kDigits[] = "0123456789abcdef";
      build_id_ += kDigits[byte >> 4];
      build_id_ += kDigits[byte & 15];
    }
  }
}

// What is linked without a build id has no note; `strip` keeps these sections.
bool ElfFile::has_go_table() const {
  if (!has_section_headers()) return use_ == Use::code && find_go_table(*this).has_value();
  return find_section(".gopclntab") != nullptr ||
         find_section(".data.rel.ro.gopclntab") != nullptr ||
         find_section(".go.buildinfo") != nullptr;
}

Range ElfFile::extent() const {
  Range extent = {UINT64_MAX, 0};
  for (const Segment& segment : segments_) {
    extent.begin = std::min(extent.begin, align_down(segment.range.begin, kPageSize));
    extent.end = std::max(extent.end, align_up(segment.range.end, kPageSize));
  }
  return extent;
}

bool ElfFile::in_executable_segment(Address address) const {
  return std::any_of(segments_.begin(), segments_.end(), [&](const Segment& segment) {
    return segment.executable && segment.range.contains(address);
  });
}

std::vector<uint8_t> ElfFile::read(Range range) const {
  for (const Segment& segment : segments_) {
    if (!segment.range.contains(range.begin)) continue;
    const uint64_t skip = range.begin - segment.range.begin;
    if (skip >= segment.file_size) return {};
    std::vector<uint8_t> out(std::min(range.size(), segment.file_size - skip));
    if (!bytes_.read(out, segment.offset + skip)) return {};
    return out;
  }
  return {};
}

Elf_Scn* ElfFile::find_section(std::string_view wanted) const {
  const Sections sections(elf_.get());
  for (const auto& section : sections)
    if (section.header.sh_size <= kLargestTable && sections.name_of(section) == wanted)
      return section.handle;
  return nullptr;
}

std::span<const uint8_t> ElfFile::section(std::string_view wanted) const {
  Elf_Scn* const found = find_section(wanted);
  return found == nullptr ? std::span<const uint8_t>() : raw_bytes(found);
}

ElfFile::Section ElfFile::addressed_section(std::string_view wanted) const {
  Elf_Scn* const found = find_section(wanted);
  GElf_Shdr header;
  if (found == nullptr || gelf_getshdr(found, &header) == nullptr) return {};
  return {header.sh_addr, raw_bytes(found)};
}

ElfFile::Section ElfFile::patchable_entries() const {
  return addressed_section("__patchable_function_entries");
}

ElfFile::Section ElfFile::profiling_calls() const {
  return addressed_section("__mcount_loc");
}

ElfFile::Section ElfFile::xray_map() const {
  return addressed_section("xray_instr_map");
}

ElfFile::Section ElfFile::point_records() const {
  return addressed_section("pinprick_points");
}

ElfFile::Section ElfFile::go_table() const {
  const auto table = addressed_section(".gopclntab");
  return table.bytes.empty() ? addressed_section(".data.rel.ro.gopclntab") : table;
}

std::vector<ElfFile::Bytes> ElfFile::notes() const {
  std::vector<Bytes> notes;
  for (Range segment : note_segments_) notes.push_back({segment.begin, read(segment)});
  return notes;
}

std::vector<ElfFile::Part> ElfFile::parts() const {
  std::vector<Part> holes;
  // Loaded bytes are read, whatever section headers say.
  const auto is_loaded = [&](const GElf_Shdr& header) {
    return use_ == Use::code &&
           std::any_of(segments_.begin(), segments_.end(), [&](const Segment& segment) {
             return header.sh_offset < segment.offset + segment.file_size &&
                    segment.offset < header.sh_offset + header.sh_size;
           });
  };
  const Sections sections(elf_.get());
  for (const auto& section : sections) {
    const GElf_Shdr& header = section.header;
    if (header.sh_type != SHT_PROGBITS || (header.sh_flags & SHF_ALLOC) != 0 ||
        header.sh_offset > file_size() || header.sh_size > file_size() - header.sh_offset ||
        is_loaded(header))
      continue;
    for (const std::string_view prefix : {".debug_", ".zdebug_", ".gnu.debuglto_"})
      if (sections.name_of(section).starts_with(prefix))
        holes.push_back({header.sh_offset, header.sh_size});
  }
  std::sort(holes.begin(), holes.end(),
            [](const Part& a, const Part& b) { return a.offset < b.offset; });
  std::vector<Part> parts;
  uint64_t at = 0;
  for (const Part& hole : holes) {
    if (hole.offset > at) parts.push_back({at, hole.offset - at});
    at = std::max(at, hole.offset + hole.size);
  }
  if (at < file_size()) parts.push_back({at, file_size() - at});
  return parts;
}

std::optional<ElfFile::DebugLink> ElfFile::debug_link() const {
  ByteReader reader(section(".gnu_debuglink"));
  DebugLink link;
  link.file = reader.c_string();
  reader.skip(align_up(reader.position(), 4) - reader.position());
  link.crc = reader.u32();
  if (!reader.ok() || link.file.empty()) return std::nullopt;
  return link;
}

std::span<const uint8_t> ElfFile::compressed_debug_file() const {
  return section(".gnu_debugdata");
}

std::span<const uint8_t> ElfFile::sdt_notes() const {
  return section(".note.stapsdt");
}

std::optional<Address> ElfFile::sdt_base() const {
  Elf_Scn* const section = find_section(".stapsdt.base");
  GElf_Shdr header;
  if (section == nullptr || gelf_getshdr(section, &header) == nullptr) return std::nullopt;
  return header.sh_addr;
}

std::vector<Elf64_Dyn> ElfFile::dynamic_entries() const {
  std::vector<Elf64_Dyn> entries;
  if (!dynamic_) return entries;
  const auto dynamic = read(*dynamic_);
  ByteReader reader(dynamic);
  while (reader.remaining() >= sizeof(Elf64_Dyn)) {
    auto entry = reader.read<Elf64_Dyn>();
    if (entry.d_tag == DT_NULL) break;
    const bool is_moved = std::find(std::begin(kMovedByLoader), std::end(kMovedByLoader),
                                    entry.d_tag) != std::end(kMovedByLoader);
    if (is_moved && entry.d_un.d_ptr >= bias_) entry.d_un.d_ptr -= bias_;
    entries.push_back(entry);
  }
  return entries;
}

std::vector<Address> ElfFile::startup_addresses() const {
  std::vector<Address> addresses = {entry_};
  for (const Elf64_Dyn& entry : dynamic_entries())
    if (entry.d_tag == DT_INIT || entry.d_tag == DT_FINI) addresses.push_back(entry.d_un.d_ptr);
  return addresses;
}

bool ElfFile::has_text_relocations() const {
  const auto entries = dynamic_entries();
  return std::any_of(entries.begin(), entries.end(), [](const Elf64_Dyn& entry) {
    return entry.d_tag == DT_TEXTREL ||
           (entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_TEXTREL) != 0);
  });
}

bool ElfFile::has_section_headers() const {
  return elf_nextscn(elf_.get(), nullptr) != nullptr;
}

std::vector<ElfFile::CodeSection> ElfFile::code_sections() const {
  std::vector<CodeSection> code;
  const Sections sections(elf_.get());
  for (const auto& section : sections) {
    const GElf_Shdr& header = section.header;
    const auto name = sections.name_of(section);
    if ((header.sh_flags & SHF_EXECINSTR) != 0 && !name.empty())
      code.push_back({name, {header.sh_addr, header.sh_addr + header.sh_size}});
  }
  return code;
}

std::vector<Range> ElfFile::procedure_linkage_tables() const {
  std::vector<Range> ranges;
  for (const auto& [name, range] : code_sections())
    if (name.starts_with(".plt") || name == ".iplt") ranges.push_back(range);
  return ranges;
}

std::optional<ElfFile::Bytes> ElfFile::eh_frame() const {
  const Sections sections(elf_.get());
  for (const auto& section : sections) {
    const GElf_Shdr& header = section.header;
    if (header.sh_type != SHT_NOBITS && (header.sh_flags & SHF_ALLOC) != 0 &&
        header.sh_size <= kLargestTable && sections.name_of(section) == ".eh_frame")
      return Bytes{header.sh_addr, read({header.sh_addr, header.sh_addr + header.sh_size})};
  }
  if (!eh_frame_header_) return std::nullopt;
  const Address at = eh_frame_header_->begin;
  const auto header = read({at, at + 8});
  ByteReader reader(header);
  const uint8_t version = reader.u8();
  const uint8_t pointer_encoding = reader.u8();
  reader.skip(2);
  const auto distance = static_cast<int32_t>(reader.u32());
  constexpr uint8_t kPcRelativeInt32 = 0x1b;
  if (!reader.ok() || version != 1 || pointer_encoding != kPcRelativeInt32) return std::nullopt;
  const Address begin = at + 4 + static_cast<uint64_t>(static_cast<int64_t>(distance));
  for (const Segment& segment : segments_)
    if (segment.range.contains(begin)) return Bytes{begin, read({begin, segment.range.end})};
  return std::nullopt;
}

}  // namespace pinprick::image
