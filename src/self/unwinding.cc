#include "self/unwinding.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "image/debugger_file.h"
#include "image/maps.h"
#include "self/debugger.h"

extern "C" void __register_frame(void* table);  // NOLINT(bugprone-reserved-identifier)

namespace pinprick::self {
namespace {

using FindObject = int (*)(void* pc, dl_find_object* result);

struct Covered {
  Range code;
  arch::RangeKind kind = {};
  arch::RangeHeader header;
  std::vector<uint8_t> table;
  bool is_registered = false;
};

// By address.
using Directory = std::vector<const Covered*>;

std::atomic<const Directory*> directory;
link_map* own_object;  // of this library, which emitted code is said to belong to

const Covered* covered_at(Address pc) {
  const Directory* all = directory.load(std::memory_order_acquire);
  if (all == nullptr) return nullptr;
  const auto behind =
      std::upper_bound(all->begin(), all->end(), pc,
                       [](Address at, const Covered* one) { return at < one->code.begin; });
  if (behind == all->begin()) return nullptr;
  const Covered* const found = *std::prev(behind);
  return found->code.contains(pc) ? found : nullptr;
}

int find_object(void* pc, dl_find_object* result) {
  const Covered* const found = covered_at(reinterpret_cast<Address>(pc));
  if (found == nullptr) return ::_dl_find_object(pc, result);
  *result = {};
  result->dlfo_map_start = reinterpret_cast<void*>(found->code.begin);
  result->dlfo_map_end = reinterpret_cast<void*>(found->code.end);
  result->dlfo_link_map = own_object;
  result->dlfo_eh_frame = const_cast<arch::RangeHeader*>(&found->header);
  return 0;
}

// Where an object keeps the addresses of functions of others, by their name. Null: it uses none of
// that name. Of an object that cannot be unloaded.
FindObject* import_of(const link_map& object, std::string_view name) {
  std::array<Address, DT_NUM> dynamic{};
  for (const ElfW(Dyn)* entry = object.l_ld; entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag > 0 && entry->d_tag < DT_NUM)
      dynamic[static_cast<size_t>(entry->d_tag)] = entry->d_un.d_val;
  if (dynamic[DT_SYMTAB] == 0 || dynamic[DT_STRTAB] == 0) return nullptr;
  const auto* const symbols = reinterpret_cast<const ElfW(Sym)*>(dynamic[DT_SYMTAB]);
  const auto* const names = reinterpret_cast<const char*>(dynamic[DT_STRTAB]);
  const auto search = [&](Address table, uint64_t size) -> FindObject* {
    const auto* const first = reinterpret_cast<const ElfW(Rela)*>(table);
    for (const auto* one = first; one < first + size / sizeof *first; ++one) {
      const auto type = ELF64_R_TYPE(one->r_info);
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
      if (names + symbols[ELF64_R_SYM(one->r_info)].st_name == name)
        return reinterpret_cast<FindObject*>(object.l_addr + one->r_offset);
    }
    return nullptr;
  };
  FindObject* const lazy = search(dynamic[DT_JMPREL], dynamic[DT_PLTRELSZ]);
  return lazy != nullptr ? lazy : search(dynamic[DT_RELA], dynamic[DT_RELASZ]);
}

link_map* object_at(const void* address) {
  dl_find_object found;
  return ::_dl_find_object(const_cast<void*>(address), &found) == 0 ? found.dlfo_link_map : nullptr;
}

FindObject* import_of_object_at(const void* address) {
  const link_map* const object = object_at(address);
  return object == nullptr ? nullptr : import_of(*object, "_dl_find_object");
}

// The loader may have made the page read-only, once it had set all pointers in it.
bool lead_here(FindObject* import) {
  if (__atomic_load_n(import, __ATOMIC_RELAXED) == &find_object) return true;
  const auto at = reinterpret_cast<Address>(import);
  const auto maps = image::read_maps(::getpid());
  if (!maps) return false;
  const auto mapping = std::find_if(maps->begin(), maps->end(), [&](const image::Mapping& one) {
    return one.range.contains(at);
  });
  if (mapping == maps->end() || mapping->executable) return false;
  void* const page = reinterpret_cast<void*>(align_down(at, kPageSize));
  if (!mapping->writable && ::mprotect(page, kPageSize, PROT_READ | PROT_WRITE) != 0) return false;
  __atomic_store_n(import, &find_object, __ATOMIC_RELEASE);
  if (!mapping->writable) ::mprotect(page, kPageSize, PROT_READ);
  return true;
}

struct Unwinders {
  FindObject* own = nullptr;  // libgcc's; null: it does not ask
  FindObject* of_program = nullptr;

  Unwinders() {
    own_object = object_at(reinterpret_cast<const void*>(&find_object));
    // Once it has asked, the loader does not set its pointer any more.
    _Unwind_Backtrace([](_Unwind_Context*, void*) { return _URC_NO_REASON; }, nullptr);
    own = import_of_object_at(reinterpret_cast<const void*>(&_Unwind_Backtrace));
    of_program = import_of_object_at(reinterpret_cast<const void*>(::getauxval(AT_PHDR)));
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
    // The end of one is not that of all.
    if (!tables.empty()) tables.resize(tables.size() - sizeof(uint32_t));
    tables.insert(tables.end(), one->table.begin(), one->table.end());
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
  covered->table = *table.finish();
  covered->header = arch::range_header(reinterpret_cast<Address>(covered->table.data()) + at.fde);
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
  static const Unwinders unwinders;
  if (unwinders.of_program != nullptr) lead_here(unwinders.of_program);
  if (unwinders.own != nullptr && lead_here(unwinders.own)) return;
  for (const auto& one : all) {
    if (one->is_registered) continue;
    ::__register_frame(one->table.data());
    one->is_registered = true;
  }
}

}  // namespace pinprick::self
