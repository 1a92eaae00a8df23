#include "placement/hooks.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>

#include "arch/known_code.h"
#include "arch/system_calls.h"
#include "arch/vfork_hook.h"
#include "image/pattern.h"
#include "placement/hidden_unwinder.h"

namespace pinprick::placement {
namespace {

// The functions of these names, in this order; nullptr if there is none.
template <size_t N>
std::array<const image::Function*, N> functions_of(image::Object& object,
                                                   const std::array<std::string_view, N>& wanted) {
  std::array<const image::Function*, N> found{};
  if (object.may_name_any(wanted)) std::ranges::copy(object.functions_named(wanted), found.begin());
  return found;
}

constexpr std::string_view kLlvmStep = "__unw_step";

// The functions of an unwinder that slots need; the one that is hooked in libgcc's; and two that
// only LLVM's and nongnu's have, which bring all of the others but ask the loader.
constexpr std::array<std::string_view, 7> kUnwinder = {
    "_Unwind_GetIP",    "_Unwind_SetGR", "_Unwind_SetIP",       "_Unwind_Resume",
    "_Unwind_Find_FDE", kLlvmStep,       "_ULx86_64_init_local"};
using FoundFunctions = std::array<const image::Function*, kUnwinder.size()>;

std::optional<layout::UnwinderTable> unwinder_functions(const image::Object& object,
                                                        const FoundFunctions& found) {
  layout::UnwinderTable table = {};
  uint64_t* const fields[] = {&table.get_ip, &table.set_gr, &table.set_ip, &table.resume};
  for (size_t i = 0; i < std::size(fields); ++i) {
    if (found[i] == nullptr) return std::nullopt;
    *fields[i] = found[i]->range.begin + object.bias();
  }
  return table;
}

// Does the unwinder ask the loader? LLVM's has an _Unwind_Find_FDE, too, but does not call it. A
// program with nongnu's may also have libgcc's.
bool asks_loader(const image::Object& object, const FoundFunctions& found) {
  const bool is_llvm = found[5] != nullptr, is_nongnu = found[6] != nullptr;
  return is_libunwind(object) || is_llvm || (is_nongnu && found[4] == nullptr);
}

constexpr std::string_view kFindObject = "_dl_find_object", kListObjects = "dl_iterate_phdr";

bool is_libc_or_musl(const image::Object& object) {
  return image::is_library(object.name(), "libc") || object.name().starts_with("ld-musl-") ||
         object.name().starts_with("libc.musl-");
}

// So the program is static, and its own C library.
bool has_no_c_library(const image::ProcessImage& image) {
  return std::none_of(image.objects.begin(), image.objects.end(),
                      [](const auto& object) { return is_libc_or_musl(*object); });
}

// Before glibc 2.34, libpthread has a vfork, too.
bool has_system_calls(const image::Object& object) {
  return is_libc_or_musl(object) || image::is_library(object.name(), "libpthread");
}

// The last function that starts at or before the address. The C library ends a function's unwind
// entry before a vfork's system call, since that returns on another stack. So without symbols the
// call lies after the function's end.
const image::Function* function_before(image::Object& object, Address address) {
  const auto& functions = object.functions().functions();
  const auto above = std::upper_bound(
      functions.begin(), functions.end(), address,
      [](Address at, const image::Function& function) { return at < function.range.begin; });
  if (above == functions.begin() || address >= std::prev(above)->limit) return nullptr;
  return &*std::prev(above);
}

void add_vforks(image::Object& object, std::vector<HookSite>& sites) {
  for (Address call : object.vforks())
    if (const auto* function = function_before(object, call))
      sites.push_back({&object, function, {Hook::Kind::vfork, {}, {}, 0}, call});
}

// Go's vfork has the number of the system call in memory, so it is found by name. Returns false if
// it is not found.
bool add_vfork_of_go(image::Object& object, std::vector<HookSite>& sites) {
  const auto found =
      functions_of<2>(object, {"syscall.rawVforkSyscall", "syscall.rawVforkSyscall.abi0"});
  for (const image::Function* function : found) {
    if (function == nullptr) continue;
    if (const auto offset = arch::find_system_call(object.code(*function))) {
      sites.push_back(
          {&object, function, {Hook::Kind::vfork, {}, {}, 0}, function->range.begin + *offset});
      return true;
    }
  }
  return false;
}

bool imports_table_lookup(image::Object& object) {
  constexpr std::string_view kLookups[] = {kFindObject, kListObjects};
  if (!object.elf().may_import_any(kLookups)) return false;  // its relocations are many
  const auto& relocations = object.relocations();
  return std::any_of(relocations.begin(), relocations.end(), [](const image::Relocation& one) {
    return one.symbol == kFindObject || one.symbol == kListObjects;
  });
}

// Objects of which symbols may name an unwinder: the program itself, libraries that are unwinders
// by their names, and those that have one linked into them, which need these functions of the
// loader.
std::vector<image::Object*> candidates(const image::ProcessImage& image) {
  std::vector<image::Object*> objects;
  for (size_t i = 0; i < image.objects.size(); ++i) {
    image::Object& object = *image.objects[i];
    const bool is_unwinder = image::is_library(object.name(), "libgcc_s") || is_libunwind(object);
    const auto may_have_own = [&] {
      return !is_libc_or_musl(object) && imports_table_lookup(object) &&
             object.may_name_any(kUnwinder);
    };
    if (i == 0 || is_unwinder || may_have_own()) objects.push_back(&object);
  }
  return objects;
}

struct Hidden {
  image::Object* object = nullptr;
  std::optional<HiddenUnwinder> unwinder;  // nullopt if it asks the loader, as LLVM's does
};

// Unwinders that symbols do not name, in a static program and in objects that call the functions of
// the loader that unwinders need.
std::vector<Hidden> hidden_unwinders(const image::ProcessImage& image) {
  std::vector<Hidden> all;
  const bool is_static = has_no_c_library(image);
  for (size_t i = 0; i < image.objects.size(); ++i) {
    image::Object& object = *image.objects[i];
    const bool may_be = (i == 0 && is_static) || imports_table_lookup(object);
    if (!may_be || is_libc_or_musl(object)) continue;
    const auto found = functions_of(object, kUnwinder);
    if (unwinder_functions(object, found) || asks_loader(object, found)) continue;
    if (auto unwinder = find_hidden_unwinder(object))
      all.push_back({&object, std::move(unwinder)});
    else if (looks_for_unwind_tables(object))
      all.push_back({&object, {}});
  }
  return all;
}

}  // namespace

bool is_libunwind(const image::Object& object) {
  return image::is_library(object.name(), "libunwind");
}

std::vector<HookSite> hook_sites(const image::ProcessImage& image, Search search) {
  std::vector<HookSite> sites;
  std::vector<arch::Unwinder> askers;
  for (image::Object* object : candidates(image)) {
    const auto found = functions_of(*object, kUnwinder);
    const auto functions = unwinder_functions(*object, found);
    const bool asks = asks_loader(*object, found);
    if (!functions && !asks) continue;
    if (asks)
      askers.push_back({object->extent(), functions, true});
    else if (found[4] != nullptr)
      sites.push_back({object, found[4], {Hook::Kind::unwinder, functions, {}, 0}, 0});
  }
  if (search == Search::by_code)
    for (const Hidden& one : hidden_unwinders(image)) {
      if (one.unwinder)
        sites.push_back({one.object,
                         one.unwinder->find_table,
                         {Hook::Kind::unwinder, one.unwinder->functions, {}, 0},
                         0});
      else
        askers.push_back({one.object->extent(), {}, false});
    }
  bool any_loader = false;
  for (size_t i = 0; i < image.objects.size(); ++i) {
    image::Object* const object = image.objects[i].get();
    // A static program is its own C library.
    if (i != 0 && !is_libc_or_musl(*object)) continue;
    const auto found = functions_of<2>(*object, {kFindObject, kListObjects});
    if (found[0] != nullptr)
      sites.push_back({object, found[0], {Hook::Kind::object_table, {}, askers, 0}, 0});
    if (found[1] != nullptr)
      sites.push_back({object, found[1], {Hook::Kind::object_list, {}, askers, 0}, 0});
    any_loader = any_loader || found[1] != nullptr;
  }
  const bool is_known = any_loader || !sites.empty();
  if (search == Search::by_code && !is_known && !image.objects.empty())
    if (const auto* function = find_object_list(*image.objects[0]))
      sites.push_back(
          {image.objects[0].get(), function, {Hook::Kind::object_list, {}, askers, 0}, 0});
  return sites;
}

std::vector<image::Object*> objects_with_vforks(const image::ProcessImage& image) {
  std::vector<image::Object*> objects;
  const bool has_c_library =
      std::any_of(image.objects.begin(), image.objects.end(),
                  [](const auto& object) { return is_libc_or_musl(*object); });
  for (size_t i = 0; i < image.objects.size(); ++i)
    // A static program is its own C library.
    if (has_system_calls(*image.objects[i]) || (i == 0 && !has_c_library))
      objects.push_back(image.objects[i].get());
  return objects;
}

std::optional<std::vector<HookSite>> vfork_sites(const image::ProcessImage& image) {
  std::vector<HookSite> sites;
  if (!image.objects.empty() && image.objects.front()->elf().is_go() &&
      !add_vfork_of_go(*image.objects.front(), sites))
    return std::nullopt;
  for (image::Object* object : objects_with_vforks(image)) add_vforks(*object, sites);
  if (sites.empty()) return std::nullopt;
  return sites;
}

std::vector<HookSite> exec_sites(const image::ProcessImage& image) {
  constexpr std::array<std::string_view, 3> kFunctions = {"execve", "execveat", "fexecve"};
  constexpr uint64_t kTidOfGlibc = 0x2d0, kTidOfMusl = 0x30;
  std::vector<HookSite> sites;
  for (size_t i = 0; i < image.objects.size(); ++i) {
    image::Object& object = *image.objects[i];
    const bool is_static_glibc =
        i == 0 && !is_libc_or_musl(object) && functions_of<1>(object, {"__libc_setup_tls"})[0];
    if (!is_libc_or_musl(object) && !is_static_glibc) continue;
    const bool is_musl = object.name().find("musl") != std::string::npos;
    std::set<Address> seen;
    for (const image::Function* function : functions_of(object, kFunctions)) {
      if (function == nullptr) continue;
      for (const size_t offset : arch::find_execs(object.code(*function)))
        if (const Address site = function->range.begin + offset; seen.insert(site).second)
          sites.push_back({&object,
                           function,
                           {Hook::Kind::exec, {}, {}, is_musl ? kTidOfMusl : kTidOfGlibc},
                           site});
    }
  }
  return sites;
}

bool has_own_calls(const image::Object& object) {
  return has_system_calls(object) || object.name().starts_with("ld-linux") ||
         image::is_library(object.name(), "ld");
}

namespace {

using Numbers = std::optional<std::vector<uint64_t>>;

// A system call in an object, in a known function. What looks like one elsewhere is data.
struct SystemCall {
  const image::Function* function = nullptr;
  Address at = 0;  // in the object's own addresses
  Numbers numbers;
};

// Calls `visit` for each, until it returns false. Returns false then, and if the code cannot be
// read, or makes system calls of the 32-bit kind.
template <class F>
bool for_each_system_call(image::Object& object, const F& visit) {
  std::vector<uint8_t> code;
  for (const image::Segment& segment : object.elf().segments()) {
    if (!segment.executable) continue;
    code.resize(segment.file_size);
    if (!object.elf().read({segment.offset, segment.file_size}, code)) return false;
    const auto function_at = [&](Address call) { return object.functions().find(call); };
    for (const size_t at : arch::find_old_call_bytes(code)) {
      const Address call = segment.range.begin + at;
      const image::Function* const function = function_at(call);
      if (function != nullptr &&
          arch::is_instruction(object.code(*function), call - function->range.begin))
        return false;
    }
    for (const size_t at : arch::find_system_call_bytes(code)) {
      const Address call = segment.range.begin + at;
      const image::Function* const function = function_at(call);
      if (function == nullptr) continue;
      auto numbers =
          arch::system_call_numbers(object.code(*function), call - function->range.begin);
      if (!visit(SystemCall{function, call, std::move(numbers)})) return false;
    }
  }
  return true;
}

}  // namespace

bool may_install_filters(image::Object& object) {
  return object.elf().is_go() || !for_each_system_call(object, [](const SystemCall& call) {
           return !arch::may_install_filter(call.numbers);
         });
}

bool may_unmap(image::Object& object) {
  return object.elf().is_go() || !for_each_system_call(object, [](const SystemCall& call) {
           return !arch::may_unmap(call.numbers);
         });
}

std::optional<std::vector<HookSite>> unmap_sites(const image::ProcessImage& image) {
  std::vector<HookSite> sites;
  const bool is_static = has_no_c_library(image);
  for (const auto& object : image.objects) {
    if (object->elf().is_go()) return std::nullopt;
    const bool is_c_library =
        is_static ? object == image.objects.front() : is_libc_or_musl(*object);
    const image::Function* const by_number =
        is_c_library ? functions_of<1>(*object, {"syscall"})[0] : nullptr;
    // A hook is in the way where calls wait that can be cancelled. None of those unmaps anything.
    const auto waits = [&](const SystemCall& call) {
      return !call.numbers && !arch::find_known_code(object->code(*call.function)).empty();
    };
    const bool all = for_each_system_call(*object, [&](const SystemCall& call) {
      if (call.function == by_number || !arch::may_unmap(call.numbers) || waits(call)) return true;
      HookSite site = {object.get(), call.function, {Hook::Kind::unmap, {}, {}, 0}, call.at};
      // Where the number is loaded is a better place: no thread waits there.
      const bool is_alone = call.numbers && call.numbers->size() == 1;
      if (is_alone && arch::has_number_before(object->code(*call.function),
                                              call.at - call.function->range.begin)) {
        site.hook.number = static_cast<uint32_t>(call.numbers->front());
        site.site -= arch::kNumberLength;
      }
      sites.push_back(std::move(site));
      return true;
    });
    if (!all) return std::nullopt;
  }
  return sites;
}

// The C library and its loader have their own calls, which do other things.
std::optional<std::vector<HookSite>> filter_sites(const image::ProcessImage& image) {
  std::vector<HookSite> sites;
  const bool is_static = has_no_c_library(image);
  for (size_t i = 0; i < image.objects.size(); ++i) {
    image::Object& object = *image.objects[i];
    const bool is_c_library = is_static ? i == 0 : is_libc_or_musl(object);
    if (is_c_library) {
      const auto found = functions_of<3>(object, {"prctl", "syscall", "ioctl"});
      if (object.elf().is_go()) return std::nullopt;
      // What a static program does not have, it cannot call. Without symbols, that is not known.
      const bool is_complete = is_static && !object.elf().symtab().empty();
      for (size_t call = 0; call < found.size(); ++call) {
        if (found[call] == nullptr && is_complete) continue;
        if (found[call] == nullptr) return std::nullopt;
        sites.push_back({&object,
                         found[call],
                         {.kind = Hook::Kind::filter,
                          .functions = {},
                          .askers = {},
                          .call = static_cast<Hook::Call>(call)},
                         0});
      }
    } else if (!has_own_calls(object) && may_install_filters(object)) {
      return std::nullopt;
    }
  }
  return sites;
}

bool may_unwind_elsewhere(const image::ProcessImage& image, const std::vector<HookSite>& sites) {
  if (image.objects.empty()) return false;
  // All other unwinders ask the loader.
  const bool is_hooked = std::any_of(sites.begin(), sites.end(), [](const HookSite& site) {
    return site.hook.kind == Hook::Kind::unwinder || site.hook.kind == Hook::Kind::object_list;
  });
  if (is_hooked) return false;
  if (image.maps_unwinder) return true;
  // With landing pads and no library that finds them, the program has an unwinder of its own.
  return may_run_landing_pads(*image.objects.front());
}

std::optional<HookSite> loader_site(const image::ProcessImage& image, Address notifies) {
  image::Object* object = image.object_at(notifies);
  if (object == nullptr) return std::nullopt;
  const image::Function* function = object->functions().find(notifies - object->bias());
  if (function == nullptr || function->range.begin != notifies - object->bias())
    return std::nullopt;
  return HookSite{object, function, {Hook::Kind::loader, {}, {}, 0}, 0};
}

UnwinderCode unwinder_code(const image::ProcessImage& image, Search search) {
  // The C++ names are LLVM's: it restores registers in a function of such a name.
  constexpr std::string_view kPrefixes[] = {"_Unwind_",   "unwind_phase2", "unw_",
                                            "__unw_",     "__libunwind_",  "_ZN9libunwind",
                                            "_ULx86_64_", "_Ux86_64_"};
  UnwinderCode code;
  for (image::Object* object : candidates(image)) {
    if (is_libunwind(*object)) {
      code.ranges.push_back(object->extent());
      continue;
    }
    std::set<Address> named;
    if (!object->may_name_any(kPrefixes)) continue;
    const image::FunctionTable& table = object->functions();
    for (const image::Function& function : table.functions())
      for (std::string_view name : table.names(function)) {
        if (std::none_of(std::begin(kPrefixes), std::end(kPrefixes),
                         [&](std::string_view begin) { return name.starts_with(begin); }))
          continue;
        named.insert(function.range.begin);
        if (name == kLlvmStep) code.has_llvm_inside = true;
      }
    const auto ranges = with_callees(*object, named);
    code.ranges.insert(code.ranges.end(), ranges.begin(), ranges.end());
  }
  if (search == Search::by_code)
    for (const Hidden& one : hidden_unwinders(image)) {
      if (one.unwinder)
        code.ranges.insert(code.ranges.end(), one.unwinder->code.begin(), one.unwinder->code.end());
      else
        code.has_llvm_inside = true;
    }
  return code;
}

}  // namespace pinprick::placement
