// The promise of code_scan.h, checked with the processor: programs run instruction by instruction.
// Wherever execution arrives other than by falling through must be in the set of branch targets, or
// no window can contain it.
#include <elf.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "image/process.h"
#include "image/programs.h"
#include "image/stepped_program.h"

namespace pinprick::image {
namespace {

struct Verdict {
  size_t in_set = 0;
  size_t after_calls = 0;
  size_t in_unresolved_functions = 0;
  size_t unknown_code = 0;  // in no object: the vDSO
};

// Returns whether all functions that a probe at the address could belong to are unresolved.
bool is_in_unresolved_function(Object& object, Address address) {
  bool any = false;
  for (const Function& function : object.functions().functions()) {
    if (!Range{function.range.begin, function.limit}.contains(address)) continue;
    if (!object.targets().has_unresolved_jump(function.range.begin)) return false;
    any = true;
  }
  return any;
}

std::string describe(Object* object, Address address) {
  std::ostringstream out;
  out << std::hex << address;
  if (object == nullptr) return out.str();
  const Address own = address - object->bias();
  out << " = " << object->name() << "+" << own;
  if (const Function* function = object->functions().find(own)) {
    const auto names = object->functions().names(*function);
    out << " in " << object->function_name(*function, names.empty() ? "" : names[0]);
  }
  return out.str();
}

// `from_files`: read the objects' files, which contain less than the memory of a process, where
// everything is relocated.
Verdict judge(const SteppedProgram& program, ProcessImage& image, bool from_files) {
  Verdict verdict;
  std::map<Object*, ProcessImage> files;
  for (const auto& [to, from] : program.arrivals()) {
    Object* loaded = image.object_at(to);
    if (loaded == nullptr) {
      ++verdict.unknown_code;
      continue;
    }
    Object* object = loaded;
    if (from_files) {
      auto [known, is_new] = files.try_emplace(loaded);
      if (is_new) {
        auto file = load_file(loaded->path());
        if (!file) {
          ADD_FAILURE() << loaded->path();
          continue;
        }
        known->second = *std::move(file);
      }
      object = known->second.objects.at(0).get();
    }
    const Address own = to - loaded->bias();
    if (object->targets().contains(own))
      ++verdict.in_set;
    else if (program.after_call(to))
      ++verdict.after_calls;
    else if (is_in_unresolved_function(*object, own))
      ++verdict.in_unresolved_functions;
    else
      ADD_FAILURE() << "execution arrives at " << describe(loaded, to) << ", from "
                    << describe(image.object_at(from), from)
                    << (from_files ? " (file)" : " (memory)");
  }
  return verdict;
}

// Some hypervisors do not stop after an instruction that they execute themselves: when the program
// stops, the next one has run as well.
TEST(SteppedProgram, SeesWhatFollowsAnInstructionThatAHypervisorExecutes) {
  const std::string path = image::program("emulated");
  SteppedProgram program({path});
  ASSERT_GT(program.pid(), 0);
  program.step(1000);
  EXPECT_TRUE(program.exits());
  const auto at = [&](const char* name) { return address_of(path, name).value(); };
  const std::unordered_map<Address, Address> expected = {
      {at("jumped_to"), at("jumps")},
      {at("called"), at("calls")},
      {at("returned"), at("called")},
      {at("jumped_to_again"), at("jumps_twice")},
  };
  EXPECT_EQ(program.arrivals(), expected);
  EXPECT_TRUE(program.after_call(at("returned")));
}

struct Case {
  std::string name;
  std::vector<std::string> command;
  bool with_loader = false;  // step through the dynamic loader as well
  size_t most_steps = 1'000'000;
};

class EveryArrivalIsForeseen : public testing::TestWithParam<Case> {};

// The machine's programs run as long as a test may take; PINPRICK_STEPS lets them run longer.
size_t step_limit(size_t usual) {
  const char* wanted = std::getenv("PINPRICK_STEPS");
  return wanted == nullptr ? usual : std::strtoull(wanted, nullptr, 0);
}

TEST_P(EveryArrivalIsForeseen, InMemoryAndInTheFiles) {
  const Case& chosen = GetParam();
  if (::access(chosen.command[0].c_str(), X_OK) != 0) GTEST_SKIP() << chosen.command[0];
  SteppedProgram program(chosen.command);
  ASSERT_GT(program.pid(), 0);
  if (!chosen.with_loader) program.run_to(AuxiliaryVector::read(program.pid()).value(AT_ENTRY));
  program.step(step_limit(chosen.most_steps));
  auto image = load_process(program.pid(), [&](Address address, std::span<uint8_t> out) {
    return program.read(address, out);
  });
  ASSERT_TRUE(image);
  ASSERT_FALSE(image->objects.empty());
  EXPECT_TRUE(image->unreadable.empty());
  for (bool from_files : {false, true}) {
    const Verdict verdict = judge(program, *image, from_files);
    std::printf("%zu steps: %zu in the set, %zu after calls, %zu unresolved, %zu elsewhere\n",
                program.steps(), verdict.in_set, verdict.after_calls,
                verdict.in_unresolved_functions, verdict.unknown_code);
    EXPECT_GT(verdict.in_set, 20u);
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* shape : {"switches", "gotos"})
    for (const char* variant :
         {"gcc_pie", "gcc_nopie", "gcc_O0", "gcc_cet", "gcc_pic_in_nopie", "gcc_one_segment",
          "gcc_nopie_one_segment", "clang_pie", "clang_nopie"}) {
      const std::string name = std::string(shape) + "_" + variant;
      all.push_back({name, {program(name)}});
    }
  for (const char* name : {"throws_pie", "throws_one_segment", "basic_static"})
    all.push_back({name, {program(name)}});
  all.push_back({"true", {"/bin/true"}, true});
  all.push_back({"sqlite3", {"/usr/bin/sqlite3", ":memory:", "select 1"}, false, 200'000});
  all.push_back({"python3", {"/usr/bin/python3", "-IS", "-c", "print(1)"}, false, 200'000});
  all.push_back({"perl", {"/usr/bin/perl", "-e", "print 1"}, false, 200'000});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Programs, EveryArrivalIsForeseen, testing::ValuesIn(cases()),
                         [](const auto& chosen) { return chosen.param.name; });

}  // namespace
}  // namespace pinprick::image
