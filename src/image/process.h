// The objects of a process: what is mapped executable, with the ELF file behind it.
//
// The bytes in memory are the truth. The file is opened through /proc/PID/map_files, which is the
// one that was mapped even if its name is gone or means another file by now; without the right to
// do so by path below /proc/PID/root, if it is still the same file. Where neither can be had, the
// object is read from memory: then it has dynamic symbols and unwind tables only.
#pragma once

#include <sys/types.h>

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

struct ProcessImage {
  std::vector<std::unique_ptr<Object>> objects;  // the executable first
  std::vector<UnreadableObject> unreadable;      // mapped executable from a file, but no ELF to us
  std::vector<std::string> replaced;  // read from memory, since the file is not to be had
  bool maps_unwinder = false;         // libgcc_s, libunwind, or a C++ runtime
  std::vector<Mapping> maps;          // of the process; empty: it is a file
  std::vector<Range> taken;           // text that others' probes have changed, by address
  Range vdso_padding;                 // zeros from the end of the vDSO to the end of its last page

  Object* object_at(Address code) const;
  std::vector<Range> executable_ranges() const;  // of all objects
};

// `reader` reads the memory of the process. `store`: where values of objects are kept; null, or it
// outlives the image. Fails only when its maps cannot be read.
Result<ProcessImage, SystemError> load_process(pid_t pid, const MemoryReader& reader,
                                               ObjectStore* store = nullptr);

// The name that the program was started by (AT_EXECFN), or empty.
std::string executable_name(pid_t pid, const MemoryReader& reader);

// A file that is not running; its only object is it.
Result<ProcessImage, ElfError> load_file(const std::string& path, ObjectStore* store = nullptr);

// The value of an entry of the auxiliary vector; 0: none.
uint64_t auxiliary_value(pid_t pid, uint64_t type);

}  // namespace pinprick::image
