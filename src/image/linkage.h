// Where the pointers of a process lead through which its objects jump to functions of each other.
//
// Code reaches a function of another object through a pointer that the loader fills in (an entry of
// the global offset table), mostly by way of a stub (the procedure linkage table). What a pointer
// of a process holds is read from its memory. A pointer that is yet to be filled in gets one of the
// definitions of its name: the loader takes the first in an order that depends on how objects were
// loaded, so all of them are returned, of all versions. An IFUNC has as many as its resolver can
// return.
//
// The loader fills a pointer when it relocates the object, with what is there by then, or at the
// first use (lazy binding). What the program and the libraries that it was started with define
// comes before anything that is loaded later. So does what the object's own libraries define,
// unless a later one is loaded for all (RTLD_GLOBAL) and defines it once more. That is taken not to
// happen, as the object would then not find the functions that it was linked with. So only the
// target of a pointer that none of these defines is not known until its first use.
//
// Loads parts of objects lazily; not thread-safe. Addresses are the objects' own.
#pragma once

#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/address.h"
#include "image/elf/exports.h"
#include "image/object.h"
#include "image/process.h"

namespace pinprick::image {

// An address of code, in its object's own addresses.
struct CodeAddress {
  Object* object = nullptr;
  Address address = 0;

  friend bool operator==(const CodeAddress&, const CodeAddress&) = default;
};

struct LinkTargets {
  std::vector<CodeAddress> known;
  // The loader may yet have it lead to code that is not there, or it leads to code of no object.
  // Never of a pointer that the program itself writes: nothing is known of its values.
  bool may_lead_elsewhere = false;
};

class Linkage {
 public:
  // Of a file, or of objects without their process, no more is known than they have themselves.
  explicit Linkage(const ProcessImage& image);
  explicit Linkage(std::vector<Object*> objects);

  // Returns the targets of a pointer of the object. The reference is valid until the next call.
  const LinkTargets& targets(Object& object, Address pointer);

 private:
  // The object and all that it needs, as far as they are there.
  struct Needed {
    std::unordered_set<const Object*> objects;
    bool are_all_there = true;
  };
  struct Exported {
    Object* object = nullptr;
    Definition definition;
  };

  LinkTargets find_targets(Object& object, Address pointer);
  // Adds all functions of the name. Returns whether the loader takes one of these for `importer`,
  // whatever is loaded later.
  bool add_definitions(const Relocation& link, Object& importer, LinkTargets& targets);
  // Adds what an IFUNC's resolver can return: the functions whose addresses it takes.
  void add_results(Object& object, Address resolver, LinkTargets& targets);
  const std::vector<Exported>& definitions(std::string_view name);
  const Needed& needed_by(Object& object);
  Object* object_at(Address code) const;
  bool is_in_object(Address address) const;

  std::vector<Object*> objects_;
  std::vector<std::pair<Range, Object*>> code_;  // by address, in the process's addresses
  bool is_process_ = false;
  Range vdso_;
  std::unordered_map<Address, LinkTargets> targets_;  // by the pointer, in the process's addresses
  std::unordered_map<std::string_view, std::vector<Exported>> definitions_;
  std::unordered_multimap<std::string_view, Object*> by_name_;  // as others need them
  std::unordered_map<const Object*, Needed> needed_;
  bool is_in_resolver_ = false;
};

}  // namespace pinprick::image
