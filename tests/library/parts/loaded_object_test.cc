// The names of an object whose dynamic section the loader has relocated, or has not, or that lies.
#include "library/process/loaded_object.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace pinprick::library {
namespace {

// An object in memory, which imports one function and defines another one. Correct until a test
// changes it.
struct Object {
  ElfW(Ehdr) header = {};  // so that no table is at its start
  std::array<char, 32> names = {};
  std::array<ElfW(Sym), 3> symbols = {};  // none, imported, defined
  std::array<ElfW(Rela), 1> relocations = {};
  // One chain; the first symbol in it is 2; one word of a filter; the chain's start; its hash.
  struct {
    std::array<uint32_t, 4> head = {1, 2, 1, 0};
    uint64_t filter = 0;
    uint32_t start = 2;
    uint32_t hash = 0;
  } hash;
  Address import = 0;
  std::array<ElfW(Dyn), 8> dynamic = {};

  Object() {
    constexpr const char* kImported = "imported";
    constexpr const char* kDefined = "defined";
    std::strcpy(names.data() + 1, kImported);
    std::strcpy(names.data() + 10, kDefined);
    symbols[1].st_name = 1;
    symbols[2].st_name = 10;
    symbols[2].st_value = 0x40;
    relocations[0].r_offset = offset_of(import);
    relocations[0].r_info = ELF64_R_INFO(uint64_t{1}, uint64_t{R_X86_64_GLOB_DAT});
    uint32_t value = 5381;
    for (char c : std::string_view(kDefined)) value = value * 33 + static_cast<uint8_t>(c);
    hash.hash = value | 1;
    dynamic = {{{DT_SYMTAB, {offset_of(symbols)}},
                {DT_STRTAB, {offset_of(names)}},
                {DT_STRSZ, {sizeof names}},
                {DT_RELA, {offset_of(relocations)}},
                {DT_RELASZ, {sizeof relocations}},
                {DT_GNU_HASH, {offset_of(hash)}},
                {DT_NULL, {0}}}};
  }

  template <class T>
  Address offset_of(const T& part) const {
    return reinterpret_cast<Address>(&part) - base();
  }
  Address base() const { return reinterpret_cast<Address>(this); }
  ElfW(Dyn) & entry(int64_t tag) {
    for (ElfW(Dyn) & one : dynamic)
      if (one.d_tag == tag) return one;
    return dynamic.back();
  }
  // As the loader does where the section can be written.
  void relocate() {
    for (const int64_t tag : {DT_SYMTAB, DT_STRTAB, DT_RELA, int{DT_GNU_HASH}})
      entry(tag).d_un.d_ptr += base();
  }

  // Calls f with the object as it is now.
  void look(uint32_t rights_of_dynamic, const std::function<void(const LoadedObject&)>& f) const {
    std::array<ElfW(Phdr), 2> segments = {};
    segments[0].p_type = PT_LOAD;
    segments[0].p_flags = PF_R | PF_W;
    segments[0].p_memsz = sizeof *this;
    segments[1].p_type = PT_DYNAMIC;
    segments[1].p_flags = rights_of_dynamic;
    segments[1].p_vaddr = offset_of(dynamic);
    segments[1].p_memsz = sizeof dynamic;
    dl_phdr_info info = {};
    info.dlpi_addr = base();
    info.dlpi_name = "object";
    info.dlpi_phdr = segments.data();
    info.dlpi_phnum = segments.size();
    f(LoadedObject(info));
  }
  void expect_names(uint32_t rights_of_dynamic) {
    look(rights_of_dynamic, [&](const LoadedObject& object) {
      EXPECT_EQ(object.import_of("imported"), &import);
      EXPECT_EQ(object.definition_of("defined"), base() + 0x40);
      EXPECT_EQ(object.import_of("defined"), nullptr);
      EXPECT_EQ(object.definition_of("imported"), 0u);
    });
  }
  void expect_none() const {
    look(PF_R, [](const LoadedObject& object) {
      EXPECT_EQ(object.import_of("imported"), nullptr);
      EXPECT_EQ(object.definition_of("defined"), 0u);
    });
  }
};

TEST(LoadedObject, has_names_where_the_loader_has_relocated_its_dynamic_section) {
  Object object;
  object.relocate();
  object.expect_names(PF_R | PF_W);
}

TEST(LoadedObject, has_names_where_its_dynamic_section_cannot_be_written) {
  Object object;
  object.expect_names(PF_R);
}

TEST(LoadedObject, has_no_names_where_a_table_lies_elsewhere) {
  for (const int64_t tag : {DT_SYMTAB, DT_STRTAB}) {
    Object object;
    object.entry(tag).d_un.d_ptr = 0x7fff'ffff'0000;
    object.expect_none();
  }
  Object object;
  object.entry(DT_RELA).d_un.d_ptr = object.entry(DT_GNU_HASH).d_un.d_ptr = 0x7fff'ffff'0000;
  object.expect_none();
}

TEST(LoadedObject, has_no_names_where_a_table_ends_elsewhere) {
  Object object;
  object.entry(DT_STRSZ).d_un.d_val = object.entry(DT_RELASZ).d_un.d_val = uint64_t{1} << 40;
  object.expect_none();
}

TEST(LoadedObject, has_no_names_without_tables) {
  Object object;
  object.dynamic[0].d_tag = DT_NULL;
  object.expect_none();
}

TEST(LoadedObject, leaves_out_names_and_imports_that_lie_elsewhere) {
  Object object;
  object.symbols[1].st_name = object.symbols[2].st_name = 0x7fff'ffff;
  object.expect_none();
  for (const Address offset : {Address{1} << 40, ~Address{0}, Address{sizeof object} - 4}) {
    Object other;
    other.relocations[0].r_offset = offset;
    other.look(
        PF_R, [](const LoadedObject& loaded) { EXPECT_EQ(loaded.import_of("imported"), nullptr); });
  }
}

TEST(LoadedObject, has_a_hash_table_that_is_not_read_beyond_the_object) {
  for (const size_t changed : {0, 2}) {
    Object object;
    object.hash.head[changed] = 0x7fff'ffff;
    object.look(PF_R,
                [](const LoadedObject& loaded) { EXPECT_EQ(loaded.definition_of("defined"), 0u); });
  }
  Object object;
  object.hash.start = 0x7fff'ffff;
  object.look(PF_R,
              [](const LoadedObject& loaded) { EXPECT_EQ(loaded.definition_of("defined"), 0u); });
}

}  // namespace
}  // namespace pinprick::library
