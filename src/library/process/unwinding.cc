#include "library/process/unwinding.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "arch/stub.h"
#include "image/elf/debugger_file.h"
#include "library/process/debugger.h"
#include "library/process/loaded_object.h"
#include "library/process/loader_state.h"
#include "library/process/looked_up.h"
#include "placement/hidden_unwinder.h"

namespace pinprick::library {
namespace {

struct Covered {
  Range code;
  arch::RangeKind kind = {};
  // The header, and the table to which it leads.
  std::vector<uint8_t> bytes;
  const arch::RangeHeader* header() const {
    return reinterpret_cast<const arch::RangeHeader*>(bytes.data());
  }
  std::span<const uint8_t> table() const {
    return std::span(bytes).subspan(sizeof(arch::RangeHeader));
  }
};

// By address.
using Directory = std::vector<const Covered*>;

std::atomic<const Directory*> directory;

// Unwinders whose functions are known. None is ever removed: one that was unloaded makes no calls.
struct Unwinder {
  Range code;
  layout::UnwinderTable functions;  // without a `landing`
};
std::array<Unwinder, 16> unwinders;
std::atomic<size_t> known_unwinders;

// The loader's own, to which imports have led before they were led to us.
struct Loader {
  decltype(&::_dl_find_object) find_object = looked_up(&::_dl_find_object, "_dl_find_object");
  decltype(&::dl_iterate_phdr) list_objects = looked_up(&::dl_iterate_phdr, "dl_iterate_phdr");
};
const Loader& loader() {
  static const Loader functions;
  return functions;
}

[[gnu::constructor]] void look_up_loader() {
  static_cast<void>(loader());
}

link_map* own_object;  // this library's; unwinders are told that emitted code belongs to it

const Covered* covered_at(Address pc) {
  const Directory* all = directory.load(std::memory_order_acquire);
  if (all == nullptr) return nullptr;
  const auto after =
      std::upper_bound(all->begin(), all->end(), pc,
                       [](Address at, const Covered* one) { return at < one->code.begin; });
  if (after == all->begin()) return nullptr;
  const Covered* const found = *std::prev(after);
  return found->code.contains(pc) ? found : nullptr;
}

int find_object(void* pc, dl_find_object* result) {
  const Covered* const found = covered_at(reinterpret_cast<Address>(pc));
  if (found == nullptr) return loader().find_object(pc, result);
  *result = {};
  result->dlfo_map_start = reinterpret_cast<void*>(found->code.begin);
  result->dlfo_map_end = reinterpret_cast<void*>(found->code.end);
  result->dlfo_link_map = own_object;
  result->dlfo_eh_frame = const_cast<arch::RangeHeader*>(found->header());
  return 0;
}

// One look-up by an unwinder that goes through all objects.
struct LookUp {
  int (*callback)(dl_phdr_info*, size_t, void*);
  void* argument;
  const Covered* covered;
  int answer = 0;

  // The numbers of loaded and unloaded objects are those of `other`, or unwinders would drop their
  // caches. The segments are the code; its table, as nongnu's libunwind looks for that in segments
  // only; and the header.
  void show(const dl_phdr_info& other) {
    const auto at = reinterpret_cast<Address>(covered->header());
    const auto segment = [](uint32_t type, uint32_t flags, Address begin, uint64_t size) {
      ElfW(Phdr) one{};
      one.p_type = type;
      one.p_flags = flags;
      one.p_vaddr = begin;
      one.p_memsz = size;
      return one;
    };
    const std::array<ElfW(Phdr), 3> segments = {
        segment(PT_LOAD, PF_R | PF_X, covered->code.begin, covered->code.size()),
        segment(PT_LOAD, PF_R, at, covered->header()->entry_distance + 1),
        segment(PT_GNU_EH_FRAME, PF_R, at, sizeof(arch::RangeHeader))};
    dl_phdr_info info{};
    info.dlpi_name = "[pinprick]";
    info.dlpi_phdr = segments.data();
    info.dlpi_phnum = segments.size();
    info.dlpi_adds = other.dlpi_adds;
    info.dlpi_subs = other.dlpi_subs;
    answer = callback(&info, sizeof info, argument);
  }
};

const Unwinder* unwinder_at(Address code) {
  for (size_t i = known_unwinders.load(std::memory_order_acquire); i-- > 0;)
    if (unwinders[i].code.contains(code)) return &unwinders[i];
  return nullptr;
}

// The covered code for which a callback's argument asks, if the callback is an unwinder's: then the
// argument lies on the stack, and the address is one of its first three words. If the caller is not
// a known unwinder, nothing is read past the end of a page.
const Covered* asked_for(const void* argument, bool is_known) {
  constexpr Address kNear = 65536;
  constexpr size_t kWords = 3;
  const auto at = reinterpret_cast<Address>(argument);
  const auto stack = reinterpret_cast<Address>(__builtin_frame_address(0));
  if (at - stack >= kNear) return nullptr;
  if (!is_known && at % kPageSize + kWords * sizeof(Address) > kPageSize) return nullptr;
  for (size_t i = 0; i < kWords; ++i) {
    Address word = 0;
    std::memcpy(&word, reinterpret_cast<const uint8_t*>(at) + i * sizeof word, sizeof word);
    if (const Covered* const found = covered_at(word)) return found;
  }
  return nullptr;
}

// Shows one more object to an unwinder that looks for an address of ours and does not find it. This
// is done within the loader's function, as unwinders rely on its lock.
int list_objects(int (*callback)(dl_phdr_info*, size_t, void*), void* argument) {
  const auto caller = reinterpret_cast<Address>(__builtin_return_address(0));
  const Covered* const found = asked_for(argument, unwinder_at(caller) != nullptr);
  // A tail call: a hook of an attached session looks at its caller, which then is the unwinder.
  if (found == nullptr) return loader().list_objects(callback, argument);
  if (const int answer = loader().list_objects(callback, argument); answer != 0) return answer;
  LookUp look_up = {callback, argument, found};
  loader().list_objects(
      [](dl_phdr_info* info, size_t, void* out) {
        static_cast<LookUp*>(out)->show(*info);
        return 1;
      },
      &look_up);
  return look_up.answer;
}

template <class F>
Address entry_of(F* function) {
  return reinterpret_cast<Address>(function);
}

bool is_whole(const layout::UnwinderTable& functions) {
  return functions.get_ip != 0 && functions.set_gr != 0 && functions.set_ip != 0 &&
         functions.resume != 0;
}

void note_unwinder(const Unwinder& unwinder) {
  const size_t count = known_unwinders.load(std::memory_order_relaxed);
  const Unwinder* const known = unwinder_at(unwinder.code.begin);
  const layout::UnwinderTable& functions = unwinder.functions;
  if (!is_whole(functions)) return;
  if (known != nullptr && known->code == unwinder.code &&
      known->functions.get_ip == functions.get_ip && known->functions.resume == functions.resume)
    return;
  if (count == unwinders.size()) return;
  unwinders[count] = unwinder;
  known_unwinders.store(count + 1, std::memory_order_release);
}

layout::UnwinderTable own_functions() {
  return {entry_of(&_Unwind_GetIP), entry_of(&_Unwind_SetGR), entry_of(&_Unwind_SetIP),
          entry_of(&_Unwind_Resume), 0};
}

// The table, by a function that returns the address of each name.
template <class F>
layout::UnwinderTable functions_by(F&& address) {
  return {address("_Unwind_GetIP"), address("_Unwind_SetGR"), address("_Unwind_SetIP"),
          address("_Unwind_Resume"), 0};
}

constexpr std::string_view kFindObject = "_dl_find_object", kListObjects = "dl_iterate_phdr";

bool is_own_unwinder(const LoadedObject& object) {
  return object.extent().contains(own_functions().get_ip);
}

// To be called within dl_iterate_phdr, so that the object is not unloaded meanwhile.
void tell_unwinder(const LoadedObject& object, bool is_program) {
  const bool is_own = is_own_unwinder(object);
  if (!is_own && !is_program && !object.is_library("libgcc_s.so") &&
      !object.is_library("libunwind.so"))
    return;
  if (is_own)
    note_unwinder({object.extent(), own_functions()});
  else
    note_unwinder({object.extent(), functions_by([&](std::string_view name) {
                     return object.definition_of(name);
                   })});
  lead(object.import_of(kFindObject), entry_of(&find_object));
  lead(object.import_of(kListObjects), entry_of(&list_objects));
}

// Which functions of the loader the program and this library's unwinder use.
struct Asking {
  std::optional<Range> program;
  bool program_finds = false, program_lists = false, own_lists = false;
  bool is_own_in_program = false;

  Asking() {
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* self) {
          static_cast<Asking*>(self)->look_at(LoadedObject(*info));
          return 0;
        },
        this);
  }
  void look_at(const LoadedObject& object) {
    if (is_own_unwinder(object)) own_lists = object.import_of(kListObjects) != nullptr;
    if (program) return;
    program = object.extent();
    program_lists = object.import_of(kListObjects) != nullptr;
    program_finds = object.import_of(kFindObject) != nullptr;
    is_own_in_program = is_own_unwinder(object);
  }
};

struct Prepared {
  Prepared() {
    dl_find_object found;
    if (::_dl_find_object(reinterpret_cast<void*>(&find_object), &found) == 0)
      own_object = found.dlfo_link_map;
    // After an unwinder has used its pointer once, the loader does not set it again.
    _Unwind_Backtrace([](_Unwind_Context*, void*) { return _URC_NO_REASON; }, nullptr);
  }
};

std::vector<std::unique_ptr<Covered>>& all_covered() {
  static auto* const all = new std::vector<std::unique_ptr<Covered>>;
  return *all;
}

void tell_debuggers(const Directory& all) {
  std::vector<image::EmittedCode> code;
  std::vector<uint8_t> tables;
  for (const Covered* one : all) {
    code.push_back({one->code, one->kind});
    // Each table ends with a terminator, of which only the last one stays.
    if (!tables.empty()) tables.resize(tables.size() - sizeof(uint32_t));
    const auto table = one->table();
    tables.insert(tables.end(), table.begin(), table.end());
  }
  show_debuggers(image::debugger_file(code, tables));
}

}  // namespace

void cover(Range code, arch::RangeKind kind, const EmitUnwindTable& emit) {
  auto covered = std::make_unique<Covered>();
  covered->code = code;
  covered->kind = kind;
  arch::Assembler table(0);
  const arch::UnwindTable at = emit(table);
  const std::vector<uint8_t> bytes = *table.finish();
  covered->bytes.resize(sizeof(arch::RangeHeader));
  covered->bytes.insert(covered->bytes.end(), bytes.begin(), bytes.end());
  const auto memory = reinterpret_cast<Address>(covered->bytes.data());
  const auto header =
      arch::range_header(memory, code.begin, memory + sizeof(arch::RangeHeader) + at.fde);
  std::memcpy(covered->bytes.data(), &header, sizeof header);
  all_covered().push_back(std::move(covered));
}

void tell_unwinders() {
  static auto* const former = new std::vector<std::unique_ptr<const Directory>>;
  const auto& all = all_covered();
  const Directory* const known = directory.load(std::memory_order_relaxed);
  if (known == nullptr || known->size() != all.size()) {
    auto next = std::make_unique<Directory>();
    for (const auto& one : all) next->push_back(one.get());
    std::sort(next->begin(), next->end(),
              [](const Covered* a, const Covered* b) { return a->code.begin < b->code.begin; });
    directory.store(next.get(), std::memory_order_release);
    tell_debuggers(*next);
    former->push_back(std::move(next));
  }
  static const Prepared prepared;
  bool is_first = true;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* first) {
        const bool is_program = std::exchange(*static_cast<bool*>(first), false);
        // The loader would set its imports, or add to them, afterwards.
        if (is_relocated(*info)) tell_unwinder(LoadedObject(*info), is_program);
        return 0;
      },
      &is_first);
}

bool can_tell_unwinders() {
  static const bool can = [] {
    const Asking asking;
    return !asking.is_own_in_program || asking.program_finds || asking.program_lists;
  }();
  return can;
}

void know_program(image::Object& program) {
  const Asking asking;
  if (!asking.program_finds && !asking.program_lists) return;
  const auto functions = functions_by([&](std::string_view wanted) -> Address {
    const image::FunctionTable& table = program.functions();
    for (const image::Function& function : table.functions())
      for (std::string_view name : table.names(function))
        if (name == wanted) return function.range.begin + program.bias();
    return 0;
  });
  const auto hidden = is_whole(functions) ? std::nullopt : placement::find_hidden_unwinder(program);
  if (is_whole(functions))
    note_unwinder({*asking.program, functions});
  else if (hidden && hidden->functions)
    note_unwinder({*asking.program, *hidden->functions});
  else if (!asking.program_lists && !asking.own_lists)
    note_unwinder({*asking.program, own_functions()});
}

_Unwind_Reason_Code land(const void* unwinder, _Unwind_Exception* exception,
                         _Unwind_Context* context, Range slot_code, layout::Slot* slots,
                         const uint8_t* landing) {
  const Unwinder* const known = unwinder_at(reinterpret_cast<Address>(unwinder));
  if (known == nullptr) return _URC_CONTINUE_UNWIND;
  const auto get_ip = reinterpret_cast<decltype(&_Unwind_GetIP)>(known->functions.get_ip);
  const auto set_gr = reinterpret_cast<decltype(&_Unwind_SetGR)>(known->functions.set_gr);
  const auto set_ip = reinterpret_cast<decltype(&_Unwind_SetIP)>(known->functions.set_ip);
  const uint64_t offset = get_ip(context) - slot_code.begin;
  // If the thread is cancelled while it returns from the slot, its stack is not as the landing pad
  // needs it.
  if (offset % arch::kSlotCodeSize > arch::kSlotReturn) return _URC_CONTINUE_UNWIND;
  layout::Slot& slot = slots[offset >> PP_SLOT_CODE_SIZE_LOG2];
  // The copy is not needed after the call; the slot's time may be (slots.S).
  slot.copy = reinterpret_cast<uint64_t>(&known->functions);
  constexpr int kRax = 0, kRdx = 1;  // by DWARF's numbers
  set_gr(context, kRax, reinterpret_cast<uint64_t>(exception));
  set_gr(context, kRdx, reinterpret_cast<uint64_t>(&slot));
  set_ip(context, reinterpret_cast<uint64_t>(landing));
  return _URC_INSTALL_CONTEXT;
}

}  // namespace pinprick::library
