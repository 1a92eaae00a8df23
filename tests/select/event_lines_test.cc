#include "select/event_lines.h"

#include <gtest/gtest.h>

#include <string>

namespace pinprick::select {
namespace {

using Cause = EventLineError::Cause;

// The program's code begins at 0x1000 in its file, and at 0x401000 in memory.
class Files : public EventFiles {
 public:
  Result<std::string, Cause> object_of(std::string_view path) override {
    if (path == "/usr/bin") return fail(Cause::no_regular_file);
    if (path.starts_with("/none")) return fail(Cause::file_not_found);
    return std::string(path.substr(path.rfind('/') + 1));
  }
  Result<uint64_t, Cause> address_of(std::string_view path, uint64_t offset) override {
    if (path.find('/') == path.npos) return fail(Cause::file_not_found);
    if (offset < 0x1000) return fail(Cause::not_executable);
    return offset + 0x400000;
  }
};

std::string spec_of(std::string_view line) {
  Files files;
  const auto spec = spec_of_event_line(line, files);
  if (!spec) return "error " + std::to_string(static_cast<int>(spec.error().cause));
  return spec->value_or("nothing");
}

TEST(EventLines, AreAPointWithTheNameOfTheEvent) {
  EXPECT_EQ(spec_of("p:redis/call redis-server:processCommand"),
            "redis:call = redis-server:processCommand");
  EXPECT_EQ(spec_of("p:call libc:write+0x1f"), "call = libc:write+0x1f");
  EXPECT_EQ(spec_of("p:call libc:write+31"), "call = libc:write+0x1f");
  EXPECT_EQ(spec_of("p:call libc:write+0"), "call = libc:write");
  EXPECT_EQ(spec_of("r:back libc:write"), "back = libc:write%return");
  EXPECT_EQ(spec_of("r16:back libc:write"), "back = libc:write%return");
  EXPECT_EQ(spec_of("p:back libc:write%return"), "back = libc:write%return");
  EXPECT_EQ(spec_of("\tp:a.b  /lib/x.so.1:_ZN3net4readEv  "), "a:b = x.so.1:_ZN3net4readEv");
}

TEST(EventLines, MayBeEmptyOrComments) {
  for (const char* const line : {"", "  \t", "# p:x libc:write", "   #"})
    EXPECT_EQ(spec_of(line), "nothing") << line;
}

// A function that is named by its address has arguments and a return; an instruction has neither.
TEST(EventLines, HaveOffsetsInFiles) {
  EXPECT_EQ(spec_of("p:x /bin/sort:0x1040"), "x = sort:sort+0x401040");
  EXPECT_EQ(spec_of("p:x /bin/sort:4160"), "x = sort:sort+0x401040");
  EXPECT_EQ(spec_of("r:x /bin/sort:0x1040"), "x = sort:0x401040%return");
  EXPECT_EQ(spec_of("p:x /bin/sort:0x1040%return"), "x = sort:0x401040%return");
  EXPECT_EQ(spec_of("p:x /bin/sort:0x1040 $arg1"), "x = sort:0x401040 arg1=$arg1:x64");
}

// The names were read from uprobe_events and kprobe_events of Linux 6.18.
TEST(EventLines, WithoutANameHaveThatOfTheKernel) {
  EXPECT_EQ(spec_of("p /usr/bin/redis-server:0x6f350"),
            "p_redis_0x6f350 = redis-server:redis-server+0x46f350");
  EXPECT_EQ(spec_of("r /usr/bin/redis-server:0x6f350"),
            "p_redis_0x6f350 = redis-server:0x46f350%return");
  EXPECT_EQ(spec_of("p:mine/ /bin/sort:0x1040"), "mine:p_sort_0x1040 = sort:sort+0x401040");
  EXPECT_EQ(spec_of("p libc:write+4"), "p_write_4 = libc:write+0x4");
  EXPECT_EQ(spec_of("r libc:write.part.0"), "r_write_part_0_0 = libc:write.part.0%return");
}

std::string argument(std::string_view text, std::string_view kind = "p") {
  std::string line(kind);
  line += ":x /bin/sort:main " + std::string(text);
  const std::string spec = spec_of(line), point = kind == "r" ? "sort:main%return " : "sort:main ";
  const std::string before = "x = " + point;
  return spec.starts_with(before) ? spec.substr(before.size()) : spec;
}

TEST(EventLines, HaveFetchArguments) {
  EXPECT_EQ(argument("%di"), "arg1=%di:x64");
  EXPECT_EQ(argument("a=%si:s32 %r8 c=%ax:u8"), "a=%si:s32 arg2=%r8:x64 c=%ax:u8");
  EXPECT_EQ(argument("$stack0 $stack3:x16 $stack"),
            "arg1=$stack0:x64 arg2=$stack3:x16 arg3=%sp:x64");
  EXPECT_EQ(argument("$arg1 n=$arg7:s32"), "arg1=$arg1:x64 n=$arg7:s32");
  EXPECT_EQ(argument("$retval $retval:s32", "r"), "arg1=$retval:x64 arg2=$retval:s32");
  EXPECT_EQ(argument("$comm who=$comm:string"), "arg1=$comm who=$comm");
  EXPECT_EQ(argument(R"(\5 \-1:s16 \0x10:u8)"), "arg1=(u64)5:x arg2=(s16)-1 arg3=(u8)16");
  EXPECT_EQ(argument("%ax:char %ax:symbol"), "arg1=%ax:char arg2=%ax:sym");
}

TEST(EventLines, FollowPointers) {
  EXPECT_EQ(argument("+8(%di)"), "arg1=*(u64*)(%di+8):x");
  EXPECT_EQ(argument("-0x10(%di):u16"), "arg1=*(u16*)(%di-16)");
  EXPECT_EQ(argument("+0(%di):string +u4(%di):ustring"), "arg1=(%di):string arg2=(%di+4):string");
  EXPECT_EQ(argument("+4(-8(+0(%di))):x8"), "arg1=*(u8*)(*(u64*)(*(u64*)(%di)-8)+4):x");
  EXPECT_EQ(argument("+0($stack2):char"), "arg1=*(u8*)($stack2):char");
  EXPECT_EQ(argument("@0x404010:s32 @4096"), "arg1=*(s32*)(4210704) arg2=*(u64*)(4096):x");
  EXPECT_EQ(argument("@level:u32 @table+16 +8(@here-8)"),
            "arg1=*(u32*)(&level) arg2=*(u64*)(&table+16):x arg3=*(u64*)(*(u64*)(&here-8)+8):x");
}

// As in the kernel, whatever the program headers say of the place that is read.
TEST(EventLines, ReadAtOffsetsInTheFileFromWhereTheCodeIs) {
  EXPECT_EQ(spec_of("p:x /bin/sort:0x1040 @+0x10:u8 $arg1"),
            "x = sort:0x401040 arg1=*(u8*)(&4194320) arg2=$arg1:x64");
}

// The load is made when the event happens, but the argument is that of the entry.
TEST(EventLines, FollowPointersOfArgumentsAtTheReturn) {
  EXPECT_EQ(argument("$arg2 +0($arg2):string +8(+0($arg1))", "r"),
            "arg1=$arg2:x64 arg2=($arg2@ret):string arg3=*(u64*)(*(u64*)($arg1@ret)+8):x");
}

TEST(EventLines, HaveBitsAndArrays) {
  EXPECT_EQ(argument("%di:b3@5/32"), "arg1=((%di:u32)>>5)&7");
  EXPECT_EQ(argument("+4(%di):b64@0/64"), "arg1=((*(u64*)(%di+4))>>0)&18446744073709551615");
  EXPECT_EQ(argument("+8(%di):s16[3] +8(%di):x8[64]"), "arg1=(%di+8):s16[3] arg2=(%di+8):x8[64]");
  EXPECT_EQ(argument("+8(%di):string[2] @level:char[4] +0(%sp):symbol[1]"),
            "arg1=(%di+8):strings[2] arg2=(&level):char[4] arg3=(%sp):sym[1]");
}

// Where the kernel has a cause, the line and the place were compared with its error_log
// (Linux 6.18).
TEST(EventLines, HaveErrorsWithTheirPlace) {
  const auto expect = [](std::string_view line, Cause cause, std::string_view at) {
    Files files;
    const auto spec = spec_of_event_line(line, files);
    ASSERT_FALSE(spec) << line;
    EXPECT_EQ(spec.error().cause, cause) << line;
    EXPECT_EQ(spec.error().at, at.size()) << line;
  };
  expect("p:1x/x /bin/sort:main", Cause::bad_group_name, "p:");
  expect("p:/x /bin/sort:main", Cause::no_group_name, "p:");
  expect("p:a/1x /bin/sort:main", Cause::bad_event_name, "p:a/");
  expect("p: /bin/sort:main", Cause::no_event_name, "p:");
  expect("p:a/" + std::string(64, 'x') + " f", Cause::event_too_long, "p:a/");
  expect(std::string(64, 'x').insert(0, "p:") + "/a f", Cause::group_too_long, "p:");
  expect("rx:a /bin/sort:main", Cause::bad_maxactive, "r");
  expect("r9999:a /bin/sort:main", Cause::maxactive_too_big, "r");
  expect("p10:a /bin/sort:main", Cause::maxactive_of_entry, "p");
  expect("q:a /bin/sort:main", Cause::no_probe, "");
  expect("  print:a /bin/sort:main", Cause::no_probe, "  p");
  expect("-:a/b", Cause::removes, "");
  expect("e:a sched.sched_switch", Cause::of_kernel, "");
  expect("p:a", Cause::no_place, "p:a");
  expect("p:a vfs_read", Cause::kernel_symbol, "p:a ");
  expect("p:a 0xffffffff81000000", Cause::kernel_address, "p:a ");
  expect("p:a /none:0x10", Cause::file_not_found, "p:a ");
  expect("p:a sort:0x1040", Cause::file_not_found, "p:a ");
  expect("p:a /usr/bin:0x10", Cause::no_regular_file, "p:a ");
  expect("p:a /bin/sort:0xz", Cause::bad_offset, "p:a /bin/sort:");
  expect("p:a /bin/sort:", Cause::bad_offset, "p:a /bin/sort:");
  expect("p:a /bin/sort:0x10", Cause::not_executable, "p:a /bin/sort:");
  expect("p:a /bin/sort:ma*", Cause::bad_address, "p:a /bin/sort:");
  expect("p:a /bin/sort:main+x", Cause::bad_address, "p:a /bin/sort:main");
  expect("p:a /bin/sort:0x1040%foo", Cause::bad_address_suffix, "p:a /bin/sort:0x1040");
  expect("p:a /bin/sort:main%foo", Cause::bad_address_suffix, "p:a /bin/sort:main");
  expect("r:a /bin/sort:main+4", Cause::bad_return_probe, "p:a /bin/sort:");
  expect("p:a /bin/sort:0x1040(0x10", Cause::counter_open, "p:a /bin/sort:0x1040(0x10");
  expect("p:a /bin/sort:0x1040(0xz)", Cause::bad_counter, "p:a /bin/sort:0x1040(");
  expect("p:a /bin/sort:0x1040(0x10)x", Cause::counter_suffix, "p:a /bin/sort:0x1040(0x10)");
  expect("p:a /bin/sort:0x1040(0x10)", Cause::counter, "p:a /bin/sort:0x1040");
  const std::string start = "p:a /bin/sort:main ";
  const auto expect_argument = [&](const std::string& text, Cause cause, const std::string& at) {
    expect(start + text, cause, start + at);
  };
  expect_argument("=%di", Cause::no_argument_name, "");
  expect_argument("1a=%di", Cause::bad_argument_name, "");
  expect_argument(std::string(33, 'a') + "=%di", Cause::argument_name_too_long, "");
  expect_argument("a=%di a=%si", Cause::used_argument_name, "a=%di ");
  expect_argument("common_pid=%di", Cause::used_argument_name, "");
  expect_argument("a=", Cause::no_argument_body, "a=");
  expect_argument("foo", Cause::bad_fetch_argument, "");
  expect_argument("$foo", Cause::bad_variable, "");
  expect_argument("$stackx", Cause::bad_variable, "");
  expect_argument("$stack99999", Cause::bad_variable, "");
  expect_argument("$arg0", Cause::bad_variable, "");
  expect_argument("$retval", Cause::retval_at_entry, "");
  expect_argument("%foo", Cause::bad_register, "");
  expect_argument("%ip", Cause::register_unknown, "");
  expect_argument("@+zz", Cause::bad_file_offset, "");
  expect_argument("@+8", Cause::offset_beside_symbol, "");
  expect_argument("@1zz", Cause::bad_memory_address, "");
  expect_argument("@a+", Cause::bad_memory_address, "");
  expect_argument("@0xffffffff81000000", Cause::kernel_address, "");
  expect_argument("\\zz", Cause::bad_immediate, "\\");
  expect_argument("\\\"text\"", Cause::immediate_text, "");
  expect_argument("\\\"text", Cause::immediate_open, "\\\"text");
  expect_argument("+0(%di", Cause::dereference_open, "+0(%di");
  expect_argument("+8", Cause::dereference_needs_brace, "+");
  expect_argument("+zz(%di)", Cause::bad_dereference_offset, "+");
  expect_argument("+0($comm)", Cause::command_dereferenced, "+0(");
  expect_argument("a=%di:foo", Cause::unknown_type, "a=%di:");
  expect_argument("%di:", Cause::unknown_type, "%di:");
  expect_argument("%di:b3", Cause::unknown_type, "%di:");
  expect_argument("%di:b3@31/32", Cause::bad_bitfield, "%di:");
  expect_argument("%di:b0@1/32", Cause::bad_bitfield, "%di:");
  expect_argument("$comm:u8", Cause::command_type, "$comm:");
  expect_argument("%di:string", Cause::bad_string, "%di:");
  expect_argument("%di:u8[3]", Cause::bad_string, "%di:");
  expect_argument("+0(%di):u8[3", Cause::array_open, "+0(%di):u8[3");
  expect_argument("+0(%di):u8[3]x", Cause::bad_array_suffix, "+0(%di):u8[3]");
  expect_argument("+0(%di):u8[0]", Cause::bad_array_size, "+0(%di):u8[");
  expect_argument("+0(%di):u8[65]", Cause::array_too_big, "+0(%di):u8[");
  expect_argument("+0(%di):b3@1/8[4]", Cause::array_of_bits, "+0(%di):");
}

TEST(EventLines, AreOfAnyLength) {
  constexpr size_t kMany = 100'000;
  std::string deep;
  for (size_t i = 0; i < kMany; ++i) deep += "+0(";
  EXPECT_TRUE(argument(deep + "%di").starts_with("error"));
  EXPECT_TRUE(argument(deep + "%di" + std::string(kMany, ')')).starts_with("error"));
  std::string many;
  for (size_t i = 0; i <= 128; ++i) many += "%di ";
  EXPECT_TRUE(argument(many).starts_with("error"));
}

}  // namespace
}  // namespace pinprick::select
