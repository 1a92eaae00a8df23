// What users write of a point: any text. What is understood is compiled, and emitted as a stub.
#include "select/expression.h"

#include "action/at_return.h"
#include "action/compile.h"
#include "arch/stub.h"
#include "fuzzer.h"
#include "select/prototypes.h"
#include "select/spec.h"

namespace {

using namespace pinprick;

// At a return, what a call keeps as well.
action::Found found_at(const select::Value& wanted, bool at_return) {
  if (at_return && (wanted.is_latency || wanted.argument != 0))
    return {{.bytes = wanted.bytes,
             .instead = arch::Source::OfCall{.kept = wanted.is_latency ? std::nullopt
                                                                       : std::optional<uint8_t>(
                                                                             wanted.argument % 2)},
             .is_signed = wanted.sign == select::Value::Sign::signed_}};
  if (wanted.variable != 0 || !wanted.name.empty())
    return {{.bytes = wanted.bytes,
             .instead = arch::Source::Memory{.displacement = 0x7f0000200000},
             .is_signed = wanted.sign == select::Value::Sign::signed_},
            true};
  return {{.register_number = static_cast<uint8_t>(wanted.register_number % 16),
           .bytes = wanted.bytes,
           .is_signed = wanted.sign == select::Value::Sign::signed_}};
}

// Each step uses earlier ones, and none is used twice.
void check_steps(const arch::Expression& all) {
  CHECK(!all.empty() && all.steps.size() <= arch::kMostSteps);
  std::vector<bool> used(all.steps.size());
  const auto use = [&](size_t by, size_t step) {
    CHECK(step < by && !used[step]);
    used[step] = true;
  };
  for (size_t i = 0; i < all.steps.size(); ++i) {
    const arch::Step& step = all.steps[i];
    if (step.operation == arch::Operation::take) continue;
    use(i, step.left);
    if (step.operation >= arch::Operation::add && !arch::follows(step.operation))
      use(i, step.right);
    const bool compares = step.operation >= arch::Operation::equals_text;
    CHECK(!compares || all.texts.at(step.right).size() <= arch::kMostComparedText);
  }
}

void check_emitted(const arch::StubAction& action, uint64_t most) {
  constexpr Address kSite = 0x7f0000100000;
  constexpr uint8_t kWindow[] = {0x55, 0x48, 0x89, 0xe5, 0x90};  // push %rbp; mov %rsp,%rbp; nop
  arch::Assembler code(kSite);
  arch::ArenaEntries entries;
  entries.cpu_table = entries.locked_count = entries.count_for_probe = kSite;
  entries.count_for_probe_in_red_zone = kSite;
  entries.pointers = {kSite, kSite, kSite, kSite, kSite, kSite, kSite, kSite, kSite};
  arch::emit_stub(code, entries, {.rseq = arch::RseqArea{-0x60}, .actions = {&action, 1}},
                  {kSite, kWindow});
  const size_t size = code.size();
  CHECK(code.finish());
  CHECK(size <= arch::most_stub_bytes(1, sizeof kWindow) + most);
}

// Nothing is decided at the entry that is known at the return alone, and nothing is lost or
// doubled.
void check_split(const select::Expression& parsed) {
  action::Action action = {.condition = {parsed, "condition"}, .at_return = true};
  const action::WhenComputed when = action::when_computed(action);
  CHECK(!when.at_entry.empty() || !when.at_return.empty());
  CHECK(when.at_entry.nodes.size() + when.at_return.nodes.size() <= parsed.nodes.size());
  for (const select::Node& node : when.at_entry.nodes)
    CHECK(node.what != select::Operator::value || (node.value.argument != 0 && !node.at_return));
  std::vector<select::Expression> kept;
  action::add_kept(action, action::Entry::decides, kept);
  for (const select::Expression& one : kept) CHECK(action::kept_at(kept, one, one.nodes.back()));
}

void check(std::string_view text, select::Arguments arguments) {
  const auto parsed = select::parse_expression(text, arguments);
  if (!parsed) {
    CHECK(parsed.error().at <= text.size());
    CHECK(parsed.error().text.size() <= text.size());
    return;
  }
  // Debug information has to make others of these first.
  for (const select::Node& node : parsed->nodes)
    if (select::needs_types(node.what)) return;
  const bool at_return = arguments == select::Arguments::of_return;
  const arch::Expression compiled = action::compile(
      *parsed, [&](const select::Value& wanted) { return found_at(wanted, at_return); });
  check_steps(compiled);
  const uint64_t most = arch::most_expression_bytes(compiled);
  if (at_return) {
    check_split(*parsed);
    const arch::Expression at_entry = action::compile(
        *parsed, [&](const select::Value& wanted) { return found_at(wanted, false); });
    const arch::Metric metric;
    const arch::AtReturn all = {compiled, compiled, compiled};
    check_emitted({.what = arch::TimeCall{.metrics = {&metric, 1},
                                          .at_return = {&all, 1},
                                          .kept = {.values = {at_entry, arch::Source{1}}}}},
                  4 * most);
    return;
  }
  for (const auto stack : {arch::StackUse::at_entry, arch::StackUse::keep_red_zone}) {
    check_emitted({.stack = stack, .condition = compiled, .what = arch::CountHit{}}, most);
    check_emitted({.stack = stack, .what = arch::RecordValue{{}, compiled}}, most);
    check_emitted({.stack = stack, .what = arch::RecordValue{{}, compiled, compiled}}, 2 * most);
    check_emitted({.stack = stack, .what = arch::CountByKey{0, compiled, compiled}}, 2 * most);
  }
}

// The lines of the table have no name of a function in them but at their starts.
void check_prototypes(std::string_view text) {
  for (const std::string_view library : select::libraries_with_prototypes()) {
    const auto found = select::find_prototype(library, text);
    if (!found) continue;
    CHECK(!found->result.empty() && text.find_first_of(":,\n ") == text.npos);
    for (const select::Parameter& one : found->parameters) {
      CHECK(!one.type.empty() && one.argument <= 6);
      CHECK(one.bytes == 1 || one.bytes == 2 || one.bytes == 4 || one.bytes == 8);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const select::Spec spec = select::split_spec(text);
  CHECK(spec.point.size() + spec.value.size() <= text.size());
  CHECK(select::end_of_value(text) <= text.size());
  check_prototypes(text);
  check_prototypes(spec.point);
  for (const auto arguments : {select::Arguments::of_function, select::Arguments::of_point,
                               select::Arguments::of_return}) {
    check(text, arguments);
    check(spec.value, arguments);
    if (spec.condition) check(*spec.condition, arguments);
  }
  return 0;
}

std::vector<Input> seeds() {
  std::vector<Input> all;
  for (const char* text :
       {"libc:write $arg3*8 if $arg1==1 && $arg3>=4Ki", "$arg1 in {1,5..9} || !(%rdi&3)",
        "(u32)$arg1:s8<-1", "f ($arg3 - 1)/10%7 if", "'a'^'\\n'|0x1f<<%rcx>>2-~$arg2",
        "write count:s32*8 if fd in {1,2} && level!=0", "__libc_read", "pread64",
        "open if flags&64", "-$arg1*0644+0b11-18446744073709551615",
        "(unsigned long)$arg5>(int)%ax:u16",
        "libc:read%return $retval-$arg3 if $arg1==3 && ($retval<0 || $latency/1k>$arg2)",
        "open%return *(u32*)(buf@ret+4) if path:string=~\"*.c\\*\" && *(int*)len<3",
        "f *(char**)$arg2 if (*(u8*)%di+$arg1):string[9]!=\"\\\"x\"",
        "usdt:a:b $arg12:u32 if $arg7!=9223372036854775808 && $arg1>=-5ms"})
    all.push_back(pinprick::fuzz::text(text));
  return all;
}
