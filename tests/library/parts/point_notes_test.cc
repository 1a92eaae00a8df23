// Records of tracepoints in an object that lies about them.
#include "library/points/point_notes.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>

#include "base/address.h"
#include "pinprick/tracepoint.h"

namespace pinprick::library {
namespace {

struct Record {
  uint32_t name_size = 9, data_size = 12, kind = 1;
  std::array<char, 12> name = {'p', 'i', 'n', 'p', 'r', 'i', 'c', 'k'};
  int32_t to_site = 0, to_block = 0, to_point = 0;
};

// An object in memory: one segment for each kind of rights. Correct until a test changes it.
struct Object {
  struct Text {
    std::array<uint8_t, 64> code{};
  } text;
  struct Data {
    pinprick_point point = {};
    pinprick_point nameless = {};
  } data;
  struct Constants {
    std::array<char, 32> names = {'a', '\0', 'b', '\0', 'i', 'n', 't', '\0'};
  } constants;
  struct Notes {
    std::array<Record, 2> records;
  } notes;

  Object() {
    data.point.names = constants.names.data();
    data.point.types = constants.names.data() + 4;
    for (Record& record : notes.records) {
      lead(record.to_site, text.code.data());
      lead(record.to_block, text.code.data() + 32);
      lead(record.to_point, &data.point);
    }
  }

  static void lead(int32_t& distance, const void* to) {
    distance = static_cast<int32_t>(reinterpret_cast<intptr_t>(to) -
                                    reinterpret_cast<intptr_t>(&distance));
  }

  template <class T>
  ElfW(Phdr) segment(uint32_t type, uint32_t rights, const T& part) const {
    ElfW(Phdr) header = {};
    header.p_type = type;
    header.p_flags = rights;
    header.p_vaddr = reinterpret_cast<Address>(&part) - reinterpret_cast<Address>(this);
    header.p_memsz = sizeof part;
    header.p_align = 4;
    return header;
  }

  ObjectNotes read(const std::function<void(std::array<ElfW(Phdr), 5>&)>& change = {}) const {
    std::array<ElfW(Phdr), 5> segments = {
        segment(PT_LOAD, PF_R | PF_X, text), segment(PT_LOAD, PF_R | PF_W, data),
        segment(PT_LOAD, PF_R, constants), segment(PT_LOAD, PF_R, notes),
        segment(PT_NOTE, PF_R, notes)};
    if (change) change(segments);
    dl_phdr_info info = {};
    info.dlpi_addr = reinterpret_cast<Address>(this);
    info.dlpi_phdr = segments.data();
    info.dlpi_phnum = segments.size();
    return read_point_notes(info);
  }
};

// The second record is right in all tests.
void expect_only_second(const ObjectNotes& notes) {
  EXPECT_EQ(notes.bad_records, 1U);
  ASSERT_EQ(notes.points.size(), 1U);
  EXPECT_EQ(notes.points.begin()->second.sites.size(), 1U);
}

void expect_none(const ObjectNotes& notes) {
  EXPECT_TRUE(notes.points.empty());
}

TEST(PointNotes, are_read_from_an_object) {
  const Object object;
  const ObjectNotes notes = object.read();
  EXPECT_EQ(notes.bad_records, 0U);
  ASSERT_EQ(notes.points.size(), 1U);
  const auto& [address, point] = *notes.points.begin();
  EXPECT_EQ(address, reinterpret_cast<Address>(&object.data.point));
  EXPECT_EQ(point.provider, "a");
  EXPECT_EQ(point.name, "b");
  EXPECT_EQ(point.types, "int");
  ASSERT_EQ(point.sites.size(), 2U);
  EXPECT_EQ(point.sites[0].nop, reinterpret_cast<Address>(object.text.code.data()));
  EXPECT_EQ(point.sites[0].block, point.sites[0].nop + 32);
}

TEST(PointNotes, leave_out_a_site_outside_the_code) {
  Object object;
  Object::lead(object.notes.records[0].to_site, &object.data);
  expect_only_second(object.read());
}

TEST(PointNotes, leave_out_a_site_that_the_end_of_the_code_cuts) {
  Object object;
  Object::lead(object.notes.records[0].to_site, object.text.code.data() + 60);
  expect_only_second(object.read());
}

TEST(PointNotes, leave_out_a_block_outside_the_code) {
  Object object;
  Object::lead(object.notes.records[0].to_block, object.text.code.data() + 64);
  expect_only_second(object.read());
}

TEST(PointNotes, leave_out_a_point_that_cannot_be_written) {
  Object object;
  Object::lead(object.notes.records[0].to_point, &object.constants);
  expect_only_second(object.read());
}

TEST(PointNotes, leave_out_a_point_at_an_odd_address) {
  Object object;
  Object::lead(object.notes.records[0].to_point, reinterpret_cast<char*>(&object.data.point) + 4);
  expect_only_second(object.read());
}

TEST(PointNotes, leave_out_a_point_without_a_name) {
  Object object;
  Object::lead(object.notes.records[0].to_point, &object.data.nameless);
  expect_only_second(object.read());
}

TEST(PointNotes, leave_out_a_record_of_another_size_or_kind) {
  Object object;
  object.notes.records[0].kind = 77;
  expect_only_second(object.read());
}

TEST(PointNotes, take_no_names_that_do_not_end_in_the_object) {
  Object object;
  object.constants.names.fill('x');
  expect_none(object.read());
}

TEST(PointNotes, take_no_names_that_cannot_be_shown) {
  Object object;
  object.constants.names[0] = '\x1b';
  expect_none(object.read());
}

TEST(PointNotes, of_others_are_passed_over) {
  Object object;
  object.notes.records[0].name[0] = 'x';
  const ObjectNotes notes = object.read();
  EXPECT_EQ(notes.bad_records, 0U);
  EXPECT_EQ(notes.points.begin()->second.sites.size(), 1U);
}

TEST(PointNotes, end_where_a_size_leads_out_of_the_segment) {
  for (uint32_t Record::*size : {&Record::name_size, &Record::data_size})
    for (const uint32_t value : {0x1000U, 0x7fffffffU, 0xffffffffU}) {
      Object object;
      object.notes.records[0].*size = value;
      expect_none(object.read());
    }
}

TEST(PointNotes, are_not_read_outside_what_is_loaded) {
  const Object object;
  expect_none(object.read([](auto& segments) { segments[4].p_memsz += 1; }));
  expect_none(object.read([](auto& segments) { segments[4].p_vaddr = ~uint64_t{0} - 100; }));
  expect_none(object.read([](auto& segments) { segments[3].p_memsz = ~uint64_t{0}; }));
}

}  // namespace
}  // namespace pinprick::library
