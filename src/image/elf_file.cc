#include "image/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "arch/elf.h"
#include "base/bytes.h"
#include "base/zero_pages.h"

namespace pinprick::image {
namespace {

// No real symbol table has a gigabyte.
constexpr uint64_t kLargestTable = uint64_t{1} << 30;
// Build ids, properties and points take kilobytes.
constexpr uint64_t kLargestNotes = uint64_t{16} << 20;

std::span<const uint8_t> bytes_of(const Elf_Data* data) {
  if (data == nullptr || data->d_buf == nullptr) return {};
  return {static_cast<const uint8_t*>(data->d_buf), data->d_size};
}

Symbol::Kind kind_of(unsigned char info) {
  switch (GELF_ST_TYPE(info)) {
    case STT_FUNC:
      return Symbol::Kind::function;
    case STT_GNU_IFUNC:
      return Symbol::Kind::ifunc;
    default:
      return Symbol::Kind::other;
  }
}

bool is_code_or_data(const GElf_Sym& symbol) {
  const auto type = GELF_ST_TYPE(symbol.st_info);
  return symbol.st_shndx != SHN_UNDEF && symbol.st_shndx != SHN_ABS && type != STT_SECTION &&
         type != STT_FILE && type != STT_TLS;
}

Symbol to_symbol(const GElf_Sym& raw, std::string_view name) {
  return {raw.st_value, raw.st_size, name, kind_of(raw.st_info),
          GELF_ST_BIND(raw.st_info) != STB_LOCAL};
}

Relocation::Kind relocation_kind(uint64_t type) {
  switch (type) {
    case arch::kRelocationRelative:
      return Relocation::Kind::relative;
    case arch::kRelocationIndirect:
      return Relocation::Kind::irelative;
    case arch::kRelocationJumpSlot:
    case arch::kRelocationGlobal:
    case arch::kRelocationAddress:
      return Relocation::Kind::symbol;
    default:
      return Relocation::Kind::other;
  }
}

}  // namespace

ElfFile::ElfFile(ElfFile&& other) noexcept {
  *this = std::move(other);
}

ElfFile& ElfFile::operator=(ElfFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(proof_, other.proof_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(identity_, other.identity_);
  std::swap(pages_, other.pages_);
  std::swap(brought_, other.brought_);
  std::swap(proved_, other.proved_);
  std::swap(bytes_, other.bytes_);
  std::swap(owner_, other.owner_);
  std::swap(file_size_, other.file_size_);
  std::swap(use_, other.use_);
  std::swap(elf_, other.elf_);
  std::swap(entry_, other.entry_);
  std::swap(bias_, other.bias_);
  std::swap(position_independent_, other.position_independent_);
  std::swap(segments_, other.segments_);
  std::swap(dynamic_, other.dynamic_);
  std::swap(eh_frame_header_, other.eh_frame_header_);
  std::swap(relro_, other.relro_);
  std::swap(build_id_, other.build_id_);
  std::swap(is_go_, other.is_go_);
  return *this;
}

ElfFile::~ElfFile() {
  if (elf_ != nullptr) elf_end(elf_);
}

Result<ElfFile, ElfError> ElfFile::open(const std::string& path, Use use, Proof proof,
                                        Descriptor descriptor) {
  ElfFile file;
  file.path_ = path;
  auto fd = open_file(path, O_RDONLY);
  if (!fd) return fail(ElfError{ElfCause::unreadable, path, fd.error().number});
  file.fd_ = *std::move(fd);
  file.proof_ = proof;
  file.descriptor_ = descriptor;
  const auto version = proof == Proof::wanted ? version_of(file.fd_.get()) : std::nullopt;
  if (version && is_settled(file.fd_.get(), *version)) file.proved_ = version;
  struct stat status = {};
  if (version)
    status.st_size = static_cast<off_t>(version->size);
  else if (::fstat(file.fd_.get(), &status) != 0)
    return fail(ElfError{ElfCause::unreadable, path, errno});
  const auto size = static_cast<uint64_t>(status.st_size);
  elf_version(EV_CURRENT);
  // Not mapped: if another process truncates the file, a mapped read would kill us.
  if (descriptor == Descriptor::kept)
    file.elf_ = elf_begin(file.fd_.get(), ELF_C_READ, nullptr);
  else if (!file.prepare_pages(size))
    return fail(ElfError{ElfCause::unreadable, path, EIO});
  if (auto loaded = file.load(size, use); !loaded) return fail(loaded.error());
  if (descriptor == Descriptor::none) file.fd_.reset();
  return file;
}

std::optional<ElfFile::Identity> ElfFile::identity_of(int fd) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return std::nullopt;
  return Identity{status.st_dev, status.st_ino, static_cast<uint64_t>(status.st_size),
                  status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

// libelf looks at the headers at once. It looks at sections only when it is asked for their bytes,
// or for a name in them.
bool ElfFile::prepare_pages(uint64_t size) {
  identity_ = identity_of(fd_.get());
  pages_ = std::make_unique<ZeroPages>(size);
  if (!identity_ || identity_->size != size || pages_->bytes().size() != size) return false;
  brought_.resize(align_up(size, kPageSize) / kPageSize);
  if (size < sizeof(Elf64_Ehdr)) return true;
  Elf64_Ehdr header;
  if (!bring(0, sizeof header)) return false;
  std::memcpy(&header, pages_->bytes().data(), sizeof header);
  // What does not lie in the file, load() or libelf refuses. The first section header has the
  // number of sections if that is too large for the file's header.
  uint64_t sections = header.e_shnum;
  if (sections == 0 && header.e_shoff != 0 && bring(header.e_shoff, sizeof(Elf64_Shdr))) {
    Elf64_Shdr first;
    std::memcpy(&first, pages_->bytes().data() + header.e_shoff, sizeof first);
    sections = first.sh_size;
  }
  if (sections <= size / sizeof(Elf64_Shdr))
    static_cast<void>(bring(header.e_shoff, sections * sizeof(Elf64_Shdr)));
  static_cast<void>(bring(header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr)));
  elf_ = elf_memory(reinterpret_cast<char*>(pages_->bytes().data()), size);
  size_t names = 0;
  if (elf_ != nullptr && elf_getshdrstrndx(elf_, &names) == 0)
    static_cast<void>(bring(elf_getscn(elf_, names)));
  return true;
}

Fd ElfFile::reopened() const {
  auto file = open_file(path_, O_RDONLY);
  if (!file || identity_of(file->get()) != identity_) return {};
  return *std::move(file);
}

bool ElfFile::bring(uint64_t offset, uint64_t size) const {
  if (!pages_) return true;
  const auto bytes = pages_->bytes();
  if (offset > bytes.size() || size > bytes.size() - offset) return false;
  const auto is_missing = [&](uint64_t page) { return !brought_[page]; };
  const uint64_t end = align_up(offset + size, kPageSize) / kPageSize;
  Fd again;
  for (uint64_t page = offset / kPageSize; page < end; ++page) {
    if (!is_missing(page)) continue;
    uint64_t last = page + 1;
    while (last < end && is_missing(last)) ++last;
    if (!fd_ && !again) again = reopened();
    const uint64_t at = page * kPageSize;
    const uint64_t length = std::min<uint64_t>(last * kPageSize, bytes.size()) - at;
    if (!read_at(fd_ ? fd_.get() : again.get(), bytes.subspan(at, length), at)) return false;
    std::fill(brought_.begin() + static_cast<ptrdiff_t>(page),
              brought_.begin() + static_cast<ptrdiff_t>(last), true);
    page = last;
  }
  return true;
}

bool ElfFile::bring(Elf_Scn* section) const {
  GElf_Shdr header;
  if (section == nullptr || gelf_getshdr(section, &header) == nullptr) return false;
  return header.sh_type == SHT_NOBITS || bring(header.sh_offset, header.sh_size);
}

std::span<const uint8_t> ElfFile::raw_bytes(Elf_Scn* section) const {
  return bring(section) ? bytes_of(elf_rawdata(section, nullptr)) : std::span<const uint8_t>();
}

Result<ElfFile, ElfError> ElfFile::from_bytes(std::vector<uint8_t> bytes, std::string name,
                                              uint64_t bias, Use use, Descriptor descriptor) {
  const auto owner = std::make_shared<std::vector<uint8_t>>(std::move(bytes));
  auto file = from_memory(*owner, owner, std::move(name), bias, use);
  if (file) file->descriptor_ = descriptor;
  return file;
}

Result<ElfFile, ElfError> ElfFile::copy_of(const ElfFile& file) {
  const auto copy = std::make_shared<ZeroPages>(file.file_size_);
  const auto bytes = copy->bytes();
  const auto add = [&](uint64_t offset, uint64_t size) {
    if (offset > bytes.size() || size > bytes.size() - offset) return false;
    return file.read_raw(bytes.subspan(offset, size), offset);
  };
  bool whole = bytes.size() == file.file_size_;
  for (const Part& part : file.parts()) whole = whole && add(part.offset, part.size);
  if (!whole) return fail(ElfError{ElfCause::unreadable, file.path_, EIO});
  return from_memory(bytes, copy, file.path_, file.bias_, file.use_);
}

Result<ElfFile, ElfError> ElfFile::from_memory(std::span<uint8_t> bytes,
                                               std::shared_ptr<const void> owner, std::string name,
                                               uint64_t bias, Use use) {
  ElfFile file;
  file.path_ = std::move(name);
  file.bytes_ = bytes;
  file.owner_ = std::move(owner);
  file.bias_ = bias;
  elf_version(EV_CURRENT);
  file.elf_ = elf_memory(reinterpret_cast<char*>(file.bytes_.data()), file.bytes_.size());
  if (auto loaded = file.load(file.bytes_.size(), use); !loaded) return fail(loaded.error());
  return file;
}

Result<void, ElfError> ElfFile::load(uint64_t file_size, Use use) {
  const auto broken = [&](ElfCause cause) { return fail(ElfError{cause, path_, 0}); };
  file_size_ = file_size;
  use_ = use;
  uint8_t identity[EI_NIDENT] = {};
  if (file_size < sizeof identity || !read_raw(identity, 0) ||
      std::memcmp(identity, ELFMAG, SELFMAG) != 0)
    return broken(ElfCause::not_elf);
  if (identity[EI_CLASS] != ELFCLASS64 || identity[EI_DATA] != ELFDATA2LSB)
    return broken(ElfCause::not_x86_64);
  GElf_Ehdr header;
  if (elf_ == nullptr || gelf_getehdr(elf_, &header) == nullptr) return broken(ElfCause::truncated);
  if (header.e_machine != arch::kElfMachine) return broken(ElfCause::not_x86_64);
  if (header.e_type != ET_EXEC && header.e_type != ET_DYN) return broken(ElfCause::not_loadable);
  entry_ = header.e_entry;
  position_independent_ = header.e_type == ET_DYN;

  // libelf silently leaves out headers past the end of the file.
  if (header.e_phoff > file_size ||
      uint64_t{header.e_phnum} * sizeof(Elf64_Phdr) > file_size - header.e_phoff)
    return broken(ElfCause::truncated);
  size_t count = 0;
  if (elf_getphdrnum(elf_, &count) != 0) return broken(ElfCause::truncated);
  for (size_t i = 0; i < count; ++i) {
    GElf_Phdr program;
    if (gelf_getphdr(elf_, static_cast<int>(i), &program) == nullptr)
      return broken(ElfCause::truncated);
    if (program.p_vaddr + program.p_memsz < program.p_vaddr ||
        program.p_offset + program.p_filesz < program.p_offset ||
        program.p_filesz > program.p_memsz)
      continue;
    const Range range = {program.p_vaddr, program.p_vaddr + program.p_memsz};
    switch (program.p_type) {
      case PT_LOAD:
        if (use == Use::code && program.p_offset + program.p_filesz > file_size)
          return broken(ElfCause::truncated);
        segments_.push_back({range, program.p_offset, program.p_filesz,
                             (program.p_flags & PF_R) != 0, (program.p_flags & PF_W) != 0,
                             (program.p_flags & PF_X) != 0});
        break;
      case PT_DYNAMIC:
        dynamic_ = range;
        break;
      case PT_GNU_EH_FRAME:
        eh_frame_header_ = range;
        break;
      case PT_GNU_RELRO:
        relro_ = range;
        break;
      case PT_NOTE: {
        if (program.p_offset + program.p_filesz > file_size || program.p_filesz > kLargestNotes)
          break;
        std::vector<uint8_t> notes(program.p_filesz);
        if (read_raw(notes, program.p_offset)) read_notes(notes);
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
    if (use == Use::code && in_segments > 2 * file_size) return broken(ElfCause::truncated);
  }
  is_go_ = is_go_ || has_go_section();
  return {};
}

bool ElfFile::read_raw(std::span<uint8_t> out, uint64_t offset) const {
  if (fd_) return read_at(fd_.get(), out, offset).ok();
  if (pages_) {
    const Fd again = reopened();
    return again && read_at(again.get(), out, offset).ok();
  }
  if (offset > bytes_.size() || out.size() > bytes_.size() - offset) return false;
  if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
  return true;
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
bool ElfFile::has_go_section() const {
  size_t names = 0;
  if (elf_getshdrstrndx(elf_, &names) != 0) return false;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf_, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) continue;
    const char* name = elf_strptr(elf_, names, header.sh_name);
    if (name == nullptr) continue;
    const std::string_view text = name;
    if (text == ".gopclntab" || text == ".data.rel.ro.gopclntab" || text == ".go.buildinfo")
      return true;
  }
  return false;
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
    if (!read_raw(out, segment.offset + skip)) return {};
    return out;
  }
  return {};
}

Elf_Scn* ElfFile::find_section(std::string_view wanted) const {
  size_t names = 0;
  if (elf_getshdrstrndx(elf_, &names) != 0) return nullptr;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf_, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_size > kLargestTable) continue;
    const char* name = elf_strptr(elf_, names, header.sh_name);
    if (name != nullptr && name == wanted) return section;
  }
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
  size_t names = 0;
  if (elf_getshdrstrndx(elf_, &names) == 0)
    for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf_, section)) != nullptr;) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_PROGBITS ||
          (header.sh_flags & SHF_ALLOC) != 0 || header.sh_offset > file_size_ ||
          header.sh_size > file_size_ - header.sh_offset || is_loaded(header))
        continue;
      const char* name = elf_strptr(elf_, names, header.sh_name);
      if (name == nullptr) continue;
      for (const std::string_view prefix : {".debug_", ".zdebug_", ".gnu.debuglto_"})
        if (std::string_view(name).starts_with(prefix))
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
  if (at < file_size_) parts.push_back({at, file_size_ - at});
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

template <class F>
void ElfFile::visit_symbols(uint32_t section_type, F&& visit) const {
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf_, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type != section_type ||
        header.sh_entsize != sizeof(Elf64_Sym) || header.sh_size > kLargestTable ||
        !bring(section) || !bring(elf_getscn(elf_, header.sh_link)))
      continue;
    Elf_Data* data = elf_getdata(section, nullptr);
    if (data == nullptr || data->d_buf == nullptr) continue;
    const auto count = static_cast<int>(data->d_size / header.sh_entsize);
    for (int i = 0; i < count; ++i) {
      GElf_Sym raw;
      if (gelf_getsym(data, i, &raw) == nullptr) continue;
      const char* name = elf_strptr(elf_, header.sh_link, raw.st_name);
      if (name != nullptr && *name != '\0' && !visit(raw, name)) return;
    }
  }
}

std::vector<Symbol> ElfFile::symbols_of_sections(uint32_t type) const {
  std::vector<Symbol> symbols;
  visit_symbols(type, [&](const GElf_Sym& raw, std::string_view name) {
    if (is_code_or_data(raw)) symbols.push_back(to_symbol(raw, name));
    return true;
  });
  return symbols;
}

std::vector<SymbolName> ElfFile::symbol_names() const {
  std::vector<SymbolName> names;
  for (const uint32_t type : {SHT_SYMTAB, SHT_DYNSYM})
    visit_symbols(type, [&](const GElf_Sym& raw, std::string_view name) {
      names.push_back({name, raw.st_shndx != SHN_UNDEF});
      return true;
    });
  return names;
}

// Mostly one of the first symbols shows it: the tables of a large library take megabytes.
bool ElfFile::has_symbols() const {
  const auto has = [&](const GElf_Shdr& section) {
    return section.sh_offset <= file_size_ && section.sh_size <= file_size_ - section.sh_offset;
  };
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf_, section)) != nullptr;) {
    GElf_Shdr header, names;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_SYMTAB ||
        header.sh_entsize != sizeof(Elf64_Sym) || header.sh_size > kLargestTable ||
        header.sh_size % sizeof(Elf64_Sym) != 0 || !has(header) ||
        gelf_getshdr(elf_getscn(elf_, header.sh_link), &names) == nullptr ||
        names.sh_type != SHT_STRTAB || !has(names))
      continue;
    std::array<Elf64_Sym, 64> first;
    const auto some = std::span(first).first(
        std::min<uint64_t>(first.size(), header.sh_size / sizeof(Elf64_Sym)));
    const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(some.data()), some.size_bytes());
    if (!read_raw(bytes, header.sh_offset)) continue;
    const auto one = std::find_if(some.begin(), some.end(), [&](const Elf64_Sym& symbol) {
      return is_code_or_data(symbol) && symbol.st_name != 0 && symbol.st_name < names.sh_size;
    });
    uint8_t letter = 0;
    if (one != some.end() && read_raw({&letter, 1}, names.sh_offset + one->st_name) && letter != 0)
      return true;
  }
  bool any = false;
  visit_symbols(SHT_SYMTAB, [&](const GElf_Sym& raw, std::string_view) {
    any = is_code_or_data(raw);
    return !any;
  });
  return any;
}

std::optional<bool> ElfFile::names_any(std::span<const std::string_view> names,
                                       std::initializer_list<uint32_t> tables) const {
  bool is_there = false;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf_, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr ||
        std::find(tables.begin(), tables.end(), header.sh_type) == tables.end())
      continue;
    Elf_Scn* const strings = elf_getscn(elf_, header.sh_link);
    GElf_Shdr strings_header;
    if (strings == nullptr || gelf_getshdr(strings, &strings_header) == nullptr ||
        strings_header.sh_size > kLargestTable)
      return true;
    const auto text = raw_bytes(strings);
    if (text.size() != strings_header.sh_size) return true;
    if (std::any_of(names.begin(), names.end(), [&](std::string_view name) {
          return ::memmem(text.data(), text.size(), name.data(), name.size()) != nullptr;
        }))
      return true;
    is_there = true;
  }
  return is_there ? std::optional(false) : std::nullopt;
}

bool ElfFile::may_name_any(std::span<const std::string_view> names) const {
  const bool has_sections = elf_nextscn(elf_, nullptr) != nullptr;
  return names_any(names, {SHT_SYMTAB, SHT_DYNSYM}).value_or(!has_sections);
}

bool ElfFile::may_import_any(std::span<const std::string_view> names) const {
  return names_any(names, {SHT_DYNSYM}).value_or(true);
}

bool ElfFile::has_symtab() const {
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf_, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) != nullptr && header.sh_type == SHT_SYMTAB) return true;
  }
  return false;
}

std::vector<Symbol> ElfFile::symtab() const {
  return symbols_of_sections(SHT_SYMTAB);
}

std::vector<Symbol> ElfFile::dynamic_symbols() const {
  auto symbols = symbols_of_sections(SHT_DYNSYM);
  return symbols.empty() && !bytes_.empty() ? symbols_of_dynamic_section() : symbols;
}

std::vector<Elf64_Dyn> ElfFile::dynamic_entries() const {
  std::vector<Elf64_Dyn> entries;
  if (!dynamic_) return entries;
  const auto dynamic = read(*dynamic_);
  ByteReader reader(dynamic);
  while (reader.remaining() >= sizeof(Elf64_Dyn)) {
    const auto entry = reader.read<Elf64_Dyn>();
    if (entry.d_tag == DT_NULL) break;
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

// Without section headers, the number of symbols is derived from the hash tables.
std::vector<Symbol> ElfFile::symbols_of_dynamic_section() const {
  uint64_t table = 0, strings = 0, strings_size = 0, hash = 0, gnu_hash = 0;
  for (const Elf64_Dyn& entry : dynamic_entries()) {
    const auto tag = entry.d_tag;
    uint64_t value = entry.d_un.d_val;
    const bool is_address =
        tag == DT_SYMTAB || tag == DT_STRTAB || tag == DT_HASH || tag == DT_GNU_HASH;
    if (is_address && bias_ != 0 && value >= bias_) value -= bias_;
    if (tag == DT_SYMTAB) table = value;
    if (tag == DT_STRTAB) strings = value;
    if (tag == DT_STRSZ) strings_size = value;
    if (tag == DT_HASH) hash = value;
    if (tag == DT_GNU_HASH) gnu_hash = value;
  }
  if (table == 0 || strings == 0 || strings_size > kLargestTable) return {};

  uint64_t count = 0;
  if (hash != 0) {
    const auto head = read({hash, hash + 8});
    ByteReader words(head);
    words.u32();
    count = words.u32();
  } else if (gnu_hash != 0) {
    const auto bytes = read({gnu_hash, gnu_hash + kLargestTable});
    ByteReader words(bytes);
    const uint32_t buckets = words.u32();
    const uint32_t first = words.u32();
    const uint32_t bloom = words.u32();
    words.u32();
    words.skip(uint64_t{bloom} * 8);
    uint32_t last = 0;
    for (uint32_t i = 0; i < buckets && words.ok(); ++i) last = std::max(last, words.u32());
    if (words.ok() && last >= first) {
      words.skip(uint64_t{last - first} * 4);
      count = last;
      while (words.ok() && count < kLargestTable) {
        ++count;
        if (words.u32() & 1) break;
      }
    }
  }

  const auto raw_strings = read({strings, strings + strings_size});
  const auto raw_symbols = read({table, table + count * sizeof(Elf64_Sym)});
  // Names must outlive this call: point into bytes_, which holds the same strings.
  std::vector<Symbol> symbols;
  ByteReader entries(raw_symbols);
  for (uint64_t i = 0; i < count && entries.remaining() >= sizeof(Elf64_Sym); ++i) {
    const auto raw = entries.read<Elf64_Sym>();
    if (!is_code_or_data(raw) || raw.st_name >= raw_strings.size()) continue;
    for (const Segment& segment : segments_) {
      if (!segment.range.contains(strings)) continue;
      const uint64_t at = segment.offset + (strings - segment.range.begin);
      ByteReader names(std::span{bytes_}.subspan(at, raw_strings.size()), raw.st_name);
      const std::string_view name = names.c_string();
      if (names.ok() && !name.empty()) symbols.push_back(to_symbol(raw, name));
      break;
    }
  }
  return symbols;
}

std::vector<Relocation> ElfFile::relocations() const {
  std::vector<Relocation> relocations;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf_, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_RELA ||
        !(header.sh_flags & SHF_ALLOC) || header.sh_entsize != sizeof(Elf64_Rela) ||
        header.sh_size > kLargestTable || !bring(section))
      continue;
    Elf_Data* data = elf_getdata(section, nullptr);
    if (data == nullptr || data->d_buf == nullptr) continue;
    Elf_Scn* symbol_section = elf_getscn(elf_, header.sh_link);
    GElf_Shdr symbol_header = {};
    Elf_Data* symbol_data = nullptr;
    if (symbol_section != nullptr && gelf_getshdr(symbol_section, &symbol_header) != nullptr &&
        bring(symbol_section) && bring(elf_getscn(elf_, symbol_header.sh_link)))
      symbol_data = elf_getdata(symbol_section, nullptr);
    const auto count = static_cast<int>(data->d_size / header.sh_entsize);
    for (int i = 0; i < count; ++i) {
      GElf_Rela raw;
      if (gelf_getrela(data, i, &raw) == nullptr) continue;
      Relocation out = {raw.r_offset, relocation_kind(GELF_R_TYPE(raw.r_info)), raw.r_addend, {}};
      GElf_Sym symbol;
      const auto index = static_cast<int>(GELF_R_SYM(raw.r_info));
      if (index != 0 && symbol_data != nullptr &&
          gelf_getsym(symbol_data, index, &symbol) != nullptr) {
        const char* name = elf_strptr(elf_, symbol_header.sh_link, symbol.st_name);
        if (name != nullptr) out.symbol = name;
      }
      relocations.push_back(out);
    }
  }
  append_packed_relocations(relocations);
  return relocations;
}

// SHT_RELR: only relative relocations, whose addends are in the words themselves. An even entry is
// the address of a word. An odd one is a bitmap of the next 63 words: which of them are relocated
// as well. Addresses ascend; others are invalid.
void ElfFile::append_packed_relocations(std::vector<Relocation>& relocations) const {
  constexpr uint64_t kWord = sizeof(uint64_t);
  constexpr unsigned kWordsOfMap = 63;
  constexpr uint64_t kReadAtOnce = 64 << 10;
  std::vector<uint8_t> words;  // what the file holds from `begin` on
  Address begin = 0, last = 0;
  const auto append = [&](Address address) {
    if (address <= last) return;
    last = address;
    if (address < begin || address - begin + kWord > words.size()) {
      begin = address;
      words = read({address, address + kReadAtOnce});
      if (words.size() < kWord) return;
    }
    int64_t addend = 0;
    std::memcpy(&addend, words.data() + (address - begin), kWord);
    relocations.push_back({address, Relocation::Kind::relative, addend, {}});
  };
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf_, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_RELR ||
        !(header.sh_flags & SHF_ALLOC) || header.sh_size > kLargestTable)
      continue;
    const auto table = read({header.sh_addr, header.sh_addr + header.sh_size});
    Address next = 0;
    for (size_t at = 0; at + kWord <= table.size(); at += kWord) {
      uint64_t entry = 0;
      std::memcpy(&entry, table.data() + at, kWord);
      if ((entry & 1) == 0) {
        append(entry);
        next = entry + kWord;
        continue;
      }
      for (unsigned word = 0; word < kWordsOfMap; ++word)
        if (entry >> (word + 1) & 1) append(next + word * kWord);
      next += kWordsOfMap * kWord;
    }
  }
}

std::vector<ElfFile::CodeSection> ElfFile::code_sections() const {
  std::vector<CodeSection> sections;
  size_t names = 0;
  if (elf_getshdrstrndx(elf_, &names) != 0) return sections;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf_, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || !(header.sh_flags & SHF_EXECINSTR)) continue;
    if (const char* name = elf_strptr(elf_, names, header.sh_name))
      sections.push_back({name, {header.sh_addr, header.sh_addr + header.sh_size}});
  }
  return sections;
}

std::vector<Range> ElfFile::procedure_linkage_tables() const {
  std::vector<Range> ranges;
  for (const auto& [name, range] : code_sections())
    if (name.starts_with(".plt") || name == ".iplt") ranges.push_back(range);
  return ranges;
}

std::optional<ElfFile::Bytes> ElfFile::eh_frame() const {
  size_t names = 0;
  if (elf_getshdrstrndx(elf_, &names) == 0) {
    for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf_, section)) != nullptr;) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr || header.sh_type == SHT_NOBITS ||
          !(header.sh_flags & SHF_ALLOC) || header.sh_size > kLargestTable)
        continue;
      const char* name = elf_strptr(elf_, names, header.sh_name);
      if (name == nullptr || std::string_view(name) != ".eh_frame") continue;
      return Bytes{header.sh_addr, read({header.sh_addr, header.sh_addr + header.sh_size})};
    }
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
