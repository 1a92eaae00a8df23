// Names addresses in the code of a process, for people: the function, and how far into it.
//
// Reads the files of the objects when the first address is asked for, and an object's functions
// when the first address in it is. Reads only, and stops nothing. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/address.h"
#include "image/process.h"
#include "session/generated_names.h"
#include "target/memory.h"

namespace pinprick::session {

struct CodeName {
  std::string object;    // empty: no object's code, but some that the program has generated
  std::string function;  // empty: no name is known there
  uint64_t offset = 0;   // from the function's start
  Address address = 0;   // in the object's file; in the process if it is in no object
  std::string file;      // the path of the object

  // Such as main+0x1f, libfoo.so.1+0x3500, 0x7f0012345678.
  std::string text() const;
};

// Names an address of an object's code in the image. The function is the one at `within`. An
// address in an object's data has the variable there in its place.
CodeName name_code(const image::ProcessImage& image, Address address, Address within);

// Names the code of a process that may have ended, from the objects that it had, and from what its
// runtime tells of the code that it has generated. Not thread-safe.
class LoadedCode {
 public:
  explicit LoadedCode(pid_t pid) : generated_(std::make_shared<GeneratedNames>(pid)) {}

  // Keeps the objects of an image, which are newer than those that were added before.
  void add(std::shared_ptr<const image::ProcessImage> image);
  // The process, which has that number, has executed another program.
  void clear(pid_t pid);
  // Finds out whether its runtime lists generated code by now. To be called while it runs: what is
  // listed can be read after its end.
  void look() { generated_->open(); }
  // Searches the images from the last one to the first one, and then `own`.
  CodeName name(const image::ProcessImage& own, Address address, Address within) const;

 private:
  std::vector<std::shared_ptr<const image::ProcessImage>> images_;
  std::shared_ptr<GeneratedNames> generated_;  // a forked child has its parent's at first
};

class CodeNames {
 public:
  // The memory and the store must outlive this.
  CodeNames(pid_t pid, const target::Memory& memory, image::ObjectStore& store)
      : pid_(pid), memory_(memory), store_(store), generated_(pid) {}

  // Of the address to which a call returns. The call may be the last instruction of its function,
  // so the function is that of the byte before.
  const CodeName& of_return(Address address);
  const CodeName& of_instruction(Address address);

 private:
  CodeName find(Address address, Address within);

  pid_t pid_;
  const target::Memory& memory_;
  image::ObjectStore& store_;
  std::optional<image::ProcessImage> image_;
  std::map<Address, CodeName> returns_, instructions_;
  GeneratedNames generated_;
};

}  // namespace pinprick::session
