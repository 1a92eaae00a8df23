// What names mean in tests/targets/levels.c, and in the C library.
#include "session/named_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "library_path.h"
#include "session/matching.h"

namespace pinprick::session {
namespace {

using placement::Kind;
using testing::ElementsAre;

class NamedValues : public testing::Test {
 protected:
  void load(const std::string& path) {
    auto image = image::load_file(path);
    ASSERT_TRUE(image) << path;
    image_ = *std::move(image);
  }
  // Resolves the names of the wanted texts.
  std::optional<UnknownName> resolve(std::vector<std::string> wanted, std::string key = {},
                                     Sites sites = Sites::named) {
    SelectionSpec spec;
    spec.measures = {{{}, Kind::count, std::move(wanted)}};
    spec.key = std::move(key);
    spec.sites = sites;
    auto selection = parse_selection(spec);
    EXPECT_TRUE(selection);
    if (!selection) return std::nullopt;
    matches_ = *match(image_, *selection, Unmatched::refuse);
    if (sites == Sites::every_instruction) image::mean_each_instruction(matches_);
    actions_ = selection->actions;
    skipped_.clear();
    return resolve_names(image_, *selection, matches_, actions_, skipped_);
  }
  const action::Action& action(size_t match = 0) const {
    return actions_.of(matches_[match].pattern, placement::scope_of(matches_[match]));
  }
  select::Value first_value() const { return action().condition.expression.nodes.front().value; }
  plan::Reason reason(const std::string& text) {
    const auto error = resolve({text});
    EXPECT_TRUE(error) << text;
    return error ? error->reason : plan::Reason::unreadable;
  }
  Address address_of(std::string_view symbol) const {
    for (const image::Symbol& one : image_.objects.front()->elf().symtab())
      if (one.name == symbol) return one.address + image_.objects.front()->bias();
    return 0;
  }

  image::ProcessImage image_;
  std::vector<image::Match> matches_;
  action::Actions actions_ = Kind::count;
  std::vector<placement::Skipped> skipped_;
};

TEST_F(NamedValues, AParameterIsTheArgumentOfItsPrototype) {
  load(library_path("libc.so.6"));
  ASSERT_FALSE(resolve({"write if fd==1"}));
  EXPECT_EQ(first_value(), *select::parse_value("$arg1:s32"));
  ASSERT_FALSE(resolve({"pread64 if offset:u16==1"}));
  EXPECT_EQ(first_value(), *select::parse_value("$arg4:u16"));
}

TEST_F(NamedValues, AVariableIsAnAddressWithoutASign) {
  load(TARGETS "levels");
  ASSERT_FALSE(resolve({"work if wide==1"}));
  EXPECT_EQ(first_value().variable, address_of("wide"));
  EXPECT_NE(first_value().variable, 0);
  EXPECT_EQ(first_value().bytes, 2);
  EXPECT_EQ(first_value().sign, select::Value::Sign::none);
  ASSERT_FALSE(resolve({"work if level:s16==1"}));
  EXPECT_EQ(first_value().bytes, 2);
  EXPECT_EQ(first_value().sign, select::Value::Sign::signed_);
}

TEST_F(NamedValues, AVariableIsReadableOnlyWhereASegmentHasAllOfIt) {
  load(TARGETS "levels");
  const image::Object& program = *image_.objects.front();
  const Address wide = address_of("wide");
  EXPECT_TRUE(is_readable(program, {wide, wide + 2}));
  EXPECT_FALSE(is_readable(program, {wide, wide + 0x100000}));
  // Debug information may have any address: this one wraps.
  const Address last = ~Address{3};
  EXPECT_FALSE(is_readable(program, {last, last + 8}));
}

TEST_F(NamedValues, AVariableThatAFileOfCppKeepsToItselfHasItsName) {
  load(TARGETS "thrower");
  ASSERT_FALSE(resolve({"main if waiting!=0"}));
  EXPECT_EQ(first_value().variable, address_of("_ZL7waiting"));
  EXPECT_EQ(first_value().bytes, sizeof(pid_t));
}

TEST_F(NamedValues, WhatIsNoVariableOfARegistersSizeMeansNothing) {
  load(TARGETS "levels");
  for (const char* name : {"several", "of_thread", "work", "main", "_start", "nothing", "wide:u32"})
    EXPECT_EQ(reason("work if " + std::string(name) + "==1"), plan::Reason::unknown_name) << name;
}

TEST_F(NamedValues, EachFunctionHasItsOwnAndThoseWithoutAreSkipped) {
  load(library_path("libc.so.6"));
  ASSERT_FALSE(resolve({"write", "send", "recv", "malloc"}, "len"));
  // write has `count`.
  std::vector<std::string> skipped;
  for (const auto& one : skipped_) {
    skipped.push_back(one.match.name());
    EXPECT_EQ(one.refusal.reason, plan::Reason::unknown_name);
  }
  EXPECT_THAT(skipped, testing::UnorderedElementsAre("write", "malloc"));
  ASSERT_EQ(matches_.size(), 2);
  for (size_t i = 0; i < matches_.size(); ++i)
    EXPECT_EQ(action(i).key.expression.nodes.front().value, *select::parse_value("$arg3:u64"));
}

TEST_F(NamedValues, AnErrorSaysWhatThereIs) {
  load(library_path("libc.so.6"));
  const auto error = resolve({"write"}, "fd+size");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->of, BadExpression::Of::key);
  EXPECT_EQ(error->name, "size");
  EXPECT_EQ(error->text, "fd+size");
  EXPECT_EQ(error->function, "write");
  EXPECT_THAT(error->parameters, ElementsAre("fd ($arg1)", "buf ($arg2)", "count ($arg3)"));
}

TEST_F(NamedValues, ErrnoIsFoundWhereTheCLibrarySays) {
  load(library_path("libc.so.6"));
  ASSERT_FALSE(resolve({"malloc%return if $errno==ENOMEM"}));
  const image::Object& libc = *image_.objects.front();
  EXPECT_TRUE(first_value().is_error);
  EXPECT_EQ(first_value().bytes, 4);
  const Address word = first_value().variable - libc.bias();
  EXPECT_TRUE(is_readable(libc, {word, word + 8}));
  EXPECT_EQ(first_value().thread_offset, 0);
}

TEST_F(NamedValues, ErrnoIsAnErrorWithoutTheCLibrary) {
  load(TARGETS "levels");
  const auto error = resolve({"work%return if $errno==1"});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->name, "$errno");
}

TEST_F(NamedValues, ParametersAreRefusedWhereArgumentsAre) {
  // Debug information of the C library, which may be there, knows more.
  load(library_path("libz.so.1"));
  EXPECT_EQ(reason("deflate+4 if flush==1"), plan::Reason::argument_at_offset);
  load(library_path("libc.so.6"));
  const auto error = resolve({"write if fd==1"}, {}, Sites::every_instruction);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->reason, plan::Reason::argument_at_offset);
  EXPECT_EQ(reason("pread%return if $retval==fd+count+offset+buf+$retval*$arg5+$arg6*$retval || "
                   "*(u8*)buf==$retval || *(u8*)(buf+1)==$retval || *(u8*)(buf+2)==$retval || "
                   "*(u8*)(buf+3)==$retval || *(u8*)(buf+4)==$retval"),
            plan::Reason::too_many_kept);
  load(TARGETS "levels");
  EXPECT_FALSE(resolve({"work if level==1"}, {}, Sites::every_instruction));
}

TEST_F(NamedValues, APrototypeIsOfLibrariesAlone) {
  load(TARGETS "levels");
  const auto error = resolve({"work if fd==1"});
  ASSERT_TRUE(error);
  EXPECT_FALSE(error->has_prototype);
  EXPECT_THAT(error->parameters, ElementsAre());
}

}  // namespace
}  // namespace pinprick::session
