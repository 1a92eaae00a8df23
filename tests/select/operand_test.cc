#include "select/operand.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "scratch.h"

namespace pinprick::select {
namespace {

using Cause = OperandError::Cause;
using Kind = OperandRegister::Kind;

constexpr uint8_t kRax = 0, kRcx = 1, kRbx = 3, kRbp = 5, kRdi = 7;

OperandRegister general(uint8_t number, uint8_t bytes = 8) {
  return {Kind::general, number, bytes, false};
}

Operand in_register(OperandRegister name, uint8_t size = 0, bool is_signed = false) {
  Operand operand;
  operand.kind = Operand::Kind::in_register;
  operand.base = name;
  operand.size = size;
  operand.is_signed = is_signed;
  return operand;
}

Operand in_memory(uint8_t size, bool is_signed, std::optional<OperandRegister> base,
                  uint64_t offset, std::string_view symbol = {}) {
  Operand operand;
  operand.kind = Operand::Kind::in_memory;
  operand.size = size;
  operand.is_signed = is_signed;
  operand.base = base;
  operand.offset = offset;
  operand.symbol = symbol;
  return operand;
}

Operand constant(uint8_t size, bool is_signed, int64_t value, std::string_view symbol = {}) {
  Operand operand;
  operand.kind = Operand::Kind::constant;
  operand.size = size;
  operand.is_signed = is_signed;
  operand.offset = static_cast<uint64_t>(value);
  operand.symbol = symbol;
  return operand;
}

void expect_only(std::string_view text, const Operand& expected) {
  const auto operands = parse_operands(text);
  ASSERT_TRUE(operands) << text << ": " << static_cast<int>(operands.error().cause);
  ASSERT_EQ(operands->size(), 1u) << text;
  EXPECT_EQ(operands->front(), expected) << text;
}

void expect_error(std::string_view text, Cause cause, std::string_view which) {
  const auto operands = parse_operands(text);
  ASSERT_FALSE(operands) << text;
  EXPECT_EQ(operands.error(), (OperandError{cause, std::string(which)})) << text;
}

void expect_error(std::string_view text, Cause cause) {
  expect_error(text, cause, text);
}

const OperandRegister kRip = {Kind::instruction_pointer, 0, 8, false};

TEST(Operand, InARegisterHasItsNumberAndWidth) {
  expect_only("8@%rax", in_register(general(kRax), 8));
  expect_only("4@%edi", in_register(general(kRdi, 4), 4));
  expect_only("-4@%edi", in_register(general(kRdi, 4), 4, true));
  expect_only("1@%al", in_register(general(kRax, 1), 1));
  expect_only("1@%sil", in_register(general(6, 1), 1));
  expect_only("2@%bx", in_register(general(kRbx, 2), 2));
  expect_only("8@%r15", in_register(general(15), 8));
  expect_only("-4@%r8d", in_register(general(8, 4), 4, true));
  expect_only("2@%r10w", in_register(general(10, 2), 2));
  expect_only("1@%r9b", in_register(general(9, 1), 1));
  expect_only("1@%ah", in_register({Kind::general, kRax, 1, true}, 1));
}

TEST(Operand, MayHaveNoSize) {
  expect_only("%rax", in_register(general(kRax)));
  expect_only("-20(%rbp)", in_memory(0, false, general(kRbp), static_cast<uint64_t>(-20)));
  expect_only("$7", constant(0, false, 7));
  expect_only("variable", in_memory(0, false, {}, 0, "variable"));
}

TEST(Operand, MayBeAFloatingPointNumber) {
  const auto operands = parse_operands("8f@%xmm0 4f@-20(%rbp) 16f@%xmm31 10f@%st(3)");
  ASSERT_TRUE(operands);
  ASSERT_EQ(operands->size(), 4u);
  const uint8_t sizes[] = {8, 4, 16, 10};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE((*operands)[i].is_floating_point);
    EXPECT_EQ((*operands)[i].size, sizes[i]);
  }
  EXPECT_EQ((*operands)[0].base, (OperandRegister{Kind::vector, 0, 8, false}));
  EXPECT_EQ((*operands)[2].base, (OperandRegister{Kind::vector, 31, 8, false}));
  EXPECT_EQ((*operands)[3].base->kind, Kind::other);
  EXPECT_EQ((*operands)[1].kind, Operand::Kind::in_memory);
}

TEST(Operand, MayBeAConstant) {
  expect_only("1@$7", constant(1, false, 7));
  expect_only("-1@$-1", constant(1, true, -1));
  expect_only("8@$0x7fffffffffffffff", constant(8, false, INT64_MAX));
  expect_only("8@$18446744073709551615", constant(8, false, -1));
  expect_only("-8@$-9223372036854775808", constant(8, true, INT64_MIN));
  expect_only("8@$symbol+4", constant(8, false, 4, "symbol"));
}

TEST(Operand, MayBeInMemory) {
  expect_only("-4@-20(%rbp)", in_memory(4, true, general(kRbp), static_cast<uint64_t>(-20)));
  expect_only("8@(%rax)", in_memory(8, false, general(kRax), 0));
  expect_only("8@0x10(%rax)", in_memory(8, false, general(kRax), 16));
  expect_only("8@16+8(%rax)", in_memory(8, false, general(kRax), 24));
  expect_only("8@-16+8(%rax)", in_memory(8, false, general(kRax), static_cast<uint64_t>(-8)));
  expect_only("4@(%eax)", in_memory(4, false, general(kRax, 4), 0));
}

TEST(Operand, MayBeAnElementOfAnArray) {
  Operand operand = in_memory(8, false, general(kRax), 0);
  operand.index = general(kRbx);
  expect_only("8@(%rax,%rbx)", operand);
  operand.scale = 8;
  expect_only("8@(%rax,%rbx,8)", operand);
  operand.base.reset();
  operand.index = general(kRcx);
  operand.scale = 4;
  operand.symbol = "table";
  expect_only("8@table(,%rcx,4)", operand);
}

TEST(Operand, MayBeAVariable) {
  expect_only("8@var+4(%rip)", in_memory(8, false, kRip, 4, "var"));
  expect_only("4@8+sym(%rip)", in_memory(4, false, kRip, 8, "sym"));
  expect_only("4@sym-8(%rip)", in_memory(4, false, kRip, static_cast<uint64_t>(-8), "sym"));
  expect_only("-4@_ZL5count.lto_priv.0(%rip)", in_memory(4, true, kRip, 0, "_ZL5count.lto_priv.0"));
  expect_only("8@.LC0(%rip)", in_memory(8, false, kRip, 0, ".LC0"));
  expect_only("8@sym@GOTPCREL(%rip)", in_memory(8, false, kRip, 0, "sym@GOTPCREL"));
  Operand of_thread = in_memory(4, false, {}, 0, "errno@tpoff");
  of_thread.segment = OperandRegister{Kind::segment, 4, 8, false};
  expect_only("4@%fs:errno@tpoff", of_thread);
}

TEST(Operands, AreSeparatedByBlanksAndUpToTwelve) {
  EXPECT_TRUE(parse_operands("")->empty());
  EXPECT_TRUE(parse_operands("  ")->empty());
  EXPECT_EQ(parse_operands("  8@%rax  -4@$1 ")->size(), 2u);
  std::string text;
  for (int i = 0; i < 12; ++i) text += "8@%rax ";
  EXPECT_EQ(parse_operands(text)->size(), 12u);
  expect_error(text + "4@%edx", Cause::too_many, "4@%edx");
}

TEST(Operands, ThatMakeNoSenseAreRefusedAndNamed) {
  expect_error("8@%rax 3@%rbx", Cause::bad_size, "3@%rbx");
  expect_error("-@%rax", Cause::bad_size);
  expect_error("99999999999@%rax", Cause::bad_size);
  expect_error("8@%rxx", Cause::bad_register);
  expect_error("8@%r16", Cause::bad_register);
  expect_error("8@%r7", Cause::bad_register);
  expect_error("8@%rip", Cause::bad_register);
  expect_error("8@%xmm32", Cause::bad_register);
  expect_error("8@(%xmm0)", Cause::bad_register);
  expect_error("8@(%al)", Cause::bad_register);
  expect_error("8@(%rax,%rip)", Cause::bad_register);
  expect_error("8@%", Cause::bad_register);
  expect_error("8@(%rax,%rbx,3)", Cause::bad_scale);
  expect_error("8@(%rax,%rbx,)", Cause::bad_scale);
  expect_error("8@", Cause::bad_expression);
  expect_error("8@$", Cause::bad_expression);
  expect_error("8@4+(%rax)", Cause::bad_expression);
  expect_error("8@a+b(%rip)", Cause::bad_expression);
  expect_error("8@(%rax", Cause::bad_expression);
  expect_error("8@(%rax)x", Cause::bad_expression);
  expect_error("8@4x(%rax)", Cause::bad_expression);
  expect_error("8@99999999999999999999(%rax)", Cause::bad_expression);
  expect_error("8@$1(%rax)", Cause::bad_expression);
}

Value argument(uint8_t number, uint8_t bytes = 8) {
  Value value;
  value.argument = number;
  value.bytes = bytes;
  return value;
}

TEST(ArgumentOf, IsItsRegisterWithAsManyBytesAsAllOfThemHave) {
  const auto expect = [](std::string_view text, const Value& wanted, uint8_t number,
                         uint8_t bytes) {
    const auto value = argument_of(text, wanted);
    ASSERT_TRUE(value) << text;
    EXPECT_EQ(value->kind, Operand::Kind::in_register) << text;
    EXPECT_EQ(value->register_number, number) << text;
    EXPECT_EQ(value->bytes, bytes) << text;
  };
  expect("8@%rdi -4@%eax", argument(1), kRdi, 8);
  expect("8@%rdi -4@%eax", argument(2), kRax, 4);
  expect("4@%rax", argument(1), kRax, 4);
  expect("8@%eax", argument(1), kRax, 4);
  expect("%al", argument(1), kRax, 1);
  expect("8@%rdi", argument(1, 2), kRdi, 2);
}

TEST(ArgumentOf, MemoryIsReadThroughWholeGeneralRegisters) {
  const auto found = argument_of("-4@-20(%rbp)", argument(1));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, Operand::Kind::in_memory);
  EXPECT_EQ(found->base, 5);
  EXPECT_FALSE(found->index);
  EXPECT_EQ(static_cast<int64_t>(found->number), -20);
  EXPECT_EQ(found->bytes, 4);
  const auto element = argument_of("8@8(%rax,%r12,4)", argument(1, 2));
  ASSERT_TRUE(element);
  EXPECT_EQ(element->base, kRax);
  EXPECT_EQ(element->index, 12);
  EXPECT_EQ(element->scale, 4);
  EXPECT_EQ(element->number, 8u);
  EXPECT_EQ(element->bytes, 2) << "as many as are wanted";
}

TEST(ArgumentOf, AVariableIsReadByItsName) {
  for (const char* text : {"4@8+var(%rip)", "4@var+8"}) {
    const auto found = argument_of(text, argument(1));
    ASSERT_TRUE(found) << text;
    EXPECT_EQ(found->kind, Operand::Kind::in_memory) << text;
    EXPECT_EQ(found->symbol, "var") << text;
    EXPECT_EQ(found->number, 8u) << text;
    EXPECT_FALSE(found->base) << text;
  }
}

TEST(ArgumentOf, AnElementIsReadByTheNameOfItsArray) {
  const auto found = argument_of("4@table+8(%rbx,%rax,4)", argument(1));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->symbol, "table");
  EXPECT_EQ(found->number, 8u);
  EXPECT_EQ(found->base, kRbx);
  EXPECT_EQ(found->index, kRax);
  EXPECT_EQ(found->scale, 4);
  EXPECT_TRUE(found->has_symbol_and_register());
  EXPECT_TRUE(argument_of("4@table(,%rax,4)", argument(1))->has_symbol_and_register());
  EXPECT_FALSE(argument_of("4@table(%rip)", argument(1))->has_symbol_and_register());
}

TEST(ArgumentOf, AThreadLocalVariableIsInASegment) {
  const auto by_name = argument_of("-4@%fs:count@tpoff+4", argument(1));
  ASSERT_TRUE(by_name);
  EXPECT_EQ(by_name->segment, Segment::fs);
  EXPECT_EQ(by_name->symbol, "count@tpoff");
  EXPECT_EQ(by_name->number, 4u);
  const auto by_register = argument_of("8@%gs:-8(%rax,%rcx,8)", argument(1));
  ASSERT_TRUE(by_register);
  EXPECT_EQ(by_register->segment, Segment::gs);
  EXPECT_EQ(by_register->base, kRax);
  EXPECT_EQ(by_register->index, kRcx);
  EXPECT_EQ(argument_of("8@%fs:0x28", argument(1))->number, 40u);
  EXPECT_EQ(argument_of("8@%ds:8(%rax)", argument(1))->segment, Segment::none) << "starts at 0";
}

TEST(ArgumentOf, AHighByteIsTheSecondOfItsRegister) {
  const auto found = argument_of("-1@%bh", argument(1));
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->is_high_byte);
  EXPECT_TRUE(found->is_signed);
  EXPECT_EQ(found->register_number, kRbx);
  EXPECT_EQ(found->bytes, 1);
}

TEST(ArgumentOf, HasTheSignOfItsOperandOrThatOfAType) {
  const auto is_signed = [](std::string_view text, Value::Sign sign) {
    Value wanted = argument(1);
    wanted.sign = sign;
    return argument_of(text, wanted)->is_signed;
  };
  for (const char* text : {"-4@%eax", "-8@(%rax)", "-1@$-1", "-2@var(%rip)"}) {
    EXPECT_TRUE(is_signed(text, Value::Sign::of_site)) << text;
    EXPECT_FALSE(is_signed(text, Value::Sign::none)) << text;
  }
  for (const char* text : {"4@%eax", "8@(%rax)", "1@$1", "%rax"}) {
    EXPECT_FALSE(is_signed(text, Value::Sign::of_site)) << text;
    EXPECT_TRUE(is_signed(text, Value::Sign::signed_)) << text;
  }
}

TEST(ArgumentOf, AConstantHasAsManyBytesAsItsOperandAndItsSign) {
  const auto number = [](std::string_view text) {
    return static_cast<int64_t>(argument_of(text, argument(1))->number);
  };
  EXPECT_EQ(number("1@$7"), 7);
  EXPECT_EQ(number("1@$0xff"), 255);
  EXPECT_EQ(number("-1@$0xff"), -1);
  EXPECT_EQ(number("4@$-1"), 0xffff'ffff);
  EXPECT_EQ(number("-4@$-1"), -1);
  EXPECT_EQ(number("-8@$-9223372036854775808"), INT64_MIN);
}

TEST(ArgumentOf, AFloatingPointNumberIsInARegisterOfEitherKindOrInMemory) {
  const struct {
    const char* text;
    bool is_vector;
    uint8_t bytes, number;
  } cases[] = {
      {"8f@%xmm0", true, 8, 0},     {"4f@%xmm15", true, 4, 15},    {"8@%xmm7", true, 8, 7},
      {"8f@%rdx", false, 8, 2},     {"4f@%ecx", false, 4, 1},      {"4f@%rcx", false, 4, 1},
      {"8f@-8(%rbp)", false, 8, 0}, {"4f@var(%rip)", false, 4, 0}, {"8f@%fs:8", false, 8, 0}};
  for (const auto& one : cases) {
    const auto found = argument_of(one.text, argument(1, 2));
    ASSERT_TRUE(found) << one.text;
    EXPECT_TRUE(found->is_floating_point && found->is_signed) << one.text;
    EXPECT_EQ(found->is_vector, one.is_vector) << one.text;
    EXPECT_EQ(found->bytes, one.bytes) << one.text << ": types do not cut them";
    EXPECT_EQ(found->register_number, one.number) << one.text;
  }
}

TEST(ArgumentOf, OtherFloatingPointNumbersAreRefused) {
  for (const char* text : {"16f@-8(%rbp)", "10f@%st(0)", "2f@%eax", "8f@$1"})
    EXPECT_EQ(argument_of(text, argument(1)).error(), ArgumentError::floating_point) << text;
}

TEST(ArgumentOf, WhatAHitCannotReadIsRefused) {
  for (const char* text : {"16@%xmm0",
                           "%xmm0",
                           "8f@%xmm16",
                           "8f@%eax",
                           "8@%ymm1",
                           "8@%mm0",
                           "8@%cs",
                           "8@(%eax)",
                           "8@(%rax,%eax,2)",
                           "8@(%rax,%rsp)",
                           "8@1234",
                           "8@-8(%rip)",
                           "8@$var",
                           "(%rax)",
                           "16@(%rax)",
                           "8@0x7fffffff(%rax)",
                           "8@-0x7fffffff(%rsp)",
                           "8@%fs:var",
                           "8@%gs:var@tpoff",
                           "8@%fs:var@tpoff(%rax)",
                           "8@%fs:8(%rip)",
                           "8@%fs:var@gottpoff(%rip)"})
    EXPECT_EQ(argument_of(text, argument(1)).error(), ArgumentError::elsewhere) << text;
}

TEST(ArgumentOf, ThereMustBeOne) {
  EXPECT_EQ(argument_of("8@%rax", argument(2)).error(), ArgumentError::none_such);
  EXPECT_EQ(argument_of("", argument(1)).error(), ArgumentError::none_such);
  EXPECT_EQ(argument_of("8@%rax 8@%what", argument(1)).error(), ArgumentError::unreadable);
}

// All that readelf finds in programs and libraries that distributions build with points.
TEST(Operands, OfInstalledObjectsAreUnderstood) {
  const auto found = run_shell(
      "for f in /usr/bin/python3.* /usr/bin/ld /usr/bin/ruby* /usr/bin/php* /usr/bin/node "
      "/usr/bin/qemu-system-x86_64 /usr/lib/postgresql/*/bin/postgres /lib64/ld-linux-x86-64.so.2 "
      "/usr/lib/x86_64-linux-gnu/lib{c,m,stdc++,python3,ruby,pthread,glib-2.0,virt}*.so.*; do "
      "[ -f \"$f\" ] && readelf -nW \"$f\" 2>/dev/null; done | "
      "sed -n 's/^    Arguments: //p' | sort -u");
  std::istringstream lines(found.output);
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto operands = parse_operands(line);
    EXPECT_TRUE(operands) << line << ": " << (operands ? "" : operands.error().text);
  }
  if (count == 0) GTEST_SKIP() << "no installed object has SDT notes";
}

TEST(Operands, TenThousandDamagedTextsAreRefusedOrMakeSense) {
  const std::string_view seeds[] = {"8@%rax -4@-20(%rbp) 4@8+sym(%rip) 8@(%rax,%rbx,8)",
                                    "8f@%xmm0 1@$7 -1@$-1 4@%fs:0x10(%r8d) 10f@%st(1)",
                                    "8@sym@GOTPCREL(%rip) (,%rcx,2) $sym+4"};
  constexpr std::string_view kCharacters = "%$@()+-,:. 0123456789abfiprstxz\x01\xff";
  std::mt19937 random(2010);
  size_t understood = 0;
  for (int i = 0; i < 10'000; ++i) {
    std::string text(seeds[random() % std::size(seeds)]);
    for (unsigned n = 1 + random() % 4; n != 0; --n) {
      const size_t at = random() % text.size();
      if (random() % 3 == 0)
        text.erase(at, 1);
      else
        text[at] = kCharacters[random() % kCharacters.size()];
    }
    const auto operands = parse_operands(text);
    if (!operands) {
      EXPECT_NE(text.find(operands.error().text), text.npos);
      continue;
    }
    ++understood;
    EXPECT_LE(operands->size(), kMostOperands) << text;
    for (const Operand& operand : *operands)
      EXPECT_EQ(operand.kind == Operand::Kind::in_register && !operand.base, false) << text;
  }
  EXPECT_GT(understood, 100u);
}

}  // namespace
}  // namespace pinprick::select
