#include "export/ctf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace pinprick::exports {
namespace {

using testing::HasSubstr;

constexpr ClockReading kNow = {5, 2'000'000'000, 1'700'000'000'123'456'789};

struct Packet {
  uint32_t magic = 0, stream = 0;
  uint64_t begin = 0, end = 0, content_bits = 0, packet_bits = 0, discarded = 0;
};

std::vector<Packet> packets_of(std::string stream) {
  std::vector<Packet> all;
  while (!stream.empty()) {
    Packet one;
    static_assert(sizeof one == 48);
    std::memcpy(&one, stream.data(), sizeof one);
    all.push_back(one);
    stream.erase(0, one.packet_bits / 8);
  }
  return all;
}

CtfTrace::Event event(std::string_view name, uint64_t time_ns, const CtfFields& fields) {
  static const std::string context = ctf_context({7, 8, "program", "thread"}, 1);
  return {name, time_ns, context, fields.encoded()};
}

TEST(Ctf, DescribesAClassOfEventsOnce) {
  CtfTrace trace(kNow, "pinprick trace f");
  EXPECT_THAT(trace.take_metadata(), HasSubstr("offset_s = 1699999998;"));
  CtfFields number, text;
  number.add("$arg1", uint64_t{3});
  text.add("$arg1", "unread");
  trace.add(event("f", 10, number));
  EXPECT_THAT(trace.take_metadata(), HasSubstr("uint64_t _arg1;"));
  trace.add(event("f", 11, number));
  EXPECT_EQ(trace.take_metadata(), "");
  trace.add(event("f", 12, text));
  EXPECT_THAT(trace.take_metadata(), HasSubstr("string _arg1;"));
}

TEST(Ctf, NamesThatArePartsOfItsLanguageDoNotEndTheDescription) {
  CtfTrace trace(kNow, "a \"b\"\n\\");
  EXPECT_THAT(trace.take_metadata(), HasSubstr(R"(command_line = "a \"b\"?\\";)"));
  CtfFields fields;
  fields.add("s->len; };", uint64_t{1});
  fields.add("s->len; };", uint64_t{2});
  fields.add("struct", int64_t{-1});
  trace.add(event("operator\"\" }", 10, fields));
  const std::string added = trace.take_metadata();
  EXPECT_THAT(added, HasSubstr("uint64_t _s__len____;"));
  EXPECT_THAT(added, HasSubstr("uint64_t _s__len_____2;"));
  EXPECT_THAT(added, HasSubstr("int64_t _struct;"));
  EXPECT_THAT(added, HasSubstr(R"(name = "operator\"\" }";)"));
}

TEST(Ctf, ATextEndsWithItsOnlyZero) {
  CtfFields fields;
  fields.add("t", std::string_view("a\0b", 3));
  EXPECT_EQ(fields.encoded().values, std::string("a\xef\xbf\xbd"
                                                 "b\0",
                                                 6));
}

TEST(Ctf, FieldsAndContextsSurvivePacking) {
  CtfFields fields;
  fields.add("n", uint64_t{0});
  fields.add("t", "x");
  const std::string context = ctf_context({7, 8, "program", "thread"}, std::nullopt);
  const std::string packed = packed_event(context, fields.packed());
  const auto [found_context, found_fields] = unpacked_event(packed);
  EXPECT_EQ(found_context, context);
  const CtfFields::Encoded encoded = CtfFields::unpacked(found_fields);
  EXPECT_EQ(encoded.declarations, fields.encoded().declarations);
  EXPECT_EQ(encoded.values, fields.encoded().values);
}

TEST(Ctf, PacketsFollowEachOtherInTimeAndSayWhatIsMissing) {
  CtfTrace trace(kNow, "");
  CtfFields fields;
  fields.add("t", std::string(1000, 'x'));
  std::string stream;
  for (uint64_t i = 0; i < 200; ++i) stream += trace.add(event("f", 3'000'000'000 + i, fields));
  // One that comes late would make readers refuse the stream.
  stream += trace.add(event("f", 5, fields));
  stream += trace.finish(42);
  const std::vector<Packet> packets = packets_of(stream);
  ASSERT_GE(packets.size(), 4u);
  uint64_t last = 0;
  for (const Packet& one : packets) {
    EXPECT_EQ(one.magic, 0xc1fc1fc1);
    EXPECT_EQ(one.content_bits, one.packet_bits);
    EXPECT_LE(last, one.begin);
    EXPECT_LE(one.begin, one.end);
    EXPECT_EQ(one.discarded, &one == &packets.back() ? 42u : 0u);
    last = one.end;
  }
  EXPECT_EQ(last, 3'000'000'199u);
}

TEST(Ctf, OfMoreKindsOfEventsThanAnyProgramHasAreWithoutFields) {
  CtfTrace trace(kNow, "");
  CtfFields fields;
  fields.add("n", uint64_t{1});
  constexpr int kKinds = 65'536;
  for (int i = 0; i < kKinds; ++i) trace.add(event("f" + std::to_string(i), 3'000'000'000, fields));
  EXPECT_THAT(trace.take_metadata(), HasSubstr(R"(name = "f65535";)"));
  for (const char* const name : {"one", "another"}) trace.add(event(name, 3'000'000'000, fields));
  const std::string added = trace.take_metadata();
  EXPECT_THAT(added, HasSubstr("name = \"(other)\";\n  id = 65536;"));
  EXPECT_THAT(added, HasSubstr("fields := struct {\n  };"));
  EXPECT_EQ(added.find("another"), added.npos);
  trace.add(event("f0", 3'000'000'000, fields));
  EXPECT_EQ(trace.take_metadata(), "");
}

TEST(Ctf, OfNoEventsHasAPacketStill) {
  CtfTrace trace(kNow, "");
  EXPECT_EQ(packets_of(trace.finish(0)).size(), 1u);
  EXPECT_EQ(packets_of(CtfTrace(kNow, "").finish(3)).size(), 2u);
}

}  // namespace
}  // namespace pinprick::exports
