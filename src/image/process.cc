#include "image/process.h"

#include <elf.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <tuple>

#include "arch/elf.h"
#include "base/process_folder.h"
#include "image/loader.h"
#include "image/moved_text.h"
#include "image/pattern.h"

namespace pinprick::image {
namespace {

std::string file_name(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

// The mappings of one file. A file that is loaded twice (dlmopen) has two of these.
struct Candidate {
  std::vector<Mapping> mappings;

  bool has_code() const {
    return std::any_of(mappings.begin(), mappings.end(),
                       [](const Mapping& mapping) { return mapping.executable; });
  }
};

// Groups runs of mappings of one file; a mapping at offset 0 starts another load.
// The text of a file may be in other memory by now (moved_text.h): such files have no executable
// mapping.
std::vector<Candidate> group_by_file(const std::vector<Mapping>& maps) {
  std::vector<Candidate> groups;
  for (const Mapping& mapping : maps) {
    if (mapping.inode == 0 || mapping.path.empty() || mapping.path[0] != '/') continue;
    auto found = std::find_if(groups.rbegin(), groups.rend(), [&](const Candidate& group) {
      return same_file(group.mappings.front(), mapping);
    });
    const bool starts_anew = found != groups.rend() && mapping.offset == 0 &&
                             mapping.range.begin != found->mappings.back().range.end &&
                             found->has_code();
    if (found == groups.rend() || starts_anew)
      groups.push_back({{mapping}});
    else
      found->mappings.push_back(mapping);
  }
  return groups;
}

// Returns the load bias, from an executable mapping and the segment that it maps.
std::optional<uint64_t> bias_of(const ElfFile& elf, const Candidate& group) {
  for (const Mapping& mapping : group.mappings) {
    if (!mapping.executable) continue;
    for (const Segment& segment : elf.segments())
      if (const auto bias = segment.executable ? bias_by(mapping, segment) : std::nullopt)
        return bias;
  }
  return std::nullopt;
}

// Returns the memory of the segments that is privately mapped as the file says, so that a page that
// was never written to has the file's bytes, or zeros after the file's part. Text that can be
// written to is left out, and so is what a page of the file cannot be mapped for: musl's loader
// maps the pages around it all the same.
std::vector<Range> mapped_as_in_file(const std::vector<Mapping>& maps, const Candidate& group,
                                     const ElfFile& elf, uint64_t bias) {
  std::vector<Range> found;
  for (const Segment& segment : elf.segments()) {
    if ((segment.offset - segment.range.begin) % kPageSize != 0) continue;
    const Address begin = align_down(segment.range.begin, kPageSize) + bias;
    const Address end = align_up(segment.range.end, kPageSize) + bias;
    const Address end_of_file = align_up(segment.range.begin + segment.file_size, kPageSize) + bias;
    const uint64_t offset = align_down(segment.offset, kPageSize);
    Address at = begin;
    for (const Mapping& mapping : maps) {
      if (!mapping.range.contains(at) || mapping.shared) continue;
      if (segment.executable && mapping.writable) continue;
      const bool is_file = at < end_of_file && same_file(mapping, group.mappings.front()) &&
                           mapping.offset + (at - mapping.range.begin) == offset + (at - begin);
      const bool is_zero = at >= end_of_file && mapping.inode == 0;
      // A mapping of the file ends with it: what comes after that page is zeros.
      if (is_file)
        at = std::min(mapping.range.end, end_of_file);
      else if (is_zero)
        at = mapping.range.end;
    }
    if (at > begin) found.push_back({begin, std::min(at, end)});
  }
  return found;
}

// Reads a file from memory, with segments at their file offsets.
Result<ElfFile, ElfError> read_from_memory(const Candidate& group, const MemoryReader& reader,
                                           ElfFile::Descriptor descriptor) {
  const Mapping& first = group.mappings.front();
  const auto broken = [&](ElfCause cause) { return fail(ElfError{cause, first.path, 0}); };
  Elf64_Ehdr header;
  const std::span<uint8_t> header_bytes(reinterpret_cast<uint8_t*>(&header), sizeof header);
  if (first.offset != 0 || !reader(first.range.begin, header_bytes) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return broken(ElfCause::not_elf);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != arch::kElfMachine ||
      header.e_phentsize != sizeof(Elf64_Phdr))
    return broken(ElfCause::not_x86_64);
  std::vector<Elf64_Phdr> programs(header.e_phnum);
  const std::span<uint8_t> program_bytes(reinterpret_cast<uint8_t*>(programs.data()),
                                         programs.size() * sizeof(Elf64_Phdr));
  if (!reader(first.range.begin + header.e_phoff, program_bytes))
    return broken(ElfCause::truncated);

  constexpr uint64_t kLargest = uint64_t{2} << 30;
  uint64_t size = 0;
  std::optional<uint64_t> bias;
  for (const Elf64_Phdr& program : programs) {
    if (program.p_type != PT_LOAD) continue;
    if (program.p_filesz > kLargest || program.p_offset > kLargest)
      return broken(ElfCause::truncated);
    size = std::max(size, program.p_offset + program.p_filesz);
    if (program.p_offset == 0) bias = first.range.begin - program.p_vaddr;
  }
  if (!bias) return broken(ElfCause::truncated);
  // Section headers are not in memory: other data is at their offset.
  header.e_shoff = 0;
  header.e_shnum = 0;
  header.e_shstrndx = 0;
  std::vector<uint8_t> bytes(size);
  for (const Elf64_Phdr& program : programs) {
    if (program.p_type != PT_LOAD) continue;
    const auto part = std::span(bytes).subspan(program.p_offset, program.p_filesz);
    if (!reader(*bias + program.p_vaddr, part)) return broken(ElfCause::truncated);
  }
  std::memcpy(bytes.data(), &header, sizeof header);
  return ElfFile::from_bytes(std::move(bytes), first.path, *bias, ElfFile::Use::code, descriptor);
}

// Only a store makes use of it.
ElfFile::Proof proof_for(const ObjectStore* store) {
  return store != nullptr ? ElfFile::Proof::wanted : ElfFile::Proof::none;
}

struct MappedFile {
  ElfFile elf;
  bool is_certain = false;  // it cannot be another file with the same inode number
};

Result<MappedFile, ElfError> open_mapped_file(pid_t pid, const Candidate& group,
                                              ElfFile::Proof proof,
                                              ElfFile::Descriptor descriptor) {
  const Mapping& first = group.mappings.front();
  auto by_mapping = ElfFile::open(
      fmt::format("/proc/{}/map_files/{:x}-{:x}", pid, first.range.begin, first.range.end),
      ElfFile::Use::code, proof, descriptor);
  if (by_mapping) return MappedFile{*std::move(by_mapping), true};
  if (by_mapping.error().cause != ElfCause::unreadable) return fail(by_mapping.error());
  const std::string path = process_folder(pid) + "/root" + first.path;
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0)
    return fail(ElfError{ElfCause::unreadable, first.path, errno});
  // Overlay file systems show one device in maps and another in stat, so only the inode is
  // compared.
  if (status.st_ino != first.inode) return fail(ElfError{ElfCause::unreadable, first.path, ESTALE});
  auto by_path = ElfFile::open(path, ElfFile::Use::code, proof, descriptor);
  if (!by_path) return fail(by_path.error());
  const bool is_certain = by_path->is_file(first.device, first.inode);
  return MappedFile{*std::move(by_path), is_certain};
}

// A loaded object, or why it is none that can be probed.
struct Opened {
  Result<ElfFile, ElfError> elf;
  std::string path;
  uint64_t bias = 0;
  bool is_from_memory = false;
  bool is_certain = false;  // as in MappedFile
};

// Opens objects of one process.
class Opener {
 public:
  Opener(pid_t pid, const std::vector<Mapping>& maps, const MemoryReader& reader,
         ElfFile::Proof proof, ElfFile::Descriptor descriptor)
      : pid_(pid), maps_(maps), reader_(reader), proof_(proof), descriptor_(descriptor) {}

  Opened open(const Candidate& group) const {
    const std::string& path = group.mappings.front().path;
    auto file = open_mapped_file(pid_, group, proof_, descriptor_);
    const bool is_from_memory = !file && file.error().cause == ElfCause::unreadable;
    const bool is_certain = file && file->is_certain;
    auto elf = is_from_memory ? read_from_memory(group, reader_, descriptor_)
               : file         ? Result<ElfFile, ElfError>(std::move(file->elf))
                              : Result<ElfFile, ElfError>(fail(file.error()));
    std::optional<uint64_t> bias;
    if (elf) bias = bias_of(*elf, group);
    if (elf && !bias) elf = fail(ElfError{ElfCause::truncated, path, 0});
    return checked({std::move(elf), path, bias.value_or(0), is_from_memory, is_certain});
  }

  // Returns nullopt if no text of the file is in memory.
  std::optional<Opened> open_moved(const Candidate& group) const {
    auto file = open_mapped_file(pid_, group, proof_, descriptor_);
    if (!file) return std::nullopt;
    const auto bias = bias_of_moved(file->elf, group.mappings, maps_, reader_);
    if (!bias) return std::nullopt;
    return checked({std::move(file->elf), group.mappings.front().path, *bias, false, false});
  }

  // For a program of which nothing is mapped from its file.
  std::optional<Opened> open_moved_program(Address entry) const {
    const std::string folder = process_folder(pid_);
    std::error_code error;
    const std::string path = std::filesystem::read_symlink(folder + "/exe", error);
    if (error || entry == 0) return std::nullopt;
    auto elf = ElfFile::open(folder + "/exe", ElfFile::Use::code, proof_, descriptor_);
    const uint64_t bias = elf ? entry - elf->entry() : 0;
    if (elf && !has_text_of(*elf, bias, maps_, reader_))
      elf = fail(ElfError{ElfCause::other_code, path, 0});
    return checked({std::move(elf), path, bias, false, false});
  }

 private:
  Opened checked(Opened opened) const {
    if (!opened.elf) return opened;
    if (const auto why = why_unwritable(pid_, *opened.elf, opened.bias, maps_))
      opened.elf =
          fail(ElfError{*why == Unwritable::shared ? ElfCause::shared_code : ElfCause::huge_pages,
                        opened.path, 0});
    return opened;
  }

  pid_t pid_;
  const std::vector<Mapping>& maps_;
  const MemoryReader& reader_;
  ElfFile::Proof proof_;
  ElfFile::Descriptor descriptor_;
};

bool is_unwinder(const std::string& name) {
  for (const char* known : {"libgcc_s", "libunwind", "libstdc++", "libc++abi"})
    if (is_library(name, known)) return true;
  return false;
}

Range padding_of_vdso(const std::vector<Mapping>& maps, const MemoryReader& reader) {
  const auto vdso = std::find_if(maps.begin(), maps.end(),
                                 [](const Mapping& mapping) { return mapping.path == "[vdso]"; });
  if (vdso == maps.end()) return {};
  std::vector<uint8_t> bytes(vdso->range.size());
  if (!reader(vdso->range.begin, bytes)) return {};
  const auto last =
      std::find_if(bytes.rbegin(), bytes.rend(), [](uint8_t byte) { return byte != 0; });
  return {vdso->range.end - static_cast<uint64_t>(last - bytes.rbegin()), vdso->range.end};
}

}  // namespace

AuxiliaryVector AuxiliaryVector::read(pid_t pid) {
  AuxiliaryVector vector;
  if (auto bytes = read_process_file(pid, "auxv")) vector.bytes_ = *std::move(bytes);
  return vector;
}

uint64_t AuxiliaryVector::value(uint64_t type) const {
  for (size_t at = 0; at + sizeof(Elf64_auxv_t) <= bytes_.size(); at += sizeof(Elf64_auxv_t)) {
    Elf64_auxv_t entry;
    std::memcpy(&entry, bytes_.data() + at, sizeof entry);
    if (entry.a_type == type) return entry.a_un.a_val;
  }
  return 0;
}

std::string executable_name(const AuxiliaryVector& auxiliary, const MemoryReader& reader) {
  const Address at = auxiliary.value(AT_EXECFN);
  constexpr size_t kLongest = 4096;
  std::string name;
  // It lies shortly before the end of the stack: no piece crosses a page boundary.
  while (at != 0 && name.size() < kLongest) {
    const Address begin = at + name.size();
    const uint64_t page_end = align_down(begin, kPageSize) + kPageSize;
    std::vector<char> piece(std::min<uint64_t>(page_end - begin, 256));
    if (!reader(begin, {reinterpret_cast<uint8_t*>(piece.data()), piece.size()})) break;
    const auto zero = std::find(piece.begin(), piece.end(), '\0');
    name.append(piece.begin(), zero);
    if (zero != piece.end()) break;
  }
  return file_name(name);
}

std::vector<Range> ProcessImage::calling_code() const {
  std::vector<Range> all;
  for (const auto& object : objects) {
    const auto ranges = object->calling_code();
    all.insert(all.end(), ranges.begin(), ranges.end());
  }
  return all;
}

Object* ProcessImage::object_at(Address code) const {
  for (const auto& object : objects)
    if (object->contains_code(code)) return object.get();
  return nullptr;
}

FileNumber ProcessImage::file_of(const Object& object) const {
  // Some of its pages may be no file's any more.
  const Range extent = object.extent();
  const auto mapping = std::find_if(maps.begin(), maps.end(), [&](const Mapping& one) {
    return one.inode != 0 && extent.contains(one.range);
  });
  return mapping == maps.end() ? FileNumber() : FileNumber{mapping->device, mapping->inode};
}

Result<ProcessImage, SystemError> load_process(pid_t pid, const MemoryReader& reader,
                                               ObjectStore* store, ElfFile::Descriptor descriptor) {
  auto maps = read_maps(pid);
  if (!maps) return fail(maps.error());
  return load_process(pid, *std::move(maps), reader, store, descriptor);
}

ProcessImage load_process(pid_t pid, std::vector<Mapping> maps, const MemoryReader& reader,
                          ObjectStore* store, ElfFile::Descriptor descriptor) {
  ProcessImage image;
  image.auxiliary = AuxiliaryVector::read(pid);
  const Address executed = image.auxiliary.value(AT_PHDR);
  const Address program = address_in_program(pid, reader);
  const std::string root = process_folder(pid) + "/root";
  image.vdso_padding = padding_of_vdso(maps, reader);
  const bool may_have_moved = may_have_moved_text(maps);
  const Opener opener(pid, maps, reader, proof_for(store), descriptor);
  bool has_program = false;
  // The loader may have been executed, and told to run the program.
  const auto add = [&](const Candidate& group, Opened opened, bool is_program, bool is_executed) {
    has_program = has_program || is_program;
    std::vector<std::string> names = {file_name(opened.path)};
    if (is_program && is_executed) {
      const std::string started_as = executable_name(image.auxiliary, reader);
      if (!started_as.empty() && started_as != names[0]) names.insert(names.begin(), started_as);
    }
    if (is_unwinder(names.back())) image.maps_unwinder = true;
    if (!opened.elf) {
      image.unreadable.push_back({names, opened.elf.error()});
      return;
    }
    if (opened.is_from_memory) image.replaced.push_back(names[0]);
    Object::OwnPages pages;
    if (opened.is_certain)
      pages = [pid,
               mapped = mapped_as_in_file(maps, group, *opened.elf, opened.bias)](Range range) {
        const bool is_mapped = std::any_of(mapped.begin(), mapped.end(),
                                           [&](Range one) { return one.contains(range); });
        return is_mapped ? own_pages(pid, range) : std::nullopt;
      };
    auto object = std::make_unique<Object>(*std::move(opened.elf), opened.bias, std::move(names),
                                           opened.path, root, reader, store, std::move(pages));
    if (is_program)
      image.objects.insert(image.objects.begin(), std::move(object));
    else
      image.objects.push_back(std::move(object));
  };
  for (const Candidate& group : group_by_file(maps)) {
    std::optional<Opened> opened;
    if (group.has_code())
      opened = opener.open(group);
    else if (may_have_moved)
      opened = opener.open_moved(group);
    if (!opened) continue;
    Range extent;
    if (opened->elf) extent = opened->elf->extent();
    const auto contains = [&](Address address) {
      return extent.contains(address - opened->bias) ||
             std::any_of(group.mappings.begin(), group.mappings.end(),
                         [&](const Mapping& one) { return one.range.contains(address); });
    };
    const bool is_program = contains(program), is_executed = contains(executed);
    add(group, *std::move(opened), is_program, is_executed);
  }
  if (!has_program && may_have_moved)
    if (auto moved = opener.open_moved_program(image.auxiliary.value(AT_ENTRY)))
      add({}, *std::move(moved), true, true);
  image.maps = std::move(maps);
  return image;
}

Result<ProcessImage, ElfError> load_file(const std::string& path, ObjectStore* store) {
  auto elf = ElfFile::open(path, ElfFile::Use::code, proof_for(store));
  if (!elf) return fail(elf.error());
  ProcessImage image;
  image.objects.push_back(std::make_unique<Object>(*std::move(elf), 0,
                                                   std::vector<std::string>{file_name(path)}, path,
                                                   "", MemoryReader(), store));
  return image;
}

}  // namespace pinprick::image
