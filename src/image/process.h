// The objects of a process: what is mapped executable, with the ELF files.
//
// The bytes in memory are decisive. The file is opened through /proc/PID/map_files, which is the
// one that was mapped even if it has been unlinked or replaced. Without the right to do so it is
// opened by its path below /proc/PID/root, if that is still the same file. If neither works, the
// object is read from memory, and has dynamic symbols and unwind tables only.
#pragma once

#include <sys/types.h>

#include <compare>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "image/maps.h"
#include "image/object.h"

namespace pinprick::image {

struct UnreadableObject {
  std::vector<std::string> names;
  ElfError error;
};

// What the kernel has told the program of itself. It stays the same until the next execution.
class AuxiliaryVector {
 public:
  // Without entries if it cannot be read, or if the kernel has not set it yet.
  static AuxiliaryVector read(pid_t pid);
  // Returns the value of an entry; 0 if there is none.
  uint64_t value(uint64_t type) const;

 private:
  std::string bytes_;
};

struct FileNumber {
  uint64_t device = 0;
  uint64_t inode = 0;
  friend auto operator<=>(const FileNumber&, const FileNumber&) = default;
};

struct ProcessImage {
  std::vector<std::unique_ptr<Object>> objects;  // the executable first
  std::vector<UnreadableObject> unreadable;      // mapped executable, but not readable as ELF
  std::vector<std::string> replaced;  // objects read from memory: their file is not available
  bool maps_unwinder = false;         // has libgcc_s, libunwind, or a C++ runtime
  std::vector<Mapping> maps;          // of the process; empty for a file
  AuxiliaryVector auxiliary;          // of the process; without entries for a file
  std::vector<Range> taken;           // text that others' probes have changed, ascending
  // Stubs that earlier probes have left in the process, by the function that they lead to.
  std::map<Address, Address> kept_stubs;
  bool probes_itself = false;  // by libpinprick; known if it was asked for
  Range vdso_padding;          // zeros from the end of the vDSO to the end of its last page

  Object* object_at(Address code) const;
  // Object::calling_code() of all objects.
  std::vector<Range> calling_code() const;
  // Returns the file of which an object is mapped. Another name makes no other file of it. Returns
  // zeros if that is not known.
  FileNumber file_of(const Object& object) const;
};

// Returns the objects of a process, whose memory `reader` reads. `store` keeps values of objects;
// it is null, or outlives the image. `descriptor` says whether the files of objects stay open. If
// not, they are opened again through the folder of /proc that shows the process now
// (base/process_folder.h). Fails only if the maps cannot be read.
Result<ProcessImage, SystemError> load_process(
    pid_t pid, const MemoryReader& reader, ObjectStore* store = nullptr,
    ElfFile::Descriptor descriptor = ElfFile::Descriptor::kept);
// The same with maps that were read just before.
ProcessImage load_process(pid_t pid, std::vector<Mapping> maps, const MemoryReader& reader,
                          ObjectStore* store,
                          ElfFile::Descriptor descriptor = ElfFile::Descriptor::kept);

// Returns the name that the program was started by (AT_EXECFN), or empty.
std::string executable_name(const AuxiliaryVector& auxiliary, const MemoryReader& reader);

// Returns a file that is not running, as the only object.
Result<ProcessImage, ElfError> load_file(const std::string& path, ObjectStore* store = nullptr);

}  // namespace pinprick::image
