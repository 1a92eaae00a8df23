// What is stored of an object, and when it is not used.
#include "image/store/object_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/fd.h"
#include "image/process.h"
#include "image/programs.h"
#include "scratch.h"

namespace pinprick::image {
namespace {

class ObjectStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::copy_file(program("libbasic.so.1"), library_);
    std::filesystem::create_directory(cache_);
    std::filesystem::permissions(cache_, std::filesystem::perms::owner_all);
  }
  std::unique_ptr<ObjectStore> store() const {
    auto folder = CacheFolder::open(cache_);
    EXPECT_TRUE(folder);
    return std::make_unique<ObjectStore>(*std::move(folder));
  }
  // Returns how many of its two values came from files.
  size_t found_of(const std::string& path) const {
    const auto one = store();
    auto file = load_file(path, one.get());
    EXPECT_TRUE(file);
    if (!file) return 0;
    auto fresh = load_file(path);
    EXPECT_TRUE(file->objects[0]->functions() == fresh->objects[0]->functions());
    EXPECT_TRUE(file->objects[0]->targets() == fresh->objects[0]->targets());
    return one->found_in_files();
  }
  // Returns true when the library is proved to be unchanged from now on. That takes two seconds.
  bool settles() const {
    const uint64_t end_ns = monotonic_ns() + 10'000'000'000;
    do {
      ObjectStore nowhere;
      const auto file = load_file(library_, &nowhere);
      if (file->objects[0]->elf().unchanged_version()) return true;
    } while (monotonic_ns() < end_ns);
    return false;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> all;
    for (const auto& one : std::filesystem::directory_iterator(cache_))
      if (one.path().filename() != "key") all.push_back(one.path());
    std::sort(all.begin(), all.end());
    return all;
  }

  const Scratch scratch_;
  const std::string library_ = scratch_ / "library", cache_ = scratch_ / "cache";
};

TEST_F(ObjectStoreTest, FindsByContentsAloneWhatAnotherProcessHasDecoded) {
  EXPECT_EQ(found_of(library_), 0u);
  EXPECT_EQ(found_of(library_), 2u);
  EXPECT_EQ(files().size(), 2u);
  // Another file, with other times.
  std::filesystem::copy_file(library_, scratch_ / "other");
  EXPECT_EQ(found_of(scratch_ / "other"), 2u);
}

// One byte that no decoder reads is enough.
TEST_F(ObjectStoreTest, FindsNothingForAFileThatDiffersAnywhere) {
  EXPECT_EQ(found_of(library_), 0u);
  auto bytes = read_bytes(library_);
  const auto times = std::filesystem::last_write_time(library_);
  for (size_t at : {size_t{9}, bytes.size() / 2, bytes.size() - 1}) {
    bytes[at] ^= 1;
    write_bytes(library_, bytes);
    std::filesystem::last_write_time(library_, times);
    EXPECT_EQ(found_of(library_), 0u) << at;
    bytes[at] ^= 1;
  }
  write_bytes(library_, bytes);
  EXPECT_EQ(found_of(library_), 2u);
}

TEST_F(ObjectStoreTest, DecodesAgainIfAFileIsDamagedAnywhere) {
  EXPECT_EQ(found_of(library_), 0u);
  const auto names = files();
  ASSERT_EQ(names.size(), 2u);
  for (const std::string& name : names) {
    const auto whole = read_bytes(name);
    for (size_t part = 0; part <= 40; ++part) {
      auto damaged = whole;
      const size_t at = std::min(part < 10 ? part * 8 : whole.size() * part / 40, whole.size() - 1);
      damaged[at] ^= 0x10;
      write_bytes(name, damaged);
      EXPECT_EQ(found_of(library_), 1u) << at;
      EXPECT_EQ(read_bytes(name), whole) << "written again";
    }
    for (size_t size : {size_t{0}, size_t{7}, size_t{40}, whole.size() / 2, whole.size() - 1}) {
      std::filesystem::resize_file(name, size);
      EXPECT_EQ(found_of(library_), 1u) << size;
    }
    auto longer = whole;
    longer.push_back(0);
    write_bytes(name, longer);
    EXPECT_EQ(found_of(library_), 1u);
  }
  EXPECT_EQ(found_of(library_), 2u);
}

TEST_F(ObjectStoreTest, DecodesAgainIfAFileHasAnothersName) {
  EXPECT_EQ(found_of(library_), 0u);
  const auto first = files();
  EXPECT_EQ(found_of(program("nested")), 0u);
  for (const std::string& name : files()) {
    if (std::find(first.begin(), first.end(), name) != first.end()) continue;
    const bool functions = name.ends_with(".functions");
    const std::string& other = *std::find_if(
        first.begin(), first.end(),
        [&](const std::string& one) { return one.ends_with(".functions") == functions; });
    std::filesystem::copy_file(other, name, std::filesystem::copy_options::overwrite_existing);
  }
  EXPECT_EQ(found_of(program("nested")), 0u);
  EXPECT_EQ(found_of(program("nested")), 2u);
}

TEST_F(ObjectStoreTest, SharesOneValueAmongAllItsUsers) {
  ObjectStore nowhere;
  auto one = load_file(library_, &nowhere), two = load_file(library_, &nowhere);
  EXPECT_EQ(&one->objects[0]->functions(), &two->objects[0]->functions());
  EXPECT_EQ(nowhere.found_in_use(), 1u);
  one->objects[0]->targets();
  EXPECT_EQ(two->objects[0]->targets(), one->objects[0]->targets());
  EXPECT_EQ(nowhere.found_in_use(), 2u) << "the code is not decoded twice, either";
}

// Within one store, too: a change may be so recent that the file's times do not show it.
TEST_F(ObjectStoreTest, HashesAFileThatWasJustMadeEachTime) {
  ObjectStore nowhere;
  auto before = load_file(library_, &nowhere);
  before->objects[0]->functions();
  auto bytes = read_bytes(library_);
  const auto times = std::filesystem::last_write_time(library_);
  bytes.back() ^= 1;
  write_bytes(library_, bytes);
  std::filesystem::last_write_time(library_, times);
  auto after = load_file(library_, &nowhere);
  after->objects[0]->functions();
  EXPECT_EQ(nowhere.recalled(), 0u);
  EXPECT_EQ(nowhere.found_in_use(), 0u) << "the bytes are others";
}

TEST_F(ObjectStoreTest, DoesNotHashAFileAgainThatIsProvedUnchanged) {
  const std::string old = program("libbasic.so.1");
  ObjectStore nowhere;
  auto one = load_file(old, &nowhere);
  if (!one->objects[0]->elf().unchanged_version())
    GTEST_SKIP() << old
                 << ": its file system does not note all changes, it was made seconds ago, or this "
                    "user may not lease it";
  one->objects[0]->targets();
  EXPECT_EQ(nowhere.recalled(), 0u);
  auto two = load_file(old, &nowhere);
  EXPECT_EQ(&one->objects[0]->functions(), &two->objects[0]->functions());
  EXPECT_EQ(nowhere.recalled(), 1u);
}

// What was read of a file while it could be written to may be anything, whatever it is later.
TEST_F(ObjectStoreTest, HasNoProofForAFileThatCouldBeWrittenToWhenItWasOpened) {
  const std::string old = program("libbasic.so.1");
  ObjectStore nowhere;
  if (!load_file(old, &nowhere)->objects[0]->elf().unchanged_version())
    GTEST_SKIP() << old
                 << ": its file system does not note all changes, it was made seconds ago, or this "
                    "user may not lease it";
  auto writer = open_file(old, O_RDWR);
  ASSERT_TRUE(writer);
  const auto meanwhile = load_file(old, &nowhere);
  writer = fail(SystemError{});  // closed
  EXPECT_FALSE(meanwhile->objects[0]->elf().unchanged_version());
  EXPECT_TRUE(load_file(old, &nowhere)->objects[0]->elf().unchanged_version());
  meanwhile->objects[0]->functions();
  EXPECT_EQ(nowhere.recalled(), 0u);
  EXPECT_FALSE(load_file(old)->objects[0]->elf().unchanged_version()) << "only a store needs it";
}

// A file that is proved to be unchanged is decoded as it is, without a private copy.
TEST_F(ObjectStoreTest, StoresNothingOfAFileThatChangesWhileItIsDecoded) {
  if (!settles())
    GTEST_SKIP() << library_ << ": its file system does not note all changes, or this user may "
                 << "not lease it";
  const auto change = [&](uint8_t by) {
    auto bytes = read_bytes(library_);
    bytes.back() ^= by;
    write_bytes(library_, bytes);
  };
  {
    const auto one = store();
    auto file = load_file(library_, one.get());
    file->objects[0]->functions();
    change(1);
    file->objects[0]->targets();
  }
  ASSERT_EQ(files().size(), 1u) << "the functions of the file as it was";
  EXPECT_TRUE(files()[0].ends_with(".functions"));
  {
    const auto one = store();
    auto file = load_file(library_, one.get());
    change(2);
    file->objects[0]->functions();
    EXPECT_FALSE(file->objects[0]->elf().unchanged_version())
        << "it is not the file that was opened";
    EXPECT_TRUE(file->objects[0]->functions() == load_file(library_)->objects[0]->functions());
  }
  change(1 ^ 2);  // as it was
  EXPECT_EQ(found_of(library_), 1u);
}

// A process in which the test chooses the library's bytes: those of the file, except what is
// changed.
class InMemory : public ObjectStoreTest {
 protected:
  static constexpr uint64_t kBias = 0x7f00'0000'0000;

  // While the library can be written to, nothing is proved about it, however long a test takes.
  void SetUp() override {
    ObjectStoreTest::SetUp();
    writer_ = open_file(library_, O_RDWR);
    ASSERT_TRUE(writer_);
  }

  // `own_pages`: see Object.
  std::unique_ptr<Object> object(ObjectStore* store, Object::OwnPages own_pages = {}) {
    return object_of(library_, store, std::move(own_pages));
  }
  std::unique_ptr<Object> object_of(const std::string& path, ObjectStore* store,
                                    Object::OwnPages own_pages = {}) {
    auto elf = ElfFile::open(path, ElfFile::Use::code, ElfFile::Proof::wanted);
    EXPECT_TRUE(elf);
    memory_.clear();
    for (const Segment& segment : elf->segments()) {
      auto bytes = elf->read(segment.range);
      bytes.resize(segment.range.size());
      memory_.push_back({segment.range.begin + kBias, std::move(bytes)});
      if (segment.executable) text_ = memory_.size() - 1;
      if (segment.writable) data_ = memory_.size() - 1;
    }
    const auto reader = [this](Address at, std::span<uint8_t> out) {
      read_ += out.size();
      for (const auto& [begin, bytes] : memory_)
        if (at >= begin && at - begin <= bytes.size() &&
            out.size() <= bytes.size() - (at - begin)) {
          std::memcpy(out.data(), bytes.data() + (at - begin), out.size());
          return true;
        }
      return false;
    };
    return std::make_unique<Object>(*std::move(elf), kBias, std::vector<std::string>{"library"},
                                    path, "", reader, store, std::move(own_pages));
  }
  static std::optional<std::vector<Range>> none(Range) { return std::vector<Range>(); }

  Result<Fd, SystemError> writer_ = fail(SystemError{});
  std::vector<std::pair<Address, std::vector<uint8_t>>> memory_;
  size_t text_ = 0, data_ = 0;
  uint64_t read_ = 0;  // bytes, from all objects
};

TEST_F(InMemory, CodeIsThatOfTheFileIfTheTextIsEqual) {
  EXPECT_EQ(found_of(library_), 0u);
  const auto one = store();
  object(one.get())->targets();
  EXPECT_EQ(one->found_in_files(), 2u);
}

TEST_F(InMemory, CodeThatDiffersFromTheFilesIsDecodedAndNotStored) {
  const auto one = store();
  const auto library = object(one.get());
  // A jump into a function, as a patch by another program might be.
  const Function function = library->functions().functions().front();
  auto& [begin, text] = memory_[text_];
  const Address jump = function.range.begin;
  const Address target = jump + 7;
  const uint8_t bytes[] = {0xe9, 2, 0, 0, 0};
  std::copy_n(bytes, 5, text.begin() + static_cast<ptrdiff_t>(jump + kBias - begin));
  EXPECT_TRUE(library->targets().contains(target));
  one->write_pending();
  const auto names = files();
  EXPECT_EQ(names.size(), 1u) << "functions alone";
  // A later look-up does not find them either.
  const auto fresh = store();
  const auto again = object(fresh.get());
  again->targets();
  EXPECT_EQ(fresh->found_in_files(), 1u);
  EXPECT_TRUE(again->targets() == load_file(library_)->objects[0]->targets());
}

TEST_F(InMemory, WhatTheProcessWroteToItsDataCountsTogetherWithTheFilesCode) {
  EXPECT_EQ(found_of(library_), 0u);
  const auto one = store();
  const auto library = object(one.get());
  const Function function = library->functions().functions().front();
  const Address label = function.range.begin + 1;
  ASSERT_FALSE(load_file(library_)->objects[0]->targets().contains(label));
  const uint64_t word = label + kBias;
  auto& [begin, data] = memory_[data_];
  const size_t at = align_up(begin, 8) - begin + 16;
  ASSERT_LE(at + 8, data.size());
  std::memcpy(data.data() + at, &word, sizeof word);
  EXPECT_TRUE(library->targets().contains(label));
  EXPECT_EQ(one->found_in_files(), 2u);
  // Only in this process.
  EXPECT_FALSE(object(one.get())->targets().contains(label));
}

// So a controller that follows a file does not read its text in each process.
TEST_F(InMemory, TextIsReadOnceForAllProcessesThatHaveItAsInTheFile) {
  const std::string old = program("libbasic.so.1");
  ObjectStore nowhere;
  nowhere.keep_latest();
  {
    const auto first = object_of(old, &nowhere, none);
    if (!first->elf().unchanged_version())
      GTEST_SKIP() << old
                   << ": its file system does not note all changes, it was made seconds ago, or "
                      "this user may not lease it";
    first->targets();
  }
  read_ = 0;
  const auto second = object_of(old, &nowhere, none);
  const Function function = second->functions().functions().front();
  const auto code = second->code(function);
  const auto fresh = load_file(old);
  const auto expected = fresh->objects[0]->code(function);
  EXPECT_TRUE(std::equal(code.begin(), code.end(), expected.begin(), expected.end()));
  EXPECT_TRUE(second->targets() == fresh->objects[0]->targets());
  EXPECT_EQ(read_, 0u);
  // One that has written to a page has its own text.
  const auto one_page = [](Range range) {
    return std::vector<Range>{{range.begin, range.begin + 1}};
  };
  const auto third = object_of(old, &nowhere, one_page);
  memory_[text_].second[function.range.begin + kBias - memory_[text_].first] = 0xcc;
  EXPECT_EQ(third->code(function).front(), 0xcc);
  EXPECT_GT(read_, 0u);
}

// As a debugger leaves it that has removed its breakpoints.
TEST_F(InMemory, TextThatWasWrittenToAndIsAsBeforeCountsAsTheFiles) {
  const std::string old = program("libbasic.so.1");
  EXPECT_EQ(found_of(old), 0u);
  const auto one = store();
  const auto first_page = [](Range range) {
    const Address page = align_down(range.begin, kPageSize);
    return std::vector<Range>{{page, page + kPageSize}};
  };
  const auto library = object_of(old, one.get(), first_page);
  if (!library->elf().unchanged_version())
    GTEST_SKIP() << old
                 << ": its file system does not note all changes, it was made seconds ago, or this "
                    "user may not lease it";
  library->targets();
  EXPECT_EQ(one->found_in_files(), 2u);
  // With a breakpoint still there, it is not.
  const auto fresh = store();
  const auto other = object_of(old, fresh.get(), first_page);
  memory_[text_].second.front() ^= 0xcc;
  other->targets();
  EXPECT_EQ(fresh->found_in_files(), 1u);
}

TEST_F(InMemory, OneFunctionsCodeIsHadWithoutAllText) {
  const std::string old = program("libbasic.so.1");
  ObjectStore nowhere;
  const auto library = object_of(old, &nowhere, none);
  if (!library->elf().unchanged_version())
    GTEST_SKIP() << old
                 << ": its file system does not note all changes, it was made seconds ago, or this "
                    "user may not lease it";
  const auto fresh = load_file(old);
  for (const Function& function : library->functions().functions()) {
    const auto code = library->code(function), expected = fresh->objects[0]->code(function);
    EXPECT_TRUE(std::equal(code.begin(), code.end(), expected.begin(), expected.end()));
  }
  EXPECT_FALSE(library->is_at_hand());
  library->load_text();
  EXPECT_TRUE(library->is_at_hand());
}

// Text that is missing would mean that no code is there, and so that nothing leads into a site.
TEST_F(InMemory, TextIsThatOfTheProcessIfItsFileChangesBeforeItIsRead) {
  writer_ = fail(SystemError{});  // closed
  if (!settles())
    GTEST_SKIP() << library_ << ": its file system does not note all changes, or this user may "
                 << "not lease it";
  ObjectStore nowhere;
  const auto alone = object(&nowhere, none), whole = object(&nowhere, none);
  const auto fresh = load_file(library_);
  fresh->objects[0]->load_text();
  const auto& functions = fresh->objects[0]->functions().functions();
  const auto is_as_it_was = [&](Object& library, const Function& function) {
    const auto code = library.code(function), expected = fresh->objects[0]->code(function);
    return std::equal(code.begin(), code.end(), expected.begin(), expected.end());
  };
  ASSERT_TRUE(is_as_it_was(*alone, functions.front()));
  whole->functions();
  auto bytes = read_bytes(library_);
  std::fill(bytes.begin() + 64, bytes.end(), uint8_t{0});
  write_bytes(library_, bytes);
  EXPECT_TRUE(is_as_it_was(*alone, functions.back()));
  whole->load_text();
  EXPECT_TRUE(is_as_it_was(*whole, functions.back()));
}

TEST_F(InMemory, OfItsDataOnlyWhatTheProcessWroteToIsRead) {
  EXPECT_EQ(found_of(library_), 0u);
  const auto one = store();
  std::vector<Range> written;
  const auto pages = [&](Range range) {
    std::vector<Range> in_range;
    for (const Range& page : written)
      if (page.overlaps(range)) in_range.push_back(page);
    return std::optional(in_range);
  };
  const auto label_in = [&](Object& library) {
    return library.functions().functions().front().range.begin + 1;
  };
  const auto write_label = [&](Object& library) {
    const uint64_t word = label_in(library) + kBias;
    auto& [begin, data] = memory_[data_];
    std::memcpy(data.data() + (align_up(begin, 8) - begin + 16), &word, sizeof word);
    return align_down(begin, kPageSize);
  };
  const auto untouched = object(one.get(), pages);
  write_label(*untouched);
  EXPECT_FALSE(untouched->targets().contains(label_in(*untouched)))
      << "it is said to be the file's";
  const auto touched = object(one.get(), pages);
  const Address page = write_label(*touched);
  written = {{page, page + kPageSize}};
  EXPECT_TRUE(touched->targets().contains(label_in(*touched)));
}

TEST_F(ObjectStoreTest, FindsFunctionsByNameAsASearchOfAllNamesDoes) {
  ObjectStore nowhere;
  const auto once = [&](const char* text, PatternSyntax syntax, ObjectStore* store) {
    auto file = load_file(library_, store);
    std::vector<Address> starts;
    for (const Function* one : file->objects[0]->functions_named(*Pattern::parse(text, syntax)))
      starts.push_back(one->range.begin);
    return starts;
  };
  const auto fresh = load_file(library_);
  const FunctionTable& table = fresh->objects[0]->functions();
  size_t named = 0;
  for (const Function& function : table.functions())
    for (const std::string_view name : table.names(function)) {
      const std::string text(name);
      for (const PatternSyntax syntax : {PatternSyntax::glob, PatternSyntax::regex}) {
        const auto pattern = Pattern::parse(text, syntax);
        if (!pattern || pattern->has_wildcard()) continue;
        std::vector<Address> expected;
        for (const Function& other : table.functions()) {
          const auto names = table.names(other);
          if (std::any_of(names.begin(), names.end(),
                          [&](std::string_view one) { return pattern->matches_function(one); }))
            expected.push_back(other.range.begin);
        }
        EXPECT_EQ(once(text.c_str(), syntax, nullptr), expected) << text;
        EXPECT_EQ(once(text.c_str(), syntax, &nowhere), expected) << text;
        EXPECT_EQ(once(text.c_str(), syntax, &nowhere), expected) << text << ", again";
        named += expected.size();
      }
    }
  EXPECT_GT(named, 0u);
}

}  // namespace
}  // namespace pinprick::image
