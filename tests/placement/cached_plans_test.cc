// Cached objects lead to the same plans as freshly decoded ones, for the libraries of this machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/content_hash.h"
#include "image/match.h"
#include "image/process.h"
#include "image/store/object_store.h"
#include "placement/probe_set.h"
#include "scratch.h"

namespace pinprick::placement {
namespace {

constexpr std::string_view kInEveryProgram[] = {"libc.so.", "ld-linux-x86-64.so.", "libstdc++.so.",
                                                "libm.so.", "libz.so."};

// Every library in the usual directories, except for links to others; and this test program.
std::vector<std::string> libraries() {
  std::set<std::string> paths = {std::filesystem::canonical("/proc/self/exe")};
  std::error_code ignored;
  for (const char* folder : {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64",
                             "/usr/lib64", "/usr/local/lib", "/opt"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             folder, std::filesystem::directory_options::skip_permission_denied, ignored)) {
      const std::string name = entry.path().filename();
      if (entry.is_regular_file(ignored) &&
          (name.ends_with(".so") || name.find(".so.") != name.npos))
        paths.insert(std::filesystem::canonical(entry.path(), ignored));
    }
  return {paths.begin(), paths.end()};
}

bool is_in_every_program(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename();
  return std::any_of(std::begin(kInEveryProgram), std::end(kInEveryProgram),
                     [&](std::string_view known) { return name.starts_with(known); });
}

// The libraries that most processes have come first; the others in an order that mixes sizes and
// kinds, and is the same each time.
std::vector<std::string> shuffled(std::vector<std::string> paths) {
  const HashKey key = HashKey::from(std::array<uint8_t, HashKey::kBytes>{1, 2, 3});
  std::vector<std::pair<std::string, std::string>> order;
  for (std::string& path : paths) {
    ContentHasher hasher(key);
    hasher.add({reinterpret_cast<const uint8_t*>(path.data()), path.size()});
    const char* const turn = is_in_every_program(path) ? "first" : "later";
    order.emplace_back(turn + to_hex(hasher.finish()), std::move(path));
  }
  std::sort(order.begin(), order.end());
  std::vector<std::string> all;
  for (auto& [hash, path] : order) all.push_back(std::move(path));
  return all;
}

std::vector<image::Match> entries_of(image::ProcessImage& image) {
  std::vector<image::Pattern> every = {*image::Pattern::parse("*", image::PatternSyntax::glob)};
  return image::match_patterns(image, every, {}).matches;
}

// The whole plan as text, to be compared and read.
std::string text_of(const ProbeSet& set) {
  std::string text;
  const auto add = [&](uint64_t number) { text += std::to_string(number) + ' '; };
  for (const SitePatch& patch : set.patches) {
    const plan::Window& plan = patch.plan.patch;
    const auto& depends_on = patch.plan.depends_on;
    text += "\npatch ";
    for (uint64_t number :
         {plan.site, uint64_t{plan.written}, uint64_t{plan.displaced},
          static_cast<uint64_t>(plan.tactic), uint64_t{plan.at_start},
          patch.plan.island ? *patch.plan.island : 1, uint64_t{patch.plan.ends_in_next_jump},
          depends_on ? uint64_t{*depends_on} : UINT64_MAX, uint64_t{patch.plan.boundaries_end}})
      add(number);
    for (uint8_t byte : patch.original()) add(byte);
    if (!patch.plan.trampoline) continue;
    add(patch.plan.trampoline->address);
    add(patch.plan.trampoline->length);
  }
  for (const Probe& probe : set.probes) {
    text += "\nprobe " + set.match_of(probe).name() + ' ';
    for (uint64_t number : {set.match_of(probe).site, uint64_t{probe.patch}, uint64_t{probe.offset},
                            uint64_t{probe.keep_red_zone}})
      add(number);
  }
  for (const Skipped& skipped : set.skipped) {
    text += "\nskipped " + skipped.match.name() + ' ' + sentence(skipped.refusal) + ' ';
    add(skipped.match.site);
    add(skipped.refusal.where);
  }
  return text;
}

std::string plan(image::ProcessImage& image, Kind kind, bool each_instruction) {
  auto matches = entries_of(image);
  if (each_instruction) image::mean_each_instruction(matches);
  return text_of(plan_probes(std::move(matches), kind, {}, IslandSpace::around(image)));
}

std::string first_difference(const std::string& a, const std::string& b) {
  const auto [at, ignored] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const auto line = a.rfind('\n', static_cast<size_t>(at - a.begin()));
  const size_t begin = line == a.npos ? 0 : line;
  return a.substr(begin, 200) + "\n --- and ---" + b.substr(std::min(begin, b.size()), 200);
}

class CachedPlans : public testing::Test {
 protected:
  std::unique_ptr<image::ObjectStore> store() const {
    auto folder = CacheFolder::open(scratch_ / "cache");
    EXPECT_TRUE(folder);
    return std::make_unique<image::ObjectStore>(*std::move(folder));
  }

  // Returns false if it is no library of this machine's kind.
  bool compare(const std::string& path, bool each_instruction) {
    image::ObjectStore nowhere;
    auto fresh = image::load_file(path, &nowhere);
    if (!fresh) return false;
    image::Object& decoded = *fresh->objects.front();
    decoded.targets();
    {
      const auto writing = store();
      auto first = image::load_file(path, writing.get());
      EXPECT_TRUE(first);
      if (!first) return false;
      first->objects.front()->targets();
      EXPECT_EQ(writing->found_in_files(), 0u) << path;
    }
    const auto reading = store();
    auto again = image::load_file(path, reading.get());
    EXPECT_TRUE(again);
    if (!again) return false;
    image::Object& read = *again->objects.front();
    read.targets();
    EXPECT_EQ(reading->found_in_files(), 2u) << path;
    EXPECT_TRUE(read.functions() == decoded.functions()) << path;
    EXPECT_TRUE(read.targets() == decoded.targets()) << path;
    EXPECT_EQ(read.reserved(), decoded.reserved()) << path;
    EXPECT_EQ(read.vforks(), decoded.vforks()) << path;

    const auto same_plans = [&](Kind kind, bool each) {
      const std::string a = plan(*fresh, kind, each), b = plan(*again, kind, each);
      EXPECT_TRUE(a == b) << path << first_difference(a, b);
    };
    same_plans(Kind::count, false);
    same_plans(Kind::latency, false);
    if (each_instruction) same_plans(Kind::count, true);
    std::filesystem::remove_all(scratch_ / "cache");
    return true;
  }

  const Scratch scratch_;
};

// With PINPRICK_ALL_LIBRARIES=1: all libraries, and every instruction of each, which takes an hour.
TEST_F(CachedPlans, AreThoseOfFreshlyDecodedCodeForTheLibrariesOfThisMachine) {
  constexpr uint64_t kLargest = 4 << 20, kLargestEachInstruction = 256 << 10, kAll = 24 << 20;
  const bool all = std::getenv("PINPRICK_ALL_LIBRARIES") != nullptr;
  size_t compared = 0, with_instructions = 0;
  uint64_t bytes = 0;
  const auto paths = libraries();
  for (const std::string& path : shuffled(paths)) {
    std::error_code failed;
    const uint64_t size = std::filesystem::file_size(path, failed);
    if (failed || (!all && (size > kLargest || bytes + size > kAll))) continue;
    const bool each = all || size <= kLargestEachInstruction;
    if (!compare(path, each)) continue;
    bytes += size;
    ++compared;
    with_instructions += each;
  }
  std::printf("%zu of %zu libraries compared, %zu with every instruction, %llu MB\n", compared,
              paths.size(), with_instructions, static_cast<unsigned long long>(bytes >> 20));
  EXPECT_GT(compared, 10u);
}

}  // namespace
}  // namespace pinprick::placement
